/* The hot path of a component in C: the export `invoke`, JSON of numbers, texts and lists of them, and what functions ask of the host most
   often. Each part does what the SDK's Python does in the usual case, and leaves every other to that Python: whatever is not
   decided here, errors included, is decided there. See `styx._exports`. */

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "python.h"

#define None (&_Py_NoneStruct)
#define STRING(value) ((value)->type == &PyUnicode_Type)

/* The contract, as the canonical ABI has it. */

typedef struct {
  char *data;
  size_t size;
} Bytes;

typedef struct {
  uint8_t is_some;
  Bytes bytes;
} Option;

typedef struct {
  uint8_t is_failure;
  union {
    Bytes result;
    struct {
      Bytes code, message;
    } failure;
  };
} Outcome;

#define IMPORT(module, name) __attribute__((import_module("styx:guest/" module "@0.1.0"), import_name(name))) extern
IMPORT("state", "get-own") void host_get_own(Option *);
IMPORT("state", "put-own") void host_put_own(const char *, size_t);
IMPORT("state", "get") void host_get(const char *, size_t, Option *);
IMPORT("state", "put") void host_put(const char *, size_t, const char *, size_t);
IMPORT("calls", "call")
void host_call(const char *, size_t, const char *, size_t, const char *, size_t, const char *, size_t, Outcome *);

/* What `install` is given, by the order of its arguments. */
enum {
  TABLE,      /* by name of a function: (Function, Python's function, its State, types of its arguments, how many are needed, type of its result) */
  CALLS,      /* by Python's function and name of an operator: (Function, its name, how many parameters it has, whether its result is converted) */
  CONTEXT,    /* the class */
  HOST,       /* of contexts */
  INVOKE,     /* invoke(name, key, arguments), for all that is not done here */
  FAILED,     /* failed(Function, exception) -> (code, message) */
  INVOCATION, /* of `determinism` */
  SCAN, FROM_JSON, ENCODE, OPEN_CONTAINERS, /* of `codec` */
  CALL_FAILED,  /* the class */
  CONVERTED,    /* converted(Function, result) */
  GET, PUT, CALL, /* the methods of `State` and `Context` as they are in Python */
  INSTALLED_COUNT
};
static Object *installed[INSTALLED_COUNT];
static Object *is_dirty_name, *settle_name, *check_result_name, *zero;
/* Places of a context's slots. */
static Py_ssize_t key_at, state_at, host_at, function_at;

static Object *held(Object *object) {
  Py_IncRef(object);
  return object;
}

static void dropped(Object *object) {
  if (object) Py_DecRef(object);
}

static Object *text(const char *data, size_t size) { return PyUnicode_DecodeUTF8(data, (Py_ssize_t)size, NULL); }

/* What the host has given, in memory of `cabi_realloc`: nothing has none. */
static void given_back(Bytes bytes) {
  if (bytes.size) free(bytes.data);
}

static Object *call1(Object *callee, Object *argument) { return PyObject_Vectorcall(callee, &argument, 1, NULL); }

static Object *call2(Object *callee, Object *one, Object *other) {
  Object *both[] = {one, other};
  return PyObject_Vectorcall(callee, both, 2, NULL);
}

/* JSON */

typedef struct {
  const char *at, *end;
} Reader;

enum { DEPTH_MAX = 16 };

