package core

import (
	"errors"
	"fmt"
)

// Kind is the class of an error as front ends and scripts see it. Kinds are part of the
// command line contract and never change their meaning.
type Kind string

// The kinds of error.
const (
	KindUsage       Kind = "usage"       // wrong arguments
	KindConfig      Kind = "config"      // unusable configuration, no server configured
	KindNotFound    Kind = "not_found"   // an id or name that does not exist
	KindModel       Kind = "model"       // the model server failed
	KindDenied      Kind = "denied"      // permission
	KindRefused     Kind = "refused"     // verification said no
	KindLimit       Kind = "limit"       // steps, tokens, repeated calls, time
	KindInterrupted Kind = "interrupted" // a person or a signal stopped it
	KindInternal    Kind = "internal"    // a fault of ours
	KindFailed      Kind = "failed"      // the work failed
)

// Error is an error with a kind and, where there is one, the next step for the user.
// It reads as one or two lines: what failed, on what, what to do.
type Error struct {
	Kind Kind
	Msg  string // the whole sentence, the cause's text included
	Next string // what to do; "" when there is nothing useful to say
	Err  error  // the cause, for errors.Is and errors.As; may be nil
}

func (e *Error) Error() string { return e.Msg }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Errorf makes an Error of a kind; the first %w is the cause, as in fmt.Errorf.
func Errorf(k Kind, format string, a ...any) *Error {
	err := fmt.Errorf(format, a...)
	return &Error{Kind: k, Msg: err.Error(), Err: errors.Unwrap(err)}
}

// Hint returns e with the next step set.
func (e *Error) Hint(format string, a ...any) *Error {
	c := *e
	c.Next = fmt.Sprintf(format, a...)
	return &c
}

// KindOf is the kind of the first Error in err's chain, KindInternal for another error
// and "" for nil.
func KindOf(err error) Kind {
	if err == nil {
		return ""
	}
	var e *Error
	if errors.As(err, &e) {
		return e.Kind
	}
	return KindInternal
}

// NextOf is the next step of the first Error in err's chain that has one.
func NextOf(err error) string {
	for err != nil {
		var e *Error
		if !errors.As(err, &e) {
			return ""
		}
		if e.Next != "" {
			return e.Next
		}
		err = e.Err
	}
	return ""
}

// ErrNotFound is returned, wrapped, where something named does not exist.
var ErrNotFound = errors.New("not found")
