/* What the transaction knows about itself. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arena.h"
#include "host.h"

const char *styx_app(void) {
    return host_app().data;
}

const char *styx_operator(void) {
    return styx_now.function->operator_name;
}

const char *styx_key(void) {
    return styx_now.key;
}

const char *styx_request_id(void) {
    return host_request_id().data;
}

uint64_t styx_tid(void) {
    return host_tid();
}

uint64_t styx_time(void) {
    return host_time();
}

uint64_t styx_random(void) {
    return host_random();
}

uint64_t styx_random_below(uint64_t bound) {
    if (bound == 0) return 0;
    /* Numbers past the last full multiple of `bound` would favour the low ones. */
    uint64_t rejected = (UINT64_MAX % bound + 1) % bound;
    for (;;) {
        uint64_t number = host_random();
        if (number <= UINT64_MAX - rejected) return number % bound;
    }
}

double styx_random_fraction(void) {
    return (double)(host_random() >> 11) / (double)((uint64_t)1 << 53);
}

void styx_log(styx_level level, const char *format, ...) {
    va_list arguments, again;
    va_start(arguments, format);
    va_copy(again, arguments);
    int length = vsnprintf(NULL, 0, format, arguments);
    if (length >= 0) {
        char *text = arena_take((size_t)length + 1);
        vsnprintf(text, (size_t)length + 1, format, again);
        host_log(level, styx_valid_text(text), (size_t)length);
    }
    va_end(again);
    va_end(arguments);
}