/* The next value, if it is of the kinds that are read here; NULL without an exception if not, as for what is no JSON. */
static Object *read_value(Reader *reader, int depth) {
  const char *at = reader->at, *end = reader->end;
  if (at == end) return NULL;
  size_t left = (size_t)(end - at);
  switch (*at) {
    case 'n':
      if (left < 4 || memcmp(at, "null", 4)) return NULL;
      reader->at += 4;
      return held(None);
    case 't':
      if (left < 4 || memcmp(at, "true", 4)) return NULL;
      reader->at += 4;
      return held(&_Py_TrueStruct);
    case 'f':
      if (left < 5 || memcmp(at, "false", 5)) return NULL;
      reader->at += 5;
      return held(&_Py_FalseStruct);
    case '"': {
      const char *start = ++at;
      while (at < end && *at != '"' && *at != '\\' && (uint8_t)*at >= 0x20) at++;
      if (at == end || *at != '"') return NULL;
      reader->at = at + 1;
      return text(start, (size_t)(at - start));
    }
    case '[': {
      if (depth == DEPTH_MAX) return NULL;
      Object *list = PyList_New(0);
      if (!list) return NULL;
      reader->at = at + 1;
      if (left > 1 && at[1] == ']') {
        reader->at++;
        return list;
      }
      for (;;) {
        Object *item = read_value(reader, depth + 1);
        bool is_added = item && !PyList_Append(list, item);
        dropped(item);
        if (!is_added || reader->at == reader->end) break;
        char next = *reader->at++;
        if (next == ']') return list;
        if (next != ',') break;
      }
      dropped(list);
      return NULL;
    }
    default: {
      bool is_negative = *at == '-';
      if (is_negative) at++;
      const char *digits = at;
      long long number = 0;
      /* So many digits are a `long long` whatever they are; what goes on behind them is no such number. */
      while (at < end && *at >= '0' && *at <= '9' && at - digits < 18) number = number * 10 + (*at++ - '0');
      Py_ssize_t count = at - digits;
      /* -0 is a number of its own, which no integer is. */
      if (!count || (*digits == '0' && (count > 1 || is_negative))) return NULL;
      if (at < end && *at != ',' && *at != ']') return NULL;
      reader->at = at;
      return PyLong_FromLongLong(is_negative ? -number : number);
    }
  }
}

static Object *from_json_in_python(const char *data, size_t size) {
  Object *bytes = PyBytes_FromStringAndSize(data, (Py_ssize_t)size);
  Object *value = bytes ? call1(installed[FROM_JSON], bytes) : NULL;
  dropped(bytes);
  return value;
}

/* Whether there may be a -0, which the scanner takes for 0: dates and UUIDs have those two characters too, but go on. */
static bool has_minus_zero(const char *data, size_t size) {
  for (size_t i = 0; i + 1 < size; i++) {
    if (data[i] == '-' && data[i + 1] == '0' && (i + 2 == size || memchr(",]} \t\n\r", data[i + 2], 7))) return true;
  }
  return false;
}

/* As `codec.from_json`. */
static Object *from_json(const char *data, size_t size) {
  Reader reader = {data, data + size};
  Object *value = read_value(&reader, 0);
  if (value && reader.at == reader.end) return value;
  dropped(value);
  PyErr_Clear();
  if (has_minus_zero(data, size)) return from_json_in_python(data, size);
  Object *string = text(data, size);
  Object *scanned = string ? call2(installed[SCAN], string, zero) : NULL;
  /* Of the pair of the value and where it ends. */
  bool is_all = scanned && PyLong_AsSsize_t(PyTuple_GetItem(scanned, 1)) == PyUnicode_GetLength(string);
  value = is_all ? held(PyTuple_GetItem(scanned, 0)) : NULL;
  dropped(scanned);
  dropped(string);
  if (value) return value;
  /* Blanks around it, or an error. */
  PyErr_Clear();
  return from_json_in_python(data, size);
}

enum { SHORT = 256 };

/* A value as JSON: what `data` points to is in `place`, in the program, or in `keeper`. */
typedef struct {
  const char *data;
  size_t size;
  Object *keeper;
  char place[SHORT];
} Json;

static void json_dropped(Json *json) { dropped(json->keeper); }

