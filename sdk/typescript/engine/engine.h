/* What the parts of the engine have in common. */
#ifndef STYX_ENGINE_H
#define STYX_ENGINE_H

#include <stdbool.h>
#include <stdint.h>

#include "quickjs.h"

#include "host.h"

/* A string of a text in UTF-8. */
JSValue engine_string(slice text);
/* The text of a value, in the arena; false with an exception. */
bool engine_text(JSValueConst value, slice *text);

/* Keeps what the component tells of itself, from an object as the SDK makes it; false with an exception. */
bool engine_described(JSContext *context, JSValueConst description);

/* Whether the engine met -0 since this was false, where it writes a number. */
extern bool quickjs_met_negative_zero;

/* Whether it is UTF-8: without halves of surrogate pairs. */
bool json_is_utf8(slice text);
/* Whether it is a whole number of at most fifteen digits and nothing else. */
bool json_is_small(slice text, int64_t *number);
/* Whether a number outside of its texts has digits that a double may not hold, or an exponent that it may not. */
bool json_is_delicate(slice text);
/* Whether it has what NaN, an infinity, a Map or half of a surrogate pair may have left. */
bool json_is_suspicious(slice text);

#endif
