package styx

import (
	"bytes"
	"cmp"
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"slices"
	"strconv"
	"unicode/utf8"
	"unsafe"
)

// encoder appends the JSON of the value at a place. One is made for each type, so that an invocation looks at no types.
//
// JSON is compact, as the other SDKs write it: keys of structs in their order, of maps sorted; nil slices and maps are
// empty ones; floats keep their point; nothing is escaped that need not be. What JSON cannot say is an error.
type encoder func(out []byte, at unsafe.Pointer) ([]byte, error)

var encoders cache[encoder]

func encoderOf(kind reflect.Type) (encoder, error) {
	if made, found := encoders.get(kind); found {
		return made, nil
	}
	made, err := makeEncoder(kind, map[reflect.Type]*encoder{})
	if err == nil {
		encoders.put(kind, made)
	}
	return made, err
}

// appendInt appends a number; those of up to nine digits, which most are, without a call.
func appendInt(out []byte, number int64) []byte {
	if uint64(number) > 999_999_999 {
		return strconv.AppendInt(out, number, 10)
	}
	var digits [9]byte
	rest, at := uint32(number), len(digits)
	for {
		at--
		digits[at] = byte('0' + rest%10)
		if rest /= 10; rest == 0 {
			return append(out, digits[at:]...)
		}
	}
}

// appendAny appends the JSON of a value of any type.
func appendAny(out []byte, value any) ([]byte, error) {
	switch value := value.(type) {
	case nil:
		return append(out, "null"...), nil
	case int:
		return appendInt(out, int64(value)), nil
	case int64:
		return appendInt(out, value), nil
	case uint64:
		return strconv.AppendUint(out, value, 10), nil
	case string:
		return appendString(out, value)
	}
	return appendByType(out, value)
}

// written is how the values of a type are written that are in an interface.
type written struct {
	encode encoder
	held   held
}

// held is where an interface has its value.
type held uint8

const (
	// aside: the interface points to it.
	aside held = iota
	// inside: a pointer, in the interface itself.
	inside
	// unclear: it is copied, which tells nothing of that, or because code of the user's may change it.
	unclear
)

var writtenLately lately[written]

func appendByType(out []byte, value any) ([]byte, error) {
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	how := writtenLately.find(words[0])
	if how == nil {
		kind := reflect.TypeOf(value)
		encode, err := encoderOf(kind)
		if err != nil {
			return out, err
		}
		how = writtenLately.keep(words[0], written{encode, heldOf(kind)})
	}
	switch how.held {
	case inside:
		pointer := words[1]
		return how.encode(out, unsafe.Pointer(&pointer))
	case unclear:
		copied := reflect.New(reflect.TypeOf(value))
		copied.Elem().Set(reflect.ValueOf(value))
		return how.encode(out, copied.UnsafePointer())
	}
	return how.encode(out, words[1])
}

func heldOf(kind reflect.Type) held {
	switch kind.Kind() {
	case reflect.Pointer, reflect.Map, reflect.UnsafePointer, reflect.Func, reflect.Chan:
		return inside
	case reflect.Struct, reflect.Array:
		// Go keeps some that are no more than a pointer like one.
		if kind.Size() <= unsafe.Sizeof(uintptr(0)) && !isPlain(kind, false) || !isPlain(kind, true) {
			return unclear
		}
	}
	return aside
}

// isPlain says whether the memory of a value itself has nothing that makes its own JSON and, unless pointers are taken, no
// pointers.
func isPlain(kind reflect.Type, pointers bool) bool {
	if ownJSON(kind) {
		return false
	}
	switch kind.Kind() {
	case reflect.Struct:
		for i := range kind.NumField() {
			if !isPlain(kind.Field(i).Type, pointers) {
				return false
			}
		}
		return true
	case reflect.Array:
		return isPlain(kind.Elem(), pointers)
	case reflect.Pointer, reflect.Map, reflect.UnsafePointer, reflect.Func, reflect.Chan:
		return pointers
	}
	return true
}

func makeEncoder(kind reflect.Type, making map[reflect.Type]*encoder) (encoder, error) {
	if made, found := making[kind]; found {
		return func(out []byte, at unsafe.Pointer) ([]byte, error) { return (*made)(out, at) }, nil
	}
	var made encoder
	making[kind] = &made
	var err error
	made, err = newEncoder(kind, making)
	return made, err
}

