/*
 * QuickJS as a guest: what the SDK in TypeScript asks of its host, and what the host asks of it, with JSON read and
 * written on this side. The contract itself is spoken by component.c of the SDK for C.
 *
 * It is compiled once, without any JavaScript. A build of a project runs `load` with the project's code; what the
 * memory holds then is what a component starts from.
 */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "quickjs.h"

#include "arena.h"
#include "engine.h"
#include "host.h"

/* Of the stack in memory: deep calls reach this before that of WebAssembly's own values, a mebibyte, is used up. */
#define STACK_BYTES_MAX (320 << 10)

static JSContext *context;
/* The functions of the SDK that are called from here. */
static JSValue invoke, to_text, from_text;
/* What the invocation that runs returns. */
static slice answer;

JSValue engine_string(slice text) {
    return JS_NewStringLen(context, text.data, text.length);
}

bool engine_text(JSValueConst value, slice *text) {
    size_t length;
    const char *data = JS_ToCStringLen(context, &length, value);
    if (!data) return false;
    *text = (slice){arena_text(data, length), length};
    JS_FreeCString(context, data);
    return true;
}

/* A string that the host takes as a key or a name. */
static bool named(JSValueConst value, name *found) {
    slice text;
    if (!JS_IsString(value)) {
        JS_ThrowTypeError(context, "a key must be a string: use String(…)");
        return false;
    }
    if (!engine_text(value, &text)) return false;
    if (!json_is_utf8(text)) {
        JS_ThrowTypeError(context, "a key with half of a surrogate pair is no text");
        return false;
    }
    *found = (name){text.data, text.length};
    return true;
}

/* The value of a JSON text that has a 0 behind it. */
static JSValue value_of(slice text) {
    int64_t number;
    if (json_is_small(text, &number)) return JS_NewInt64(context, number);
    if (!json_is_utf8(text)) return JS_ThrowSyntaxError(context, "the bytes are no UTF-8");
    if (!json_is_delicate(text)) return JS_ParseJSON(context, text.data, text.length, "<json>");
    JSValue string = engine_string(text);
    if (JS_IsException(string)) return string;
    JSValue value = JS_Call(context, from_text, JS_UNDEFINED, 1, (JSValueConst *)&string);
    JS_FreeValue(context, string);
    return value;
}

/* The JSON of a whole number. */
static slice digits(int64_t number) {
    char all[24];
    size_t at = sizeof all;
    uint64_t rest = number < 0 ? -(uint64_t)number : (uint64_t)number;
    do all[--at] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) all[--at] = '-';
    return (slice){arena_text(all + at, sizeof all - at), sizeof all - at};
}

/* The SDK's own way, which knows what JSON.stringify changes without a word. */
static bool slow_text(JSValueConst value, slice *text) {
    JSValue string = JS_Call(context, to_text, JS_UNDEFINED, 1, &value);
    bool done = !JS_IsException(string) && engine_text(string, text);
    JS_FreeValue(context, string);
    return done;
}

/* A value as JSON; false if it has none, with the exception that says so. */
static bool text_of(JSValueConst value, slice *text) {
    if (JS_IsNull(value)) return *text = (slice){"null", 4}, true;
    if (JS_IsNumber(value)) {
        double number;
        JS_ToFloat64(context, &number, value);
        if (fabs(number) > 9007199254740991.0 || number != trunc(number)) {
            if (!isfinite(number)) return slow_text(value, text);
        } else {
            if (number == 0 && signbit(number)) return *text = (slice){"-0", 2}, true;
            return *text = digits((int64_t)number), true;
        }
    }
    quickjs_met_negative_zero = false;
    JSValue string = JS_JSONStringify(context, value, JS_UNDEFINED, JS_UNDEFINED);
    if (JS_IsException(string)) {
        JS_FreeValue(context, JS_GetException(context));
        return slow_text(value, text);
    }
    bool done = JS_IsString(string) && engine_text(string, text);
    JS_FreeValue(context, string);
    if (JS_IsUndefined(string) || quickjs_met_negative_zero || (done && json_is_suspicious(*text))) {
        return slow_text(value, text);
    }
    return done;
}

