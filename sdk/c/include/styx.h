/*
 * Write transactional stateful functions for Styx in C.
 *
 * An operator is a kind of entity, a function runs for one entity at a time, and everything that
 * a request touches, however many functions it calls, is one strictly serializable transaction:
 * abort, and nothing of it has happened.
 *
 *     #include <styx.h>
 *
 *     STYX_RECORD(item, (uint32_t, stock), (int64_t, price))
 *
 *     STYX_OPERATOR(stock, .doc = "Items by id.")
 *
 *     STYX_FUNCTION(stock, take, int64_t, "Takes from the stock.", (uint32_t, quantity)) {
 *         item found;
 *         if (!styx_get(item, &found)) return styx_abort("there is no item %s", styx_key());
 *         if (found.stock < quantity) return styx_abort("not enough of %s", styx_key());
 *         found.stock -= quantity;
 *         styx_put(item, &found);
 *         *result = found.price * quantity;
 *     }
 *
 * Memory: whatever the SDK hands out (text, lists, results of calls, styx_alloc) lives until the
 * function returns and is never freed by hand.
 *
 * Failure: the first one counts. After styx_abort, a failed call or a value that cannot be read,
 * the transaction is doomed: styx_failed() is true, what is written is dropped and the caller gets
 * that failure, whatever the function does next. So there is nothing to pass on but `return`.
 *
 * The same log must always yield the same state: a variable outside of functions that changes from
 * call to call is a bug, since instances are used again, and how often is nobody's promise.
 */
#ifndef STYX_H
#define STYX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
#error "styx.h is C: give guests names that end in .c"
#endif

#define STYX_VERSION "0.1.0"

/* Types. A type is named by one word: those of <stdint.h> up to 64 bits, bool, double, and: */

/* A string, never null, in UTF-8. One with U+0000 inside is refused, since C would cut it. */
typedef const char *styx_text;
/* A string, or null. */
typedef const char *styx_text_or_null;
/* Any JSON, as text. */
typedef const char *styx_json;
/* Bytes as they are. */
typedef struct styx_bytes {
    const void *data;
    size_t length;
} styx_bytes;

/*
 * STYX_RECORD(name, (type, field), ...) defines the struct type `name` and how it reads as JSON: an
 * object. A field may have another name there: (bool, is_default, "default"). Unknown fields are
 * ignored when it is read; those that may be null may be absent. STYX_TUPLE is the same as an array.
 */
#define STYX_RECORD(name, ...) STYX_STRUCT_(STYX_KIND_RECORD, name, __VA_ARGS__)
#define STYX_TUPLE(name, ...) STYX_STRUCT_(STYX_KIND_TUPLE, name, __VA_ARGS__)

