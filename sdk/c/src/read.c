#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "json.h"

/* How deep JSON may nest that is passed on as text. */
#define DEPTH_MAX 128

reader json_reader(char *text, size_t length) {
    return (reader){.at = text, .end = text + length};
}

static bool wrong(reader *from, const char *problem) {
    if (!from->problem) from->problem = problem;
    return false;
}

static bool inside(reader *from, const char *place) {
    from->path = from->path ? styx_format("%s.%s", place, from->path) : place;
    return false;
}

const char *json_problem(const reader *from) {
    return from->path ? styx_format("at %s: %s", from->path, from->problem) : from->problem;
}

static void blank(reader *from) {
    while (*from->at == ' ' || *from->at == '\n' || *from->at == '\r' || *from->at == '\t') from->at++;
}

/* What stands where something else was expected. */
static bool expected(reader *from, const char *what) {
    const char *found = "something that is no JSON";
    char first = *from->at;
    if (from->at >= from->end) found = "the end of the text";
    else if (first == '"') found = "a string";
    else if (first == '[') found = "an array";
    else if (first == '{') found = "an object";
    else if (first == 't' || first == 'f') found = "a boolean";
    else if (first == 'n') found = "null";
    else if (first == '-' || (first >= '0' && first <= '9')) found = "a number";
    return wrong(from, styx_format("expected %s, found %s", what, found));
}

static bool take(reader *from, char mark, const char *what) {
    blank(from);
    if (*from->at != mark) return expected(from, what);
    from->at++;
    return true;
}

static bool word(reader *from, const char *text) {
    size_t length = strlen(text);
    if ((size_t)(from->end - from->at) < length || memcmp(from->at, text, length) != 0) return false;
    from->at += length;
    return true;
}

size_t json_character(const unsigned char *text) {
    unsigned char first = text[0];
    size_t more = first < 0x80 ? 0 : first < 0xc2 ? 9 : first < 0xe0 ? 1 : first < 0xf0 ? 2 : first < 0xf5 ? 3 : 9;
    if (more == 9) return 0;
    /* No number in more bytes than it needs, no surrogates, nothing past the last one. */
    if (first == 0xe0 && text[1] < 0xa0) return 0;
    if (first == 0xed && text[1] >= 0xa0) return 0;
    if (first == 0xf0 && text[1] < 0x90) return 0;
    if (first == 0xf4 && text[1] >= 0x90) return 0;
    for (size_t i = 1; i <= more; i++) {
        if ((text[i] & 0xc0) != 0x80) return 0;
    }
    return more + 1;
}

static int hexadecimal(const char *digits) {
    int number = 0;
    for (int i = 0; i < 4; i++) {
        char digit = digits[i];
        int value = digit >= '0' && digit <= '9'   ? digit - '0'
                    : digit >= 'a' && digit <= 'f' ? digit - 'a' + 10
                    : digit >= 'A' && digit <= 'F' ? digit - 'A' + 10
                                                   : -1;
        if (value < 0) return -1;
        number = number * 16 + value;
    }
    return number;
}

/* The escape at `at`, behind its backslash: written to `to`, which moves. Null if it is wrong. */
static char *escape(reader *from, char *at, char **to) {
    static const char escapes[] = "\"\\/bfnrt", meant[] = "\"\\/\b\f\n\r\t";
    const char *known = *at ? strchr(escapes, *at) : NULL;
    if (known) {
        *(*to)++ = meant[known - escapes];
        return at + 1;
    }
    if (*at != 'u') return wrong(from, "a string has an unknown escape"), NULL;
    /* The digits end at the 0 behind the text, if not before. */
    int number = hexadecimal(at + 1);
    at += 5;
    if (number < 0) return wrong(from, "a string has \\u without four hexadecimal digits"), NULL;
    if (number == 0) return wrong(from, "a string has U+0000 inside, which cannot be in a string in C"), NULL;
    if (number >= 0xd800 && number < 0xe000) {
        int low = number < 0xdc00 && at[0] == '\\' && at[1] == 'u' ? hexadecimal(at + 2) : -1;
        if (low < 0xdc00 || low >= 0xe000) return wrong(from, "a string has half of a surrogate pair"), NULL;
        number = 0x10000 + ((number - 0xd800) << 10) + (low - 0xdc00);
        at += 6;
    }
    char *out = *to;
    if (number < 0x80) {
        *out++ = (char)number;
    } else if (number < 0x800) {
        *out++ = (char)(0xc0 | number >> 6);
        *out++ = (char)(0x80 | (number & 0x3f));
    } else if (number < 0x10000) {
        *out++ = (char)(0xe0 | number >> 12);
        *out++ = (char)(0x80 | (number >> 6 & 0x3f));
        *out++ = (char)(0x80 | (number & 0x3f));
    } else {
        *out++ = (char)(0xf0 | number >> 18);
        *out++ = (char)(0x80 | (number >> 12 & 0x3f));
        *out++ = (char)(0x80 | (number >> 6 & 0x3f));
        *out++ = (char)(0x80 | (number & 0x3f));
    }
    *to = out;
    return at;
}

