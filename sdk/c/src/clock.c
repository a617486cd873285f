/*
 * The C library's clock, in a component: the transaction's, the same in every replay. While a component is built, and nothing is invoked,
 * it stands at 1970.
 */
#ifdef __wasm__

#include <sys/time.h>
#include <time.h>

#include "host.h"

time_t time(time_t *to) {
    time_t seconds = (time_t)(host_time() / 1000000);
    if (to) *to = seconds;
    return seconds;
}

int clock_gettime(clockid_t clock, struct timespec *to) {
    (void)clock;
    uint64_t microseconds = host_time();
    to->tv_sec = (time_t)(microseconds / 1000000);
    to->tv_nsec = (long)(microseconds % 1000000 * 1000);
    return 0;
}

int timespec_get(struct timespec *to, int base) {
    return clock_gettime(CLOCK_REALTIME, to) == 0 ? base : 0;
}

int gettimeofday(struct timeval *restrict to, void *restrict zone) {
    (void)zone;
    uint64_t microseconds = host_time();
    to->tv_sec = (time_t)(microseconds / 1000000);
    to->tv_usec = (suseconds_t)(microseconds % 1000000);
    return 0;
}

#endif
