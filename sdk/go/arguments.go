package styx

import (
	"fmt"
	"reflect"
	"unsafe"
)

// parameter is one declared parameter of a function.
type parameter struct {
	name     string
	schema   string
	required bool
	offset   uintptr
	decode   decoder
	encode   encoder
}

// parametersOf are the fields of a struct, which is what the function takes.
func parametersOf(kind reflect.Type) ([]parameter, error) {
	if kind.Kind() != reflect.Struct {
		return nil, fmt.Errorf("parameters are the fields of a struct, and %s is none", kind)
	}
	var parameters []parameter
	for _, field := range fieldsOf(kind) {
		p := parameter{name: field.name, offset: field.offset}
		p.required = field.kind.Kind() != reflect.Pointer && !field.omitEmpty && !field.omitZero
		var err error
		if p.decode, err = decoderOf(field.kind); err == nil {
			p.encode, err = encoderOf(field.kind)
		}
		if err == nil {
			p.schema, err = schemaOf(field.kind)
		}
		if err != nil {
			return nil, fmt.Errorf("parameter %s: %w", p.name, err)
		}
		p.schema = described(p.schema, field.doc)
		parameters = append(parameters, p)
	}
	return parameters, nil
}

// readArguments reads a JSON array into the struct of the parameters.
func (f *function) readArguments(data []byte, at unsafe.Pointer) error {
	read := 0
	if len(data) > 0 && string(data) != "[]" {
		var err error
		r := takeReader(data)
		read, err = f.readArray(r, at)
		keepReader(r)
		if err != nil {
			return f.reject(err)
		}
	}
	for i := read; i < len(f.parameters); i++ {
		if p := &f.parameters[i]; p.required {
			return f.reject(fmt.Errorf("argument `%s` is missing", p.name))
		}
	}
	return nil
}

// readArray reads what there is of the arguments, and says how many they are.
func (f *function) readArray(r *reader, at unsafe.Pointer) (read int, err error) {
	if !r.mark('[') {
		return 0, f.noArray(r)
	}
	if r.mark(']') {
		return 0, r.end()
	}
	for {
		if read == len(f.parameters) {
			return read, fmt.Errorf("too many arguments, it takes [%s]", f.names)
		}
		p := &f.parameters[read]
		if p.required || !r.null() {
			if err := p.decode(r, unsafe.Add(at, p.offset)); err != nil {
				return read, fmt.Errorf("argument `%s`: %w", p.name, err)
			}
		}
		read++
		if r.mark(',') {
			continue
		}
		if !r.mark(']') {
			return read, r.invalid()
		}
		return read, r.end()
	}
}

func (f *function) noArray(r *reader) error {
	return fmt.Errorf("%w of arguments: [%s]", r.expected("an array"), f.names)
}

func (f *function) reject(err error) error {
	return &Failure{Code: codeBadArguments, Message: safeText(err.Error())}
}

// writeArguments appends the JSON array.
func (f *function) writeArguments(out []byte, at unsafe.Pointer) ([]byte, error) {
	out = append(out, '[')
	for i := range f.parameters {
		p := &f.parameters[i]
		if i > 0 {
			out = append(out, ',')
		}
		var err error
		if out, err = p.encode(out, unsafe.Add(at, p.offset)); err != nil {
			return out, fmt.Errorf("argument `%s` of %s.%s: %w", p.name, f.operator.name, f.name, err)
		}
	}
	return append(out, ']'), nil
}
