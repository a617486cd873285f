#include <styx_test.h>

int main(void) {
    /* Transfers move one and keep the sum. */
    styx_test_expect("account", "1", "insert", "[1]", "null");
    styx_test_expect("account", "2", "insert", "[0]", "null");
    styx_test_expect("account", "1", "transfer", "[\"2\"]", "0");
    styx_test_expect("account", "2", "read", "[]", "1");
    styx_test_expect("account", "1", "transfer", "[\"2\"]", "ABORTED: account 1 has nothing left");
    styx_test_expect("account", "1", "transfer", "[\"1\"]", "ABORTED: a transfer needs two accounts");
    styx_test_expect("account", "2", "transfer", "[\"3\"]", "ABORTED: there is no account 3");
    styx_test_expect("account", "1", "read", "[]", "0");
    styx_test_expect("account", "2", "read", "[]", "1");
    styx_test_expect("account", "2", "update", "[]", "2");
    styx_test_expect("account", "2", "transfer_async", "[\"1\"]", "1");
    styx_test_expect("account", "2", "transfer_async", "[\"3\"]", "ABORTED: there is no account 3");
    styx_test_expect("account", "1", "sum", "[null,2]", "[2,2,\"2\"]");
    styx_test_expect("account", "1", "sum", "[\"2\",2]", "[0,0,null]");
    styx_test_expect("account", "1", "sum", "[null,3]", "[2,2,null]");
    styx_test_expect("account", "4", "insert", "[9223372036854775807]", "null");
    styx_test_expect("account", "4", "update", "[]", "ABORTED: account 4 is full");

    /* Members of a group transfer and are summed together. */
    styx_test_expect("member", "a:1", "insert", "[1]", "null");
    styx_test_expect("member", "a:2", "insert", "[0]", "null");
    styx_test_expect("member", "b:1", "insert", "[7]", "null");
    styx_test_expect("member", "a:1", "transfer", "[\"a:2\"]", "0");
    styx_test_expect("member", "a:2", "read", "[]", "1");
    styx_test_expect("member", "a:1", "transfer", "[\"a:2\"]", "ABORTED: account a:1 has nothing left");
    styx_test_expect("member", "a:", "sum", "[null,2]", "[2,1,\"a:2\"]");
    styx_test_expect("member", "a:", "sum", "[\"a:2\",2]", "[0,0,null]");
    styx_test_expect("member", "b:", "sum", "[null,2]", "[1,7,null]");

    /* Fields are replaced one at a time. */
    styx_test_expect("record", "r", "read", "[]", "ABORTED: there is no record r");
    styx_test_expect("record", "r", "insert", "[[\"a\",\"b\"]]", "null");
    styx_test_expect("record", "r", "update", "[1,\"cé\"]", "null");
    styx_test_expect("record", "r", "update", "[2,\"e\"]", "ABORTED: record r has no field 2");
    styx_test_expect("record", "r", "read", "[]", "[\"a\",\"cé\"]");
    styx_test_expect("record", "r", "count", "[null,1]", "[1,4,\"r\"]");
    styx_test_expect("record", "r", "count", "[\"r\",1]", "[0,0,null]");
    return styx_test_end();
}
