/* One function at a time: from its name and its arguments to its result, or its failure. */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "arena.h"
#include "host.h"
#include "json.h"

/* Defined by any STYX_FUNCTION: an app that has none is not linked. */
extern char styx_no_function_is_declared;

invocation styx_now;
styx_function_type *styx_functions;
static styx_function_type **last_function = &styx_functions;

void styx_register(styx_function_type *function) {
    const styx_operator_type *operator_type = function->operator_type;
    function->operator_name = operator_type->name ? operator_type->name : operator_type->identifier;
    function->operator_length = strlen(function->operator_name);
    function->name_length = strlen(function->name);
    *last_function = function;
    last_function = &function->next;
}

static const char *formatted(const char *format, va_list arguments) {
    char text[256];
    va_list again;
    va_copy(again, arguments);
    int length = vsnprintf(text, sizeof text, format, arguments);
    if (length < 0) length = 0, text[0] = 0;
    char *copy;
    if ((size_t)length < sizeof text) {
        copy = arena_text(text, (size_t)length);
    } else {
        copy = arena_take((size_t)length + 1);
        vsnprintf(copy, (size_t)length + 1, format, again);
    }
    va_end(again);
    return copy;
}

const char *styx_format(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    const char *text = formatted(format, arguments);
    va_end(arguments);
    return text;
}

void *styx_alloc(size_t size) {
    return memset(arena_take(size), 0, size);
}

void styx_fail(const char *code, const char *message) {
    if (styx_now.code) return;
    styx_now.code = code;
    styx_now.message = message;
}

bool styx_failed(void) {
    return styx_now.code != NULL;
}

const char *styx_valid_text(char *text) {
    for (char *at = text; *at;) {
        size_t length = json_character((const unsigned char *)at);
        if (!length) *at = '?', length = 1;
        at += length;
    }
    return text;
}

void styx_abort(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    styx_fail("ABORTED", styx_valid_text((char *)formatted(format, arguments)));
    va_end(arguments);
}

static bool is_app_code(const char *code) {
    size_t length = strspn(code, "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_");
    return *code >= 'A' && *code <= 'Z' && length <= 64 && !code[length];
}

void styx_abort_as(const char *app_code, const char *format, ...) {
    if (!is_app_code(app_code)) {
        const char *rule = "begin with a capital letter, then use capital letters, digits and _, at most 64";
        char *message = (char *)styx_format("the code \"%s\" is not allowed: %s", app_code, rule);
        styx_fail("GUEST_EXCEPTION", styx_valid_text(message));
        return;
    }
    va_list arguments;
    va_start(arguments, format);
    const char *message = styx_valid_text((char *)formatted(format, arguments));
    va_end(arguments);
    styx_fail(styx_format("ABORTED:%s", app_code), message);
}

void styx_bad_arguments(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    styx_fail("BAD_ARGUMENTS", styx_valid_text((char *)formatted(format, arguments)));
    va_end(arguments);
}

static bool known_operator(const char *operator_name, size_t length) {
    for (const styx_function_type *each = styx_functions; each; each = each->next) {
        if (each->operator_length == length && memcmp(each->operator_name, operator_name, length) == 0) return true;
    }
    return false;
}

static const styx_function_type *find(name function) {
    const char *point = memchr(function.data, '.', function.length);
    size_t operator_length = point ? (size_t)(point - function.data) : 0;
    const char *called = point ? point + 1 : function.data;
    size_t length = function.length - (size_t)(called - function.data);
    for (const styx_function_type *each = styx_functions; each; each = each->next) {
        if (each->name_length == length && each->operator_length == operator_length &&
            memcmp(each->name, called, length) == 0 && memcmp(each->operator_name, function.data, operator_length) == 0) {
            return each;
        }
    }
    const char *operator_name = arena_text(function.data, operator_length);
    if (known_operator(operator_name, operator_length)) {
        styx_fail("UNKNOWN_FUNCTION",
                  styx_format("operator %s has no function %s", operator_name, arena_text(called, length)));
    } else {
        styx_fail("UNKNOWN_OPERATOR", styx_format("this component has no operator \"%s\"", operator_name));
    }
    return NULL;
}

static void run(name function, slice key, slice arguments, writer *result) {
    styx_now.function = find(function);
    if (!styx_now.function) return;
    if (memchr(key.data, 0, key.length)) {
        styx_fail("BAD_ARGUMENTS", "the key has U+0000 inside, which cannot be in a string in C");
        return;
    }
    const styx_function_type *found = styx_now.function;
    void *values = styx_alloc(found->arguments->size);
    reader from = json_reader(arguments.data, arguments.length);
    if (!json_read_arguments(&from, found->arguments, values)) {
        styx_fail("BAD_ARGUMENTS", json_problem(&from));
        return;
    }
    void *value = styx_alloc(found->result->size);
    found->run(values, value);
    if (styx_now.code) return;
    json_write(result, found->result, value);
    if (result->problem) styx_fail("GUEST_EXCEPTION", styx_format("result: %s", result->problem));
}

void styx_invoke(name function, slice key, slice arguments, host_reply *reply) {
    styx_now = (invocation){.key = key.data};
    writer result = {0};
    /* Read, so that an app without functions is not linked. */
    *(volatile char *)&styx_no_function_is_declared;
    run(function, key, arguments, &result);
    reply->failed = styx_now.code != NULL;
    if (reply->failed) {
        reply->first = (slice){(char *)styx_now.code, strlen(styx_now.code)};
        reply->message = (slice){(char *)styx_now.message, strlen(styx_now.message)};
    } else {
        reply->first = (slice){result.data, result.length};
    }
}
