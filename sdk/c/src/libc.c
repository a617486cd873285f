/*
 * The C library's random numbers, in a component: the transaction's, the same in every replay. A seed
 * changes nothing, since a generator's state in memory would be carried from call to call. What else of the C
 * library needs an operating system is refused when the guest is built.
 */
#ifdef __wasm__

#include <stdlib.h>
#include <string.h>

#include "host.h"

void srand(unsigned seed) {
    (void)seed;
}

int rand(void) {
    return (int)(host_random() >> 33);
}

void srandom(unsigned seed) {
    (void)seed;
}

long random(void) {
    return (long)(host_random() >> 33);
}

void srand48(long seed) {
    (void)seed;
}

double drand48(void) {
    return styx_random_fraction();
}

long lrand48(void) {
    return (long)(host_random() >> 33);
}

long mrand48(void) {
    return (long)(int32_t)(host_random() >> 32);
}

void arc4random_buf(void *to, size_t length) {
    for (char *at = to; length;) {
        uint64_t number = host_random();
        size_t some = length < sizeof number ? length : sizeof number;
        memcpy(at, &number, some);
        at += some;
        length -= some;
    }
}

uint32_t arc4random(void) {
    return (uint32_t)(host_random() >> 32);
}

uint32_t arc4random_uniform(uint32_t bound) {
    return (uint32_t)styx_random_below(bound);
}

int getentropy(void *to, size_t length) {
    arc4random_buf(to, length);
    return 0;
}

/* What assert() calls: a trap carries no message, and its caller is told what was logged last. */
_Noreturn void __assert_fail(const char *expression, const char *file, int line, const char *function) {
    styx_log(STYX_ERROR, "%s:%d: %s: assertion failed: %s", file, line, function, expression);
    __builtin_trap();
}

_Noreturn void abort(void) {
    styx_log(STYX_ERROR, "abort() was called");
    __builtin_trap();
}

#endif
