#include <styx_test.h>

int main(void) {
    styx_test_expect("user", "ann", "insert", "[100]", "null");
    styx_test_expect("item", "pen", "insert", "[5,10]", "null");
    styx_test_expect("item", "cup", "insert", "[9,20]", "null");
    styx_test_expect("order", "o1", "insert", "[\"ann\",[[\"pen\",2,10],[\"cup\",1,20]]]", "null");
    styx_test_expect("order", "o1", "checkout", "[]", "40");
    styx_test_expect("order", "o1", "checkout", "[]", "40");
    styx_test_expect("order", "o1", "checkout", "[]", "ABORTED: not enough of item pen");
    styx_test_expect("item", "pen", "insert", "[5,10]", "null");
    styx_test_expect("order", "o1", "checkout", "[]", "ABORTED: user ann has a credit of 20, but 40 is due");
    styx_test_expect("order", "o2", "checkout", "[]", "ABORTED: there is no order o2");
    styx_test_expect("user", "", "audit", "[null,9]", "[1,20,null]");
    styx_test_expect("item", "", "audit", "[null,9]", "[2,12,190,null]");
    styx_test_expect("order", "", "audit", "[null,1]", "[1,2,6,80,\"o1\"]");
    return styx_test_end();
}
