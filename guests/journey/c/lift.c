/* Cable cars, by day. */
#include <inttypes.h>
#include <styx.h>

STYX_OPERATOR(lift)

STYX_RECORD(leg, (int64_t, free), (int64_t, price))
STYX_TUPLE(booking, (int64_t, seats), (styx_text_list, onward))

STYX_FUNCTION(lift, create, void, "", (int64_t, free), (int64_t, price)) {
    styx_put(leg, (&(leg){free, price}));
}

STYX_FUNCTION(lift, book, int64_t, "Books seats here and on the legs after it: what all of them cost.",
              (int64_t, seats), (styx_text_list, onward)) {
    leg found;
    if (!styx_get(leg, &found)) return styx_abort("no lift runs on %s", styx_key());
    if (found.free < seats) return styx_abort_as("FULL", "the lift on %s is full", styx_key());
    found.free -= seats;
    styx_put(leg, &found);
    int64_t more = 0;
    if (onward.count) {
        booking rest = {seats, {onward.items + 1, onward.count - 1}};
        styx_json reply;
        if (!styx_call(onward.items[0], styx_key(), "book", styx_encode(booking, &rest), &reply)) return;
        if (!styx_decode(int64_t, reply, &more)) return;
    }
    *result = seats * found.price + more;
}