#define NATIVE(function) \
    static JSValue function(JSContext *unused, JSValueConst self, int count, JSValueConst *arguments)
#define UNUSED (void)unused, (void)self, (void)count, (void)arguments

static JSValue read(const name *key) {
    slice value;
    return host_get(key, &value) ? value_of(value) : JS_UNDEFINED;
}

NATIVE(get_own) {
    UNUSED;
    return read(NULL);
}

NATIVE(put_own) {
    UNUSED;
    slice text;
    if (!text_of(arguments[0], &text)) return JS_EXCEPTION;
    host_put(NULL, text.data, text.length);
    return JS_UNDEFINED;
}

NATIVE(delete_own) {
    UNUSED;
    host_delete(NULL);
    return JS_UNDEFINED;
}

NATIVE(get) {
    UNUSED;
    name key;
    return named(arguments[0], &key) ? read(&key) : JS_EXCEPTION;
}

NATIVE(put) {
    UNUSED;
    name key;
    slice text;
    if (!named(arguments[0], &key) || !text_of(arguments[1], &text)) return JS_EXCEPTION;
    host_put(&key, text.data, text.length);
    return JS_UNDEFINED;
}

NATIVE(delete) {
    UNUSED;
    name key;
    if (!named(arguments[0], &key)) return JS_EXCEPTION;
    host_delete(&key);
    return JS_UNDEFINED;
}

/* A kind of bound, and its key. */
static bool bound(JSValueConst kind, JSValueConst key, host_bound *found) {
    int32_t number;
    if (JS_ToInt32(context, &number, kind) < 0) return false;
    *found = (host_bound){(enum bound)number, {"", 0}};
    return number == UNBOUNDED || named(key, &found->key);
}

/* Of a prefix, two bounds (a kind and a key each), a limit and a direction: pairs of keys and values. */
NATIVE(scan) {
    UNUSED;
    name prefix;
    host_bound lower, upper;
    uint32_t limit;
    if (!named(arguments[0], &prefix) || !bound(arguments[1], arguments[2], &lower) ||
        !bound(arguments[3], arguments[4], &upper) || JS_ToUint32(context, &limit, arguments[5]) < 0) {
        return JS_EXCEPTION;
    }
    size_t found;
    host_entry *entries = host_scan(prefix, lower, upper, limit, JS_ToBool(context, arguments[6]) == 1, &found);
    JSValue all = JS_NewArray(context);
    for (size_t i = 0; i < found && !JS_IsException(all); i++) {
        JSValue entry = JS_NewArray(context), key = engine_string(entries[i].key), value = value_of(entries[i].value);
        bool whole = !JS_IsException(entry) && !JS_IsException(key) && !JS_IsException(value);
        /* Each takes what it is given, even if it fails. */
        whole = JS_SetPropertyUint32(context, entry, 0, key) >= 0 && whole;
        whole = JS_SetPropertyUint32(context, entry, 1, value) >= 0 && whole;
        whole = JS_SetPropertyUint32(context, all, (uint32_t)i, entry) >= 0 && whole;
        if (!whole) {
            JS_FreeValue(context, all);
            all = JS_EXCEPTION;
        }
    }
    return all;
}

typedef struct called {
    name operator_name, key, function, arguments;
} called;

/* The operator, the key, the function and the arguments of a call. */
static bool target(JSValueConst *arguments, called *found) {
    slice text;
    if (!named(arguments[0], &found->operator_name) || !named(arguments[1], &found->key) ||
        !named(arguments[2], &found->function) || !text_of(arguments[3], &text)) {
        return false;
    }
    found->arguments = (name){text.data, text.length};
    return true;
}

