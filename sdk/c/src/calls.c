/* Calls of other functions, inside the same transaction. */
#include <string.h>

#include "arena.h"
#include "host.h"
#include "json.h"

static name text(const char *of) {
    return (name){of, strlen(of)};
}

static bool valid(const char *of) {
    for (const unsigned char *at = (const unsigned char *)of; *at;) {
        size_t length = json_character(at);
        if (!length) return styx_abort("a key is no UTF-8"), false;
        at += length;
    }
    return true;
}

static bool written(const char *operator_name, const char *function, const styx_type *type, const void *value, writer *to) {
    if (styx_failed()) return false;
    json_write(to, type, value);
    if (!to->problem) return true;
    styx_abort("arguments of %s.%s: %s", operator_name, function, to->problem);
    return false;
}

static bool call(const char *operator_name, const char *key, const char *function, name arguments, slice *result) {
    if (styx_failed() || !valid(key)) return false;
    host_reply reply = {0};
    host_call(text(operator_name), text(key), text(function), arguments, &reply);
    if (reply.failed) {
        styx_fail(reply.first.data, reply.message.data);
        return false;
    }
    *result = reply.first;
    return true;
}

bool styx_call_values(const char *operator_name, const char *key, const char *function, const styx_type *arguments_type,
                      const void *arguments, const styx_type *result_type, void *result) {
    writer to = {0};
    slice reply;
    if (result) memset(result, 0, result_type->size);
    if (!written(operator_name, function, arguments_type, arguments, &to)) return false;
    if (!call(operator_name, key, function, (name){to.data, to.length}, &reply)) return false;
    reader from = json_reader(reply.data, reply.length);
    if (!result || (json_read(&from, result_type, result) && json_end(&from))) return true;
    styx_fail("GUEST_EXCEPTION", styx_format("result of %s.%s: %s", operator_name, function, json_problem(&from)));
    memset(result, 0, result_type->size);
    return false;
}

void styx_call_values_async(const char *operator_name, const char *key, const char *function,
                            const styx_type *arguments_type, const void *arguments) {
    writer to = {0};
    if (!written(operator_name, function, arguments_type, arguments, &to) || !valid(key)) return;
    host_call_async(text(operator_name), text(key), text(function), (name){to.data, to.length});
}

bool styx_call(const char *operator_name, const char *key, const char *function, styx_json arguments, styx_json *result) {
    slice reply;
    *result = "null";
    if (!call(operator_name, key, function, text(arguments), &reply)) return false;
    *result = reply.data;
    return true;
}

void styx_call_async(const char *operator_name, const char *key, const char *function, styx_json arguments) {
    if (styx_failed() || !valid(key)) return;
    host_call_async(text(operator_name), text(key), text(function), text(arguments));
}
