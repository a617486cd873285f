package styx

// Marshal is a value's JSON as the SDK writes it. It differs from encoding/json in that nil slices and maps are empty
// ones, floats keep their point, nothing is escaped that need not be, and what is not UTF-8 is an error.
func Marshal(value any) ([]byte, error) { return appendAny(nil, value) }

// Unmarshal reads JSON into what value points to. It differs from encoding/json in that a null where nothing can be
// absent is an error, names of fields are matched exactly, and numbers in an any are json.Number, which is exact.
func Unmarshal(data []byte, value any) error { return unmarshal(data, value) }