/* Throws an object with the code and the message if the call fails. */
NATIVE(call) {
    UNUSED;
    called to;
    host_reply reply;
    if (!target(arguments, &to)) return JS_EXCEPTION;
    host_call(to.operator_name, to.key, to.function, to.arguments, &reply);
    if (!reply.failed) return value_of(reply.first);
    JSValue failure = JS_NewObject(context);
    if (JS_IsException(failure) || JS_SetPropertyStr(context, failure, "code", engine_string(reply.first)) < 0 ||
        JS_SetPropertyStr(context, failure, "message", engine_string(reply.message)) < 0) {
        JS_FreeValue(context, failure);
        return JS_EXCEPTION;
    }
    return JS_Throw(context, failure);
}

NATIVE(call_async) {
    UNUSED;
    called to;
    if (!target(arguments, &to)) return JS_EXCEPTION;
    host_call_async(to.operator_name, to.key, to.function, to.arguments);
    return JS_UNDEFINED;
}

NATIVE(app) {
    UNUSED;
    return engine_string(host_app());
}

NATIVE(request_id) {
    UNUSED;
    return engine_string(host_request_id());
}

NATIVE(tid) {
    UNUSED;
    return JS_NewInt64(context, (int64_t)host_tid());
}

NATIVE(time_us) {
    UNUSED;
    return JS_NewInt64(context, (int64_t)host_time());
}

NATIVE(random_bits) {
    UNUSED;
    return JS_NewFloat64(context, (double)host_random());
}

/* A level, as the contract counts them, and a line. */
NATIVE(log_line) {
    UNUSED;
    int32_t level;
    name line;
    if (JS_ToInt32(context, &level, arguments[0]) < 0 || !named(arguments[1], &line)) return JS_EXCEPTION;
    host_log((styx_level)level, line.data, line.length);
    return JS_UNDEFINED;
}

/* What the invocation returns. */
NATIVE(returned) {
    UNUSED;
    return text_of(arguments[0], &answer) ? JS_UNDEFINED : JS_EXCEPTION;
}

/* The SDK's own JSON, both ways, for what is not done here. */
NATIVE(use) {
    UNUSED;
    to_text = JS_DupValue(context, arguments[0]);
    from_text = JS_DupValue(context, arguments[1]);
    return JS_UNDEFINED;
}

/* The description of a component, and what runs an invocation. */
NATIVE(start) {
    UNUSED;
    if (!engine_described(context, arguments[0])) return JS_EXCEPTION;
    invoke = JS_DupValue(context, arguments[1]);
    return JS_UNDEFINED;
}

static const JSCFunctionListEntry NATIVES[] = {
    JS_CFUNC_DEF("getOwn", 0, get_own),
    JS_CFUNC_DEF("putOwn", 1, put_own),
    JS_CFUNC_DEF("deleteOwn", 0, delete_own),
    JS_CFUNC_DEF("get", 1, get),
    JS_CFUNC_DEF("put", 2, put),
    JS_CFUNC_DEF("delete", 1, delete),
    JS_CFUNC_DEF("scan", 7, scan),
    JS_CFUNC_DEF("call", 4, call),
    JS_CFUNC_DEF("callAsync", 4, call_async),
    JS_CFUNC_DEF("app", 0, app),
    JS_CFUNC_DEF("requestId", 0, request_id),
    JS_CFUNC_DEF("tid", 0, tid),
    JS_CFUNC_DEF("time", 0, time_us),
    JS_CFUNC_DEF("random", 0, random_bits),
    JS_CFUNC_DEF("log", 2, log_line),
    JS_CFUNC_DEF("returned", 1, returned),
    JS_CFUNC_DEF("use", 2, use),
    JS_CFUNC_DEF("start", 2, start),
};

/* A member of what was thrown, if that is text. */
static bool member(JSValueConst thrown, const char *of, slice *text) {
    JSValue value = JS_GetPropertyStr(context, thrown, of);
    bool found = JS_IsString(value) && engine_text(value, text) && json_is_utf8(*text);
    JS_FreeValue(context, value);
    if (!found) JS_FreeValue(context, JS_GetException(context));
    return found;
}

