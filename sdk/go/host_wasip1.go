//go:build wasip1

package styx

import (
	"strings"
	"structs"
	"unsafe"

	"styx/internal/host"
)

// The imports of the world `function`, as the canonical ABI has them: strings and lists go out as a place and a length;
// what comes in lies in the region, or in memory from allocate, until it is released.

//go:wasmimport styx:guest/state@0.2.0 get
//go:noescape
func importGet(key string, result unsafe.Pointer)

//go:wasmimport styx:guest/state@0.2.0 put
//go:noescape
func importPut(key string, value unsafe.Pointer, length uint32)

//go:wasmimport styx:guest/state@0.2.0 delete
func importDelete(key string)

//go:wasmimport styx:guest/state@0.2.0 get-own
//go:noescape
func importGetOwn(result unsafe.Pointer)

//go:wasmimport styx:guest/state@0.2.0 put-own
//go:noescape
func importPutOwn(value unsafe.Pointer, length uint32)

//go:wasmimport styx:guest/state@0.2.0 delete-own
func importDeleteOwn()

//go:wasmimport styx:guest/state@0.2.0 scan
//go:noescape
func importScan(prefix string, lowerCase uint32, lower string, upperCase uint32, upper string, limit, reverse uint32, result unsafe.Pointer)

//go:wasmimport styx:guest/calls@0.2.0 call
//go:noescape
func importCall(read, change uint32, value unsafe.Pointer, valueLength uint32, operator, key, function string, arguments unsafe.Pointer, length uint32, result unsafe.Pointer)

//go:wasmimport styx:guest/calls@0.2.0 call-async
//go:noescape
func importCallAsync(operator, key, function string, arguments unsafe.Pointer, length uint32)

//go:wasmimport styx:guest/context@0.2.0 app
//go:noescape
func importApp(result unsafe.Pointer)

//go:wasmimport styx:guest/context@0.2.0 operator
//go:noescape
func importOperator(result unsafe.Pointer)

//go:wasmimport styx:guest/context@0.2.0 request-id
//go:noescape
func importRequestID(result unsafe.Pointer)

//go:wasmimport styx:guest/context@0.2.0 random
func hostRandom() uint64

//go:wasmimport styx:guest/logging@0.2.0 log
func importLog(level uint32, message string)

// What `styx build` merges into the module.

//go:wasmimport styx regions
//go:noescape
func importRegions(region unsafe.Pointer, size uint32, line unsafe.Pointer, lineSize uint32)

//go:wasmimport styx mark
func importMark() uint32

//go:wasmimport styx release
func importRelease(mark uint32)

// What an invocation knows of its own entity, and what it did to that.
const (
	untold uint32 = iota
	told
	absent
)

const (
	unchanged uint32 = iota
	put
	deleted
)

// now is the invocation that runs.
var now struct {
	key       string
	told      uint32
	value     []byte
	tid, time uint64
	// What the host was not told yet.
	read, change uint32
	changed      []byte
}

// result is where an import writes its result.
type result struct {
	_     structs.HostLayout
	words [5]uint32
}

var (
	// region is where the host lowers values to, while there is room.
	region [64 << 10]uint64
	line   [8 << 10]byte
	// large keeps what had no room in the region until it is released. The first ones are the invocation's own arguments.
	large      [][]uint64
	largeFirst int
	// marks that were not yet released.
	marks int
	// buffer is used for what goes out, again and again, and spare for what is read.
	buffer []byte
	spare  *reader
	// texts is what short texts are cut from.
	texts []byte
	got   result
	// context is that of the invocation that runs.
	context Context
)

// bufferMax is the largest buffer that is kept.
const bufferMax = 1 << 20

// textMax is the longest text that is cut from a block with others, which stays as long as one of them does, and textsSize
// the size of such a block.
const (
	textMax   = 64
	textsSize = 2 << 10
)

func init() {
	importRegions(unsafe.Pointer(&region), uint32(unsafe.Sizeof(region)), unsafe.Pointer(&line), uint32(len(line)))
}

// allocate gives the host memory for a value that the region has no room for.
//
//go:wasmexport styx_allocate
func allocate(size uint32) uint32 {
	block := make([]uint64, size/8+1)
	large = append(large, block)
	return uint32(uintptr(unsafe.Pointer(unsafe.SliceData(block))))
}

func hostMark() uint32 {
	marks++
	return importMark()
}

func hostRelease(mark uint32) {
	importRelease(mark)
	if marks--; marks == 0 && len(large) > largeFirst {
		clear(large[largeFirst:])
		large = large[:largeFirst]
	}
}

func scratch() []byte {
	taken := buffer
	buffer = nil
	return taken[:0]
}

func keepScratch(used []byte) {
	if cap(used) <= bufferMax {
		buffer = used
	}
}

// kept is a text of its own, for as long as somebody has it.
func kept(data []byte) string {
	if len(data) > textMax {
		return string(data)
	}
	if len(data) > cap(texts)-len(texts) {
		texts = make([]byte, 0, textsSize)
	}
	start := len(texts)
	texts = append(texts, data...)
	return unsafe.String(unsafe.SliceData(texts[start:]), len(data))
}

func contextOf(key string, f *function) *Context {
	context = Context{key: key, function: f}
	return &context
}

func takeReader(data []byte) *reader {
	r := spare
	if r == nil {
		return &reader{data: data}
	}
	spare = nil
	*r = reader{data: data}
	return r
}

