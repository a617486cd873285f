#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../src/arena.h"
#include "../src/host.h"
#include "styx_test.h"

/* An entity, or what a transaction has made of one. */
typedef struct entity {
    char *operator_name;
    char *key;
    size_t key_length;
    /* Null: deleted. */
    char *value;
    size_t length;
    struct entity *next;
} entity;

/* A call that runs after its caller has returned. */
typedef struct later {
    name operator_name, key, function, arguments;
    struct later *next;
} later;

/* A function of another app, and what it comes to. */
typedef struct played {
    char *function;
    char *reply;
    struct played *next;
} played;

/* An invocation in progress. */
typedef struct frame {
    const char *operator_name;
    name key;
    bool read_only;
    uint64_t generator;
    later *later;
    later **last;
    struct frame *caller;
} frame;

static entity *committed, *written;
static frame *innermost;
static uint64_t now = 1767225600000000, tid, invocations;
static played *others;
static char *lines, *reply_text, *last_played;
static bool doomed;
static host_reply doom;
static unsigned expectations, differences;

static void *checked(void *memory) {
    if (!memory) abort();
    return memory;
}

static char *copy(const void *data, size_t length) {
    char *bytes = checked(malloc(length + 1));
    if (length) memcpy(bytes, data, length);
    bytes[length] = 0;
    return bytes;
}

static int compared(const char *left, size_t left_length, const char *right, size_t right_length) {
    size_t shorter = left_length < right_length ? left_length : right_length;
    int order = shorter ? memcmp(left, right, shorter) : 0;
    return order ? order : left_length < right_length ? -1 : left_length > right_length;
}

/* Entities are kept in the order of operator and key: the place of one, or where it belongs. */
static entity **place(entity **list, const char *operator_name, name key, bool *found) {
    *found = false;
    for (; *list; list = &(*list)->next) {
        int order = strcmp((*list)->operator_name, operator_name);
        if (!order) order = compared((*list)->key, (*list)->key_length, key.data, key.length);
        *found = order == 0;
        if (order >= 0) break;
    }
    return list;
}

static void set(entity **list, const char *operator_name, name key, const void *value, size_t length) {
    bool found;
    entity **at = place(list, operator_name, key, &found);
    if (!found) {
        entity *added = checked(calloc(1, sizeof(entity)));
        *added = (entity){copy(operator_name, strlen(operator_name)), copy(key.data, key.length), key.length, NULL, 0, *at};
        *at = added;
    }
    free((*at)->value);
    (*at)->value = value ? copy(value, length) : NULL;
    (*at)->length = length;
}

static void discard(entity **at) {
    entity *gone = *at;
    *at = gone->next;
    free(gone->operator_name);
    free(gone->key);
    free(gone->value);
    free(gone);
}

static const entity *visible(const char *operator_name, name key) {
    bool found;
    entity **at = place(&written, operator_name, key, &found);
    if (!found) at = place(&committed, operator_name, key, &found);
    return found && (*at)->value ? *at : NULL;
}

static name own(const name *key) {
    return key ? *key : innermost->key;
}

static void set_doom(const char *code, const char *message) {
    if (doomed) return;
    doomed = true;
    doom = (host_reply){true, {(char *)code, strlen(code)}, {(char *)message, strlen(message)}};
}

bool host_get(const name *key, slice *value) {
    const entity *found = visible(innermost->operator_name, own(key));
    *value = found ? (slice){arena_text(found->value, found->length), found->length} : (slice){NULL, 0};
    return found != NULL;
}

static void write(name key, const void *data, size_t length) {
    if (innermost->read_only) {
        const char *of = innermost->operator_name;
        set_doom("GUEST_TRAP", styx_format("%s.%.*s is written by a read-only function", of, (int)key.length, key.data));
    }
    set(&written, innermost->operator_name, key, data, length);
}

void host_put(const name *key, const void *data, size_t length) {
    write(own(key), data ? data : "", length);
}

void host_delete(const name *key) {
    write(own(key), NULL, 0);
}

static bool within(name prefix, host_bound lower, host_bound upper, const entity *of) {
    if (of->key_length < prefix.length || memcmp(of->key, prefix.data, prefix.length) != 0) return false;
    int above = lower.kind == UNBOUNDED ? 1 : compared(of->key, of->key_length, lower.key.data, lower.key.length);
    int below = upper.kind == UNBOUNDED ? -1 : compared(of->key, of->key_length, upper.key.data, upper.key.length);
    return (above > 0 || (above == 0 && lower.kind == INCLUDED)) && (below < 0 || (below == 0 && upper.kind == INCLUDED));
}

