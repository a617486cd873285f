/* What the SDK needs of whoever runs the guest: the imports of the contract in a component, a host in memory in a test. */
#ifndef STYX_HOST_H
#define STYX_HOST_H

#include <styx.h>

/* Bytes in the arena, with a 0 behind them. */
typedef struct slice {
    char *data;
    size_t length;
} slice;

/* A key in memory: length and all. */
typedef struct name {
    const char *data;
    size_t length;
} name;

typedef struct host_entry {
    slice key;
    slice value;
} host_entry;

enum bound { UNBOUNDED, INCLUDED, EXCLUDED };

/* One end of a range of keys. */
typedef struct host_bound {
    enum bound kind;
    name key;
} host_bound;

/* A null key is the own one. */
bool host_get(const name *key, slice *value);
void host_put(const name *key, const void *data, size_t length);
void host_delete(const name *key);
/* Keys that begin with `prefix`, between the bounds. A limit of 0 is the app's. */
host_entry *host_scan(name prefix, host_bound lower, host_bound upper, uint32_t limit, bool reverse, size_t *count);

typedef struct host_reply {
    bool failed;
    /* The result, or the failure's code. */
    slice first;
    slice message;
} host_reply;

void host_call(name operator_name, name key, name function, name arguments, host_reply *reply);
void host_call_async(name operator_name, name key, name function, name arguments);

slice host_app(void);
slice host_request_id(void);
uint64_t host_tid(void);
uint64_t host_time(void);
uint64_t host_random(void);
void host_log(styx_level level, const char *text, size_t length);

/* The invocation that runs: what a host begins it with, and what has come of it. */
typedef struct invocation {
    const styx_function_type *function;
    const char *key;
    /* Null as long as nothing has failed. */
    const char *code;
    const char *message;
} invocation;

extern invocation styx_now;

/* Runs a function, written operator.function. The key and the arguments are in the arena. The reply's code or result is. */
void styx_invoke(name function, slice key, slice arguments, host_reply *reply);
/* The functions, in the order of their registration. */
extern styx_function_type *styx_functions;

/* Ends the transaction, if nothing has before. The texts are static or in the arena. */
void styx_fail(const char *code, const char *message);
/* Text in valid UTF-8: what is not is replaced by `?`. */
const char *styx_valid_text(char *text);

#endif