/* A string, unescaped in place; the 0 behind it is where its quote was, or before. Null if it is wrong. */
static char *string(reader *from) {
    if (*from->at != '"') return expected(from, "a string"), NULL;
    char *text = from->at + 1, *at = text, *to = text;
    for (;;) {
        unsigned char next = (unsigned char)*at;
        if (next == '"') break;
        if (next == '\\') {
            at = escape(from, at + 1, &to);
            if (!at) return NULL;
        } else if (next < 0x20) {
            return wrong(from, at >= from->end ? "a string has no end" : "a string has a control character"), NULL;
        } else if (next < 0x80) {
            *to++ = (char)next;
            at++;
        } else {
            size_t length = json_character((const unsigned char *)at);
            if (!length) return wrong(from, "a string is no UTF-8"), NULL;
            memmove(to, at, length);
            to += length;
            at += length;
        }
    }
    *to = 0;
    from->at = at + 1;
    return text;
}

/* The end of the number at `at`; null if there is none. */
static char *number_end(char *at, bool *whole) {
    *whole = true;
    if (*at == '-') at++;
    if (*at == '0') at++;
    else if (*at >= '1' && *at <= '9') while (*at >= '0' && *at <= '9') at++;
    else return NULL;
    if (*at == '.') {
        *whole = false;
        if (*++at < '0' || *at > '9') return NULL;
        while (*at >= '0' && *at <= '9') at++;
    }
    if (*at == 'e' || *at == 'E') {
        *whole = false;
        at++;
        if (*at == '+' || *at == '-') at++;
        if (*at < '0' || *at > '9') return NULL;
        while (*at >= '0' && *at <= '9') at++;
    }
    return at;
}

static bool integer(reader *from, const styx_type *type, void *value) {
    bool whole, negative = *from->at == '-', fits = true;
    char *end = number_end(from->at, &whole);
    if (!end || !whole) {
        if (end) return wrong(from, styx_format("expected an integer, found %.*s", (int)(end - from->at), from->at));
        return expected(from, "an integer");
    }
    uint64_t number = 0;
    for (char *digit = from->at + negative; digit < end; digit++) {
        /* Not __builtin_mul_overflow, which multiplies to 128 bits. */
        fits = fits && number <= UINT64_MAX / 10 && !__builtin_add_overflow(number * 10, (uint64_t)(*digit - '0'), &number);
    }
    unsigned bits = (unsigned)type->size * 8;
    uint64_t largest = UINT64_MAX >> (64 - bits);
    if (type->kind == STYX_KIND_SIGNED) largest = (largest >> 1) + (negative ? 1 : 0);
    else if (negative) largest = 0;
    if (!fits || number > largest) {
        const char *sign = type->kind == STYX_KIND_SIGNED ? "a signed" : "an unsigned";
        return wrong(from, styx_format("%.*s does not fit into %s integer of %u bits", (int)(end - from->at), from->at,
                                       sign, bits));
    }
    if (negative) number = 0 - number;
    switch (type->size) {
        case 1: *(uint8_t *)value = (uint8_t)number; break;
        case 2: *(uint16_t *)value = (uint16_t)number; break;
        case 4: *(uint32_t *)value = (uint32_t)number; break;
        default: *(uint64_t *)value = number;
    }
    from->at = end;
    return true;
}

static bool fraction(reader *from, double *value) {
    bool whole;
    char *end = number_end(from->at, &whole);
    if (!end) return expected(from, "a number");
    *value = strtod(from->at, NULL);
    if (!isfinite(*value)) return wrong(from, "a number is too large");
    from->at = end;
    return true;
}

