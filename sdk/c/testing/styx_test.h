/*
 * A host in memory, for a guest's own tests: no server, no component. Compile them with the guest's sources, with
 * `src` and with `testing` of this SDK, for this machine:
 *
 *     #include <styx_test.h>
 *
 *     int main(void) {
 *         styx_test_put("stock", "apple", "{\"stock\":3,\"price\":10}");
 *         styx_test_expect("stock", "apple", "take", "[2]", "20");
 *         styx_test_expect("stock", "apple", "take", "[2]", "ABORTED: not enough of apple");
 *         return styx_test_end();
 *     }
 *
 * Each call is one transaction: its writes stay if it succeeds and are gone if it does not. Transactions run one
 * after another, which is what the real system makes it look like. Limits (fuel, memory, call depth) are not
 * enforced here.
 */
#ifndef STYX_TEST_H
#define STYX_TEST_H

#include <styx.h>

/* Runs a function as one transaction: the reply as JSON, or `CODE: message`. Valid until the next call. */
const char *styx_test_call(const char *operator_name, const char *key, const char *function, const char *arguments);
/* State of an entity, null if it is absent. Valid until it is written. */
const char *styx_test_get(const char *operator_name, const char *key);
/* Sets the state of an entity without a transaction. */
void styx_test_put(const char *operator_name, const char *key, const char *value);
/* What a function of another app comes to from now on, whose operator is written `app/operator`: the reply as JSON, or
 * `CODE: message`. */
void styx_test_play(const char *operator_name, const char *function, const char *reply);
/* The last call of such a function, as `app/operator/key.function[arguments]`; null if there was none. */
const char *styx_test_played(void);
/* Sets the time of the transactions to come, in microseconds since 1970-01-01T00:00Z. It stands at 2026-01-01. */
void styx_test_set_time(uint64_t microseconds);
/* Log lines of all transactions so far, also of those that aborted, each as `level message`. */
const char *styx_test_log(void);
/* Forgets all state, all lines, and what is played. */
void styx_test_reset(void);

/* A call, and what must come of it; a difference is printed with the place of the test. */
#define styx_test_expect(operator_name, key, function, arguments, expected) \
    styx_test_expect_at(__FILE__, __LINE__, operator_name, key, function, arguments, expected)
/* Any two texts that must be the same; null is a text of its own. */
#define styx_test_same(found, expected) styx_test_same_at(__FILE__, __LINE__, #found, (found), (expected))
/* What `main` returns: 0 if all was as expected, of at least one expectation. */
int styx_test_end(void);

void styx_test_expect_at(const char *file, int line, const char *operator_name, const char *key, const char *function,
                         const char *arguments, const char *expected);
void styx_test_same_at(const char *file, int line, const char *what, const char *found, const char *expected);

#endif