func newEncoder(kind reflect.Type, making map[reflect.Type]*encoder) (encoder, error) {
	switch kind {
	case numberType:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			number := *(*string)(at)
			r := reader{data: []byte(number)}
			if r.number() == nil || r.at != len(number) {
				return out, fmt.Errorf("%q is no number", number)
			}
			return append(out, number...), nil
		}, nil
	case rawType:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendCompact(out, *(*[]byte)(at))
		}, nil
	}
	if reflect.PointerTo(kind).Implements(marshalerType) && !(kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Interface) {
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			text, err := reflect.NewAt(kind, at).Interface().(json.Marshaler).MarshalJSON()
			if err != nil {
				return out, err
			}
			return appendCompact(out, text)
		}, nil
	}
	if reflect.PointerTo(kind).Implements(textMarshalerType) && !(kind.Kind() == reflect.Pointer || kind.Kind() == reflect.Interface) {
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			text, err := reflect.NewAt(kind, at).Interface().(encoding.TextMarshaler).MarshalText()
			if err != nil {
				return out, err
			}
			return appendString(out, string(text))
		}, nil
	}
	switch kind.Kind() {
	case reflect.Bool:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return strconv.AppendBool(out, *(*bool)(at)), nil
		}, nil
	case reflect.Int, reflect.Int64:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendInt(out, *(*int64)(at)), nil
		}, nil
	case reflect.Int32:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendInt(out, int64(*(*int32)(at))), nil
		}, nil
	case reflect.Int16:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendInt(out, int64(*(*int16)(at))), nil
		}, nil
	case reflect.Int8:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendInt(out, int64(*(*int8)(at))), nil
		}, nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return strconv.AppendUint(out, *(*uint64)(at), 10), nil
		}, nil
	case reflect.Uint32:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return strconv.AppendUint(out, uint64(*(*uint32)(at)), 10), nil
		}, nil
	case reflect.Uint16:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return strconv.AppendUint(out, uint64(*(*uint16)(at)), 10), nil
		}, nil
	case reflect.Uint8:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return strconv.AppendUint(out, uint64(*(*uint8)(at)), 10), nil
		}, nil
	case reflect.Float64:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendFloat(out, *(*float64)(at), 64)
		}, nil
	case reflect.Float32:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendFloat(out, float64(*(*float32)(at)), 32)
		}, nil
	case reflect.String:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendString(out, *(*string)(at))
		}, nil
	case reflect.Interface:
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			value := reflect.NewAt(kind, at).Elem()
			if value.IsNil() {
				return append(out, "null"...), nil
			}
			return appendAny(out, value.Elem().Interface())
		}, nil
	case reflect.Pointer:
		inner, err := makeEncoder(kind.Elem(), making)
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			target := *(*unsafe.Pointer)(at)
			if target == nil {
				return append(out, "null"...), nil
			}
			return inner(out, target)
		}, err
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return func(out []byte, at unsafe.Pointer) ([]byte, error) {
				out = append(out, '"')
				out = base64.StdEncoding.AppendEncode(out, *(*[]byte)(at))
				return append(out, '"'), nil
			}, nil
		}
		inner, err := makeEncoder(kind.Elem(), making)
		size := kind.Elem().Size()
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			slice := (*struct {
				data     unsafe.Pointer
				len, cap int
			})(at)
			return appendElements(out, slice.data, slice.len, size, inner)
		}, err
	case reflect.Array:
		inner, err := makeEncoder(kind.Elem(), making)
		size, count := kind.Elem().Size(), kind.Len()
		return func(out []byte, at unsafe.Pointer) ([]byte, error) {
			return appendElements(out, at, count, size, inner)
		}, err
	case reflect.Map:
		return mapEncoder(kind, making)
	case reflect.Struct:
		return structEncoder(kind, making)
	}
	return nil, fmt.Errorf("a value of type %s has no JSON form", kind)
}

func appendElements(out []byte, at unsafe.Pointer, count int, size uintptr, inner encoder) ([]byte, error) {
	out = append(out, '[')
	for i := range count {
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = inner(out, unsafe.Add(at, uintptr(i)*size)); err != nil {
			return out, err
		}
	}
	return append(out, ']'), nil
}

func mapEncoder(kind reflect.Type, making map[reflect.Type]*encoder) (encoder, error) {
	inner, err := makeEncoder(kind.Elem(), making)
	if err != nil {
		return nil, err
	}
	if _, err = keyOf(reflect.Zero(kind.Key())); err != nil {
		return nil, err
	}
	return func(out []byte, at unsafe.Pointer) ([]byte, error) {
		value := reflect.NewAt(kind, at).Elem()
		type member struct {
			key   string
			value reflect.Value
		}
		members := make([]member, 0, value.Len())
		for each := value.MapRange(); each.Next(); {
			key, err := keyOf(each.Key())
			if err != nil {
				return out, err
			}
			members = append(members, member{key, each.Value()})
		}
		slices.SortFunc(members, func(a, b member) int { return cmp.Compare(a.key, b.key) })
		element := reflect.New(kind.Elem())
		out = append(out, '{')
		for i, member := range members {
			if i > 0 {
				out = append(out, ',')
			}
			var err error
			if out, err = appendString(out, member.key); err != nil {
				return out, err
			}
			out = append(out, ':')
			element.Elem().Set(member.value)
			if out, err = inner(out, element.UnsafePointer()); err != nil {
				return out, err
			}
		}
		return append(out, '}'), nil
	}, nil
}

