/* Functions as they are called: arguments, state, scans, calls, failures. */
#include <inttypes.h>
#include <string.h>
#include <styx_test.h>

STYX_OPERATOR(thing, .doc = "Whatever.", .key_prefix = "group", .name = "some-thing")

STYX_FUNCTION(thing, set, void, "Sets.", (int64_t, value)) {
    styx_put(int64_t, &value);
}

STYX_FUNCTION(thing, add, int64_t, "Adds.", (int64_t, n), (styx_text_or_null, note), (int64_t_or_null, twice)) {
    styx_get(int64_t, result);
    *result += n + (twice ? 2 * *twice : 0);
    styx_put(int64_t, result);
    if (note) styx_log(STYX_INFO, "%s: %" PRId64, note, *result);
}

STYX_READ_ONLY(thing, page, int64_t_map, "A page.", (styx_text_or_null, prefix), (styx_text_or_null, after),
               (styx_text_or_null, before), (uint32_t, limit), (bool, reverse)) {
    styx_scan(int64_t, result, .prefix = prefix, .after = after, .before = before, .limit = limit, .reverse = reverse);
}

STYX_READ_ONLY(thing, cheat, void, "Writes although it may not.") {
    styx_put_at(int64_t, "x", (&(int64_t){1}));
}

STYX_FUNCTION(thing, cheat_by_call, void, "The same in another function.") {
    if (!thing_cheat_call("y")) return;
}

STYX_FUNCTION(thing, move, void, "Takes from here and adds there.", (styx_text, to), (int64_t, n)) {
    int64_t left, there;
    if (!thing_add_call(styx_key(), &left, -n, NULL, NULL)) return;
    if (!thing_add_call(to, &there, n, "moved", NULL)) return;
    if (left < 0) styx_abort("%s has %" PRId64 ", %s %" PRId64, styx_key(), left, to, there);
}

STYX_FUNCTION(thing, stubborn, int64_t, "Goes on after a failure.") {
    int64_t ignored;
    bool moved = thing_add_call("a", &ignored, 1, NULL, NULL);
    styx_abort("first");
    styx_abort("second");
    styx_put_at(int64_t, "a", result);
    moved = moved && thing_add_call("a", &ignored, 1, NULL, NULL);
    *result = moved;
}

STYX_FUNCTION(thing, later, void, "The order of what runs later.", (uint32_t, depth)) {
    styx_log(STYX_DEBUG, "%s begins", styx_key());
    if (depth) {
        const char *left = styx_format("%s1", styx_key()), *right = styx_format("%s2", styx_key());
        styx_call_async("some-thing", left, "later", styx_format("[%" PRIu32 "]", depth - 1));
        styx_call_async("some-thing", right, "later", "[0]");
    }
    styx_log(STYX_DEBUG, "%s ends", styx_key());
}

STYX_FUNCTION(thing, raw, void, "Bytes.", (styx_text_or_null, key)) {
    styx_bytes bytes;
    bool there = styx_get_raw(key, &bytes);
    styx_log(STYX_WARN, "%d %zu", there, bytes.length);
    styx_put_raw(key, "a\0b", 3);
    styx_delete_at("gone");
    if (there) styx_delete();
    styx_raw_entry *entries;
    size_t count;
    if (styx_scan_raw(&(styx_range){.prefix = "r"}, &entries, &count)) styx_log(STYX_WARN, "%zu entries", count);
}

STYX_FUNCTION(thing, unknown, void, "Calls nobody.", (styx_text, who), (styx_text, what)) {
    styx_json result;
    if (!styx_call(who, "k", what, "[]", &result)) return;
}

STYX_FUNCTION(thing, ill, styx_text, "Returns no UTF-8.") {
    *result = "\xff";
}

STYX_FUNCTION(thing, ill_key, void, "A key that is no UTF-8.") {
    styx_put_at(bool, "\xc0\x80", &(bool){true});
}

STYX_FUNCTION(thing, ill_message, void, "A message that is no UTF-8.") {
    styx_abort("%s", "a\xffz");
}

STYX_FUNCTION(thing, refuse, void, "Refuses with a code of its own.", (styx_text, code)) {
    styx_put(bool, &(bool){true});
    styx_abort_as(code, "no %s", styx_key());
}

