/* The export `describe`: what the SDK has told while the component was built, laid out by the canonical ABI. */
#include <stdlib.h>
#include <string.h>

#include "arena.h"
#include "description.h"
#include "engine.h"

static JSContext *context;
static description described;
/* Something was not there, or memory was too short: there is an exception. */
static bool failed;

static JSValue member(JSValueConst of, const char *name) {
    JSValue value = JS_GetPropertyStr(context, of, name);
    failed |= JS_IsException(value);
    return value;
}

/* A copy that stays. */
static slice text(JSValueConst of, const char *name) {
    slice found = {"", 0};
    JSValue value = member(of, name);
    failed = failed || !engine_text(value, &found);
    JS_FreeValue(context, value);
    char *kept = malloc(found.length + 1);
    if (!kept) abort();
    memcpy(kept, found.data, found.length);
    return (slice){kept, found.length};
}

static bool flag(JSValueConst of, const char *name) {
    JSValue value = member(of, name);
    bool is_set = JS_ToBool(context, value) == 1;
    JS_FreeValue(context, value);
    return is_set;
}

/* The items of a list, each filled in by `fill`. */
static void *list(JSValueConst of, const char *name, size_t size, size_t *count, void (*fill)(JSValueConst, void *)) {
    JSValue items = member(of, name);
    int64_t length = 0;
    failed = failed || JS_GetLength(context, items, &length) < 0;
    char *all = calloc((size_t)length + 1, size);
    if (!all) abort();
    for (int64_t i = 0; i < length && !failed; i++) {
        JSValue item = JS_GetPropertyUint32(context, items, (uint32_t)i);
        failed |= JS_IsException(item);
        if (!failed) fill(item, all + (size_t)i * size);
        JS_FreeValue(context, item);
    }
    JS_FreeValue(context, items);
    *count = (size_t)length;
    return all;
}

static void fill_parameter(JSValueConst of, void *to) {
    *(parameter *)to = (parameter){text(of, "name"), text(of, "schema"), flag(of, "required")};
}

static void fill_function(JSValueConst of, void *to) {
    function_description *function = to;
    *function = (function_description){.name = text(of, "name"),
                                       .returns = text(of, "returns"),
                                       .read_only = flag(of, "readOnly"),
                                       .doc = text(of, "doc")};
    function->parameters = list(of, "parameters", sizeof(parameter), &function->count, fill_parameter);
}

static void fill_operator(JSValueConst of, void *to) {
    operator_description *operator = to;
    *operator = (operator_description){.name = text(of, "name"), .doc = text(of, "doc")};
    JSValue prefix = member(of, "keyPrefix");
    operator->has_prefix = JS_IsString(prefix);
    JS_FreeValue(context, prefix);
    if (operator->has_prefix) operator->key_prefix = text(of, "keyPrefix");
    operator->functions = list(of, "functions", sizeof(function_description), &operator->count, fill_function);
}

bool engine_described(JSContext *of, JSValueConst description_object) {
    context = of;
    failed = false;
    described.sdk = text(description_object, "sdk");
    described.operators =
        list(description_object, "operators", sizeof(operator_description), &described.count, fill_operator);
    return !failed;
}

__attribute__((export_name("describe"))) description *export_describe(void) {
    return &described;
}

__attribute__((export_name("cabi_post_describe"))) void export_post_describe(description *ended) {
    (void)ended;
    arena_reset();
}