// keyOf is a map's key as a string, which is what keys of JSON objects are.
func keyOf(key reflect.Value) (string, error) {
	if key.Kind() == reflect.String {
		return key.String(), nil
	}
	if text, is := key.Interface().(encoding.TextMarshaler); is {
		data, err := text.MarshalText()
		return string(data), err
	}
	switch {
	case key.CanInt():
		return strconv.FormatInt(key.Int(), 10), nil
	case key.CanUint():
		return strconv.FormatUint(key.Uint(), 10), nil
	}
	return "", fmt.Errorf("a map with keys of type %s has no JSON form: keys are strings or whole numbers", key.Type())
}

func structEncoder(kind reflect.Type, making map[reflect.Type]*encoder) (encoder, error) {
	type member struct {
		field
		encode encoder
		// lead is the key with its quotes and the colon.
		lead []byte
	}
	var members []member
	for _, field := range fieldsOf(kind) {
		inner, err := makeEncoder(field.kind, making)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		lead, err := appendString(nil, field.name)
		if err != nil {
			return nil, err
		}
		members = append(members, member{field, inner, append(lead, ':')})
	}
	return func(out []byte, at unsafe.Pointer) ([]byte, error) {
		out = append(out, '{')
		first := true
		for i := range members {
			member := &members[i]
			at := unsafe.Add(at, member.offset)
			if member.omitEmpty && isEmpty(reflect.NewAt(member.kind, at).Elem()) ||
				member.omitZero && reflect.NewAt(member.kind, at).Elem().IsZero() {
				continue
			}
			if !first {
				out = append(out, ',')
			}
			first = false
			out = append(out, member.lead...)
			var err error
			if out, err = member.encode(out, at); err != nil {
				return out, fmt.Errorf("%s: %w", member.name, err)
			}
		}
		return append(out, '}'), nil
	}, nil
}

func isEmpty(value reflect.Value) bool {
	switch value.Kind() {
	case reflect.Array, reflect.Map, reflect.Slice, reflect.String:
		return value.Len() == 0
	case reflect.Struct:
		return false
	}
	return value.IsZero()
}

func appendFloat(out []byte, value float64, bits int) ([]byte, error) {
	if math.IsNaN(value) || math.IsInf(value, 0) {
		return out, fmt.Errorf("%v has no JSON form", value)
	}
	format := byte('f')
	if size := math.Abs(value); size != 0 && (size < 1e-5 || size >= 1e16) {
		format = 'e'
	}
	start := len(out)
	out = strconv.AppendFloat(out, value, format, -1, bits)
	if format == 'f' && bytes.IndexByte(out[start:], '.') < 0 {
		out = append(out, ".0"...)
	}
	return out, nil
}

const hexadecimal = "0123456789abcdef"

var errNoUTF8 = errors.New("a string that is not UTF-8 has no JSON form: use []byte")

func appendString(out []byte, text string) ([]byte, error) {
	out = append(out, '"')
	data := unsafe.Slice(unsafe.StringData(text), len(text))
	start := 0
	for at := 0; ; {
		at += plain(data[at:])
		if at >= len(data) {
			break
		}
		c := data[at]
		if c >= utf8.RuneSelf {
			_, size := utf8.DecodeRune(data[at:])
			if size == 1 {
				return out, errNoUTF8
			}
			at += size
			continue
		}
		out = append(out, text[start:at]...)
		switch c {
		case '"', '\\':
			out = append(out, '\\', c)
		case '\n':
			out = append(out, `\n`...)
		case '\r':
			out = append(out, `\r`...)
		case '\t':
			out = append(out, `\t`...)
		case '\b':
			out = append(out, `\b`...)
		case '\f':
			out = append(out, `\f`...)
		default:
			out = append(out, '\\', 'u', '0', '0', hexadecimal[c>>4], hexadecimal[c&15])
		}
		at++
		start = at
	}
	out = append(out, text[start:]...)
	return append(out, '"'), nil
}

// plain is how many bytes at the start stand in a JSON string as they are, and are ASCII. Eight are looked at together.
func plain(data []byte) int {
	const each, high = 0x0101010101010101, 0x8080808080808080
	at := 0
	for ; at+8 <= len(data); at += 8 {
		word := *(*uint64)(unsafe.Pointer(&data[at]))
		quote, slash := word^('"'*each), word^('\\'*each)
		if (word|(word-' '*each)|(quote-each)|(slash-each))&high != 0 {
			break
		}
	}
	for at < len(data) && data[at] >= ' ' && data[at] < utf8.RuneSelf && data[at] != '"' && data[at] != '\\' {
		at++
	}
	return at
}

func appendCompact(out, text []byte) ([]byte, error) {
	if len(text) == 0 {
		return append(out, "null"...), nil
	}
	buffer := bytes.NewBuffer(out)
	if err := json.Compact(buffer, text); err != nil {
		return out, err
	}
	return buffer.Bytes(), nil
}
