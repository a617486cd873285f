/* The entities of the own operator. */
#include <string.h>

#include "arena.h"
#include "host.h"
#include "json.h"

/* A key that the host can take; false dooms the transaction. */
static bool named(const char *key, name *found) {
    *found = (name){key, key ? strlen(key) : 0};
    if (styx_failed()) return false;
    for (const unsigned char *at = (const unsigned char *)key; key && *at;) {
        size_t length = json_character(at);
        if (!length) return styx_abort("a key is no UTF-8"), false;
        at += length;
    }
    return true;
}

static bool get(const char *key, slice *value) {
    name found;
    return named(key, &found) && host_get(key ? &found : NULL, value);
}

static void put(const char *key, const void *data, size_t length) {
    name found;
    if (named(key, &found)) host_put(key ? &found : NULL, data, length);
}

static bool read(const char *key, slice text, const styx_type *type, void *value) {
    reader from = json_reader(text.data, text.length);
    if (json_read(&from, type, value) && json_end(&from)) return true;
    styx_fail("GUEST_EXCEPTION", styx_format("state of \"%s\": %s", key, json_problem(&from)));
    memset(value, 0, type->size);
    return false;
}

bool styx_get_value(const char *key, const styx_type *type, void *value) {
    slice text;
    if (get(key, &text)) return read(key ? key : styx_key(), text, type, value);
    memset(value, 0, type->size);
    return false;
}

void styx_put_value(const char *key, const styx_type *type, const void *value) {
    writer to = {0};
    json_write(&to, type, value);
    if (to.problem) styx_fail("GUEST_EXCEPTION", styx_format("state of \"%s\": %s", key ? key : styx_key(), to.problem));
    put(key, to.data, to.length);
}

bool styx_get_raw(const char *key, styx_bytes *value) {
    slice bytes;
    bool found = get(key, &bytes);
    *value = found ? (styx_bytes){bytes.data, bytes.length} : (styx_bytes){NULL, 0};
    return found;
}

void styx_put_raw(const char *key, const void *data, size_t length) {
    put(key, data, length);
}

void styx_delete(void) {
    if (!styx_failed()) host_delete(NULL);
}

void styx_delete_at(const char *key) {
    name found;
    if (named(key, &found)) host_delete(&found);
}

/* The end of a range that is not part of it, or none. */
static bool excluded(const char *key, host_bound *bound) {
    bound->kind = key ? EXCLUDED : UNBOUNDED;
    return named(key, &bound->key);
}

static host_entry *scan(const styx_range *range, size_t *count) {
    name prefix;
    host_bound after, before;
    *count = 0;
    if (!named(range->prefix, &prefix) || !excluded(range->after, &after) || !excluded(range->before, &before)) return NULL;
    if (!prefix.data) prefix.data = "";
    host_bound lower = range->reverse ? before : after, upper = range->reverse ? after : before;
    host_entry *entries = host_scan(prefix, lower, upper, range->limit, range->reverse, count);
    for (size_t i = 0; i < *count; i++) {
        if (memchr(entries[i].key.data, 0, entries[i].key.length)) {
            styx_abort("a key has U+0000 inside, which cannot be in a string in C");
            *count = 0;
        }
    }
    return entries;
}

bool styx_scan_raw(const styx_range *range, styx_raw_entry **entries, size_t *count) {
    host_entry *found = scan(range, count);
    *entries = styx_alloc(*count * sizeof **entries);
    for (size_t i = 0; i < *count; i++) {
        (*entries)[i] = (styx_raw_entry){found[i].key.data, {found[i].value.data, found[i].value.length}};
    }
    return !styx_failed();
}

bool styx_scan_values(const styx_type *type, void *map, const styx_range *range) {
    sequence *all = map;
    all->items = NULL;
    all->count = 0;
    size_t count;
    host_entry *found = scan(range, &count);
    all->items = styx_alloc(count * type->stride);
    for (size_t i = 0; i < count; i++) {
        char *item = all->items + i * type->stride;
        *(const char **)item = found[i].key.data;
        if (!read(found[i].key.data, found[i].value, type->element, item + type->offset)) return false;
        all->count++;
    }
    return !styx_failed();
}

bool styx_decode_value(const styx_type *type, const char *json, void *value) {
    size_t length = strlen(json);
    reader from = json_reader(arena_text(json, length), length);
    if (json_read(&from, type, value) && json_end(&from)) return true;
    styx_abort("%s: %s", type->name, json_problem(&from));
    memset(value, 0, type->size);
    return false;
}

const char *styx_encode_value(const styx_type *type, const void *value) {
    writer to = {0};
    json_write(&to, type, value);
    if (!to.problem) return arena_text(to.data, to.length);
    styx_abort("%s: %s", type->name, to.problem);
    return "null";
}
