/* What `describe` returns, as the canonical ABI lays it out. */
#ifndef STYX_DESCRIPTION_H
#define STYX_DESCRIPTION_H

#include "host.h"

typedef struct parameter {
    slice name;
    slice schema;
    uint8_t required;
} parameter;

typedef struct function_description {
    slice name;
    parameter *parameters;
    size_t count;
    slice returns;
    uint8_t read_only;
    slice doc;
} function_description;

typedef struct operator_description {
    slice name;
    uint8_t has_prefix;
    slice key_prefix;
    slice doc;
    function_description *functions;
    size_t count;
} operator_description;

typedef struct description {
    slice sdk;
    operator_description *operators;
    size_t count;
} description;

_Static_assert(sizeof(parameter) == 20 && sizeof(function_description) == 36 && sizeof(operator_description) == 36,
               "as the canonical ABI lays them out");

#endif
