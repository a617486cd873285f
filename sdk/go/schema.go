package styx

import (
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"
)

// schemaOf is the JSON Schema of a type, as text.
func schemaOf(kind reflect.Type) (string, error) { return schema(kind, nil) }

func schema(kind reflect.Type, open []reflect.Type) (string, error) {
	switch kind {
	case reflect.TypeFor[time.Time]():
		return `{"type":"string","format":"date-time"}`, nil
	case numberType:
		return `{"type":"number"}`, nil
	case reflect.TypeFor[None]():
		return `{"type":"null"}`, nil
	}
	pointer := reflect.PointerTo(kind)
	switch {
	case kind.Kind() == reflect.Pointer:
		inner, err := schema(kind.Elem(), open)
		return `{"anyOf":[` + inner + `,{"type":"null"}]}`, err
	case pointer.Implements(marshalerType) || pointer.Implements(unmarshalerType):
		return "{}", nil
	case pointer.Implements(textMarshalerType):
		return `{"type":"string"}`, nil
	}
	wrapped := func(before, after string) (string, error) {
		inner, err := schema(kind.Elem(), open)
		return before + inner + after, err
	}
	switch kind.Kind() {
	case reflect.Bool:
		return `{"type":"boolean"}`, nil
	case reflect.Int, reflect.Int64:
		return `{"type":"integer"}`, nil
	case reflect.Int8, reflect.Int16, reflect.Int32:
		most := int64(1)<<(kind.Bits()-1) - 1
		return fmt.Sprintf(`{"type":"integer","minimum":%d,"maximum":%d}`, -most-1, most), nil
	case reflect.Uint, reflect.Uint64, reflect.Uintptr:
		return `{"type":"integer","minimum":0}`, nil
	case reflect.Uint8, reflect.Uint16, reflect.Uint32:
		return fmt.Sprintf(`{"type":"integer","minimum":0,"maximum":%d}`, uint64(1)<<kind.Bits()-1), nil
	case reflect.Float32, reflect.Float64:
		return `{"type":"number"}`, nil
	case reflect.String:
		return `{"type":"string"}`, nil
	case reflect.Interface:
		return "{}", nil
	case reflect.Slice:
		if kind.Elem().Kind() == reflect.Uint8 {
			return `{"type":"string","contentEncoding":"base64"}`, nil
		}
		return wrapped(`{"type":"array","items":`, "}")
	case reflect.Array:
		return wrapped(`{"type":"array","items":`, fmt.Sprintf(`,"minItems":%d,"maxItems":%d}`, kind.Len(), kind.Len()))
	case reflect.Map:
		return wrapped(`{"type":"object","additionalProperties":`, "}")
	case reflect.Struct:
		return structSchema(kind, open)
	}
	return "", fmt.Errorf("a value of type %s has no JSON form", kind)
}

func structSchema(kind reflect.Type, open []reflect.Type) (string, error) {
	// A type that contains itself: the inner one is anything.
	if slices.Contains(open, kind) {
		return "{}", nil
	}
	open = append(open, kind)
	var properties, required []string
	for _, field := range fieldsOf(kind) {
		inner, err := schema(field.kind, open)
		if err != nil {
			return "", fmt.Errorf("%s: %w", field.name, err)
		}
		name := quoted(field.name)
		properties = append(properties, name+":"+described(inner, field.doc))
		if !field.omitEmpty && !field.omitZero {
			required = append(required, name)
		}
	}
	text := `{"type":"object","properties":{` + strings.Join(properties, ",") + "}"
	if len(required) > 0 {
		text += `,"required":[` + strings.Join(required, ",") + "]"
	}
	return text + "}", nil
}

func described(schema, doc string) string {
	if doc == "" {
		return schema
	}
	comma := ","
	if schema == "{}" {
		comma = ""
	}
	return `{"description":` + quoted(doc) + comma + schema[1:]
}

func quoted(text string) string {
	data, _ := json.Marshal(text) // a string can always be encoded
	return string(data)
}