/* Writes it if it is of the kinds that are written here, and short: how many bytes, or 0. */
static size_t write_scalar(Object *value, char *place, size_t room) {
  const char *word = NULL;
  if (value == None) word = "null";
  else if (value == &_Py_TrueStruct) word = "true";
  else if (value == &_Py_FalseStruct) word = "false";
  if (word) {
    size_t size = strlen(word);
    if (size > room) return 0;
    memcpy(place, word, size);
    return size;
  }
  if (value->type == &PyLong_Type) {
    int is_beyond = 0;
    long long number = PyLong_AsLongLongAndOverflow(value, &is_beyond);
    if (is_beyond || room < 24) return 0;
    char digits[24];
    size_t count = 0, size = 0;
    unsigned long long rest = number < 0 ? -(unsigned long long)number : (unsigned long long)number;
    do digits[count++] = (char)('0' + rest % 10);
    while (rest /= 10);
    if (number < 0) place[size++] = '-';
    while (count) place[size++] = digits[--count];
    return size;
  }
  if (STRING(value)) {
    Py_ssize_t size;
    const char *data = PyUnicode_AsUTF8AndSize(value, &size);
    if (!data) {
      PyErr_Clear();
      return 0;
    }
    if ((size_t)size + 2 > room) return 0;
    for (Py_ssize_t i = 0; i < size; i++)
      if ((uint8_t)data[i] < 0x20 || data[i] == '"' || data[i] == '\\') return 0;
    place[0] = '"';
    memcpy(place + 1, data, (size_t)size);
    place[size + 1] = '"';
    return (size_t)size + 2;
  }
  return 0;
}

/* As `codec.to_json`: false with an exception. */
static bool to_json(Object *value, Json *json) {
  json->keeper = NULL;
  json->data = json->place;
  json->size = write_scalar(value, json->place, SHORT);
  if (json->size) return true;
  Object *chunks = call2(installed[ENCODE], value, zero);
  if (chunks) {
    Object *string;
    if (PyTuple_Size(chunks) == 1) {
      string = held(PyTuple_GetItem(chunks, 0));
    } else {
      Object *nothing = text("", 0), *join = nothing ? PyObject_GetAttrString(nothing, "join") : NULL;
      string = join ? call1(join, chunks) : NULL;
      dropped(nothing);
      dropped(join);
    }
    dropped(chunks);
    Object *bytes = string ? PyUnicode_AsUTF8String(string) : NULL;
    dropped(string);
    char *data;
    Py_ssize_t size;
    if (bytes && !PyBytes_AsStringAndSize(bytes, &data, &size)) {
      json->keeper = bytes;
      json->data = data;
      json->size = (size_t)size;
      return true;
    }
    dropped(bytes);
  }
  Object *error = PyErr_GetRaisedException();
  PyDict_Clear(installed[OPEN_CONTAINERS]);
  PyErr_SetRaisedException(error);
  return false;
}

/* Several values as an array. */
static bool to_json_array(Object *const *values, Py_ssize_t count, Json *json) {
  size_t size = 1;
  Py_ssize_t written = 0;
  json->place[0] = '[';
  for (; written < count; written++) {
    if (written) json->place[size++] = ',';
    /* Room is left for a comma and the end. */
    size_t more = write_scalar(values[written], json->place + size, SHORT - 2 - size);
    if (!more) break;
    size += more;
    if (size > SHORT - 8) break;
  }
  if (written == count) {
    json->place[size++] = ']';
    json->data = json->place;
    json->size = size;
    json->keeper = NULL;
    return true;
  }
  Object *tuple = PyTuple_New(count);
  if (!tuple) return false;
  for (Py_ssize_t i = 0; i < count; i++) PyTuple_SetItem(tuple, i, held(values[i]));
  bool is_written = to_json(tuple, json);
  dropped(tuple);
  return is_written;
}

/* What functions ask of the host */

static Object *value_of(Option *option) {
  if (!option->is_some) return held(None);
  Object *value = from_json(option->bytes.data, option->bytes.size);
  given_back(option->bytes);
  return value;
}

static Object *bytes_of(Option *option) {
  if (!option->is_some) return held(None);
  Object *bytes = PyBytes_FromStringAndSize(option->bytes.data, (Py_ssize_t)option->bytes.size);
  given_back(option->bytes);
  return bytes;
}

static bool utf8(Object *string, Bytes *bytes) {
  if (!PyType_IsSubtype(string->type, &PyUnicode_Type)) {
    PyErr_SetString(PyExc_TypeError, "a key must be a string: use str(...)");
    return false;
  }
  Py_ssize_t size;
  bytes->data = (char *)PyUnicode_AsUTF8AndSize(string, &size);
  bytes->size = (size_t)size;
  return bytes->data;
}

static bool binary(Object *object, Bytes *bytes) {
  Py_ssize_t size;
  if (PyBytes_AsStringAndSize(object, &bytes->data, &size)) return false;
  bytes->size = (size_t)size;
  return true;
}