/* What the SDK throws is a failure already; if it could not, memory was too short for one. */
static void fail(host_reply *reply) {
    static char code[] = "LIMIT_EXCEEDED", message[] = "the function ran out of memory";
    JSValue thrown = JS_GetException(context);
    reply->failed = true;
    if (!JS_IsObject(thrown) || !member(thrown, "code", &reply->first) || !member(thrown, "message", &reply->message)) {
        reply->first = (slice){code, sizeof code - 1};
        reply->message = (slice){message, sizeof message - 1};
    }
    JS_FreeValue(context, thrown);
}

void styx_invoke(name function, slice key, slice arguments, host_reply *reply) {
    JSValue given[4] = {JS_NewStringLen(context, function.data, function.length), engine_string(key), JS_UNDEFINED,
                        JS_UNDEFINED};
    answer = (slice){"null", 4};
    if (arguments.length == 2 && memcmp(arguments.data, "[]", 2) == 0) given[2] = JS_NewArray(context);
    else given[2] = value_of(arguments);
    if (JS_IsException(given[2])) {
        given[2] = JS_UNDEFINED;
        given[3] = JS_GetException(context);
    }
    JSValue result = JS_Call(context, invoke, JS_UNDEFINED, 4, (JSValueConst *)given);
    for (size_t i = 0; i < 4; i++) JS_FreeValue(context, given[i]);
    if (JS_IsException(result)) {
        fail(reply);
        return;
    }
    JS_FreeValue(context, result);
    *reply = (host_reply){.first = answer};
}

/* What was thrown while modules were loaded: its text and its stack. */
static char *thrown_text(void) {
    JSValue thrown = JS_GetException(context);
    slice text = {"", 0}, stack = {"", 0};
    engine_text(thrown, &text);
    member(thrown, "stack", &stack);
    char *all = malloc(text.length + stack.length + 2);
    if (!all) abort();
    memcpy(all, text.data, text.length);
    all[text.length] = '\n';
    memcpy(all + text.length + 1, stack.data, stack.length);
    all[text.length + 1 + stack.length] = 0;
    JS_FreeValue(context, thrown);
    return all;
}

#define EXPORT(function) __attribute__((export_name(function)))

/* Memory for the code. */
EXPORT("engine-take") char *engine_take(size_t length) {
    char *taken = malloc(length + 1);
    if (!taken) abort();
    taken[length] = 0;
    return taken;
}

/* Runs a module that calls `styxHost.start`. Returns what was thrown, with a 0 behind it, or null. */
EXPORT("engine-load") char *engine_load(const char *code, size_t length) {
    JSRuntime *runtime = JS_NewRuntime();
    if (runtime) JS_SetMaxStackSize(runtime, STACK_BYTES_MAX);
    context = runtime ? JS_NewContext(runtime) : NULL;
    if (!context) abort();
    to_text = from_text = invoke = JS_UNDEFINED;
    JSValue natives = JS_NewObject(context), globals = JS_GetGlobalObject(context);
    JS_SetPropertyFunctionList(context, natives, NATIVES, sizeof NATIVES / sizeof *NATIVES);
    JS_SetPropertyStr(context, globals, "styxHost", natives);
    JS_FreeValue(context, globals);

    JSValue loaded = JS_Eval(context, code, length, "user.js", JS_EVAL_TYPE_MODULE);
    if (JS_IsException(loaded)) return thrown_text();
    JSContext *of;
    while (JS_ExecutePendingJob(runtime, &of) > 0) {}
    if (JS_PromiseState(context, loaded) == JS_PROMISE_REJECTED) {
        JS_Throw(context, JS_PromiseResult(context, loaded));
        return thrown_text();
    }
    JS_FreeValue(context, loaded);
    /* What was needed once is not in the component. */
    JS_RunGC(runtime);
    arena_reset();
    return NULL;
}