host_entry *host_scan(name prefix, host_bound lower, host_bound upper, uint32_t limit, bool reverse, size_t *count) {
    size_t most = 0, found = 0;
    for (entity *each = committed; each; each = each->next) most++;
    for (entity *each = written; each; each = each->next) most++;
    const entity **all = styx_alloc((most + 1) * sizeof *all);
    const char *operator_name = innermost->operator_name;
    /* Both lists are in order: merged, with what was written in place of what was there. */
    const entity *left = committed, *right = written;
    while (left || right) {
        int order = !left ? 1 : !right ? -1 : strcmp(left->operator_name, right->operator_name);
        if (left && right && !order) order = compared(left->key, left->key_length, right->key, right->key_length);
        const entity *next = order < 0 ? left : right;
        if (order <= 0) left = left->next;
        if (order >= 0) right = right->next;
        if (next->value && strcmp(next->operator_name, operator_name) == 0 && within(prefix, lower, upper, next)) all[found++] = next;
    }
    *count = limit && limit < found ? limit : found;
    host_entry *entries = styx_alloc(*count * sizeof *entries);
    for (size_t i = 0; i < *count; i++) {
        const entity *of = all[reverse ? found - 1 - i : i];
        entries[i].key = (slice){arena_text(of->key, of->key_length), of->key_length};
        entries[i].value = (slice){arena_text(of->value, of->length), of->length};
    }
    return entries;
}

static name kept(name of) {
    return (name){arena_text(of.data, of.length), of.length};
}

static const styx_function_type *described(name operator_name, name function) {
    for (const styx_function_type *each = styx_functions; each; each = each->next) {
        if (!compared(each->operator_name, each->operator_length, operator_name.data, operator_name.length) &&
            !compared(each->name, each->name_length, function.data, function.length)) {
            return each;
        }
    }
    return NULL;
}

/* An operator of the app under test may be called with the app before its name. */
static name unqualified(name operator_name) {
    static const char app[] = "test/";
    size_t length = sizeof app - 1;
    if (operator_name.length < length || memcmp(operator_name.data, app, length) != 0) return operator_name;
    return (name){operator_name.data + length, operator_name.length - length};
}

/* Answers a call of another app's function. */
static void play(name operator_name, name key, name function, name arguments, host_reply *reply) {
    const char *of = kept(operator_name).data, *called = kept(function).data;
    const char *whole = styx_format("%s.%s", of, called);
    free(last_played);
    const char *told = styx_format("%s/%s.%s%s", of, kept(key).data, called, kept(arguments).data);
    last_played = copy(told, strlen(told));
    const played *found = others;
    while (found && strcmp(found->function, whole) != 0) found = found->next;
    if (!found) {
        const char *line = styx_format("%s is not played: styx_test_play does", whole);
        const char *logged = styx_format("GUEST_EXCEPTION: %s", line);
        host_log(STYX_WARN, logged, strlen(logged));
        set_doom("GUEST_EXCEPTION", line);
        *reply = doom;
        return;
    }
    /* A code begins with a capital letter, and no JSON does. */
    const char *colon = *found->reply >= 'A' && *found->reply <= 'Z' ? strstr(found->reply, ": ") : NULL;
    if (colon) {
        set_doom(arena_text(found->reply, (size_t)(colon - found->reply)), arena_text(colon + 2, strlen(colon + 2)));
        *reply = doom;
        return;
    }
    *reply = (host_reply){false, {arena_text(found->reply, strlen(found->reply)), strlen(found->reply)}, {NULL, 0}};
}

/* Runs a function of the running transaction, then what it called asynchronously. */
static void run(bool read_only, name called_operator, name key, name function, name arguments, host_reply *reply) {
    name operator_name = unqualified(called_operator);
    if (memchr(operator_name.data, '/', operator_name.length)) {
        play(operator_name, key, function, arguments, reply);
        return;
    }
    const styx_function_type *found = described(operator_name, function);
    later *first = NULL;
    frame current = {.operator_name = kept(operator_name).data,
                     .key = kept(key),
                     .read_only = read_only || (found && found->read_only),
                     .generator = tid * 0x9e3779b97f4a7c15 ^ ++invocations << 32,
                     .last = &first,
                     .caller = innermost};
    invocation caller = styx_now;
    innermost = &current;
    const char *called = styx_format("%.*s.%.*s", (int)operator_name.length, operator_name.data, (int)function.length, function.data);
    name copied = kept(arguments);
    styx_invoke((name){called, strlen(called)}, (slice){(char *)current.key.data, current.key.length},
                (slice){(char *)copied.data, copied.length}, reply);
    /* What a host hands out has a 0 behind it. */
    reply->first.data = arena_text(reply->first.data, reply->first.length);
    innermost = current.caller;
    styx_now = caller;
    if (reply->failed && !doomed) {
        const char *code = reply->first.data, *message = reply->message.data;
        bool mistaken = innermost && (!strcmp(code, "BAD_ARGUMENTS") || !strcmp(code, "UNKNOWN_FUNCTION") || !strcmp(code, "UNKNOWN_OPERATOR"));
        if (mistaken) {
            /* What a function passes to another is the app's fault, never the client's. */
            code = "GUEST_EXCEPTION";
            message = styx_format("%s was called wrongly: %s", called, message);
        } else if (!strcmp(code, "GUEST_EXCEPTION")) {
            message = styx_format("%s on \"%s\": %s", called, current.key.data, message);
        }
        if (!strcmp(code, "GUEST_EXCEPTION")) {
            const char *line = styx_format("%s: %s", code, message);
            host_log(STYX_WARN, line, strlen(line));
        }
        set_doom(code, message);
    }
    for (later *next = first; next && !doomed; next = next->next) {
        host_reply dropped = {0};
        run(current.read_only, next->operator_name, next->key, next->function, next->arguments, &dropped);
    }
    if (doomed) *reply = doom;
}

