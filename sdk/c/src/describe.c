/* The export `describe`: the functions of a guest in C, as the contract has them, laid out by the canonical ABI. */
#ifdef __wasm__

#include <string.h>

#include "arena.h"
#include "description.h"
#include "host.h"
#include "json.h"

#define EXPORT(function) __attribute__((export_name(function)))

static slice text(const char *of) {
    return of ? (slice){(char *)of, strlen(of)} : (slice){"", 0};
}

static slice schema(const styx_type *type) {
    writer to = {0};
    json_schema(&to, type);
    return (slice){to.data, to.length};
}

static function_description describe_function(const styx_function_type *function) {
    const styx_type *arguments = function->arguments;
    function_description described = {.name = text(function->name),
                                      .parameters = styx_alloc(arguments->count * sizeof(parameter)),
                                      .count = arguments->count,
                                      .returns = schema(function->result),
                                      .read_only = function->read_only,
                                      .doc = text(function->doc)};
    for (size_t i = 0; i < arguments->count; i++) {
        const styx_field *field = &arguments->fields[i];
        described.parameters[i] = (parameter){text(field->name), schema(field->type), !json_may_be_absent(field->type)};
    }
    return described;
}

EXPORT("describe") description *export_describe(void) {
    static description described;
    size_t functions = 0, count = 0;
    for (const styx_function_type *each = styx_functions; each; each = each->next) functions++;
    operator_description *operators = styx_alloc(functions * sizeof *operators);
    for (const styx_function_type *each = styx_functions; each; each = each->next) {
        size_t i = 0;
        while (i < count && (operators[i].name.length != each->operator_length ||
                             memcmp(operators[i].name.data, each->operator_name, each->operator_length) != 0)) {
            i++;
        }
        if (i == count) {
            const styx_operator_type *of = each->operator_type;
            operators[count++] = (operator_description){.name = text(each->operator_name),
                                                        .has_prefix = of->key_prefix != NULL,
                                                        .key_prefix = text(of->key_prefix),
                                                        .doc = text(of->doc),
                                                        .functions = styx_alloc(functions * sizeof(function_description))};
        }
        operators[i].functions[operators[i].count++] = describe_function(each);
    }
    described = (description){text("styx-c " STYX_VERSION), operators, count};
    return &described;
}

EXPORT("cabi_post_describe") void export_post_describe(description *described) {
    (void)described;
    arena_reset();
}

#endif
