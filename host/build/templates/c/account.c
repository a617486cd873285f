/* Accounts, and money that goes from one to another. */
#include <inttypes.h>
#include <styx.h>

STYX_OPERATOR(account, .doc = "Accounts by their owner; the value is the balance.")

STYX_FUNCTION(account, deposit, int64_t, "Adds to the balance, and returns it.", (int64_t, amount)) {
    if (amount <= 0) return styx_abort("an amount is positive"); /* aborts the whole transaction */
    styx_get(int64_t, result);
    *result += amount;
    styx_put(int64_t, result);
}

STYX_FUNCTION(account, transfer, int64_t, "Moves money to another account: both change, or neither.", (styx_text, to),
              (int64_t, amount)) {
    int64_t there;
    if (!account_deposit_call(to, &there, amount)) return;
    styx_get(int64_t, result);
    *result -= amount;
    /* Clients get the code as `app_code`. */
    if (*result < 0) return styx_abort_as("INSUFFICIENT_FUNDS", "%s is short of %" PRId64, styx_key(), -*result);
    styx_put(int64_t, result);
}

STYX_READ_ONLY(account, balance, int64_t, "What is there.") {
    styx_get(int64_t, result);
}
