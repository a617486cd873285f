package styx

import (
	"encoding"
	"encoding/json"
	"reflect"
	"strings"
	"sync"
	"sync/atomic"
	"unsafe"
)

// field is a field of a struct as JSON has it.
type field struct {
	name      string
	offset    uintptr
	kind      reflect.Type
	omitEmpty bool
	omitZero  bool
	doc       string
}

var (
	marshalerType       = reflect.TypeFor[json.Marshaler]()
	unmarshalerType     = reflect.TypeFor[json.Unmarshaler]()
	textMarshalerType   = reflect.TypeFor[encoding.TextMarshaler]()
	textUnmarshalerType = reflect.TypeFor[encoding.TextUnmarshaler]()
	numberType          = reflect.TypeFor[json.Number]()
	rawType             = reflect.TypeFor[json.RawMessage]()
)

// fieldsOf lists the fields of a struct in their order, with those of embedded structs in their place.
func fieldsOf(kind reflect.Type) []field {
	var fields []field
	for i := range kind.NumField() {
		of := kind.Field(i)
		tag, tagged := of.Tag.Lookup("json")
		name, options, _ := strings.Cut(tag, ",")
		if name == "-" && options == "" {
			continue
		}
		if of.Anonymous && name == "" && of.Type.Kind() == reflect.Struct && !ownJSON(of.Type) {
			for _, inner := range fieldsOf(of.Type) {
				inner.offset += of.Offset
				fields = add(fields, inner, false)
			}
			continue
		}
		if !of.IsExported() {
			continue
		}
		if name == "" {
			name = of.Name
		}
		has := func(option string) bool { return tagged && strings.Contains(","+options+",", ","+option+",") }
		fields = add(fields, field{
			name: name, offset: of.Offset, kind: of.Type,
			omitEmpty: has("omitempty"), omitZero: has("omitzero"), doc: of.Tag.Get("doc"),
		}, true)
	}
	return fields
}

// add adds a field; of two with one name, the outer one counts.
func add(fields []field, next field, outer bool) []field {
	for i := range fields {
		if fields[i].name == next.name {
			if outer {
				fields[i] = next
			}
			return fields
		}
	}
	return append(fields, next)
}

// ownJSON says whether a type makes its JSON by itself.
func ownJSON(kind reflect.Type) bool {
	pointer := reflect.PointerTo(kind)
	return pointer.Implements(marshalerType) || pointer.Implements(textMarshalerType)
}

// cache keeps what was made of a type. What is made of a type that contains itself is found by its place in `making`.
type cache[T any] struct {
	lock sync.RWMutex
	made map[reflect.Type]T
}

func (c *cache[T]) get(kind reflect.Type) (T, bool) {
	c.lock.RLock()
	made, found := c.made[kind]
	c.lock.RUnlock()
	return made, found
}

func (c *cache[T]) put(kind reflect.Type, made T) {
	c.lock.Lock()
	if c.made == nil {
		c.made = map[reflect.Type]T{}
	}
	c.made[kind] = made
	c.lock.Unlock()
}

// lately has what was made of types that were used before, by the places of their descriptions: no lock, and no hash of a type.
type lately[T any] [64]atomic.Pointer[known[T]]

type known[T any] struct {
	kind unsafe.Pointer
	made T
}

func (l *lately[T]) slot(kind unsafe.Pointer) *atomic.Pointer[known[T]] {
	return &l[uintptr(kind)>>5%uintptr(len(l))]
}

// find is nil if it is not there.
func (l *lately[T]) find(kind unsafe.Pointer) *T {
	if each := l.slot(kind).Load(); each != nil && each.kind == kind {
		return &each.made
	}
	return nil
}

func (l *lately[T]) keep(kind unsafe.Pointer, made T) *T {
	each := &known[T]{kind, made}
	l.slot(kind).Store(each)
	return &each.made
}