STYX_FUNCTION(thing, relay_refusal, void, "Fails as whom it calls.") {
    if (!thing_refuse_call("j", "CLOSED_2")) return;
}

STYX_FUNCTION(thing, wrong_arguments, void, "Calls with what is not taken.") {
    styx_json result;
    if (!styx_call("some-thing", "k", "set", "[\"x\"]", &result)) return;
}

STYX_TUPLE(identity, (styx_text, app), (styx_text, operator_name), (styx_text, key), (styx_text, request_id), (uint64_t, tid),
           (uint64_t, time), (bool, random))

STYX_READ_ONLY(thing, who, identity, "All that it knows.") {
    bool random = styx_random() != styx_random() && styx_random_below(7) < 7 && styx_random_below(0) == 0 &&
                  styx_random_fraction() < 1;
    *result = (identity){styx_app(), styx_operator(), styx_key(), styx_request_id(), styx_tid(), styx_time(), random};
}

STYX_FUNCTION(thing, large, int64_t, "More memory than the first piece.", (uint32_t, size)) {
    char *text = styx_alloc(size + 1);
    memset(text, 'x', size);
    *result = (int64_t)strlen(styx_format("%s!", text));
    styx_abort("%.3s", text);
}

int main(void) {
    const char *of = "some-thing";
    styx_test_expect(of, "a", "add", "[2]", "2");
    styx_test_expect(of, "a", "add", " [ 2 , null , 3 ] ", "10");
    styx_test_expect(of, "a", "add", "[1,\"say\"]", "11");
    styx_test_same(styx_test_log(), "info say: 11\n");
    styx_test_expect(of, "a", "add", "[]", "BAD_ARGUMENTS: argument `n` is missing");
    styx_test_expect(of, "a", "add", "", "BAD_ARGUMENTS: argument `n` is missing");
    styx_test_expect(of, "a", "add", "[1,2]", "BAD_ARGUMENTS: argument `note`: expected a string, found a number");
    styx_test_expect(of, "a", "add", "[1,null,null,4]", "BAD_ARGUMENTS: too many arguments, it takes [n, note, twice]");
    styx_test_expect(of, "a", "add", "{\"n\":1}", "BAD_ARGUMENTS: expected an array of arguments: [n, note, twice], found an object");
    styx_test_expect(of, "a", "add", "[1", "BAD_ARGUMENTS: expected a comma, found the end of the text");
    styx_test_expect(of, "a", "add", "[1]]", "BAD_ARGUMENTS: something follows on the value");
    styx_test_expect(of, "a", "nothing", "[]", "UNKNOWN_FUNCTION: operator some-thing has no function nothing");
    styx_test_expect("thing", "a", "add", "[1]", "UNKNOWN_OPERATOR: this component has no operator \"thing\"");
    styx_test_expect(of, "a", "unknown", "[\"some-thing\",\"x\"]", "GUEST_EXCEPTION: some-thing.x was called wrongly: operator some-thing has no function x");
    styx_test_expect(of, "a", "unknown", "[\"other\",\"x\"]", "GUEST_EXCEPTION: other.x was called wrongly: this component has no operator \"other\"");

    styx_test_expect(of, "a", "unknown", "[\"bank/other\",\"x\"]", "GUEST_EXCEPTION: bank/other.x is not played: styx_test_play does");
    styx_test_same(styx_test_played(), "bank/other/k.x[]");
    styx_test_play("bank/other", "x", "[1]");
    styx_test_expect(of, "a", "unknown", "[\"bank/other\",\"x\"]", "null");
    styx_test_play("bank/other", "x", "ABORTED: no such k");
    styx_test_expect(of, "a", "unknown", "[\"bank/other\",\"x\"]", "ABORTED: no such k");
    styx_test_expect(of, "a", "unknown", "[\"test/some-thing\",\"who\"]", "null");

    styx_test_expect(of, "a", "move", "[\"b\",11]", "null");
    styx_test_same(styx_test_get(of, "b"), "11");
    styx_test_expect(of, "a", "move", "[\"b\",1]", "ABORTED: a has -1, b 12");
    styx_test_same(styx_test_get(of, "a"), "0");
    styx_test_expect(of, "a", "stubborn", "[]", "ABORTED: first");
    styx_test_same(styx_test_get(of, "a"), "0");
    styx_test_expect(of, "a", "cheat", "[]", "GUEST_TRAP: some-thing.x is written by a read-only function");
    styx_test_expect(of, "a", "cheat_by_call", "[]", "GUEST_TRAP: some-thing.x is written by a read-only function");
    styx_test_same(styx_test_get(of, "x"), NULL);

    styx_test_expect(of, "c", "set", "[3]", "null");
    styx_test_expect("some-thing", "ba", "set", "[4]", "null");
    styx_test_expect(of, "", "page", "[null,null,null,0,false]", "{\"a\":0,\"b\":11,\"ba\":4,\"c\":3}");
    styx_test_expect(of, "", "page", "[null,null,null,3,true]", "{\"c\":3,\"ba\":4,\"b\":11}");
    styx_test_expect(of, "", "page", "[\"b\",null,null,0,false]", "{\"b\":11,\"ba\":4}");
    styx_test_expect(of, "", "page", "[null,\"a\",\"c\",0,false]", "{\"b\":11,\"ba\":4}");
    styx_test_expect(of, "", "page", "[null,\"c\",\"a\",1,true]", "{\"ba\":4}");
    styx_test_put(of, "bad", "\"text\"");
    styx_test_expect(of, "", "page", "[null,null,null,0,false]",
                     "GUEST_EXCEPTION: some-thing.page on \"\": state of \"bad\": expected an integer, found a string");
    styx_test_expect(of, "bad", "add", "[1]", "GUEST_EXCEPTION: some-thing.add on \"bad\": state of \"bad\": expected an integer, found a string");
    styx_test_same(styx_test_get(of, "bad"), "\"text\"");

    styx_test_reset();
    styx_test_expect(of, "k", "later", "[2]", "null");
    styx_test_same(styx_test_log(), "debug k begins\ndebug k ends\ndebug k1 begins\ndebug k1 ends\ndebug k11 begins\n"
                                    "debug k11 ends\ndebug k12 begins\ndebug k12 ends\ndebug k2 begins\ndebug k2 ends\n");
    styx_test_reset();
    styx_test_expect(of, "k", "raw", "[\"r\"]", "null");
    styx_test_expect(of, "k", "raw", "[\"r\"]", "null");
    styx_test_same(styx_test_log(), "warn 0 0\nwarn 1 entries\nwarn 1 3\nwarn 1 entries\n");
    styx_test_expect(of, "k", "ill", "[]", "GUEST_EXCEPTION: some-thing.ill on \"k\": result: a string is no UTF-8");
    styx_test_expect(of, "k", "ill_key", "[]", "ABORTED: a key is no UTF-8");
    styx_test_expect(of, "k", "ill_message", "[]", "ABORTED: a?z");
    styx_test_reset();
    styx_test_expect(of, "k", "refuse", "[\"SOLD_OUT\"]", "ABORTED:SOLD_OUT: no k");
    styx_test_same(styx_test_log(), "");
    styx_test_expect(of, "k", "relay_refusal", "[]", "ABORTED:CLOSED_2: no j");
    styx_test_expect(of, "k", "refuse", "[\"sold out\"]",
                     "GUEST_EXCEPTION: some-thing.refuse on \"k\": the code \"sold out\" is not allowed: begin with a "
                     "capital letter, then use capital letters, digits and _, at most 64");
    styx_test_same(strncmp(styx_test_log(), "warn GUEST_EXCEPTION: some-thing.refuse on", 42) ? styx_test_log() : "so", "so");
    styx_test_reset();
    styx_test_expect(of, "k", "wrong_arguments", "[]",
                     "GUEST_EXCEPTION: some-thing.set was called wrongly: argument `value`: expected an integer, found a string");
    styx_test_same(styx_test_log(), "warn GUEST_EXCEPTION: some-thing.set was called wrongly: argument `value`: expected an integer, "
                                    "found a string\n");
    styx_test_set_time(5);
    const char *found = styx_test_call(of, "kl", "who", "[]");
    styx_test_same(strncmp(found, "[\"test\",\"some-thing\",\"kl\",\"test-", 32) == 0 && strstr(found, ",5,true]") ? "so" : found, "so");
    styx_test_expect(of, "k", "large", "[300000]", "ABORTED: xxx");
    return styx_test_end();
}
