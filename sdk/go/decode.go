package styx

import (
	"encoding"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"reflect"
	"strconv"
	"unicode/utf16"
	"unicode/utf8"
	"unsafe"
)

// decoder reads JSON into the place of a value. One is made for each type.
//
// Nothing is changed silently: a number that its type does not hold is an error, and so is a null where nothing can be
// absent. Numbers in an `any` are json.Number. What a struct does not have is skipped, what the JSON does not have is zero.
type decoder func(r *reader, at unsafe.Pointer) error

var decoders cache[decoder]

func decoderOf(kind reflect.Type) (decoder, error) {
	if made, found := decoders.get(kind); found {
		return made, nil
	}
	made, err := makeDecoder(kind, map[reflect.Type]*decoder{})
	if err == nil {
		decoders.put(kind, made)
	}
	return made, err
}

// readLately has them by the types of pointers to what they read.
var readLately lately[decoder]

// unmarshal reads all of a text into what value points to.
func unmarshal(data []byte, value any) error {
	switch value := value.(type) {
	case *int:
		if number, is := wholeNumber(data); is {
			*value = int(number)
			return nil
		}
		return decodeAll(data, decodeInt[int], unsafe.Pointer(value))
	case *int64:
		if number, is := wholeNumber(data); is {
			*value = number
			return nil
		}
		return decodeAll(data, decodeInt[int64], unsafe.Pointer(value))
	case *uint64:
		return decodeAll(data, decodeUint[uint64], unsafe.Pointer(value))
	}
	words := (*[2]unsafe.Pointer)(unsafe.Pointer(&value))
	decode := readLately.find(words[0])
	if decode == nil || words[1] == nil {
		kind := reflect.TypeOf(value)
		if kind == nil || kind.Kind() != reflect.Pointer || words[1] == nil {
			return fmt.Errorf("a value is read into a pointer, not into %T", value)
		}
		made, err := decoderOf(kind.Elem())
		if err != nil {
			return err
		}
		decode = readLately.keep(words[0], made)
	}
	return decodeAll(data, *decode, words[1])
}

// wholeNumber is all of a text as a number, if that is at most eighteen digits, perhaps behind a sign. Most that are stored or
// returned are.
func wholeNumber(data []byte) (number int64, is bool) {
	digits := data
	if len(data) > 0 && data[0] == '-' {
		digits = data[1:]
	}
	if len(digits) == 0 || len(digits) > 18 || digits[0] == '0' && len(digits) > 1 {
		return 0, false
	}
	for _, digit := range digits {
		if digit -= '0'; digit > 9 {
			return 0, false
		}
		number = number*10 + int64(digit)
	}
	if len(digits) < len(data) {
		number = -number
	}
	return number, true
}

func decodeAll(data []byte, decode decoder, at unsafe.Pointer) error {
	r := takeReader(data)
	err := decode(r, at)
	if err == nil {
		err = r.end()
	}
	keepReader(r)
	return err
}

func makeDecoder(kind reflect.Type, making map[reflect.Type]*decoder) (decoder, error) {
	if made, found := making[kind]; found {
		return func(r *reader, at unsafe.Pointer) error { return (*made)(r, at) }, nil
	}
	var made decoder
	making[kind] = &made
	var err error
	made, err = newDecoder(kind, making)
	return made, err
}

