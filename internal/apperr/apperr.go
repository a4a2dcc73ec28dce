// Package apperr is the application's error: a stable code for machines, a
// message and a hint for people, and the chain for operators. HTTP statuses,
// problem documents and exit codes are all derived from the code, in one
// table each, so the same fault looks the same everywhere.
package apperr

import (
	"errors"
	"fmt"
	"regexp"
	"strings"
)

// Code is a stable, machine-readable kind of error. It appears in the `type`
// of problem documents and never changes its meaning.
type Code string

// The codes.
const (
	Invalid      Code = "invalid"              // the request says something impossible: 422
	Malformed    Code = "malformed"            // the request cannot be read at all: 400
	Unauthorized Code = "unauthorized"         // no or unknown token: 401
	Forbidden    Code = "forbidden"            // known, but not allowed: 403
	NotFound     Code = "not-found"            // 404
	Conflict     Code = "conflict"             // contradicts what is stored: 409
	Gone         Code = "gone"                 // the lease is dead: 410
	TooLarge     Code = "too-large"            // 413
	Unsupported  Code = "unsupported"          // language or protocol version unknown: 422 or 426
	TooMany      Code = "too-many"             // 429
	Internal     Code = "internal"             // 500
	Unavailable  Code = "unavailable"          // try again later: 503
	Protocol     Code = "protocol-unsupported" // 426
)

// Error is an error that a person may see. Message says what is wrong and
// where; Hint says what to do. Neither ever contains a secret or echoes a
// rejected value that may be one.
type Error struct {
	Code    Code
	Message string
	Hint    string
	Field   string // where in the request or file, e.g. "body.language" or "problem.yaml:12"
	Err     error  // the cause, for logs only
}

func (e *Error) Error() string {
	s := e.Message
	if e.Field != "" {
		s = e.Field + ": " + s
	}
	if e.Err != nil {
		s += ": " + e.Err.Error()
	}
	return s
}

func (e *Error) Unwrap() error { return e.Err }

// New makes an Error without a cause.
func New(code Code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

// Wrap makes an Error around a cause that is shown only to operators.
func Wrap(err error, code Code, hint, format string, args ...any) *Error {
	return &Error{Code: code, Hint: hint, Message: fmt.Sprintf(format, args...), Err: err}
}

// At returns a copy of e that names where the fault is.
func (e *Error) At(field string) *Error {
	c := *e
	c.Field = field
	return &c
}

// CodeOf finds the code in err's chain, or Internal when there is none.
func CodeOf(err error) Code {
	if e, ok := errors.AsType[*Error](err); ok {
		return e.Code
	}
	return Internal
}

// plainName is what problems, languages and workers are called. A token has
// capitals, so none looks like it.
var plainName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]{0,63}$`)

// Named is ` "name"` for a message about something that was asked for and is
// not there, or ` of that name` when the name is not one that anything of ours could
// have: that may be a secret in the wrong place.
func Named(name string) string {
	if !plainName.MatchString(name) || strings.HasPrefix(name, "gvl_") {
		return " of that name"
	}
	return fmt.Sprintf(" %q", name)
}