/* Runs a function: false with an exception. */
static bool call_host(Bytes operator, Bytes key, Bytes function, Bytes arguments, Bytes *result) {
  Outcome outcome;
  host_call(operator.data, operator.size, key.data, key.size, function.data, function.size, arguments.data, arguments.size, &outcome);
  if (!outcome.is_failure) {
    *result = outcome.result;
    return true;
  }
  Bytes code = outcome.failure.code, message = outcome.failure.message;
  Object *described = text(message.data, message.size), *named = text(code.data, code.size);
  given_back(message);
  given_back(code);
  Object *error = described && named ? call2(installed[CALL_FAILED], described, named) : NULL;
  dropped(described);
  dropped(named);
  if (error) PyErr_SetObject(installed[CALL_FAILED], error);
  dropped(error);
  return false;
}

static bool takes(Py_ssize_t count, Object *keywords, Py_ssize_t taken) {
  if (count == taken && !keywords) return true;
  PyErr_SetString(PyExc_TypeError, "an import takes other arguments");
  return false;
}

/* The imports themselves, for the rest of the SDK. */

static Object *import_get_own(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Option option;
  if (!takes(count, keywords, 0)) return NULL;
  host_get_own(&option);
  return bytes_of(&option);
}

static Object *import_put_own(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Bytes value;
  if (!takes(count, keywords, 1) || !binary(args[0], &value)) return NULL;
  host_put_own(value.data, value.size);
  return held(None);
}

static Object *import_get(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Bytes key;
  Option option;
  if (!takes(count, keywords, 1) || !utf8(args[0], &key)) return NULL;
  host_get(key.data, key.size, &option);
  return bytes_of(&option);
}

static Object *import_put(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Bytes key, value;
  if (!takes(count, keywords, 2) || !utf8(args[0], &key) || !binary(args[1], &value)) return NULL;
  host_put(key.data, key.size, value.data, value.size);
  return held(None);
}

static Object *import_call(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Bytes operator, key, function, arguments, result;
  if (!takes(count, keywords, 4) || !utf8(args[0], &operator) || !utf8(args[1], &key) || !utf8(args[2], &function) ||
      !binary(args[3], &arguments) || !call_host(operator, key, function, arguments, &result))
    return NULL;
  Object *bytes = PyBytes_FromStringAndSize(result.data, (Py_ssize_t)result.size);
  given_back(result);
  return bytes;
}

/* Methods of `State` and `Context`. */

/* The same method in Python. */
static Object *in_python(int method, Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Py_ssize_t named = keywords ? PyTuple_Size(keywords) : 0;
  Object *all[count + named + 1];
  all[0] = self;
  memcpy(all + 1, args, (size_t)(count + named) * sizeof *args);
  return PyObject_Vectorcall(installed[method], all, (size_t)count + 1, keywords);
}

static Object *state_get(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  Option option;
  if (keywords || count > 1) return in_python(GET, self, args, count, keywords);
  if (count == 0 || args[0] == None) {
    host_get_own(&option);
  } else {
    Bytes key;
    if (!STRING(args[0])) return in_python(GET, self, args, count, keywords);
    if (!utf8(args[0], &key)) return NULL;
    host_get(key.data, key.size, &option);
  }
  return value_of(&option);
}

static Object *state_put(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  bool is_own = count == 1 || (count == 2 && args[1] == None);
  if (keywords || !(is_own || (count == 2 && STRING(args[1])))) return in_python(PUT, self, args, count, keywords);
  Json json;
  if (!to_json(args[0], &json)) return NULL;
  Bytes key;
  bool is_put = is_own || utf8(args[1], &key);
  if (is_own) host_put_own(json.data, json.size);
  else if (is_put) host_put(key.data, key.size, json.data, json.size);
  json_dropped(&json);
  return is_put ? held(None) : NULL;
}

