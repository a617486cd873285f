#include <styx.h>

#define PLAIN(type, kind_) const styx_type styx_type_##type = {.kind = kind_, .size = sizeof(type), .name = #type}

const styx_type styx_type_void = {.kind = STYX_KIND_NONE, .name = "void"};
const styx_type styx_type_bool = {.kind = STYX_KIND_BOOL, .size = sizeof(bool), .name = "bool"};
/* `bool` is a macro until C23. */
const styx_type styx_type__Bool = {.kind = STYX_KIND_BOOL, .size = sizeof(bool), .name = "bool"};
PLAIN(double, STYX_KIND_DOUBLE);
PLAIN(int8_t, STYX_KIND_SIGNED);
PLAIN(int16_t, STYX_KIND_SIGNED);
PLAIN(int32_t, STYX_KIND_SIGNED);
PLAIN(int64_t, STYX_KIND_SIGNED);
PLAIN(uint8_t, STYX_KIND_UNSIGNED);
PLAIN(uint16_t, STYX_KIND_UNSIGNED);
PLAIN(uint32_t, STYX_KIND_UNSIGNED);
PLAIN(uint64_t, STYX_KIND_UNSIGNED);
PLAIN(styx_text, STYX_KIND_TEXT);
PLAIN(styx_text_or_null, STYX_KIND_TEXT_OR_NULL);
PLAIN(styx_json, STYX_KIND_JSON);
