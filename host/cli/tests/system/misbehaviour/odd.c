/* Does what C does not define, and ends. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>
#include <styx.h>

STYX_OPERATOR(odd)

typedef struct account {
    int64_t balance;
    int64_t days[4];
} account;

static account *volatile none;
static account *volatile some = &(account){ 0 };

STYX_FUNCTION(odd, put, int64_t, "", (int64_t, n)) {
    styx_put(int64_t, &n);
    *result = n;
}

STYX_FUNCTION(odd, null_read, int64_t, "", (int64_t, n)) {
    styx_put(int64_t, &n);
    *result = none->balance;
}

STYX_FUNCTION(odd, null_write, void, "", (int64_t, n)) {
    *(int64_t *)none = n;
}

STYX_FUNCTION(odd, sum, int64_t, "", (int64_t, n)) {
    *result = INT64_MAX + n;
}

STYX_FUNCTION(odd, difference, int64_t, "", (int64_t, n)) {
    *result = INT64_MIN - n;
}

STYX_FUNCTION(odd, product, int64_t, "", (int64_t, n)) {
    *result = INT64_MAX * (n + 1);
}

STYX_FUNCTION(odd, negated, int64_t, "", (int64_t, n)) {
    *result = -(INT64_MIN + n - 1);
}

STYX_FUNCTION(odd, by_zero, int64_t, "", (int64_t, n)) {
    *result = 7 / (n - 1);
}

STYX_FUNCTION(odd, quotient, int64_t, "", (int64_t, n)) {
    *result = INT64_MIN / -n;
}

STYX_FUNCTION(odd, shift, int64_t, "", (int64_t, n)) {
    *result = 1 << (n + 40);
}

STYX_FUNCTION(odd, index, int64_t, "", (int64_t, n)) {
    *result = some->days[n + 6];
}

STYX_FUNCTION(odd, rounded, int64_t, "", (double, x)) {
    *result = (int64_t)(x * 1e30);
}

STYX_FUNCTION(odd, no_elements, int64_t, "", (int64_t, n)) {
    volatile char several[n - 2];
    several[0] = 1;
    *result = several[0];
}

STYX_FUNCTION(odd, no_bool, int64_t, "", (int64_t, n)) {
    char seven = (char)(n + 6);
    *result = *(volatile bool *)&seven;
}

STYX_FUNCTION(odd, unreachable, int64_t, "", (int64_t, n)) {
    if (n == 1) __builtin_unreachable();
    *result = n;
}

STYX_FUNCTION(odd, asserted, int64_t, "", (int64_t, n)) {
    assert(n != 1);
    *result = n;
}

STYX_FUNCTION(odd, aborted, void, "", (int64_t, n)) {
    if (n) abort();
}

STYX_FUNCTION(odd, far, int64_t, "", (int64_t, n)) {
    *result = *(volatile int64_t *)(uintptr_t)(0xfffffff0 & -n);
}

static int64_t deeper(int64_t n) {
    volatile char much[1024];
    memset((char *)much, (int)n, sizeof much);
    return deeper(n + 1) + much[n % 1024];
}

STYX_FUNCTION(odd, recurse, int64_t, "", (int64_t, n)) {
    *result = deeper(n);
}