func newDecoder(kind reflect.Type, making map[reflect.Type]*decoder) (decoder, error) {
	pointer := reflect.PointerTo(kind)
	switch {
	case kind == numberType:
		return func(r *reader, at unsafe.Pointer) error {
			number := r.number()
			if number == nil {
				return r.expected("a number")
			}
			*(*json.Number)(at) = json.Number(number)
			return nil
		}, nil
	case kind.Kind() == reflect.Pointer:
		inner, err := makeDecoder(kind.Elem(), making)
		return func(r *reader, at unsafe.Pointer) error {
			if r.null() {
				*(*unsafe.Pointer)(at) = nil
				return nil
			}
			target := reflect.New(kind.Elem())
			if err := inner(r, target.UnsafePointer()); err != nil {
				return err
			}
			reflect.NewAt(kind, at).Elem().Set(target)
			return nil
		}, err
	case pointer.Implements(unmarshalerType):
		return func(r *reader, at unsafe.Pointer) error {
			text, err := r.value()
			if err != nil {
				return err
			}
			return reflect.NewAt(kind, at).Interface().(json.Unmarshaler).UnmarshalJSON(text)
		}, nil
	case pointer.Implements(textUnmarshalerType):
		return func(r *reader, at unsafe.Pointer) error {
			text, err := r.text()
			if err != nil {
				return err
			}
			return reflect.NewAt(kind, at).Interface().(encoding.TextUnmarshaler).UnmarshalText([]byte(text))
		}, nil
	}
	switch kind.Kind() {
	case reflect.Bool:
		return func(r *reader, at unsafe.Pointer) error {
			switch {
			case r.word("true"):
				*(*bool)(at) = true
			case r.word("false"):
				*(*bool)(at) = false
			default:
				return r.expected("true or false")
			}
			return nil
		}, nil
	case reflect.Int, reflect.Int64:
		return decodeInt[int64], nil
	case reflect.Int32:
		return decodeInt[int32], nil
	case reflect.Int16:
		return decodeInt[int16], nil
	case reflect.Int8:
		return decodeInt[int8], nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return decodeUint[uint64], nil
	case reflect.Uint32:
		return decodeUint[uint32], nil
	case reflect.Uint16:
		return decodeUint[uint16], nil
	case reflect.Uint8:
		return decodeUint[uint8], nil
	case reflect.Float64:
		return func(r *reader, at unsafe.Pointer) (err error) {
			*(*float64)(at), err = r.float(64)
			return err
		}, nil
	case reflect.Float32:
		return func(r *reader, at unsafe.Pointer) error {
			number, err := r.float(32)
			*(*float32)(at) = float32(number)
			return err
		}, nil
	case reflect.String:
		return func(r *reader, at unsafe.Pointer) (err error) {
			*(*string)(at), err = r.text()
			return err
		}, nil
	case reflect.Interface:
		if kind.NumMethod() > 0 {
			return nil, fmt.Errorf("a value of type %s cannot be read: say which type it has", kind)
		}
		return func(r *reader, at unsafe.Pointer) (err error) {
			*(*any)(at), err = r.any()
			return err
		}, nil
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return func(r *reader, at unsafe.Pointer) error {
				text, err := r.text()
				if err != nil {
					return err
				}
				data, err := base64.StdEncoding.DecodeString(text)
				*(*[]byte)(at) = data
				return err
			}, nil
		}
		inner, err := makeDecoder(kind.Elem(), making)
		return sliceDecoder(kind, inner), err
	case reflect.Array:
		inner, err := makeDecoder(kind.Elem(), making)
		size, count := kind.Elem().Size(), kind.Len()
		return func(r *reader, at unsafe.Pointer) error {
			read := 0
			err := r.elements(func() error {
				if read == count {
					return fmt.Errorf("more than %d elements", count)
				}
				read++
				return inner(r, unsafe.Add(at, uintptr(read-1)*size))
			})
			if err == nil && read < count {
				err = fmt.Errorf("%d elements, not %d", read, count)
			}
			return err
		}, err
	case reflect.Map:
		return mapDecoder(kind, making)
	case reflect.Struct:
		return structDecoder(kind, making)
	}
	return nil, fmt.Errorf("a value of type %s has no JSON form", kind)
}

func decodeInt[T ~int | ~int8 | ~int16 | ~int32 | ~int64](r *reader, at unsafe.Pointer) error {
	number, err := r.integer()
	if err == nil && int64(T(number)) != number {
		err = fmt.Errorf("%d does not fit into %T", number, T(0))
	}
	*(*T)(at) = T(number)
	return err
}

func decodeUint[T ~uint8 | ~uint16 | ~uint32 | ~uint64](r *reader, at unsafe.Pointer) error {
	number, err := r.unsigned()
	if err == nil && uint64(T(number)) != number {
		err = fmt.Errorf("%d does not fit into %T", number, T(0))
	}
	*(*T)(at) = T(number)
	return err
}

func sliceDecoder(kind reflect.Type, inner decoder) decoder {
	size := kind.Elem().Size()
	return func(r *reader, at unsafe.Pointer) error {
		slice := reflect.MakeSlice(kind, 0, 0)
		// Elements are read into their places; what grows is moved by reflection, which knows of pointers.
		place := reflect.New(kind).Elem()
		place.Set(slice)
		err := r.elements(func() error {
			length := place.Len()
			if length == place.Cap() {
				place.Grow(max(4, length))
			}
			place.SetLen(length + 1)
			return inner(r, unsafe.Add(place.UnsafePointer(), uintptr(length)*size))
		})
		if err == nil {
			reflect.NewAt(kind, at).Elem().Set(place)
		}
		return err
	}
}

