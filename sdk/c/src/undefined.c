/*
 * Undefined behaviour, in a component: the place and what it was are the last words of an instance. The functions are those
 * that clang calls where it has found some (-fsanitize=undefined, nothing recovered); the first part of what each is given is
 * the place. A native test brings the compiler's own.
 */
#ifdef __wasm__

#include "host.h"

typedef struct place {
    const char *file;
    uint32_t line;
    uint32_t column;
} place;

typedef struct type {
    uint16_t kind;
    uint16_t info;
    /* In quotes, as the compiler has it. */
    char name[];
} type;

typedef struct typed {
    place at;
    const type *type;
} typed;

/* A pointer that is not one to an object of the type. */
typedef struct access {
    place at;
    const type *type;
    uint8_t log_alignment;
    uint8_t kind;
} access;

typedef struct conversion {
    place at;
    const type *from;
    const type *to;
} conversion;

_Noreturn static void stop(const place *at, const char *what, const char *of) {
    styx_log(STYX_ERROR, "%s:%u:%u: %s%s", at->file, (unsigned)at->line, (unsigned)at->column, what, of);
    __builtin_trap();
}

#define HANDLER(name) _Noreturn void __ubsan_handle_##name

HANDLER(type_mismatch_v1_abort)(const access *data, uintptr_t pointer) {
    uintptr_t alignment = (uintptr_t)1 << data->log_alignment;
    bool writes = data->kind == 1;
    if (!pointer) stop(&data->at, writes ? "a write to a null pointer, as to " : "a null pointer is used as one to ", data->type->name);
    if (pointer & (alignment - 1)) stop(&data->at, "a pointer that is not aligned is used as one to ", data->type->name);
    stop(&data->at, "a pointer to too few bytes is used as one to ", data->type->name);
}

HANDLER(alignment_assumption_abort)(const typed *data, uintptr_t pointer, uintptr_t alignment, uintptr_t offset) {
    (void)pointer, (void)alignment, (void)offset;
    stop(&data->at, "a pointer is not aligned as it was said of ", data->type->name);
}

HANDLER(pointer_overflow_abort)(const place *at, uintptr_t base, uintptr_t result) {
    (void)result;
    stop(at, base ? "a pointer leaves what it points into" : "arithmetic with a null pointer", "");
}

HANDLER(add_overflow_abort)(const typed *data, uintptr_t left, uintptr_t right) {
    (void)left, (void)right;
    stop(&data->at, "a sum does not fit into ", data->type->name);
}

HANDLER(sub_overflow_abort)(const typed *data, uintptr_t left, uintptr_t right) {
    (void)left, (void)right;
    stop(&data->at, "a difference does not fit into ", data->type->name);
}

HANDLER(mul_overflow_abort)(const typed *data, uintptr_t left, uintptr_t right) {
    (void)left, (void)right;
    stop(&data->at, "a product does not fit into ", data->type->name);
}

HANDLER(negate_overflow_abort)(const typed *data, uintptr_t value) {
    (void)value;
    stop(&data->at, "a negated number does not fit into ", data->type->name);
}

HANDLER(divrem_overflow_abort)(const typed *data, uintptr_t left, uintptr_t right) {
    /* A number of more bits than a pointer has is in memory, and no pointer is 0. */
    (void)left;
    stop(&data->at, right ? "a division by 0, or a quotient that does not fit into " : "a division by 0, of ", data->type->name);
}

HANDLER(shift_out_of_bounds_abort)(const conversion *data, uintptr_t left, uintptr_t right) {
    (void)left, (void)right;
    stop(&data->at, "a shift by too much, of a negative number, or out of ", data->from->name);
}

HANDLER(out_of_bounds_abort)(const conversion *data, uintptr_t index) {
    (void)index;
    stop(&data->at, "an index that is not in ", data->from->name);
}

HANDLER(vla_bound_not_positive_abort)(const typed *data, uintptr_t bound) {
    (void)bound;
    stop(&data->at, "an array of no elements, by a number of the type ", data->type->name);
}

HANDLER(float_cast_overflow_abort)(const conversion *data, uintptr_t value) {
    (void)value;
    stop(&data->at, "a number does not fit into ", data->to->name);
}

HANDLER(load_invalid_value_abort)(const typed *data, uintptr_t value) {
    (void)value;
    stop(&data->at, "what is read is no value of ", data->type->name);
}

HANDLER(function_type_mismatch_abort)(const typed *data, uintptr_t function) {
    (void)function;
    stop(&data->at, "a function is called as another type than it has, ", data->type->name);
}

HANDLER(invalid_builtin_abort)(const place *at) {
    stop(at, "a builtin is given 0", "");
}

HANDLER(nonnull_arg_abort)(const place *at) {
    stop(at, "a null pointer is passed where none may be", "");
}

HANDLER(nonnull_return_v1_abort)(const place *attribute, const place *at) {
    (void)attribute;
    stop(at, "a null pointer is returned where none may be", "");
}

HANDLER(builtin_unreachable)(const place *at) {
    stop(at, "what cannot be reached was reached", "");
}

HANDLER(missing_return)(const place *at) {
    stop(at, "the end of a function that returns something was reached", "");
}

#endif