func keepReader(used *reader) {
	used.data = nil
	spare = used
}

// view is memory that the host has lowered a value to.
func view(at, length uint32) []byte {
	if length == 0 {
		return nil
	}
	return (*[1 << 31]byte)(place(at))[:length:length]
}

// place is a pointer to memory that is kept alive otherwise.
func place(at uint32) unsafe.Pointer {
	address := uintptr(at)
	return *(*unsafe.Pointer)(unsafe.Pointer(&address))
}

func taken(import_ func(unsafe.Pointer)) string {
	mark := hostMark()
	import_(unsafe.Pointer(&got))
	text := string(view(got.words[0], got.words[1]))
	hostRelease(mark)
	return text
}

func hostApp() string       { return taken(importApp) }
func hostOperator() string  { return taken(importOperator) }
func hostKey() string       { return now.key }
func hostRequestID() string { return taken(importRequestID) }
func hostTID() uint64       { return now.tid }
func hostTime() uint64      { return now.time }

func hostLog(level Level, message string) { importLog(uint32(level), message) }

func option() ([]byte, bool) {
	if got.words[0]&1 == 0 {
		return nil, false
	}
	return view(got.words[1], got.words[2]), true
}

func hostGet(key string) ([]byte, bool) {
	if key == now.key {
		return hostGetOwn()
	}
	importGet(key, unsafe.Pointer(&got))
	return option()
}

func hostGetOwn() ([]byte, bool) {
	if data, found, known := hostKnown(); known {
		return data, found
	}
	importGetOwn(unsafe.Pointer(&got))
	return option()
}

// hostKnown is the own entity, if the invocation knows it: then nothing is lowered, and there is nothing to release.
func hostKnown() (data []byte, found, known bool) {
	switch {
	case now.change != unchanged:
		return now.changed, now.change == put, true
	case now.told != untold:
		now.read = 1
		return now.value, now.told == told, true
	}
	return nil, false, false
}

func hostPut(key string, value []byte) {
	if key == now.key {
		hostPutOwn(value)
		return
	}
	importPut(key, unsafe.Pointer(unsafe.SliceData(value)), uint32(len(value)))
}

func hostPutOwn(value []byte) {
	now.change, now.changed = put, append(now.changed[:0], value...)
}

// hostPutScratch is hostPutOwn for what was written into a scratch, which becomes the value itself.
func hostPutScratch(value []byte) {
	before := now.changed
	now.change, now.changed = put, value
	keepScratch(before)
}

func hostDelete(key string) {
	if key == now.key {
		hostDeleteOwn()
		return
	}
	importDelete(key)
}

func hostDeleteOwn() { now.change, now.changed = deleted, now.changed[:0] }

// tellChange tells the host of a change that it would not see otherwise.
func tellChange() {
	if now.change == unchanged {
		return
	}
	if now.read != 0 {
		importGetOwn(unsafe.Pointer(&got))
	}
	if now.change == put {
		importPutOwn(unsafe.Pointer(unsafe.SliceData(now.changed)), uint32(len(now.changed)))
	} else {
		importDeleteOwn()
	}
	now.read, now.change, now.told = 0, unchanged, untold
}

// bound is one end of a range: unbounded, included, excluded. Of two, the narrower one counts.
func bound(included, excluded string, lower bool) (uint32, string) {
	switch {
	case included == "" && excluded == "":
		return 0, ""
	case excluded == "" || included != "" && included != excluded && (included > excluded) == lower:
		return 1, included
	}
	return 2, excluded
}

func hostScan(within *Range) []host.Entry {
	lowerCase, lower := bound(within.From, within.After, true)
	upperCase, upper := bound(within.To, within.Before, false)
	reverse := uint32(0)
	if within.Reverse {
		reverse = 1
	}
	tellChange()
	importScan(within.Prefix, lowerCase, lower, upperCase, upper, within.Limit, reverse, unsafe.Pointer(&got))
	if got.words[1] == 0 {
		return nil
	}
	raw := unsafe.Slice((*[4]uint32)(place(got.words[0])), got.words[1])
	entries := make([]host.Entry, len(raw))
	for i, each := range raw {
		entries[i] = host.Entry{Key: view(each[0], each[1]), Value: view(each[2], each[3])}
	}
	return entries
}

func hostCall(operator, key, function string, arguments []byte) ([]byte, error) {
	mark := hostMark()
	read, change := now.read, now.change
	// What is called may write the own entity.
	now.read, now.change, now.told = 0, unchanged, untold
	importCall(read, change, unsafe.Pointer(unsafe.SliceData(now.changed)), uint32(len(now.changed)), operator, key, function, unsafe.Pointer(unsafe.SliceData(arguments)), uint32(len(arguments)), unsafe.Pointer(&got))
	if got.words[0]&1 == 0 {
		return view(got.words[1], got.words[2]), nil
	}
	code, appCode, _ := strings.Cut(string(view(got.words[1], got.words[2])), ":")
	failure := &Failure{Code: code, AppCode: appCode, Message: string(view(got.words[3], got.words[4]))}
	hostRelease(mark)
	return nil, failure
}

func hostCallAsync(operator, key, function string, arguments []byte) {
	importCallAsync(operator, key, function, unsafe.Pointer(unsafe.SliceData(arguments)), uint32(len(arguments)))
}