func mapDecoder(kind reflect.Type, making map[reflect.Type]*decoder) (decoder, error) {
	inner, err := makeDecoder(kind.Elem(), making)
	if err != nil {
		return nil, err
	}
	key := kind.Key()
	if _, err := keyOf(reflect.Zero(key)); err != nil {
		return nil, err
	}
	return func(r *reader, at unsafe.Pointer) error {
		made := reflect.MakeMap(kind)
		err := r.members(func(name []byte) error {
			of := reflect.New(key)
			if err := setKey(of, string(name)); err != nil {
				return err
			}
			value := reflect.New(kind.Elem())
			if err := inner(r, value.UnsafePointer()); err != nil {
				return err
			}
			made.SetMapIndex(of.Elem(), value.Elem())
			return nil
		})
		if err == nil {
			reflect.NewAt(kind, at).Elem().Set(made)
		}
		return err
	}, nil
}

func setKey(key reflect.Value, name string) (err error) {
	into := key.Elem()
	if text, is := key.Interface().(encoding.TextUnmarshaler); is && into.Kind() != reflect.String {
		return text.UnmarshalText([]byte(name))
	}
	var number int64
	var unsigned uint64
	switch {
	case into.Kind() == reflect.String:
		into.SetString(name)
	case into.CanInt():
		number, err = strconv.ParseInt(name, 10, into.Type().Bits())
		into.SetInt(number)
	default:
		unsigned, err = strconv.ParseUint(name, 10, into.Type().Bits())
		into.SetUint(unsigned)
	}
	if err != nil {
		err = fmt.Errorf("the key %q is no %s", name, into.Type())
	}
	return err
}

func structDecoder(kind reflect.Type, making map[reflect.Type]*decoder) (decoder, error) {
	type member struct {
		name   string
		offset uintptr
		decode decoder
		needed bool
	}
	var members []member
	for _, field := range fieldsOf(kind) {
		inner, err := makeDecoder(field.kind, making)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", field.name, err)
		}
		members = append(members, member{field.name, field.offset, inner, !field.omitEmpty && !field.omitZero})
	}
	return func(r *reader, at unsafe.Pointer) error {
		expected := 0
		var seen []bool
		if r.strict {
			seen = make([]bool, len(members))
		}
		err := r.members(func(name []byte) error {
			// Fields mostly come in their order.
			for i := range members {
				member := &members[(expected+i)%len(members)]
				if string(name) == member.name {
					if r.strict {
						seen[(expected+i)%len(members)] = true
					}
					expected = expected + i + 1
					return member.decode(r, unsafe.Add(at, member.offset))
				}
			}
			_, err := r.value()
			return err
		})
		for i := range seen {
			if err == nil && !seen[i] && members[i].needed {
				err = fmt.Errorf("%s is missing", members[i].name)
			}
		}
		return err
	}, nil
}

// reader goes through a JSON text.
type reader struct {
	data  []byte
	at    int
	depth int
	// strict wants all fields that need to be there.
	strict bool
}

// depthMax bounds how deep arrays and objects may be in each other.
const depthMax = 1000

var errTooDeep = errors.New("the JSON is nested too deeply")

func (r *reader) skip() {
	for r.at < len(r.data) {
		switch r.data[r.at] {
		case ' ', '\n', '\r', '\t':
			r.at++
		default:
			return
		}
	}
}

// peek is the first byte of the next value or mark; 0 at the end.
func (r *reader) peek() byte {
	if r.at < len(r.data) && r.data[r.at] > ' ' {
		return r.data[r.at]
	}
	r.skip()
	if r.at < len(r.data) {
		return r.data[r.at]
	}
	return 0
}

func (r *reader) mark(mark byte) bool {
	if r.peek() != mark {
		return false
	}
	r.at++
	return true
}

func (r *reader) word(word string) bool {
	r.peek()
	end := r.at + len(word)
	if end > len(r.data) || string(r.data[r.at:end]) != word {
		return false
	}
	r.at = end
	return true
}

func (r *reader) null() bool { return r.peek() == 'n' && r.word("null") }

func (r *reader) end() error {
	if r.peek() != 0 || r.at < len(r.data) {
		return fmt.Errorf("invalid JSON: something follows at byte %d", r.at)
	}
	return nil
}

func (r *reader) invalid() error {
	if r.at >= len(r.data) {
		return errors.New("invalid JSON: it ends too early")
	}
	return fmt.Errorf("invalid JSON at byte %d", r.at)
}