void host_call(name operator_name, name key, name function, name arguments, host_reply *reply) {
    run(innermost->read_only, operator_name, key, function, arguments, reply);
}

void host_call_async(name operator_name, name key, name function, name arguments) {
    later *added = styx_alloc(sizeof(later));
    *added = (later){kept(operator_name), kept(key), kept(function), kept(arguments), NULL};
    *innermost->last = added;
    innermost->last = &added->next;
}

slice host_app(void) {
    return (slice){"test", 4};
}

slice host_request_id(void) {
    const char *id = styx_format("test-%llu", (unsigned long long)tid);
    return (slice){(char *)id, strlen(id)};
}

uint64_t host_tid(void) {
    return tid;
}

uint64_t host_time(void) {
    return now;
}

/* SplitMix64, seeded per invocation. */
uint64_t host_random(void) {
    uint64_t mixed = innermost->generator += 0x9e3779b97f4a7c15;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111eb;
    return mixed ^ mixed >> 31;
}

void host_log(styx_level level, const char *text, size_t length) {
    static const char *const levels[] = {"debug", "info", "warn", "error"};
    size_t before = lines ? strlen(lines) : 0;
    lines = checked(realloc(lines, before + length + 16));
    snprintf(lines + before, length + 16, "%s %.*s\n", levels[level], (int)length, text);
}

const char *styx_test_call(const char *operator_name, const char *key, const char *function, const char *arguments) {
    tid++;
    invocations = 0;
    doomed = false;
    host_reply reply = {0};
    run(false, (name){operator_name, strlen(operator_name)}, (name){key, strlen(key)}, (name){function, strlen(function)},
        (name){arguments, strlen(arguments)}, &reply);
    while (written) {
        name of = {written->key, written->key_length};
        if (!reply.failed && written->value) set(&committed, written->operator_name, of, written->value, written->length);
        if (!reply.failed && !written->value) {
            bool found;
            entity **at = place(&committed, written->operator_name, of, &found);
            if (found) discard(at);
        }
        discard(&written);
    }
    const char *text = reply.failed ? styx_format("%s: %s", reply.first.data, reply.message.data)
                                    : arena_text(reply.first.data, reply.first.length);
    free(reply_text);
    reply_text = copy(text, strlen(text));
    arena_reset();
    return reply_text;
}

void styx_test_play(const char *operator_name, const char *function, const char *reply) {
    size_t length = strlen(operator_name) + strlen(function) + 2;
    played *added = checked(calloc(1, sizeof(played)));
    *added = (played){checked(malloc(length)), copy(reply, strlen(reply)), others};
    snprintf(added->function, length, "%s.%s", operator_name, function);
    others = added;
}

const char *styx_test_played(void) {
    return last_played;
}

const char *styx_test_get(const char *operator_name, const char *key) {
    const entity *found = visible(operator_name, (name){key, strlen(key)});
    return found ? found->value : NULL;
}

void styx_test_put(const char *operator_name, const char *key, const char *value) {
    set(&committed, operator_name, (name){key, strlen(key)}, value, strlen(value));
}

void styx_test_set_time(uint64_t microseconds) {
    now = microseconds;
}

const char *styx_test_log(void) {
    return lines ? lines : "";
}

void styx_test_reset(void) {
    while (committed) discard(&committed);
    while (others) {
        played *gone = others;
        others = gone->next;
        free(gone->function);
        free(gone->reply);
        free(gone);
    }
    free(lines);
    free(last_played);
    lines = last_played = NULL;
}

void styx_test_same_at(const char *file, int line, const char *what, const char *found, const char *expected) {
    expectations++;
    if (found && expected ? strcmp(found, expected) == 0 : found == expected) return;
    differences++;
    fprintf(stderr, "%s:%d: %s\n  is        %s\n  should be %s\n", file, line, what, found ? found : "(absent)",
            expected ? expected : "(absent)");
}

void styx_test_expect_at(const char *file, int line, const char *operator_name, const char *key, const char *function,
                         const char *arguments, const char *expected) {
    char what[256];
    snprintf(what, sizeof what, "%s/%s.%s%s", operator_name, key, function, arguments);
    styx_test_same_at(file, line, what, styx_test_call(operator_name, key, function, arguments), expected);
}

int styx_test_end(void) {
    styx_test_reset();
    free(reply_text);
    reply_text = NULL;
    if (!expectations) fprintf(stderr, "nothing was expected\n");
    if (!differences && expectations) printf("%u expectations hold\n", expectations);
    return differences || !expectations;
}
