//go:build wasip1

package styx

import (
	"structs"
	"unsafe"
)

// text is a string or a list as the canonical ABI has it.
type text struct {
	_          structs.HostLayout
	at, length uint32
}

type describedParameter struct {
	_            structs.HostLayout
	name, schema text
	required     uint32
}

type describedFunction struct {
	_          structs.HostLayout
	name       text
	parameters text
	returns    text
	readOnly   uint32
	doc        text
}

type describedOperator struct {
	_            structs.HostLayout
	name         text
	hasKeyPrefix uint32
	keyPrefix    text
	doc          text
	functions    text
}

type description struct {
	_         structs.HostLayout
	sdk       text
	operators text
}

// outcomeOf is the outcome of an invocation.
type outcomeOf struct {
	_            structs.HostLayout
	read, change uint32
	value        text
	words        [5]uint32
}

// What was returned must stay until the host has read it.
var (
	replied      []byte
	failureKept  *Failure
	outcome      outcomeOf
	described_   description
	describedAll []any
)

func textOf(of string) text {
	describedAll = append(describedAll, of)
	return text{at: uint32(uintptr(unsafe.Pointer(unsafe.StringData(of)))), length: uint32(len(of))}
}

func listOf[T any](list []T) text {
	describedAll = append(describedAll, list)
	return text{at: uint32(uintptr(unsafe.Pointer(unsafe.SliceData(list)))), length: uint32(len(list))}
}

func flag(is bool) uint32 {
	if is {
		return 1
	}
	return 0
}

//go:wasmexport styx_describe
func exportDescribe() uint32 {
	describedAll = nil
	var all []describedOperator
	for _, o := range operators {
		var functions []describedFunction
		for _, f := range o.functions {
			var parameters []describedParameter
			for _, p := range f.parameters {
				parameters = append(parameters, describedParameter{
					name: textOf(p.name), schema: textOf(p.schema), required: flag(p.required),
				})
			}
			functions = append(functions, describedFunction{
				name: textOf(f.name), parameters: listOf(parameters), returns: textOf(f.returns),
				readOnly: flag(f.readOnly), doc: textOf(f.doc),
			})
		}
		one := describedOperator{name: textOf(o.name), doc: textOf(o.doc), functions: listOf(functions)}
		if o.keyPrefix != nil {
			one.hasKeyPrefix, one.keyPrefix = 1, textOf(*o.keyPrefix)
		}
		all = append(all, one)
	}
	described_ = description{sdk: textOf("styx-go " + Version), operators: listOf(all)}
	return uint32(uintptr(unsafe.Pointer(&described_)))
}

//go:wasmexport styx_invoke
func exportInvoke(at, length, nameEnd, keyEnd, argumentsEnd, told uint32, tid, time uint64) uint32 {
	marks, largeFirst = 0, len(large)
	all := view(at, length)
	name, arguments := all[:nameEnd], all[keyEnd:argumentsEnd]
	now.key = kept(all[nameEnd:keyEnd])
	now.told, now.value, now.tid, now.time = told, all[argumentsEnd:], tid, time
	now.read, now.change = 0, unchanged
	if cap(now.changed) > bufferMax {
		now.changed = nil
	}
	if cap(replied) > bufferMax {
		replied = nil
	}
	reply, failure := invoke(unsafe.String(unsafe.SliceData(name), len(name)), now.key, arguments, replied[:0])
	replied = reply
	outcome.read, outcome.change = now.read, now.change
	outcome.value = text{at: uint32(uintptr(unsafe.Pointer(unsafe.SliceData(now.changed)))), length: uint32(len(now.changed))}
	if failure == nil {
		outcome.words[0] = 0
		outcome.words[1] = uint32(uintptr(unsafe.Pointer(unsafe.SliceData(reply))))
		outcome.words[2] = uint32(len(reply))
	} else {
		fail(failure)
	}
	if large != nil {
		large = nil
	}
	return uint32(uintptr(unsafe.Pointer(&outcome)))
}

// fail makes a failure the outcome.
func fail(failure *Failure) {
	failure = &Failure{Code: failure.fullCode(), Message: failure.Message}
	failureKept = failure
	outcome.words = [5]uint32{
		1,
		uint32(uintptr(unsafe.Pointer(unsafe.StringData(failure.Code)))), uint32(len(failure.Code)),
		uint32(uintptr(unsafe.Pointer(unsafe.StringData(failure.Message)))), uint32(len(failure.Message)),
	}
}
