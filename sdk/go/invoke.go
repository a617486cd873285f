package styx

import (
	"fmt"
	"runtime"
	"strings"
)

// Invoke runs a function as the host does. It is for the test host; functions call each other through the context.
func invoke(name, key string, arguments, out []byte) (reply []byte, failure *Failure) {
	f := find(name)
	if f == nil {
		return out, unknown(name)
	}
	// In a test host calls run inside of each other.
	outer, returned := current, false
	current = f
	defer func() {
		current = outer
		if returned {
			return
		}
		if panicked := recover(); panicked != nil {
			failure = panicFailure(panicked)
		}
	}()
	reply, err := f.invoke(contextOf(key, f), arguments, out)
	// What an error says may panic as well.
	returned = err == nil
	if err != nil {
		return out, failureOf(err)
	}
	return reply, nil
}

func unknown(name string) *Failure {
	operator, function, _ := strings.Cut(name, ".")
	for _, known := range operators {
		if known.name == operator {
			return &Failure{Code: codeUnknownFunction, Message: fmt.Sprintf("operator %s has no function %s", operator, function)}
		}
	}
	return &Failure{Code: codeUnknownOperator, Message: fmt.Sprintf("this component has no operator %q", operator)}
}

// found is the function that was looked up last: an instance mostly runs one and the same.
var found *function

func find(name string) *function {
	if found == nil || found.full != name {
		f := table[name]
		if f == nil {
			return nil
		}
		found = f
	}
	return found
}

// panicFailure is what a panic of user code, a bug, tells the caller; the host logs it.
func panicFailure(panicked any) *Failure {
	text := fmt.Sprint(panicked)
	if at := origin(); at != "" {
		text += " at " + at
	}
	text = safeText("panic: " + text)
	return &Failure{Code: codeGuestException, Message: text}
}

// origin is the place of the innermost frame of user code, as file:line.
func origin() string {
	var counters [32]uintptr
	frames := runtime.CallersFrames(counters[:runtime.Callers(3, counters[:])])
	for {
		frame, more := frames.Next()
		if frame.Function != "" && !strings.HasPrefix(frame.Function, "runtime.") && !strings.HasPrefix(frame.Function, "styx.") {
			file := frame.File[strings.LastIndexByte(frame.File, '/')+1:]
			return fmt.Sprintf("%s:%d", file, frame.Line)
		}
		if !more {
			return ""
		}
	}
}