/* What is known of a function that is called on an operator; NULL without an exception if nothing is. */
static Object *known_call(Object *operator, Object *function) {
  Object *name = STRING(operator) ? held(operator) : PyObject_GetAttrString(operator, "name");
  Object *operators = name && STRING(name) ? PyDict_GetItemWithError(installed[CALLS], function) : NULL;
  Object *known = operators ? PyDict_GetItemWithError(operators, name) : NULL;
  dropped(name);
  if (!known) PyErr_Clear();
  return known;
}

static Object *context_call(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  if (keywords || count < 3 || !STRING(args[1])) return in_python(CALL, self, args, count, keywords);
  Object *known = known_call(args[0], args[2]);
  if (!known || PyLong_AsSsize_t(PyTuple_GetItem(known, 3)) != count - 3) return in_python(CALL, self, args, count, keywords);
  Bytes operator, key, function, result;
  Json json;
  if (!utf8(PyTuple_GetItem(known, 1), &operator) || !utf8(PyTuple_GetItem(known, 2), &function) || !to_json_array(args + 3, count - 3, &json))
    return NULL;
  bool is_called = utf8(args[1], &key) && call_host(operator, key, function, (Bytes){(char *)json.data, json.size}, &result);
  json_dropped(&json);
  if (!is_called) return NULL;
  Object *value = from_json(result.data, result.size);
  given_back(result);
  if (!value || PyTuple_GetItem(known, 4) == &_Py_FalseStruct) return value;
  Object *converted = call2(installed[CONVERTED], PyTuple_GetItem(known, 0), value);
  dropped(value);
  return converted;
}

/* The export */

/* What was returned lies where it is until the next invocation. */
static Outcome outcome;
static Json returned;
static Object *told[2];

static void begin(void) {
  /* An instance has one thread, which keeps the interpreter from its first invocation on. */
  static bool is_attached = false;
  if (!is_attached) PyGILState_Ensure();
  is_attached = true;
  for (int i = 0; i < 2; i++) {
    dropped(told[i]);
    told[i] = NULL;
  }
  json_dropped(&returned);
  returned.keeper = NULL;
}

/* Takes both texts. Without them nothing can be answered. */
static void fail(Object *code, Object *message) {
  told[0] = code;
  told[1] = message;
  outcome.is_failure = 1;
  if (!code || !message || !utf8(code, &outcome.failure.code) || !utf8(message, &outcome.failure.message)) __builtin_trap();
}

static void invoke_in_python(Bytes name, Bytes key, Bytes arguments) {
  Object *parts[] = {text(name.data, name.size), text(key.data, key.size), PyBytes_FromStringAndSize(arguments.data, (Py_ssize_t)arguments.size)};
  Object *result = parts[0] && parts[1] && parts[2] ? PyObject_Vectorcall(installed[INVOKE], parts, 3, NULL) : NULL;
  for (int i = 0; i < 3; i++) dropped(parts[i]);
  if (result) {
    returned.keeper = result;
    outcome.is_failure = 0;
    if (!binary(result, &outcome.result)) __builtin_trap();
    return;
  }
  Object *error = PyErr_GetRaisedException();
  Object *failure = error ? PyObject_GetAttrString(error, "value") : NULL;
  if (!failure) __builtin_trap();
  fail(PyObject_GetAttrString(failure, "code"), PyObject_GetAttrString(failure, "message"));
  dropped(failure);
  dropped(error);
}

/* Whether the arguments are as many and of the types that a function takes without any conversion. */
static bool fit(Object *values, Object *types, Py_ssize_t needed) {
  Py_ssize_t count = PyList_Size(values);
  if (count < needed || count > PyTuple_Size(types)) return false;
  for (Py_ssize_t i = 0; i < count; i++) {
    Object *type = PyTuple_GetItem(types, i);
    if (type != None && (Object *)PyList_GetItem(values, i)->type != type) return false;
  }
  return true;
}

static void put_slot(Object *context, Py_ssize_t at, Object *value) { *(Object **)((char *)context + at) = held(value); }

