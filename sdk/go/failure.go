package styx

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// The codes of failures that the SDK itself makes.
const (
	codeAborted         = "ABORTED"
	codeBadArguments    = "BAD_ARGUMENTS"
	codeGuestException  = "GUEST_EXCEPTION"
	codeUnknownFunction = "UNKNOWN_FUNCTION"
	codeUnknownOperator = "UNKNOWN_OPERATOR"
)

// messageMax is the length of the longest message, in bytes.
const messageMax = 4096

// Failure is why a call of another function failed, and with it the whole transaction. Returned from a function, alone
// or wrapped by more words, it gives the caller its code; ignored, it saves nothing.
type Failure struct {
	// Code is stable: ABORTED for what a function returned as its error, BAD_ARGUMENTS, or one of the host's.
	Code string
	// AppCode is the app's own code of an ABORTED, or empty.
	AppCode string
	// Message is one line for the person who called.
	Message string
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// Rejected is an error for arguments that a function cannot take: its code is BAD_ARGUMENTS, not ABORTED.
func Rejected(message string) error {
	return &Failure{Code: codeBadArguments, Message: message}
}

// Abort is an error with a code of the app's own, which clients get as app_code, so that nobody has to parse the message:
//
//	return styx.Abort("SOLD_OUT", "not enough %s", ctx.Key())
//
// A code is a capital letter, then capital letters, digits and _, 64 at most; another one panics.
func Abort(appCode, format string, arguments ...any) error {
	mustBeAppCode(appCode)
	return &Failure{Code: codeAborted, AppCode: appCode, Message: fmt.Sprintf(format, arguments...)}
}

// Coded is what a type of error implements to have a code of the app's own, as those of Abort do.
type Coded interface {
	error
	AppCode() string
}

func mustBeAppCode(code string) {
	valid := len(code) > 0 && len(code) <= 64 && code[0] >= 'A' && code[0] <= 'Z'
	for at := 0; valid && at < len(code); at++ {
		c := code[at]
		valid = c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || c == '_'
	}
	if !valid {
		panic(fmt.Sprintf("the code %q is not allowed: begin with a capital letter, then use capital letters, digits and _, at most 64", code))
	}
}

// fullCode is the code as the contract has it: with that of the app behind a colon.
func (f *Failure) fullCode() string {
	if f.AppCode == "" {
		return f.Code
	}
	return f.Code + ":" + f.AppCode
}

// failureOf is what an error of user code tells the caller.
func failureOf(err error) *Failure {
	told := &Failure{Code: codeAborted, Message: safeText(err.Error())}
	var coded Coded
	var failure *Failure
	switch {
	case errors.As(err, &coded):
		told.AppCode = coded.AppCode()
		mustBeAppCode(told.AppCode)
	case errors.As(err, &failure) && failure != nil:
		told.Code, told.AppCode = failure.Code, failure.AppCode
	}
	return told
}

// safeText is valid UTF-8 without control characters, of bounded length.
func safeText(text string) string {
	if len(text) > messageMax {
		end := messageMax - len("…")
		for end > 0 && !utf8.RuneStart(text[end]) {
			end--
		}
		text = text[:end] + "…"
	}
	clean := utf8.ValidString(text)
	for at := 0; clean && at < len(text); at++ {
		clean = text[at] >= ' ' && text[at] != 0x7f || text[at] == '\n' || text[at] == '\t'
	}
	if clean {
		return text
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' && r != '\n' && r != '\t' || r == 0x7f {
			return utf8.RuneError
		}
		return r
	}, strings.ToValidUTF8(text, "\uFFFD"))
}
