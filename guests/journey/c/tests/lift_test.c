#include <styx_test.h>

int main(void) {
    styx_test_expect("lift", "friday", "book", "[1,[]]", "ABORTED: no lift runs on friday");
    styx_test_expect("lift", "friday", "create", "[3,40]", "null");
    styx_test_expect("lift", "friday", "book", "[2,[]]", "80");
    styx_test_expect("lift", "friday", "book", "[2,[]]", "ABORTED:FULL: the lift on friday is full");
    styx_test_expect("lift", "friday", "book", "[0,[\"lift\",\"lift\"]]", "0");
    styx_test_expect("lift", "friday", "book", "[1,[]]", "40");
    return styx_test_end();
}
