/* What is read and written of every type, their schemas, and bytes that nobody wrote on purpose. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <styx_test.h>

#include "../src/arena.h"
#include "../src/host.h"
#include "../src/json.h"

STYX_ENUM(colour, red, green)
STYX_TUPLE(pair, (styx_text, first), (uint8_t, second))
STYX_LIST(pair)
STYX_MAP(pair)
STYX_OPTIONAL(pair)
STYX_LIST(int64_t_list)
STYX_RECORD(all, (bool, yes), (int8_t, i8), (int16_t, i16), (int32_t, i32), (int64_t, i64), (uint8_t, u8), (uint16_t, u16),
            (uint32_t, u32), (uint64_t, u64), (double, fraction), (styx_text, text), (styx_text_or_null, note),
            (styx_json, any), (colour, shade), (pair, both), (pair_list, pairs), (pair_map, by_name), (pair_or_null, maybe),
            (int64_t_list_list, matrix), (bool, is_default, "default"))

STYX_OPERATOR(echo)
#define ECHO(type) \
    STYX_FUNCTION(echo, type, type, "", (type, value)) { *result = value; }
ECHO(all)
STYX_FUNCTION(echo, flag, bool, "", (bool, value)) { *result = value; }
ECHO(int8_t)
ECHO(int64_t)
ECHO(uint64_t)
ECHO(double)
ECHO(styx_text)
ECHO(styx_json)
ECHO(colour)
ECHO(pair_or_null)
ECHO(pair_map)

#define WHOLE                                                                                                             \
    "{\"yes\":true,\"i8\":-128,\"i16\":-32768,\"i32\":-2147483648,\"i64\":-9223372036854775808,\"u8\":255,\"u16\":65535," \
    "\"u32\":4294967295,\"u64\":18446744073709551615,\"fraction\":0.1,\"text\":\"\xc3\xa4\\\"\\\\\\n\\u0001\","           \
    "\"note\":null,\"any\":{\"a\":[1,2.50]},\"shade\":\"green\",\"both\":[\"p\",1],\"pairs\":[[\"q\",2],[\"r\",3]],"      \
    "\"by_name\":{\"z\":[\"\",0],\"a\":[\"\",1]},\"maybe\":[\"m\",9],\"matrix\":[[1,2],[],[3]],\"default\":false}"

static void same(const char *function, const char *value, const char *expected) {
    char *arguments = malloc(strlen(value) + 3);
    sprintf(arguments, "[%s]", value);
    styx_test_expect("echo", "k", function, arguments, expected);
    free(arguments);
}

#define REFUSED(function, value, message) same(function, value, "BAD_ARGUMENTS: argument `value`: " message)

static void values(void) {
    same("all", WHOLE, WHOLE);
    same("flag", " true ", "true");
    REFUSED("flag", "1", "expected a boolean, found a number");
    REFUSED("int8_t", "128", "128 does not fit into a signed integer of 8 bits");
    REFUSED("int8_t", "-129", "-129 does not fit into a signed integer of 8 bits");
    REFUSED("int64_t", "9223372036854775808", "9223372036854775808 does not fit into a signed integer of 64 bits");
    REFUSED("int64_t", "1.0", "expected an integer, found 1.0");
    REFUSED("int64_t", "1e3", "expected an integer, found 1e3");
    REFUSED("int64_t", "nul", "expected an integer, found null");
    same("int64_t", "-0", "0");
    REFUSED("uint64_t", "18446744073709551616", "18446744073709551616 does not fit into an unsigned integer of 64 bits");
    REFUSED("uint64_t", "184467440737095516150", "184467440737095516150 does not fit into an unsigned integer of 64 bits");
    REFUSED("uint64_t", "-1", "-1 does not fit into an unsigned integer of 64 bits");
    same("double", "1", "1.0");
    same("double", "-2.5e-3", "-0.0025");
    same("double", "0.30000000000000004", "0.30000000000000004");
    same("double", "1e300", "1e+300");
    same("double", "123456789012345680", "1.2345678901234568e+17");
    REFUSED("double", "1e999", "a number is too large");
    REFUSED("double", "\"1\"", "expected a number, found a string");
    same("styx_text", "\"\\u00e4\\ud83d\\ude00\\/\\b\\f\\n\\r\\t\"", "\"\xc3\xa4\xf0\x9f\x98\x80/\\b\\f\\n\\r\\t\"");
    REFUSED("styx_text", "\"a\\u0000\"", "a string has U+0000 inside, which cannot be in a string in C");
    REFUSED("styx_text", "\"\\ud83d\"", "a string has half of a surrogate pair");
    REFUSED("styx_text", "\"\\ude00\\ud83d\"", "a string has half of a surrogate pair");
    REFUSED("styx_text", "\"\\x\"", "a string has an unknown escape");
    REFUSED("styx_text", "\"\\u12g4\"", "a string has \\u without four hexadecimal digits");
    REFUSED("styx_text", "\"\xc0\x80\"", "a string is no UTF-8");
    REFUSED("styx_text", "\"\xed\xa0\x80\"", "a string is no UTF-8");
    REFUSED("styx_text", "\"a\nb\"", "a string has a control character");
    REFUSED("styx_text", "\"a", "a string has no end");
    REFUSED("styx_text", "null", "expected a string, found null");
    same("styx_json", "{\"a\" : [1, \"\\ud83d\", null]}", "{\"a\" : [1, \"\\ud83d\", null]}");
    REFUSED("styx_json", "[01]", "expected a comma, found a number");
    REFUSED("styx_json", "[1,]", "expected a value, found something that is no JSON");
    REFUSED("styx_json", "{1:2}", "expected a name, found a number");
    char deep[300] = {0};
    memset(deep, '[', 140);
    same("styx_json", deep, "BAD_ARGUMENTS: argument `value`: it is nested too deep");
    REFUSED("colour", "\"blue\"", "blue is no colour");
    same("pair_or_null", "null", "null");
    REFUSED("pair_or_null", "[\"a\"]", "expected 2 elements, found something that is no JSON");
    REFUSED("pair_or_null", "[\"a\",1,2]", "expected the end of the array, found something that is no JSON");
    REFUSED("pair_map", "{\"x\":[\"a\",1],\"y\":[\"a\",-1]}", "at y.second: -1 does not fit into an unsigned integer of 8 bits");
    REFUSED("all", "{}", "field `yes` is missing");
    REFUSED("all", "{\"yes\":true,\"yes\":true}", "field `yes` is there twice");
    REFUSED("all", "{\"pairs\":[[\"a\",1],[\"b\",\"c\"]]}", "at pairs.1.second: expected an integer, found a string");
}

static const char *schema(const styx_type *type) {
    writer to = {0};
    json_schema(&to, type);
    return arena_text(to.data, to.length);
}

static void schemas(void) {
    styx_test_same(schema(&styx_type_void), "{\"type\":\"null\"}");
    styx_test_same(schema(&styx_type_int8_t), "{\"type\":\"integer\",\"minimum\":-128,\"maximum\":127}");
    styx_test_same(schema(&styx_type_int64_t), "{\"type\":\"integer\"}");
    styx_test_same(schema(&styx_type_uint32_t), "{\"type\":\"integer\",\"minimum\":0,\"maximum\":4294967295}");
    styx_test_same(schema(&styx_type_uint64_t), "{\"type\":\"integer\",\"minimum\":0}");
    styx_test_same(schema(&styx_type_colour), "{\"type\":\"string\",\"enum\":[\"red\",\"green\"]}");
    styx_test_same(schema(&styx_type_styx_text_or_null), "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}");
    styx_test_same(schema(&styx_type_bool_list), "{\"type\":\"array\",\"items\":{\"type\":\"boolean\"}}");
    styx_test_same(schema(&styx_type_styx_json_map), "{\"type\":\"object\",\"additionalProperties\":{}}");
    styx_test_same(schema(&styx_type_pair_or_null),
                   "{\"anyOf\":[{\"type\":\"array\",\"prefixItems\":[{\"type\":\"string\"},{\"type\":\"integer\",\"minimum\":0,"
                   "\"maximum\":255}],\"minItems\":2,\"maxItems\":2},{\"type\":\"null\"}]}");
    const char *whole = schema(&styx_type_all), *required = strstr(whole, "\"required\":");
    styx_test_same(required, "\"required\":[\"yes\",\"i8\",\"i16\",\"i32\",\"i64\",\"u8\",\"u16\",\"u32\",\"u64\",\"fraction\",\"text\","
                             "\"any\",\"shade\",\"both\",\"pairs\",\"by_name\",\"matrix\",\"default\"]}");
    arena_reset();
}

/* Whatever the bytes, the reader stays inside of them, and what it takes can be written and read again. */
static void mangled(void) {
    static const char pieces[] = "{}[]\",:\\u00dDeE+-.19 \n\x80\xc3\xa4\xf0tfn";
    uint64_t state = 7;
    unsigned taken = 0;
    for (int round = 0; round < 100000; round++) {
        size_t length = strlen(WHOLE);
        char *text = malloc(length + 1);
        memcpy(text, WHOLE, length + 1);
        for (int change = 0; change < 1 + round % 4; change++) {
            state = state * 6364136223846793005 + 1442695040888963407;
            size_t at = (size_t)(state >> 33) % length;
            unsigned kind = (unsigned)(state >> 20) % 8;
            if (kind == 0) length = at + 1;
            else if (kind == 1) memmove(text + at, text + at + 1, --length - at);
            else text[at] = kind == 2 ? (char)(state >> 24) : pieces[(state >> 24) % (sizeof pieces - 1)];
            if (length == 0) length = 1;
            text = realloc(text, length + 1);
            text[length] = 0;
        }
        all found = {0};
        reader from = json_reader(text, length);
        if (json_read(&from, &styx_type_all, &found) && json_end(&from)) {
            writer one = {0}, two = {0};
            json_write(&one, &styx_type_all, &found);
            all again;
            char *copy = arena_text(one.data, one.length);
            reader second = json_reader(copy, one.length);
            bool readable = !one.problem && json_read(&second, &styx_type_all, &again) && json_end(&second);
            if (readable) json_write(&two, &styx_type_all, &again);
            bool alike = readable && one.length == two.length && memcmp(one.data, two.data, one.length) == 0;
            if (!alike) styx_test_same(arena_text(one.data, one.length), "readable again");
            taken++;
        } else if (!from.problem) {
            styx_test_same("a text that is refused", "for a reason");
        }
        free(text);
        arena_reset();
    }
    styx_test_same(taken > 1000 ? "many" : "few", "many");
}

int main(void) {
    values();
    schemas();
    mangled();
    return styx_test_end();
}
