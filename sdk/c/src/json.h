/* JSON from and to values, as their types' descriptors say, without a tree in between. */
#ifndef STYX_JSON_H
#define STYX_JSON_H

#include <styx.h>

/* A text being read, in place: strings are unescaped where they are. Behind its end there is a 0. */
typedef struct reader {
    char *at;
    char *end;
    /* Null as long as all is well. */
    const char *problem;
    /* Where in the value the problem is: `lines.0.price`. */
    const char *path;
} reader;

/* A list or a map of any type, as STYX_LIST and STYX_MAP lay them out. */
typedef struct sequence {
    char *items;
    size_t count;
} sequence;

reader json_reader(char *text, size_t length);
bool json_read(reader *from, const styx_type *type, void *value);
/* Nothing may follow. */
bool json_end(reader *from);
/* An array of arguments; the problem names the parameter. */
bool json_read_arguments(reader *from, const styx_type *type, void *value);
/* The problem with its path. */
const char *json_problem(const reader *from);

/* Text being written, in the arena. */
typedef struct writer {
    char *data;
    size_t length;
    size_t capacity;
    const char *problem;
} writer;

void json_write(writer *to, const styx_type *type, const void *value);
void json_write_text(writer *to, const char *text, size_t length);
void json_append(writer *to, const char *text, size_t length);
/* The JSON Schema of a type. */
void json_schema(writer *to, const styx_type *type);
/* How many bytes the character at `text` has, 0 if it is no UTF-8. There is a 0 behind the text. */
size_t json_character(const unsigned char *text);

/* Whether a parameter or a field of the type may be absent. */
static inline bool json_may_be_absent(const styx_type *type) {
    return type->kind == STYX_KIND_OPTIONAL || type->kind == STYX_KIND_TEXT_OR_NULL;
}

#endif
