// Package host is what a native build has instead of the imports of a component: the test host.
package host

// Entry is a key with its value.
type Entry struct{ Key, Value []byte }

// Range is a range of keys; empty bounds are none.
type Range struct {
	Prefix, From, After, To, Before string
	Limit                           uint32
	Reverse                         bool
}

// Failure is why a call failed.
type Failure struct{ Code, AppCode, Message string }

// Host answers what functions ask.
type Host interface {
	Get(key string) ([]byte, bool)
	Put(key string, value []byte)
	Delete(key string)
	Scan(within Range) []Entry
	Call(operator, key, function string, arguments []byte) ([]byte, *Failure)
	CallAsync(operator, key, function string, arguments []byte)
	App() string
	Operator() string
	Key() string
	TID() uint64
	RequestID() string
	Time() uint64
	Random() uint64
	Log(level uint8, message string)
}

// Current is the running transaction's; nil if none runs.
var Current Host

// Function is what the test host must know of a function.
type Function struct {
	Operator, Name string
	ReadOnly       bool
}

// Functions lists the registered functions, and Invoke runs one. The package styx sets both.
var (
	Functions func() []Function
	Invoke    func(function, key string, arguments []byte) ([]byte, *Failure)
)
