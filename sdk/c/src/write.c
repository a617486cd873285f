#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "json.h"

void json_append(writer *to, const char *text, size_t length) {
    if (to->capacity - to->length < length) {
        size_t capacity = to->capacity ? to->capacity * 2 : 128;
        while (capacity - to->length < length) capacity *= 2;
        to->data = arena_grow(to->data, to->capacity, capacity);
        to->capacity = capacity;
    }
    memcpy(to->data + to->length, text, length);
    to->length += length;
}

static void append(writer *to, const char *text) {
    json_append(to, text, strlen(text));
}

void json_write_text(writer *to, const char *text, size_t length) {
    json_append(to, "\"", 1);
    const char *end = text + length, *plain = text;
    for (const char *at = text; at < end;) {
        unsigned char next = (unsigned char)*at;
        if (next >= 0x20 && next != '"' && next != '\\' && next < 0x80) {
            at++;
            continue;
        }
        if (next >= 0x80) {
            size_t more = json_character((const unsigned char *)at);
            if (!more) {
                to->problem = "a string is no UTF-8";
                return;
            }
            at += more;
            continue;
        }
        json_append(to, plain, (size_t)(at - plain));
        char escape[8];
        static const char escaped[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";
        const char *known = next ? strchr(escaped, next) : NULL;
        if (known) snprintf(escape, sizeof escape, "\\%c", letters[known - escaped]);
        else snprintf(escape, sizeof escape, "\\u%04x", next);
        append(to, escape);
        plain = ++at;
    }
    json_append(to, plain, (size_t)(end - plain));
    json_append(to, "\"", 1);
}

static void write_integer(writer *to, const styx_type *type, const void *value) {
    bool is_signed = type->kind == STYX_KIND_SIGNED;
    uint64_t number;
    switch (type->size) {
        case 1: number = is_signed ? (uint64_t)*(const int8_t *)value : *(const uint8_t *)value; break;
        case 2: number = is_signed ? (uint64_t)*(const int16_t *)value : *(const uint16_t *)value; break;
        case 4: number = is_signed ? (uint64_t)*(const int32_t *)value : *(const uint32_t *)value; break;
        default: number = *(const uint64_t *)value;
    }
    bool negative = is_signed && (int64_t)number < 0;
    if (negative) number = 0 - number;
    char digits[24];
    char *at = digits + sizeof digits;
    do {
        *--at = (char)('0' + number % 10);
        number /= 10;
    } while (number);
    if (negative) *--at = '-';
    json_append(to, at, (size_t)(digits + sizeof digits - at));
}

/* The shortest digits that are read as the same number, and a point or an exponent to show that it is none of the integers. */
static void write_double(writer *to, double number) {
    if (!isfinite(number)) {
        to->problem = "a number that is not finite cannot be JSON";
        return;
    }
    char text[40];
    for (int digits = 15; digits <= 17; digits++) {
        snprintf(text, sizeof text, "%.*g", digits, number);
        if (strtod(text, NULL) == number) break;
    }
    append(to, text);
    if (!strpbrk(text, ".e")) append(to, ".0");
}

static void write_json(writer *to, const char *text) {
    if (!text) {
        append(to, "null");
        return;
    }
    size_t length = strlen(text);
    reader from = json_reader(arena_text(text, length), length);
    const char *same;
    if (!json_read(&from, &styx_type_styx_json, &same) || !json_end(&from)) {
        to->problem = styx_format("what should be JSON is not: %s", json_problem(&from));
        return;
    }
    json_append(to, text, length);
}

void json_write(writer *to, const styx_type *type, const void *value) {
    if (to->problem) return;
    switch (type->kind) {
        case STYX_KIND_NONE:
            append(to, "null");
            return;
        case STYX_KIND_BOOL:
            append(to, *(const bool *)value ? "true" : "false");
            return;
        case STYX_KIND_SIGNED:
        case STYX_KIND_UNSIGNED:
            write_integer(to, type, value);
            return;
        case STYX_KIND_DOUBLE:
            write_double(to, *(const double *)value);
            return;
        case STYX_KIND_TEXT:
        case STYX_KIND_TEXT_OR_NULL: {
            const char *text = *(const char *const *)value;
            if (text) json_write_text(to, text, strlen(text));
            else if (type->kind == STYX_KIND_TEXT_OR_NULL) append(to, "null");
            else to->problem = "a styx_text is a null pointer; styx_text_or_null may be one";
            return;
        }
        case STYX_KIND_JSON:
            write_json(to, *(const char *const *)value);
            return;
        case STYX_KIND_RECORD:
        case STYX_KIND_TUPLE: {
            bool keyed = type->kind == STYX_KIND_RECORD;
            json_append(to, keyed ? "{" : "[", 1);
            for (size_t i = 0; i < type->count; i++) {
                const styx_field *field = &type->fields[i];
                if (i) json_append(to, ",", 1);
                if (keyed) {
                    json_write_text(to, field->name, field->name_length);
                    json_append(to, ":", 1);
                }
                json_write(to, field->type, (const char *)value + field->offset);
            }
            json_append(to, keyed ? "}" : "]", 1);
            return;
        }
        case STYX_KIND_LIST:
        case STYX_KIND_MAP: {
            const sequence *list = value;
            bool keyed = type->kind == STYX_KIND_MAP;
            json_append(to, keyed ? "{" : "[", 1);
            for (size_t i = 0; i < list->count; i++) {
                const char *item = list->items + i * type->stride;
                if (i) json_append(to, ",", 1);
                if (keyed) {
                    json_write(to, &styx_type_styx_text, item);
                    json_append(to, ":", 1);
                }
                json_write(to, type->element, item + type->offset);
            }
            json_append(to, keyed ? "}" : "]", 1);
            return;
        }
        case STYX_KIND_OPTIONAL: {
            const void *element = *(const void *const *)value;
            if (element) json_write(to, type->element, element);
            else append(to, "null");
            return;
        }
        case STYX_KIND_ENUM: {
            unsigned word = *(const unsigned *)value;
            if (word < type->count) json_write_text(to, type->words[word], strlen(type->words[word]));
            else to->problem = styx_format("%u is no %s", word, type->name);
            return;
        }
    }
}

static void schema_of_integer(writer *to, const styx_type *type) {
    append(to, "{\"type\":\"integer\"");
    unsigned bits = (unsigned)type->size * 8;
    if (type->kind == STYX_KIND_UNSIGNED) {
        append(to, ",\"minimum\":0");
        if (bits < 64) append(to, styx_format(",\"maximum\":%" PRIu64, UINT64_MAX >> (64 - bits)));
    } else if (bits < 64) {
        int64_t largest = ((int64_t)1 << (bits - 1)) - 1;
        append(to, styx_format(",\"minimum\":%" PRId64 ",\"maximum\":%" PRId64, -largest - 1, largest));
    }
    append(to, "}");
}

static void schema_of_fields(writer *to, const styx_type *type) {
    if (type->kind == STYX_KIND_TUPLE) {
        append(to, "{\"type\":\"array\",\"prefixItems\":[");
        for (size_t i = 0; i < type->count; i++) {
            if (i) append(to, ",");
            json_schema(to, type->fields[i].type);
        }
        append(to, styx_format("],\"minItems\":%zu,\"maxItems\":%zu}", type->count, type->count));
        return;
    }
    append(to, "{\"type\":\"object\",\"properties\":{");
    for (size_t i = 0; i < type->count; i++) {
        if (i) append(to, ",");
        json_write_text(to, type->fields[i].name, type->fields[i].name_length);
        append(to, ":");
        json_schema(to, type->fields[i].type);
    }
    append(to, "},\"required\":[");
    bool any = false;
    for (size_t i = 0; i < type->count; i++) {
        if (json_may_be_absent(type->fields[i].type)) continue;
        if (any) append(to, ",");
        any = true;
        json_write_text(to, type->fields[i].name, type->fields[i].name_length);
    }
    append(to, "]}");
}

void json_schema(writer *to, const styx_type *type) {
    switch (type->kind) {
        case STYX_KIND_NONE: append(to, "{\"type\":\"null\"}"); return;
        case STYX_KIND_BOOL: append(to, "{\"type\":\"boolean\"}"); return;
        case STYX_KIND_SIGNED:
        case STYX_KIND_UNSIGNED: schema_of_integer(to, type); return;
        case STYX_KIND_DOUBLE: append(to, "{\"type\":\"number\"}"); return;
        case STYX_KIND_TEXT: append(to, "{\"type\":\"string\"}"); return;
        case STYX_KIND_TEXT_OR_NULL: append(to, "{\"anyOf\":[{\"type\":\"string\"},{\"type\":\"null\"}]}"); return;
        case STYX_KIND_JSON: append(to, "{}"); return;
        case STYX_KIND_RECORD:
        case STYX_KIND_TUPLE: schema_of_fields(to, type); return;
        case STYX_KIND_LIST:
            append(to, "{\"type\":\"array\",\"items\":");
            json_schema(to, type->element);
            append(to, "}");
            return;
        case STYX_KIND_MAP:
            append(to, "{\"type\":\"object\",\"additionalProperties\":");
            json_schema(to, type->element);
            append(to, "}");
            return;
        case STYX_KIND_OPTIONAL:
            append(to, "{\"anyOf\":[");
            json_schema(to, type->element);
            append(to, ",{\"type\":\"null\"}]}");
            return;
        case STYX_KIND_ENUM:
            append(to, "{\"type\":\"string\",\"enum\":[");
            for (size_t i = 0; i < type->count; i++) {
                if (i) append(to, ",");
                json_write_text(to, type->words[i], strlen(type->words[i]));
            }
            append(to, "]}");
            return;
    }
}