/* Takes the arguments' list. The result, as it is or NULL with an exception. */
static Object *run(Object *entry, Bytes key, Object *values) {
  enum { FEW = 8 };
  Py_ssize_t count = values ? PyList_Size(values) : 0;
  Object *few[FEW + 1], **all = count > FEW ? malloc((size_t)(count + 1) * sizeof *all) : few;
  Object *context = all ? PyType_GenericAlloc((Type *)installed[CONTEXT], 0) : PyErr_NoMemory();
  Object *key_text = context ? text(key.data, key.size) : NULL, *result = NULL;
  if (key_text) {
    put_slot(context, key_at, key_text);
    put_slot(context, state_at, PyTuple_GetItem(entry, 2));
    put_slot(context, host_at, installed[HOST]);
    put_slot(context, function_at, PyTuple_GetItem(entry, 0));
    all[0] = context;
    for (Py_ssize_t i = 0; i < count; i++) all[i + 1] = PyList_GetItem(values, i);
    result = PyObject_Vectorcall(PyTuple_GetItem(entry, 1), all, (size_t)count + 1, NULL);
  }
  dropped(key_text);
  dropped(context);
  dropped(values);
  if (all != few) free(all);
  Object *type = PyTuple_GetItem(entry, 5);
  if (result && type != None && (Object *)result->type != type) {
    Object *both[] = {PyTuple_GetItem(entry, 0), result}, *check = PyObject_GetAttr(both[0], check_result_name);
    Object *checked = check ? call1(check, result) : NULL;
    dropped(check);
    if (!checked) {
      dropped(result);
      return NULL;
    }
    dropped(checked);
  }
  return result;
}

static void settle(void) {
  Object *is_dirty = PyObject_GetAttr(installed[INVOCATION], is_dirty_name);
  if (is_dirty == &_Py_FalseStruct) return;
  Object *method = PyObject_GetAttr(installed[INVOCATION], settle_name);
  Object *settled = method ? PyObject_Vectorcall(method, NULL, 0, NULL) : NULL;
  if (!settled) __builtin_trap();
  dropped(settled);
  dropped(method);
}

static void invoke(Bytes name, Bytes key, Bytes arguments) {
  Object *name_text = installed[TABLE] ? text(name.data, name.size) : NULL;
  Object *entry = name_text ? PyDict_GetItemWithError(installed[TABLE], name_text) : NULL, *values = NULL;
  dropped(name_text);
  bool has_none = arguments.size == 2 && !memcmp(arguments.data, "[]", 2);
  bool is_usual = entry && PyTuple_GetItem(entry, 3) != None;
  if (is_usual && has_none) {
    is_usual = PyLong_AsSsize_t(PyTuple_GetItem(entry, 4)) == 0;
  } else if (is_usual) {
    values = from_json(arguments.data, arguments.size);
    is_usual = values && values->type == &PyList_Type && fit(values, PyTuple_GetItem(entry, 3), PyLong_AsSsize_t(PyTuple_GetItem(entry, 4)));
  }
  if (!is_usual) {
    dropped(values);
    PyErr_Clear();
    invoke_in_python(name, key, arguments);
    return;
  }
  Object *result = run(entry, key, values);
  if (result && to_json(result, &returned)) {
    outcome.is_failure = 0;
    outcome.result = (Bytes){(char *)returned.data, returned.size};
    dropped(result);
    settle();
    return;
  }
  dropped(result);
  Object *error = PyErr_GetRaisedException();
  Object *both = call2(installed[FAILED], PyTuple_GetItem(entry, 0), error);
  if (!both) __builtin_trap();
  settle();
  fail(held(PyTuple_GetItem(both, 0)), held(PyTuple_GetItem(both, 1)));
  dropped(both);
  dropped(error);
}

__attribute__((export_name("invoke"))) Outcome *exported_invoke(char *name, size_t name_size, char *key, size_t key_size, char *arguments, size_t arguments_size) {
  begin();
  invoke((Bytes){name, name_size}, (Bytes){key, key_size}, (Bytes){arguments, arguments_size});
  given_back((Bytes){name, name_size});
  given_back((Bytes){key, key_size});
  given_back((Bytes){arguments, arguments_size});
  return &outcome;
}

/* Where the host puts what it gives. All libraries of the component share one heap, so that it does not matter whose of these it uses. */
__attribute__((export_name("cabi_realloc"))) void *cabi_realloc(void *old, size_t old_size, size_t alignment, size_t size) {
  if (!size) return (void *)alignment;
  void *place = realloc(old, size);
  if (!place) __builtin_trap();
  return place;
}