/* Passes over any value without changing it. */
static bool skip(reader *from, int depth) {
    blank(from);
    char first = *from->at;
    if (first == '"') {
        char *at = from->at + 1;
        while (*at != '"') {
            unsigned char next = (unsigned char)*at;
            if (next < 0x20) return wrong(from, at >= from->end ? "a string has no end" : "a string has a control character");
            if (next == '\\') {
                at++;
                if (*at == 'u') {
                    if (hexadecimal(at + 1) < 0) return wrong(from, "a string has \\u without four hexadecimal digits");
                    at += 5;
                } else if (*at && strchr("\"\\/bfnrt", *at)) {
                    at++;
                } else {
                    return wrong(from, "a string has an unknown escape");
                }
            } else {
                size_t length = json_character((const unsigned char *)at);
                if (!length) return wrong(from, "a string is no UTF-8");
                at += length;
            }
        }
        from->at = at + 1;
        return true;
    }
    if (first == '[' || first == '{') {
        char last = first == '[' ? ']' : '}';
        if (depth == DEPTH_MAX) return wrong(from, "it is nested too deep");
        from->at++;
        blank(from);
        if (*from->at == last) return from->at++, true;
        for (;;) {
            if (last == '}') {
                blank(from);
                if (*from->at != '"') return expected(from, "a name");
                if (!skip(from, depth + 1) || !take(from, ':', "a colon")) return false;
            }
            if (!skip(from, depth + 1)) return false;
            blank(from);
            if (*from->at == last) return from->at++, true;
            if (!take(from, ',', "a comma")) return false;
        }
    }
    if (word(from, "true") || word(from, "false") || word(from, "null")) return true;
    bool whole;
    char *end = number_end(from->at, &whole);
    if (!end) return expected(from, "a value");
    from->at = end;
    return true;
}

static bool record(reader *from, const styx_type *type, char *value) {
    memset(value, 0, type->size);
    if (!take(from, '{', "an object")) return false;
    uint64_t seen = 0;
    size_t next = 0;
    blank(from);
    bool more = *from->at != '}';
    if (!more) from->at++;
    while (more) {
        blank(from);
        char *name = string(from);
        if (!name) return false;
        if (!take(from, ':', "a colon")) return false;
        /* Whoever wrote it likely had the same order. */
        size_t i = 0, index = next;
        for (; i < type->count; i++, index++) {
            if (index >= type->count) index = 0;
            if (strcmp(type->fields[index].name, name) == 0) break;
        }
        if (i == type->count) {
            if (!skip(from, 0)) return inside(from, name);
        } else {
            const styx_field *field = &type->fields[index];
            if (seen >> index & 1) return wrong(from, styx_format("field `%s` is there twice", name));
            seen |= (uint64_t)1 << index;
            if (!json_read(from, field->type, value + field->offset)) return inside(from, field->name);
            next = index + 1;
        }
        blank(from);
        more = *from->at != '}';
        if (!more) from->at++;
        else if (!take(from, ',', "a comma")) return false;
    }
    for (size_t i = 0; i < type->count; i++) {
        if (!(seen >> i & 1) && !json_may_be_absent(type->fields[i].type)) {
            return wrong(from, styx_format("field `%s` is missing", type->fields[i].name));
        }
    }
    return true;
}

static bool tuple(reader *from, const styx_type *type, char *value) {
    memset(value, 0, type->size);
    if (!take(from, '[', "an array")) return false;
    for (size_t i = 0; i < type->count; i++) {
        const styx_field *field = &type->fields[i];
        if (i) {
            blank(from);
            if (*from->at != ',') return expected(from, styx_format("%zu elements", type->count));
            from->at++;
        }
        if (!json_read(from, field->type, value + field->offset)) return inside(from, field->name);
    }
    return take(from, ']', "the end of the array");
}

