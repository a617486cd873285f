/*
 * QuickJS, but:
 * with a limit to its stack, which it does without on WASI: a function that calls itself for ever gets a RangeError with its
 * line, instead of a trap;
 * without what it prints for whoever debugs it: there is no terminal;
 * and it notes whether it met -0 where it writes a number: its JSON of that is 0.
 */
#include <math.h>
#include <stdio.h>

#include "cutils.h"

/* What it asks of the C library it has asked by now. */
#undef __wasi__
#define printf(...) ((void)0)
#define fprintf(...) ((void)0)
#define putchar(character) ((void)0)
#define fputc(character, file) ((void)0)
#define fputs(text, file) ((void)0)
#define fwrite(bytes, size, count, file) ((size_t)0)
#define fflush(file) ((void)0)
bool quickjs_met_negative_zero;
static bool notes_finite(double number) {
    if (number == 0 && signbit(number)) quickjs_met_negative_zero = true;
    return isfinite(number);
}
#undef isfinite
#define isfinite(number) notes_finite(number)
#include "quickjs.c"