// expected is the error for a value of another type.
func (r *reader) expected(what string) error {
	found := ""
	switch c := r.peek(); {
	case c == '"':
		found = "a string"
	case c == '[':
		found = "an array"
	case c == '{':
		found = "an object"
	case c == '-' || c >= '0' && c <= '9':
		found = string(r.number())
	case c == 't' || c == 'f':
		found = "a boolean"
	case c == 'n':
		found = "null"
	}
	if found == "" {
		return r.invalid()
	}
	return fmt.Errorf("expected %s, not %s", what, found)
}

// number is the text of the number that comes; nil if none comes.
func (r *reader) number() []byte {
	r.peek()
	start, at, data := r.at, r.at, r.data
	digits := func() bool {
		first := at
		for at < len(data) && data[at] >= '0' && data[at] <= '9' {
			at++
		}
		return at > first
	}
	if at < len(data) && data[at] == '-' {
		at++
	}
	if at < len(data) && data[at] == '0' {
		at++
	} else if !digits() {
		return nil
	}
	if at < len(data) && data[at] == '.' {
		at++
		if !digits() {
			return nil
		}
	}
	if at < len(data) && data[at]|0x20 == 'e' {
		at++
		if at < len(data) && (data[at] == '+' || data[at] == '-') {
			at++
		}
		if !digits() {
			return nil
		}
	}
	r.at = at
	return data[start:at]
}

func (r *reader) integer() (int64, error) {
	negative := r.peek() == '-'
	if negative {
		r.at++
	}
	start := r.at
	number, err := r.unsignedFrom("an integer")
	switch {
	case err != nil:
		if negative {
			r.at = start - 1
			err = r.expected("an integer")
		}
	case negative && number <= 1<<63:
		return -int64(number), nil
	case !negative && number <= math.MaxInt64:
		return int64(number), nil
	default:
		err = fmt.Errorf("%s does not fit into 64 bits", r.data[start:r.at])
	}
	return 0, err
}

func (r *reader) unsigned() (uint64, error) {
	if r.peek() == '-' {
		return 0, r.expected("an integer of at least 0")
	}
	return r.unsignedFrom("an integer")
}

func (r *reader) unsignedFrom(what string) (uint64, error) {
	start := r.at
	var number uint64
	at := start
	for at < len(r.data) && r.data[at]-'0' <= 9 {
		digit := uint64(r.data[at] - '0')
		// Nineteen digits fit, and to find out costs a division.
		if at-start >= 19 && number > (math.MaxUint64-digit)/10 {
			text := r.number()
			return 0, fmt.Errorf("%s does not fit into 64 bits", text)
		}
		number = number*10 + digit
		at++
	}
	fraction := at < len(r.data) && (r.data[at] == '.' || r.data[at]|0x20 == 'e')
	if at == start || fraction || at > start+1 && r.data[start] == '0' {
		return 0, r.expected(what)
	}
	r.at = at
	return number, nil
}

func (r *reader) float(bits int) (float64, error) {
	text := r.number()
	if text == nil {
		return 0, r.expected("a number")
	}
	number, err := strconv.ParseFloat(string(text), bits)
	if err != nil {
		err = fmt.Errorf("%s does not fit into a float%d", text, bits)
	}
	return number, err
}

func (r *reader) text() (string, error) {
	text, err := r.bytes()
	return kept(text), err
}

// bytes is the string that comes, which may be a part of the text.
func (r *reader) bytes() ([]byte, error) {
	if r.peek() != '"' {
		return nil, r.expected("a string")
	}
	start := r.at + 1
	ascii := true
	for at := start; ; {
		at += plain(r.data[min(at, len(r.data)):])
		if at >= len(r.data) {
			break
		}
		switch c := r.data[at]; {
		case c == '"':
			text := r.data[start:at]
			if !ascii && !utf8.Valid(text) {
				return nil, r.invalid()
			}
			r.at = at + 1
			return text, nil
		case c == '\\':
			return r.escaped(start, at)
		case c < ' ':
			r.at = at
			return nil, r.invalid()
		}
		ascii = false
		for at < len(r.data) && r.data[at] >= utf8.RuneSelf {
			at++
		}
	}
	r.at = len(r.data)
	return nil, r.invalid()
}

