#include <styx_test.h>

int main(void) {
    styx_test_expect("account", "ann", "deposit", "[100]", "100");
    styx_test_expect("account", "ann", "transfer", "[\"bob\",30]", "70");
    styx_test_same(styx_test_get("account", "bob"), "30");
    styx_test_expect("account", "ann", "transfer", "[\"bob\",300]", "ABORTED:INSUFFICIENT_FUNDS: ann is short of 230");
    styx_test_same(styx_test_get("account", "ann"), "70");
    return styx_test_end();
}