/* STYX_LIST(type) defines `type_list`: struct { type *items; size_t count; }, in JSON an array. */
#define STYX_LIST(type)                                                                                      \
    typedef struct type##_list {                                                                             \
        type *items;                                                                                         \
        size_t count;                                                                                        \
    } type##_list;                                                                                           \
    STYX_TYPE_(type##_list) = {.kind = STYX_KIND_LIST,                                                       \
                               .size = sizeof(type##_list),                                                  \
                               .name = #type "_list",                                                        \
                               .element = &styx_type_##type,                                                 \
                               .stride = sizeof(type)};

/*
 * STYX_MAP(type) defines `type_map`: struct { type_entry *items; size_t count; }, whose entries have
 * `key` and `value`; in JSON an object, in the order of the text. styx_scan fills one.
 */
#define STYX_MAP(type)                                                                                       \
    typedef struct type##_entry {                                                                            \
        styx_text key;                                                                                       \
        type value;                                                                                          \
    } type##_entry;                                                                                          \
    typedef struct type##_map {                                                                              \
        type##_entry *items;                                                                                 \
        size_t count;                                                                                        \
    } type##_map;                                                                                            \
    STYX_TYPE_(type##_map) = {.kind = STYX_KIND_MAP,                                                         \
                              .size = sizeof(type##_map),                                                    \
                              .name = #type "_map",                                                          \
                              .element = &styx_type_##type,                                                  \
                              .stride = sizeof(type##_entry),                                                \
                              .offset = offsetof(type##_entry, value)};

/* STYX_OPTIONAL(type) defines `type_or_null`, a pointer, in JSON null or a value. Parameters of such a type may be left out. */
#define STYX_OPTIONAL(type)                                                                                  \
    typedef type *type##_or_null;                                                                            \
    STYX_TYPE_(type##_or_null) = {.kind = STYX_KIND_OPTIONAL,                                                \
                                  .size = sizeof(type *),                                                    \
                                  .name = #type "_or_null",                                                  \
                                  .element = &styx_type_##type,                                              \
                                  .stride = sizeof(type)};

/* STYX_ENUM(name, a, b, ...) defines the enum type `name` with constants `name_a`, ...; in JSON the words "a", ... */
#define STYX_ENUM(name_, ...)                                                                                \
    typedef enum name_ { STYX_EACH_(STYX_CONSTANT_, name_, __VA_ARGS__) } name_;                             \
    static const char *const styx_words_##name_[] = {STYX_EACH_(STYX_WORD_, name_, __VA_ARGS__)};            \
    STYX_TYPE_(name_) = {.kind = STYX_KIND_ENUM,                                                             \
                         .size = sizeof(name_),                                                              \
                         .name = #name_,                                                                     \
                         .words = styx_words_##name_,                                                        \
                         .count = sizeof styx_words_##name_ / sizeof *styx_words_##name_};

/*
 * STYX_OPERATOR(name, .doc = "...", .key_prefix = "...", .name = "...") declares an operator. With a
 * prefix, keys read `prefix:rest` and all keys of one prefix live together, whatever the operator.
 * `.name` is for a name that is no C identifier.
 */
#define STYX_OPERATOR(operator_, ...) styx_operator_type styx_operator_##operator_ = {.identifier = #operator_, __VA_ARGS__};

/*
 * STYX_FUNCTION(operator, name, result, doc, (type, parameter), ...) { body } defines a function. In the
 * body, each parameter is a variable of its name, and `*result` takes the result, unless that is `void`.
 *
 * It also defines, for those who call it:
 *     bool operator_name_call(key, &result, parameters...);      without &result for `void`
 *     void operator_name_async(key, parameters...);
 */
#define STYX_FUNCTION(operator_, name_, result_, doc_, ...) \
    STYX_FUNCTION_(operator_, name_, result_, doc_, false, __VA_ARGS__)

/* The same, declared to write nothing and to call nothing that does; the host enforces it. */
#define STYX_READ_ONLY(operator_, name_, result_, doc_, ...) \
    STYX_FUNCTION_(operator_, name_, result_, doc_, true, __VA_ARGS__)

/*
 * STYX_CALLABLE(operator, name, result, (type, parameter), ...) declares a function that is defined elsewhere,
 * in another file or another component, in whatever language, and defines how it is called, as above.
 */
#define STYX_CALLABLE(operator_, name_, result_, ...)                                                        \
    STYX_PARAMETERS_(operator_, name_, __VA_ARGS__)                                                          \
    STYX_CALLS_(operator_, name_, result_, #operator_, __VA_ARGS__)

/* State of the own operator. What is typed is JSON, so that functions in other languages can read it. */

/* The own entity, into *value: false if it is absent, or cannot be read as such a type, which aborts. */
#define styx_get(type, value) styx_get_value(NULL, &styx_type_##type, (type *){value})
/* Writes the own entity from *value. */
#define styx_put(type, value) styx_put_value(NULL, &styx_type_##type, (const type *){value})
/* Removes the own entity. Removing an absent one is no error. */
void styx_delete(void);

/* The same on another key of the operator. */
#define styx_get_at(type, key, value) styx_get_value((key), &styx_type_##type, (type *){value})
#define styx_put_at(type, key, value) styx_put_value((key), &styx_type_##type, (const type *){value})
void styx_delete_at(const char *key);

/* The same as bytes: a null key means the own entity. The bytes may be changed in place by nobody. */
bool styx_get_raw(const char *key, styx_bytes *value);
void styx_put_raw(const char *key, const void *data, size_t length);

/* A range of entities, in key order. */
typedef struct styx_range {
    /* Only keys that start so. */
    const char *prefix;
    /* Only keys that come after this one in the direction of the scan: the last key of a page starts the next. */
    const char *after;
    /* Only keys before this one in the direction of the scan. */
    const char *before;
    /* At most so many; 0 means as many as the limits of the app allow. */
    uint32_t limit;
    /* From the last key to the first. */
    bool reverse;
} styx_range;

/*
 * Reads a range into *map, of a type that STYX_MAP made; false if an entity cannot be read, which aborts:
 *     shelf_map page;
 *     if (!styx_scan(shelf, &page, .prefix = "w7:", .limit = 20)) return;
 * The range is part of what the transaction has read: no other can slip an entity into it.
 */
#define styx_scan(type, map, ...) \
    styx_scan_values(&styx_type_##type##_map, (type##_map *){map}, &(styx_range){__VA_ARGS__})

typedef struct styx_raw_entry {
    styx_text key;
    styx_bytes value;
} styx_raw_entry;

/* The same as bytes. */
bool styx_scan_raw(const styx_range *range, styx_raw_entry **entries, size_t *count);

/* Calls by name, with arguments and result as JSON text; an operator of another app is named `app/operator`. False if it
 * failed, which dooms the transaction. */
bool styx_call(const char *operator_name, const char *key, const char *function, styx_json arguments, styx_json *result);
/* Has the function run after the present one has returned, in the order issued and depth first. */
void styx_call_async(const char *operator_name, const char *key, const char *function, styx_json arguments);

/* Ends the transaction: code ABORTED and one line for the caller. Return right after: `return styx_abort("not enough");` */
void styx_abort(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/*
 * The same with a code of the app's own, which clients get as `app_code`, so that nobody has to parse the message:
 *     return styx_abort_as("SOLD_OUT", "not enough of %s", styx_key());
 * A code is a capital letter, then capital letters, digits and `_`, 64 at most; another one is a bug: GUEST_EXCEPTION.
 */
void styx_abort_as(const char *app_code, const char *format, ...) __attribute__((format(printf, 2, 3), cold));
/* The same for arguments that the function cannot take: code BAD_ARGUMENTS. */
void styx_bad_arguments(const char *format, ...) __attribute__((format(printf, 1, 2), cold));
/* Whether the transaction is doomed. */
bool styx_failed(void);

/* What the transaction knows about itself. The same in every replay. */
const char *styx_app(void);
const char *styx_operator(void);
const char *styx_key(void);
const char *styx_request_id(void);
/* Transaction id: its rank in the sequence. */
uint64_t styx_tid(void);
/* When the transaction was sequenced: microseconds since 1970-01-01T00:00Z. time() and clock_gettime() say the same. */
uint64_t styx_time(void);
/* The next number of this invocation's generator, uniform over all of uint64_t. rand() and random() take theirs from it. */
uint64_t styx_random(void);
/* A random number below `bound`, without bias; 0 for a bound of 0. */
uint64_t styx_random_below(uint64_t bound);
/* A random number from 0 to below 1, with 53 bits. */
double styx_random_fraction(void);

typedef enum styx_level { STYX_DEBUG, STYX_INFO, STYX_WARN, STYX_ERROR } styx_level;

/* Writes a log line, shown once, for the attempt that counted. */
void styx_log(styx_level level, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* Zeroed memory until the function returns. */
void *styx_alloc(size_t size);
/* Text made as by printf. */
const char *styx_format(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* JSON from and to values, beside the state: false if it cannot be, which aborts. */
#define styx_decode(type, json, value) styx_decode_value(&styx_type_##type, (json), (type *){value})
#define styx_encode(type, value) styx_encode_value(&styx_type_##type, (const type *){value})

/* From here on: what the macros are made of. Not for use by hand, and not stable. */

typedef enum styx_kind {
    STYX_KIND_NONE,
    STYX_KIND_BOOL,
    STYX_KIND_SIGNED,
    STYX_KIND_UNSIGNED,
    STYX_KIND_DOUBLE,
    STYX_KIND_TEXT,
    STYX_KIND_TEXT_OR_NULL,
    STYX_KIND_JSON,
    STYX_KIND_RECORD,
    STYX_KIND_TUPLE,
    STYX_KIND_LIST,
    STYX_KIND_MAP,
    STYX_KIND_OPTIONAL,
    STYX_KIND_ENUM,
} styx_kind;

typedef struct styx_type styx_type;

typedef struct styx_field {
    const char *name;
    size_t name_length;
    size_t offset;
    const styx_type *type;
} styx_field;

struct styx_type {
    styx_kind kind;
    size_t size;
    const char *name;
    /* Of a list, a map, what may be null. */
    const styx_type *element;
    size_t stride;
    size_t offset;
    /* Of a record, a tuple. */
    const styx_field *fields;
    size_t count;
    /* Of an enum. */
    const char *const *words;
};

typedef struct styx_operator_type {
    const char *identifier;
    const char *name;
    const char *key_prefix;
    const char *doc;
} styx_operator_type;

typedef struct styx_function_type {
    const styx_operator_type *operator_type;
    const char *name;
    const char *doc;
    bool read_only;
    const styx_type *arguments;
    const styx_type *result;
    void (*run)(const void *arguments, void *result);
    /* Filled in when it is registered. */
    const char *operator_name;
    size_t operator_length;
    size_t name_length;
    struct styx_function_type *next;
} styx_function_type;

bool styx_get_value(const char *key, const styx_type *type, void *value);
void styx_put_value(const char *key, const styx_type *type, const void *value);
bool styx_scan_values(const styx_type *type, void *map, const styx_range *range);
bool styx_decode_value(const styx_type *type, const char *json, void *value);
const char *styx_encode_value(const styx_type *type, const void *value);
bool styx_call_values(const char *operator_name, const char *key, const char *function, const styx_type *arguments_type,
                      const void *arguments, const styx_type *result_type, void *result);
void styx_call_values_async(const char *operator_name, const char *key, const char *function,
                            const styx_type *arguments_type, const void *arguments);
void styx_register(styx_function_type *function);

extern const styx_type styx_type_void, styx_type_bool, styx_type__Bool, styx_type_double;
extern const styx_type styx_type_int8_t, styx_type_int16_t, styx_type_int32_t, styx_type_int64_t;
extern const styx_type styx_type_uint8_t, styx_type_uint16_t, styx_type_uint32_t, styx_type_uint64_t;
extern const styx_type styx_type_styx_text, styx_type_styx_text_or_null, styx_type_styx_json;

#define STYX_TYPE_(name) static const styx_type styx_type_##name __attribute__((unused))

#define STYX_STRUCT_(kind_, name_, ...)                                                                      \
    typedef struct name_ {                                                                                   \
        STYX_EACH_(STYX_MEMBER_, name_, __VA_ARGS__)                                                         \
    } name_;                                                                                                 \
    static const styx_field styx_fields_##name_[] = {STYX_EACH_(STYX_FIELD_, name_, __VA_ARGS__)};           \
    STYX_TYPE_(name_) = {.kind = kind_,                                                                      \
                         .size = sizeof(name_),                                                              \
                         .name = #name_,                                                                     \
                         .fields = styx_fields_##name_,                                                      \
                         .count = sizeof styx_fields_##name_ / sizeof *styx_fields_##name_};

/* A struct without members is no C, so a function's parameters have one more. */
#define STYX_PARAMETERS_(operator_, name_, ...)                                                              \
    typedef struct styx_arguments_##operator_##_##name_ {                                                    \
        char styx_first;                                                                                     \
        __VA_OPT__(STYX_EACH_(STYX_MEMBER_, , __VA_ARGS__))                                                  \
    } styx_arguments_##operator_##_##name_;                                                                  \
    static const styx_field styx_parameters_##operator_##_##name_[] = {                                      \
        __VA_OPT__(STYX_EACH_(STYX_FIELD_, styx_arguments_##operator_##_##name_, __VA_ARGS__)){0}};          \
    static const styx_type styx_arguments_type_##operator_##_##name_ = {                                     \
        .kind = STYX_KIND_TUPLE,                                                                             \
        .size = sizeof(styx_arguments_##operator_##_##name_),                                                \
        .name = "arguments",                                                                                 \
        .fields = styx_parameters_##operator_##_##name_,                                                     \
        .count = sizeof styx_parameters_##operator_##_##name_ / sizeof *styx_parameters_##operator_##_##name_ - 1};

#define STYX_CALLS_(operator_, name_, result_, operator_name_, ...)                                          \
    static inline __attribute__((unused, warn_unused_result)) bool operator_##_##name_##_call(               \
        const char *styx_to STYX_RESULT_(result_) __VA_OPT__(STYX_EACH_(STYX_PARAMETER_, , __VA_ARGS__))) {   \
        styx_arguments_##operator_##_##name_ styx_all = {0 __VA_OPT__(STYX_EACH_(STYX_PASS_, , __VA_ARGS__))}; \
        return styx_call_values(operator_name_, styx_to, #name_, &styx_arguments_type_##operator_##_##name_, \
                                &styx_all, &styx_type_##result_, STYX_CHOOSE_(STYX_INTO_, result_));      \
    }                                                                                                        \
    static inline __attribute__((unused)) void operator_##_##name_##_async(                                  \
        const char *styx_to __VA_OPT__(STYX_EACH_(STYX_PARAMETER_, , __VA_ARGS__))) {                        \
        styx_arguments_##operator_##_##name_ styx_all = {0 __VA_OPT__(STYX_EACH_(STYX_PASS_, , __VA_ARGS__))}; \
        styx_call_values_async(operator_name_, styx_to, #name_, &styx_arguments_type_##operator_##_##name_,  \
                               &styx_all);                                                                   \
    }

/* The weak symbol is what the SDK asks for, so that an app without functions is not linked. */
#define STYX_FUNCTION_(operator_, name_, result_, doc_, read_only_, ...)                                     \
    extern styx_operator_type styx_operator_##operator_;                                                     \
    __attribute__((weak)) char styx_no_function_is_declared;                                                 \
    STYX_PARAMETERS_(operator_, name_, __VA_ARGS__)                                                          \
    STYX_CALLS_(operator_, name_, result_,                                                                   \
                styx_operator_##operator_.name ? styx_operator_##operator_.name : #operator_, __VA_ARGS__)   \
    static void operator_##_##name_##_body(                                                                  \
        STYX_SIGNATURE_(STYX_RESULT_(result_) __VA_OPT__(STYX_EACH_(STYX_PARAMETER_, , __VA_ARGS__))));      \
    static void styx_run_##operator_##_##name_(const void *styx_from, void *styx_to) {                       \
        const styx_arguments_##operator_##_##name_ *styx_all = styx_from;                                    \
        (void)styx_all, (void)styx_to;                                                                       \
        operator_##_##name_##_body(STYX_DROP_(                                                               \
            STYX_CHOOSE_(STYX_TO_, result_) __VA_OPT__(STYX_EACH_(STYX_GIVE_, , __VA_ARGS__)))); \
    }                                                                                                        \
    static styx_function_type styx_function_##operator_##_##name_ = {                                        \
        .operator_type = &styx_operator_##operator_,                                                         \
        .name = #name_,                                                                                      \
        .doc = doc_,                                                                                         \
        .read_only = read_only_,                                                                             \
        .arguments = &styx_arguments_type_##operator_##_##name_,                                             \
        .result = &styx_type_##result_,                                                                      \
        .run = styx_run_##operator_##_##name_,                                                               \
    };                                                                                                       \
    __attribute__((constructor)) static void styx_register_##operator_##_##name_(void) {                     \
        styx_register(&styx_function_##operator_##_##name_);                                                 \
    }                                                                                                        \
    static void operator_##_##name_##_body(                                                                  \
        STYX_SIGNATURE_(STYX_RESULT_(result_) __VA_OPT__(STYX_EACH_(STYX_PARAMETER_, , __VA_ARGS__))))

#define STYX_MEMBER_(of, pair) STYX_MEMBER_2_(STYX_UNWRAP_ pair)
#define STYX_MEMBER_2_(...) STYX_MEMBER_3_(__VA_ARGS__)
#define STYX_MEMBER_3_(type, name, ...) type name;
#define STYX_FIELD_(of, pair) STYX_FIELD_2_(of, STYX_UNWRAP_ pair)
#define STYX_FIELD_2_(...) STYX_FIELD_3_(__VA_ARGS__)
#define STYX_FIELD_3_(of, field_type, field, ...)                                                            \
    {STYX_FIRST_(__VA_OPT__(__VA_ARGS__, ) #field), sizeof(STYX_FIRST_(__VA_OPT__(__VA_ARGS__, ) #field)) - 1, \
     offsetof(of, field), &styx_type_##field_type},
#define STYX_PARAMETER_(of, pair) STYX_PARAMETER_2_(STYX_UNWRAP_ pair)
#define STYX_PARAMETER_2_(...) STYX_PARAMETER_3_(__VA_ARGS__)
#define STYX_PARAMETER_3_(type, name, ...) , type name
#define STYX_PASS_(of, pair) STYX_PASS_2_(STYX_UNWRAP_ pair)
#define STYX_PASS_2_(...) STYX_PASS_3_(__VA_ARGS__)
#define STYX_PASS_3_(type, name, ...) , name
#define STYX_GIVE_(of, pair) STYX_GIVE_2_(STYX_UNWRAP_ pair)
#define STYX_GIVE_2_(...) STYX_GIVE_3_(__VA_ARGS__)
#define STYX_GIVE_3_(type, name, ...) , styx_all->name
#define STYX_CONSTANT_(of, word) STYX_CONSTANT_2_(of, word)
#define STYX_CONSTANT_2_(of, word) of##_##word,
#define STYX_WORD_(of, word) #word,

#define STYX_UNWRAP_(...) __VA_ARGS__
#define STYX_FIRST_(...) STYX_FIRST_2_(__VA_ARGS__, )
#define STYX_FIRST_2_(first, ...) first
#define STYX_DROP_(...) STYX_DROP_2_(__VA_ARGS__)
#define STYX_DROP_2_(first, ...) __VA_ARGS__

/* Parameters, of which each has a comma before it; none at all is `void`. */
#define STYX_SIGNATURE_(...) STYX_SIGNATURE_2_(__VA_ARGS__)
#define STYX_SIGNATURE_2_(first, ...) STYX_FIRST_ARGUMENT_(__VA_OPT__(STYX_KEEP_, ) STYX_NONE_, )(__VA_ARGS__)
#define STYX_FIRST_ARGUMENT_(first, ...) first
#define STYX_KEEP_(...) __VA_ARGS__
#define STYX_NONE_(...) void

/* A macro for a result that is `void`, or for any other. */
#define STYX_PROBE_void ~, VOID_
#define STYX_CHOOSE_(macro, result_) STYX_CHOOSE_2_(macro, STYX_PROBE_##result_, VALUE_, ~)
#define STYX_CHOOSE_2_(...) STYX_CHOOSE_3_(__VA_ARGS__)
#define STYX_CHOOSE_3_(macro, first, second, ...) macro##second
#define STYX_RESULT_(result_) STYX_CHOOSE_(STYX_RESULT_, result_)(result_)
#define STYX_RESULT_VOID_(result_)
#define STYX_RESULT_VALUE_(result_) , result_ *result
#define STYX_TO_VOID_
#define STYX_TO_VALUE_ , styx_to
#define STYX_INTO_VOID_ NULL
#define STYX_INTO_VALUE_ result

/* STYX_EACH_(m, of, a, b, ...) is m(of, a) m(of, b) ..., for up to 32. */
#define STYX_EACH_(m, of, ...) STYX_EXPAND_(STYX_STEP_(m, of, __VA_ARGS__))
#define STYX_STEP_(m, of, first, ...) m(of, first) __VA_OPT__(STYX_AGAIN_ STYX_EMPTY_()()(m, of, __VA_ARGS__))
#define STYX_AGAIN_() STYX_STEP_
#define STYX_EMPTY_()
#define STYX_EXPAND_(...) STYX_EXPAND_4_(STYX_EXPAND_4_(STYX_EXPAND_4_(STYX_EXPAND_4_(__VA_ARGS__))))
#define STYX_EXPAND_4_(...) STYX_EXPAND_3_(STYX_EXPAND_3_(__VA_ARGS__))
#define STYX_EXPAND_3_(...) STYX_EXPAND_2_(STYX_EXPAND_2_(__VA_ARGS__))
#define STYX_EXPAND_2_(...) STYX_EXPAND_1_(STYX_EXPAND_1_(__VA_ARGS__))
#define STYX_EXPAND_1_(...) __VA_ARGS__

STYX_LIST(bool)
STYX_LIST(double)
STYX_LIST(int32_t)
STYX_LIST(int64_t)
STYX_LIST(uint32_t)
STYX_LIST(uint64_t)
STYX_LIST(styx_text)
STYX_LIST(styx_json)
STYX_OPTIONAL(bool)
STYX_OPTIONAL(double)
STYX_OPTIONAL(int32_t)
STYX_OPTIONAL(int64_t)
STYX_OPTIONAL(uint32_t)
STYX_OPTIONAL(uint64_t)
STYX_MAP(bool)
STYX_MAP(double)
STYX_MAP(int32_t)
STYX_MAP(int64_t)
STYX_MAP(uint32_t)
STYX_MAP(uint64_t)
STYX_MAP(styx_text)
STYX_MAP(styx_json)

#endif
