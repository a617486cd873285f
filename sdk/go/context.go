package styx

import (
	"fmt"
	"math/rand/v2"
	"time"
)

// Context is the running invocation: its entity, its transaction and its way to the others. It must not be used once
// its function has returned.
type Context struct {
	// State has the entities of the function's own operator.
	State    State
	key      string
	function *function
}

// Key is the key of the entity for which the function runs.
func (c *Context) Key() string { return c.key }

// Operator is the name of its operator.
func (c *Context) Operator() string { return c.function.operator.name }

// Function is the name of the running function.
func (c *Context) Function() string { return c.function.name }

// App is the name of the app.
func (c *Context) App() string { return hostApp() }

// TID is the transaction's id: its rank in the sequence.
func (c *Context) TID() uint64 { return hostTID() }

// RequestID is the id of the request, as the client knows it.
func (c *Context) RequestID() string { return hostRequestID() }

// Time is when the transaction was sequenced, in UTC. The same in every replay.
func (c *Context) Time() time.Time { return time.UnixMicro(int64(hostTime())).UTC() }

// Random is the next number of this invocation's generator, uniform over all of uint64.
func (c *Context) Random() uint64 { return hostRandom() }

// Rand has the methods of math/rand/v2 on this invocation's generator.
func (c *Context) Rand() *rand.Rand { return rand.New(source{}) }

type source struct{}

func (source) Uint64() uint64 { return hostRandom() }

// Level says how much a log line matters.
type Level uint8

// Levels of log lines.
const (
	Debug Level = iota
	Info
	Warn
	Error
)

// Log writes a log line, shown once, for the attempt that counted.
func (c *Context) Log(level Level, message string) { hostLog(level, safeText(message)) }

// Logf is Log with a format.
func (c *Context) Logf(level Level, format string, arguments ...any) {
	c.Log(level, fmt.Sprintf(format, arguments...))
}
