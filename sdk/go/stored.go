package styx

import (
	"fmt"
	"reflect"
	"unsafe"
)

// What the contract has among an operator's functions of its values, though functions cannot have such names.
const (
	stateName   = "styx.state"
	migrateName = "styx.migrate"
)

// stored is what an operator says of the values of its entities.
type stored struct {
	kind   reflect.Type
	schema string
	decode decoder
	// migrate gives what is to be stored instead of a value; nil if it is of the type. It is nil without a migration.
	migrate func(data []byte) ([]byte, error)
}

// StateType is an option of an operator: the values of its entities are of type T. A deployment is compared with entities that
// there are, and refused if they are not, unless it brings a migration; see [MigrateState]. A field without omitempty
// or omitzero has to be there.
func StateType[T any]() Option {
	kind := reflect.TypeFor[T]()
	schema, err := schemaOf(kind)
	decode, wrong := decoderOf(kind)
	if err == nil {
		err = wrong
	}
	if err != nil {
		refuse("the type of a state: %v", err)
	}
	return func(s *settings) { s.stored = &stored{kind: kind, schema: schema, decode: decode} }
}

// MigrateState gives an operator a migration: what makes a New, which its [StateType] is, of a value that is not. Old is the
// type of before, or one that holds all that there were. It runs when a function reads such a value, which
// is then written unless the function is read-only or scans, and on all of them with `styx state migrate`. An error aborts the transaction.
func MigrateState[Old, New any](o *Operator, migrate func(old Old) (New, error)) {
	s := o.stored
	switch {
	case s == nil || s.kind != reflect.TypeFor[New]():
		refuse("%s migrates to %s: say so with StateType in NewOperator", o.name, reflect.TypeFor[New]())
	case s.migrate != nil:
		refuse("%s has two migrations: let one tell all earlier values apart", o.name)
	}
	s.migrate = func(data []byte) ([]byte, error) {
		var now New
		r := reader{data: data, strict: true}
		if s.decode(&r, unsafe.Pointer(&now)) == nil && r.end() == nil {
			return nil, nil
		}
		var old Old
		if err := unmarshal(data, &old); err != nil {
			return nil, fmt.Errorf("to be migrated: %w", err)
		}
		made, err := migrate(old)
		if err != nil {
			return nil, err
		}
		return appendAny(nil, made)
	}
	f := &function{operator: o, name: migrateName, full: o.name + "." + migrateName, returns: `{"type":"boolean"}`}
	f.invoke = func(ctx *Context, _ []byte, reply []byte) ([]byte, error) {
		var migrated []byte
		data, found := ctx.State.GetRaw()
		if found {
			var err error
			if migrated, err = s.migrate(data); err != nil {
				return reply, err
			}
		}
		if migrated == nil {
			return append(reply, "false"...), nil
		}
		ctx.State.PutRaw(migrated)
		return append(reply, "true"...), nil
	}
	o.functions = append(o.functions, f)
	table[f.full] = f
}

// current is the function that runs.
var current *function

// readStored reads a value of the running function's operator, and gives what is to be stored instead if it is of an earlier type.
func readStored(data []byte, value any) (migrated []byte, err error) {
	if current != nil && current.operator.stored != nil && current.operator.stored.migrate != nil {
		if migrated, err = current.operator.stored.migrate(data); err != nil {
			return nil, err
		}
		if migrated != nil {
			data = migrated
		}
	}
	return migrated, unmarshal(data, value)
}
