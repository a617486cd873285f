/* Memory of one invocation: taken piece by piece, given back all at once. */
#ifndef STYX_ARENA_H
#define STYX_ARENA_H

#include <stddef.h>

/* Memory for anything, not zeroed. */
void *arena_take(size_t size);
/* Makes a piece larger, in place if it was the last. */
void *arena_grow(void *piece, size_t size, size_t larger);
/* A copy with a 0 behind it. */
char *arena_text(const void *data, size_t length);
/* Gives everything back. */
void arena_reset(void);

#endif
