/* What native.c uses of CPython 3.14's interface, as a 32-bit WebAssembly library has it. componentize-py brings the interpreter and no
   headers. All of it is in the stable ABI, but for the places of slots (`Slot`), which are checked where they are taken. */
#pragma once

#include <stddef.h>
#include <stdint.h>

typedef long Py_ssize_t;
typedef struct Object Object;
typedef struct Type Type;

struct Object {
  Py_ssize_t references;
  Type *type;
};

typedef Object *(*Fast)(Object *self, Object *const *args, Py_ssize_t count, Object *keywords);

typedef struct {
  const char *name;
  Fast function;
  int flags;
  const char *doc;
} Method;

enum { METH_FASTCALL_KEYWORDS = 0x82 };

typedef struct {
  Object head;
  Object *(*init)(void);
  Py_ssize_t index;
  Object *copy;
  const char *name;
  const char *doc;
  Py_ssize_t size;
  Method *methods;
  void *slots;
  void *traverse;
  void *clear;
  void *free;
} ModuleDef;

enum { PYTHON_API_VERSION = 1013 };

/* The head of a descriptor of a slot, and of what it describes. */
typedef struct {
  Object head;
  Type *type;
  Object *name;
  Object *qualified_name;
  struct {
    const char *name;
    int type;
    Py_ssize_t offset;
  } *member;
} Slot;

extern Object _Py_NoneStruct, _Py_TrueStruct, _Py_FalseStruct;
extern Type PyLong_Type, PyUnicode_Type, PyList_Type;
extern Object *PyExc_TypeError, *PyExc_RuntimeError;

void Py_IncRef(Object *);
void Py_DecRef(Object *);
int PyGILState_Ensure(void);
Object *PyModule_Create2(ModuleDef *, int);
Object *PyDescr_NewMethod(Type *, Method *);
Object *PyType_GenericAlloc(Type *, Py_ssize_t);
int PyType_IsSubtype(Type *, Type *);

Object *PyObject_Vectorcall(Object *, Object *const *, size_t, Object *);
Object *PyObject_GetAttrString(Object *, const char *);
Object *PyObject_GetAttr(Object *, Object *);
int PyObject_SetAttr(Object *, Object *, Object *);

Py_ssize_t PyUnicode_GetLength(Object *);
Object *PyUnicode_DecodeUTF8(const char *, Py_ssize_t, const char *);
const char *PyUnicode_AsUTF8AndSize(Object *, Py_ssize_t *);
Object *PyUnicode_AsUTF8String(Object *);
Object *PyUnicode_InternFromString(const char *);
Object *PyBytes_FromStringAndSize(const char *, Py_ssize_t);
int PyBytes_AsStringAndSize(Object *, char **, Py_ssize_t *);
Object *PyLong_FromLongLong(long long);
long long PyLong_AsLongLongAndOverflow(Object *, int *);
Py_ssize_t PyLong_AsSsize_t(Object *);
Object *PyTuple_New(Py_ssize_t);
Py_ssize_t PyTuple_Size(Object *);
Object *PyTuple_GetItem(Object *, Py_ssize_t);
int PyTuple_SetItem(Object *, Py_ssize_t, Object *);
Object *PyList_New(Py_ssize_t);
Py_ssize_t PyList_Size(Object *);
Object *PyList_GetItem(Object *, Py_ssize_t);
int PyList_Append(Object *, Object *);
Object *PyDict_GetItemWithError(Object *, Object *);
void PyDict_Clear(Object *);

Object *PyErr_GetRaisedException(void);
void PyErr_SetRaisedException(Object *);
void PyErr_SetObject(Object *, Object *);
void PyErr_SetString(Object *, const char *);
void PyErr_Clear(void);
Object *PyErr_NoMemory(void);
