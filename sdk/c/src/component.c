/*
 * The imports and exports of the world `function`, by the canonical ABI, written by hand: half a dozen structs; what is
 * read in place, or kept until it is told, is copied within the arena. A test compares the contract with the one that this was written for:
 * sha256 of wit/guest.wit: b48f43430ed73a4da0812d693b6aa4cca9f2d1caf3cf1b19ce1b738b6193acc8
 */
#ifdef __wasm__

#include <string.h>

#include "arena.h"
#include "host.h"

#define IMPORT(interface, function) \
    __attribute__((import_module("styx:guest/" interface "@0.2.0"), import_name(function)))
#define EXPORT(function) __attribute__((export_name(function)))

typedef struct optional_bytes {
    uint8_t some;
    slice bytes;
} optional_bytes;

/* Of a call. */
typedef struct result {
    uint8_t failed;
    slice first;
    slice message;
} result;

enum told { UNTOLD, TOLD, ABSENT };
enum change { NONE, PUT, DELETE };

/* What an invocation did to its own entity. */
typedef struct entity_access {
    uint8_t read;
    struct {
        uint8_t kind;
        slice value;
    } change;
} entity_access;

typedef struct outcome {
    entity_access entity;
    result returned;
} outcome;

_Static_assert(sizeof(entity_access) == 16 && sizeof(outcome) == 36, "as the canonical ABI lays them out");

IMPORT("state", "get") void state_get(const char *, size_t, optional_bytes *);
IMPORT("state", "put") void state_put(const char *, size_t, const void *, size_t);
IMPORT("state", "delete") void state_delete(const char *, size_t);
IMPORT("state", "scan")
void state_scan(const char *, size_t, int, const char *, size_t, int, const char *, size_t, uint32_t, int, void *);
IMPORT("state", "get-own") void state_get_own(optional_bytes *);
IMPORT("state", "put-own") void state_put_own(const void *, size_t);
IMPORT("state", "delete-own") void state_delete_own(void);
IMPORT("calls", "call")
void calls_call(int, int, const char *, size_t, const char *, size_t, const char *, size_t, const char *, size_t,
                const char *, size_t, result *);
IMPORT("calls", "call-async")
void calls_call_async(const char *, size_t, const char *, size_t, const char *, size_t, const char *, size_t);
IMPORT("context", "app") void context_app(slice *);
IMPORT("context", "request-id") void context_request_id(slice *);
IMPORT("context", "random") uint64_t context_random(void);
IMPORT("logging", "log") void logging_log(int, const char *, size_t);

/* The invocation that runs. */
static struct {
    /* It has ended: what was in the arena for it goes with the next. */
    bool over;
    name key;
    enum told told;
    slice value;
    /* What the host was not told yet. */
    entity_access entity;
    uint64_t tid;
    uint64_t time;
} now;

/* What comes from the host goes to the arena; text gets a 0 behind it. */
EXPORT("cabi_realloc") void *cabi_realloc(void *piece, size_t size, size_t alignment, size_t larger) {
    (void)alignment;
    if (now.over) {
        arena_reset();
        now.over = false;
    }
    char *bytes = size ? arena_grow(piece, size + 1, larger + 1) : arena_take(larger + 1);
    bytes[larger] = 0;
    return bytes;
}

static bool is_own(const name *key) {
    return !key || (key->length == now.key.length && memcmp(key->data, now.key.data, key->length) == 0);
}

bool host_get(const name *key, slice *value) {
    optional_bytes found;
    if (!is_own(key)) {
        state_get(key->data, key->length, &found);
    } else if (now.entity.change.kind != NONE) {
        found = (optional_bytes){now.entity.change.kind == PUT, now.entity.change.value};
    } else if (now.told != UNTOLD) {
        now.entity.read = true;
        found = (optional_bytes){now.told == TOLD, now.value};
    } else {
        state_get_own(&found);
    }
    if (!found.some) return false;
    *value = is_own(key) ? (slice){arena_text(found.bytes.data, found.bytes.length), found.bytes.length} : found.bytes;
    return true;
}

void host_put(const name *key, const void *data, size_t length) {
    if (!is_own(key)) {
        state_put(key->data, key->length, data, length);
        return;
    }
    now.entity.change.kind = PUT;
    now.entity.change.value = (slice){arena_text(data, length), length};
}

void host_delete(const name *key) {
    if (!is_own(key)) state_delete(key->data, key->length);
    else now.entity.change.kind = DELETE;
}

/* The host is told of a change that it would not see otherwise. */
static void tell_change(void) {
    if (now.entity.change.kind == NONE) return;
    if (now.entity.read) {
        optional_bytes ignored;
        state_get_own(&ignored);
    }
    if (now.entity.change.kind == PUT) state_put_own(now.entity.change.value.data, now.entity.change.value.length);
    else state_delete_own();
    now.entity = (entity_access){0};
    now.told = UNTOLD;
}

host_entry *host_scan(name prefix, host_bound lower, host_bound upper, uint32_t limit, bool reverse, size_t *count) {
    struct {
        host_entry *entries;
        size_t count;
    } found;
    tell_change();
    state_scan(prefix.data, prefix.length, lower.kind, lower.key.data, lower.key.length, upper.kind, upper.key.data,
               upper.key.length, limit, reverse, &found);
    *count = found.count;
    return found.entries;
}

void host_call(name operator_name, name key, name function, name arguments, host_reply *reply) {
    result called;
    entity_access entity = now.entity;
    /* What is called may write the entity. */
    now.entity = (entity_access){0};
    now.told = UNTOLD;
    slice value = entity.change.value;
    calls_call(entity.read, entity.change.kind, value.data, value.length, operator_name.data, operator_name.length,
               key.data, key.length, function.data, function.length, arguments.data, arguments.length, &called);
    *reply = (host_reply){called.failed, called.first, called.message};
}

void host_call_async(name operator_name, name key, name function, name arguments) {
    calls_call_async(operator_name.data, operator_name.length, key.data, key.length, function.data, function.length,
                     arguments.data, arguments.length);
}

slice host_app(void) {
    slice text;
    context_app(&text);
    return text;
}

slice host_request_id(void) {
    slice text;
    context_request_id(&text);
    return text;
}

uint64_t host_tid(void) {
    return now.tid;
}

uint64_t host_time(void) {
    return now.time;
}

uint64_t host_random(void) {
    return context_random();
}

void host_log(styx_level level, const char *text, size_t length) {
    logging_log((int)level, text, length);
}

EXPORT("invoke")
outcome *export_invoke(char *bytes, size_t length, size_t function_end, size_t key_end, size_t arguments_end, int told,
                       uint64_t tid, uint64_t time) {
    static outcome ended;
    host_reply reply = {0};
    slice key = {arena_text(bytes + function_end, key_end - function_end), key_end - function_end};
    slice arguments = {arena_text(bytes + key_end, arguments_end - key_end), arguments_end - key_end};
    now.key = (name){key.data, key.length};
    now.told = (enum told)told;
    now.value = (slice){bytes + arguments_end, length - arguments_end};
    now.entity = (entity_access){0};
    now.tid = tid;
    now.time = time;
    styx_invoke((name){bytes, function_end}, key, arguments, &reply);
    ended = (outcome){now.entity, {reply.failed, reply.first, reply.message}};
    now.over = true;
    return &ended;
}

#endif
