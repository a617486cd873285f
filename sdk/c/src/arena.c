#include "arena.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define ALIGNMENT 16
/* What most invocations get by with is there from the start and stays. */
#define FIRST 16384
#define CHUNK 65536

typedef struct chunk {
    struct chunk *before;
    _Alignas(ALIGNMENT) char bytes[];
} chunk;

static _Alignas(ALIGNMENT) char first[FIRST];
static chunk *newest;
static char *at = first;
static char *end = first + FIRST;

static size_t rounded(size_t size) {
    if (size > SIZE_MAX / 2) abort();
    return (size + ALIGNMENT - 1) & ~(size_t)(ALIGNMENT - 1);
}

void *arena_take(size_t size) {
    size = rounded(size);
    if (size > (size_t)(end - at)) {
        size_t length = size > CHUNK ? size : CHUNK;
        chunk *added = malloc(sizeof(chunk) + length);
        if (!added) abort();
        added->before = newest;
        newest = added;
        at = added->bytes;
        end = at + length;
    }
    char *piece = at;
    at += size;
    return piece;
}

void *arena_grow(void *piece, size_t size, size_t larger) {
    size_t before = rounded(size), after = rounded(larger);
    if (piece && (char *)piece + before == at && after - before <= (size_t)(end - at)) {
        at = (char *)piece + after;
        return piece;
    }
    void *moved = arena_take(larger);
    if (size) memcpy(moved, piece, size);
    return moved;
}

char *arena_text(const void *data, size_t length) {
    char *copy = arena_take(length + 1);
    if (length) memcpy(copy, data, length);
    copy[length] = 0;
    return copy;
}

void arena_reset(void) {
    while (newest) {
        chunk *before = newest->before;
        free(newest);
        newest = before;
    }
    at = first;
    end = first + FIRST;
}