/* A list, or a map. */
static bool several(reader *from, const styx_type *type, void *value) {
    sequence *list = value;
    list->items = NULL;
    list->count = 0;
    bool keyed = type->kind == STYX_KIND_MAP;
    char last = keyed ? '}' : ']';
    if (!take(from, keyed ? '{' : '[', keyed ? "an object" : "an array")) return false;
    blank(from);
    if (*from->at == last) return from->at++, true;
    size_t capacity = 0;
    for (;;) {
        if (list->count == capacity) {
            size_t larger = capacity ? capacity * 2 : 4;
            list->items = arena_grow(list->items, capacity * type->stride, larger * type->stride);
            memset(list->items + capacity * type->stride, 0, (larger - capacity) * type->stride);
            capacity = larger;
        }
        char *item = list->items + list->count * type->stride;
        if (keyed) {
            blank(from);
            char *key = string(from);
            if (!key) return false;
            *(const char **)item = key;
            if (!take(from, ':', "a colon")) return false;
        }
        if (!json_read(from, type->element, item + type->offset)) {
            return inside(from, keyed ? *(const char **)item : styx_format("%zu", list->count));
        }
        list->count++;
        blank(from);
        if (*from->at == last) return from->at++, true;
        if (!take(from, ',', "a comma")) return false;
    }
}

bool json_read(reader *from, const styx_type *type, void *value) {
    blank(from);
    switch (type->kind) {
        case STYX_KIND_NONE:
            return word(from, "null") || expected(from, "null");
        case STYX_KIND_BOOL:
            *(bool *)value = *from->at == 't';
            return word(from, "true") || word(from, "false") || expected(from, "a boolean");
        case STYX_KIND_SIGNED:
        case STYX_KIND_UNSIGNED:
            return integer(from, type, value);
        case STYX_KIND_DOUBLE:
            return fraction(from, value);
        case STYX_KIND_TEXT_OR_NULL:
            *(const char **)value = NULL;
            if (word(from, "null")) return true;
            __attribute__((fallthrough));
        case STYX_KIND_TEXT:
            return (*(const char **)value = string(from)) != NULL;
        case STYX_KIND_JSON: {
            char *start = from->at;
            if (!skip(from, 0)) return false;
            *(const char **)value = arena_text(start, (size_t)(from->at - start));
            return true;
        }
        case STYX_KIND_RECORD:
            return record(from, type, value);
        case STYX_KIND_TUPLE:
            return tuple(from, type, value);
        case STYX_KIND_LIST:
        case STYX_KIND_MAP:
            return several(from, type, value);
        case STYX_KIND_OPTIONAL:
            *(void **)value = NULL;
            if (word(from, "null")) return true;
            *(void **)value = styx_alloc(type->stride);
            return json_read(from, type->element, *(void **)value);
        case STYX_KIND_ENUM: {
            const char *text = string(from);
            if (!text) return false;
            for (size_t i = 0; i < type->count; i++) {
                if (strcmp(type->words[i], text) == 0) return *(unsigned *)value = (unsigned)i, true;
            }
            return wrong(from, styx_format("%s is no %s", text, type->name));
        }
    }
    return wrong(from, "the type is unknown");
}

bool json_end(reader *from) {
    blank(from);
    return from->at == from->end || wrong(from, "something follows on the value");
}

static const char *names(const styx_type *type) {
    const char *all = "";
    for (size_t i = 0; i < type->count; i++) all = styx_format(i ? "%s, %s" : "%s%s", all, type->fields[i].name);
    return all;
}

bool json_read_arguments(reader *from, const styx_type *type, void *value) {
    size_t i = 0;
    /* No text at all stands for no arguments. */
    blank(from);
    bool more = from->at != from->end;
    if (more) {
        if (*from->at != '[') return expected(from, styx_format("an array of arguments: [%s]", names(type)));
        from->at++;
        blank(from);
        more = *from->at != ']';
        if (!more) from->at++;
    }
    while (more) {
        if (i == type->count) return wrong(from, styx_format("too many arguments, it takes [%s]", names(type)));
        const styx_field *field = &type->fields[i++];
        if (!json_read(from, field->type, (char *)value + field->offset)) {
            from->problem = styx_format("argument `%s`: %s", field->name, json_problem(from));
            from->path = NULL;
            return false;
        }
        blank(from);
        more = *from->at != ']';
        if (!more) from->at++;
        else if (!take(from, ',', "a comma")) return false;
    }
    for (; i < type->count; i++) {
        if (!json_may_be_absent(type->fields[i].type)) {
            return wrong(from, styx_format("argument `%s` is missing", type->fields[i].name));
        }
    }
    return json_end(from);
}