/* The module */

/* Where an instance of a class has a slot, checked by what is in it. */
static Py_ssize_t slot(Object *type, Object *instance, const char *name) {
  Object *descriptor = PyObject_GetAttrString(type, name), *value = PyObject_GetAttrString(instance, name);
  Py_ssize_t at = -1;
  if (descriptor && value) {
    at = ((Slot *)descriptor)->member->offset;
    if (at < (Py_ssize_t)sizeof(Object) || at > 256 || *(Object **)((char *)instance + at) != value) {
      PyErr_SetString(PyExc_RuntimeError, "a slot is not where it is thought to be");
      at = -1;
    }
  }
  dropped(descriptor);
  dropped(value);
  return at;
}

/* call_in_python(invoke): all invocations are its, until an app is installed. */
static Object *call_in_python(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  if (!takes(count, keywords, 1)) return NULL;
  dropped(installed[INVOKE]);
  installed[INVOKE] = held(args[0]);
  return held(None);
}

/* install(context, ...): the app's functions, and a context to look at. */
static Object *install(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  if (!takes(count, keywords, INSTALLED_COUNT + 1)) return NULL;
  Object *type = args[1 + CONTEXT];
  key_at = slot(type, args[0], "key");
  state_at = slot(type, args[0], "state");
  host_at = slot(type, args[0], "_host");
  function_at = slot(type, args[0], "_function");
  if (key_at < 0 || state_at < 0 || host_at < 0 || function_at < 0) return NULL;
  is_dirty_name = PyUnicode_InternFromString("is_dirty");
  settle_name = PyUnicode_InternFromString("settle");
  check_result_name = PyUnicode_InternFromString("check_result");
  zero = PyLong_FromLongLong(0);
  if (!is_dirty_name || !settle_name || !check_result_name || !zero) return NULL;
  for (int i = 0; i < INSTALLED_COUNT; i++) {
    dropped(installed[i]);
    installed[i] = held(args[1 + i]);
  }
  return held(None);
}

/* methods(State, Context): gives the classes their methods in C. */
static Object *methods(Object *self, Object *const *args, Py_ssize_t count, Object *keywords) {
  static Method get = {"get", state_get, METH_FASTCALL_KEYWORDS, NULL}, put = {"put", state_put, METH_FASTCALL_KEYWORDS, NULL},
                call = {"call", context_call, METH_FASTCALL_KEYWORDS, NULL};
  if (!takes(count, keywords, 2)) return NULL;
  struct {
    Object *class;
    Method *method;
  } all[] = {{args[0], &get}, {args[0], &put}, {args[1], &call}};
  for (int i = 0; i < 3; i++) {
    Object *name = PyUnicode_InternFromString(all[i].method->name);
    Object *descriptor = name ? PyDescr_NewMethod((Type *)all[i].class, all[i].method) : NULL;
    int failed = descriptor ? PyObject_SetAttr(all[i].class, name, descriptor) : -1;
    dropped(descriptor);
    dropped(name);
    if (failed) return NULL;
  }
  return held(None);
}

static Method functions[] = {
    {"get_own", import_get_own, METH_FASTCALL_KEYWORDS, NULL},
    {"put_own", import_put_own, METH_FASTCALL_KEYWORDS, NULL},
    {"get", import_get, METH_FASTCALL_KEYWORDS, NULL},
    {"put", import_put, METH_FASTCALL_KEYWORDS, NULL},
    {"call", import_call, METH_FASTCALL_KEYWORDS, NULL},
    {"call_in_python", call_in_python, METH_FASTCALL_KEYWORDS, NULL},
    {"install", install, METH_FASTCALL_KEYWORDS, NULL},
    {"methods", methods, METH_FASTCALL_KEYWORDS, NULL},
    {NULL, NULL, 0, NULL},
};

static ModuleDef module = {.head = {1, NULL}, .name = "_native", .size = -1, .methods = functions};

__attribute__((visibility("default"))) Object *PyInit__native(void) { return PyModule_Create2(&module, PYTHON_API_VERSION); }
