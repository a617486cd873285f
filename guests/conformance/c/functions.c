/* What every language does, in C. */
#include <math.h>
#include <styx.h>

STYX_OPERATOR(c)

STYX_FUNCTION(c, echo_int, int64_t, "", (int64_t, n)) {
    *result = n;
}

STYX_FUNCTION(c, echo_text, styx_text, "", (styx_text, text)) {
    *result = text;
}

STYX_FUNCTION(c, echo_list, int64_t_list, "", (int64_t_list, numbers)) {
    *result = numbers;
}

STYX_FUNCTION(c, echo_any, styx_json, "", (styx_json, value)) {
    *result = value;
}

STYX_FUNCTION(c, echo_number, double, "", (double, x)) {
    *result = x;
}

STYX_FUNCTION(c, no_number, double, "", (double, x)) {
    *result = x > 1 ? x * 1e308 : NAN;
}

/* Stores a number, or what is none for more than 1, and says of what it reads then whether it is below zero, or -0. */
STYX_FUNCTION(c, kept_sign, bool, "", (double, x)) {
    double kept = x > 1 ? NAN : x;
    styx_put(double, &kept);
    styx_get(double, &kept);
    styx_delete();
    *result = signbit(kept);
}

STYX_READ_ONLY(c, get, int64_t_or_null, "") {
    int64_t *n = styx_alloc(sizeof *n);
    if (styx_get(int64_t, n)) *result = n;
}

STYX_FUNCTION(c, add, int64_t, "", (int64_t, n)) {
    styx_get(int64_t, result);
    *result += n;
    styx_put(int64_t, result);
}

STYX_FUNCTION(c, remove, void, "") {
    styx_delete();
}

STYX_READ_ONLY(c, keys, styx_text_list, "", (styx_text, prefix), (uint32_t, limit), (bool, reverse)) {
    int64_t_map page;
    if (!styx_scan(int64_t, &page, .prefix = prefix, .limit = limit, .reverse = reverse)) return;
    result->items = styx_alloc((page.count + 1) * sizeof *result->items);
    result->count = page.count;
    for (size_t i = 0; i < page.count; i++) result->items[i] = page.items[i].key;
}

STYX_FUNCTION(c, refuse, void, "", (styx_text, code), (styx_text, message)) {
    styx_abort_as(code, "%s", message);
}

STYX_FUNCTION(c, write_and_refuse, void, "") {
    styx_put(int64_t, (&(int64_t){99}));
    styx_abort("after writing");
}

STYX_TUPLE(through_arguments, (styx_text_list, languages), (int64_t, n))

STYX_FUNCTION(c, through, int64_t, "Adds here, then in each of the languages, one calling the next: the sum of what they come to.",
              (styx_text_list, languages), (int64_t, n)) {
    int64_t total = 0, below = 0;
    styx_get(int64_t, &total);
    total += n;
    if (languages.count) {
        const char *next = languages.items[0];
        through_arguments rest = {{languages.items + 1, languages.count - 1}, n};
        styx_json reply;
        if (!styx_call(next, styx_key(), "through", styx_encode(through_arguments, &rest), &reply)) return;
        if (!styx_decode(int64_t, reply, &below)) return;
        styx_call_async(next, "later", "add", styx_format("[%lld]", (long long)n));
    }
    styx_put(int64_t, &total);
    *result = below + total;
}
