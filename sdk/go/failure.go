package styx

import (
	"errors"
	"strings"
	"unicode/utf8"
)

// The codes of failures that the SDK itself makes.
const (
	codeAborted         = "ABORTED"
	codeBadArguments    = "BAD_ARGUMENTS"
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
	// Message is one line for the person who called.
	Message string
}

// Error is the message.
func (f *Failure) Error() string { return f.Message }

// Rejected is an error for arguments that a function cannot take: its code is BAD_ARGUMENTS, not ABORTED.
func Rejected(message string) error {
	return &Failure{Code: codeBadArguments, Message: message}
}

// failureOf is what an error of user code tells the caller.
func failureOf(err error) *Failure {
	code := codeAborted
	var failure *Failure
	if errors.As(err, &failure) && failure != nil {
		code = failure.Code
	}
	return &Failure{Code: code, Message: safeText(err.Error())}
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