func (r *reader) escaped(start, at int) ([]byte, error) {
	text := append([]byte(nil), r.data[start:at]...)
	for r.at = at; r.at < len(r.data); {
		switch c := r.data[r.at]; {
		case c == '"':
			r.at++
			if !utf8.Valid(text) {
				return nil, r.invalid()
			}
			return text, nil
		case c < ' ':
			return nil, r.invalid()
		case c != '\\':
			size := max(1, plain(r.data[r.at:]))
			text = append(text, r.data[r.at:r.at+size]...)
			r.at += size
		default:
			if r.at+1 >= len(r.data) {
				r.at = len(r.data)
				return nil, r.invalid()
			}
			c := r.data[r.at+1]
			switch c {
			case '"', '\\', '/':
			case 'b':
				c = '\b'
			case 'f':
				c = '\f'
			case 'n':
				c = '\n'
			case 'r':
				c = '\r'
			case 't':
				c = '\t'
			case 'u':
				code, ok := r.unit(r.at)
				if !ok {
					return nil, r.invalid()
				}
				r.at += 6
				if utf16.IsSurrogate(code) {
					low, ok := r.unit(r.at)
					code = utf16.DecodeRune(code, low)
					if !ok || code == utf8.RuneError {
						return nil, r.invalid()
					}
					r.at += 6
				}
				text = utf8.AppendRune(text, code)
				continue
			default:
				return nil, r.invalid()
			}
			text = append(text, c)
			r.at += 2
		}
	}
	return nil, r.invalid()
}

// unit is a code unit as \u and four digits.
func (r *reader) unit(at int) (rune, bool) {
	if at+6 > len(r.data) || r.data[at] != '\\' || r.data[at+1] != 'u' {
		return 0, false
	}
	code, err := strconv.ParseUint(string(r.data[at+2:at+6]), 16, 16)
	return rune(code), err == nil
}

func (r *reader) elements(each func() error) error {
	if !r.mark('[') {
		return r.expected("an array")
	}
	if r.mark(']') {
		return nil
	}
	if r.depth++; r.depth > depthMax {
		return errTooDeep
	}
	for i := 0; ; i++ {
		if err := each(); err != nil {
			return r.inside(strconv.Itoa(i), err)
		}
		if r.mark(',') {
			continue
		}
		if !r.mark(']') {
			return r.invalid()
		}
		r.depth--
		return nil
	}
}

func (r *reader) members(each func(name []byte) error) error {
	if !r.mark('{') {
		return r.expected("an object")
	}
	if r.mark('}') {
		return nil
	}
	if r.depth++; r.depth > depthMax {
		return errTooDeep
	}
	for {
		name, err := r.bytes()
		if err != nil {
			return err
		}
		if !r.mark(':') {
			return r.invalid()
		}
		if err := each(name); err != nil {
			return r.inside(string(name), err)
		}
		if r.mark(',') {
			continue
		}
		if !r.mark('}') {
			return r.invalid()
		}
		r.depth--
		return nil
	}
}

// located is an error with the path to it.
type located struct {
	path string
	err  error
}

func (l *located) Error() string { return "at " + l.path + ": " + l.err.Error() }
func (l *located) Unwrap() error { return l.err }

func (r *reader) inside(part string, err error) error {
	if err == errTooDeep {
		return err
	}
	if inner, is := err.(*located); is {
		inner.path = "/" + part + inner.path
		return inner
	}
	return &located{"/" + part, err}
}

// value skips the value that comes, and is its text.
func (r *reader) value() ([]byte, error) {
	first := r.peek()
	start := r.at
	var err error
	switch {
	case first == '"':
		_, err = r.bytes()
	case first == '[':
		err = r.elements(func() error { _, err := r.value(); return err })
	case first == '{':
		err = r.members(func([]byte) error { _, err := r.value(); return err })
	case r.number() != nil, r.word("null"), r.word("true"), r.word("false"):
	default:
		err = r.invalid()
	}
	return r.data[start:r.at], err
}

func (r *reader) any() (any, error) {
	switch first := r.peek(); {
	case first == '"':
		return r.text()
	case first == '[':
		list := []any{}
		err := r.elements(func() error {
			value, err := r.any()
			list = append(list, value)
			return err
		})
		return list, err
	case first == '{':
		object := map[string]any{}
		err := r.members(func(name []byte) error {
			key := string(name)
			value, err := r.any()
			object[key] = value
			return err
		})
		return object, err
	case r.word("true"):
		return true, nil
	case r.word("false"):
		return false, nil
	case r.word("null"):
		return nil, nil
	}
	if number := r.number(); number != nil {
		return json.Number(number), nil
	}
	return nil, r.invalid()
}
