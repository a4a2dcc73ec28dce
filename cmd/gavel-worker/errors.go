package main

import (
	"errors"
	"fmt"
	"net/http"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/config"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/worker"
)

// Exit codes, as in docs/reference/exit-codes.md.
const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = cmdline.ExitUsage
	exitNotFound    = 4
	exitConflict    = 5
	exitNotAllowed  = 6
	exitUnreachable = 7
)

// failure is an error with its exit code and, as the last word, a hint. An
// empty message prints nothing: the output has said it.
type failure struct {
	code    int
	message string
	hint    string
}

func (f *failure) Error() string { return f.message }

func usage(hint, format string, args ...any) error {
	return &failure{code: exitUsage, hint: hint, message: fmt.Sprintf(format, args...)}
}

// report prints an error and turns it into the exit code.
func report(w world, err error) int {
	if err == nil {
		return exitOK
	}
	f := explain(err)
	if f.message != "" {
		fmt.Fprintln(w.err, "gavel-worker:", f.message)
	}
	if f.hint != "" {
		fmt.Fprintln(w.err, "hint:", f.hint)
	}
	return f.code
}

// explain finds what to say about an error, and the exit code.
func explain(err error) *failure {
	if f, ok := errors.AsType[*failure](err); ok {
		return f
	}
	if c, ok := errors.AsType[*config.Error](err); ok {
		return &failure{exitUsage, c.Message, c.Hint}
	}
	if u, ok := errors.AsType[*cmdline.Usage](err); ok {
		return &failure{exitUsage, u.Message, u.Hint}
	}
	switch {
	case errors.Is(err, worker.ErrRefused):
		return &failure{exitNotAllowed, firstProblem(err, "the arbiter refuses this worker"), "is the worker disabled, or its token old? `gavel worker list` shows it; a new invitation and `gavel-worker enroll --force` give a new token"}
	case errors.Is(err, worker.ErrProtocol):
		return &failure{exitFailed, firstProblem(err, "worker and arbiter are too far apart in version"), "install gavel-worker of the arbiter's release"}
	}
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok {
		return refused(p)
	}
	if u, ok := errors.AsType[*client.Unreachable](err); ok {
		return &failure{exitUnreachable, u.Error(), "is the arbiter running there, and is --url or GAVEL_URL its address?"}
	}
	if e, ok := errors.AsType[*apperr.Error](err); ok {
		f := &failure{exitFailed, e.Error(), e.Hint}
		if e.Code == apperr.Conflict {
			f.code = exitConflict
		}
		return f
	}
	if f, ok := errors.AsType[*sandbox.Fault](err); ok {
		hint := f.Hint
		if hint == "" {
			hint = "gavel-worker doctor looks for the cause"
		}
		return &failure{exitFailed, fmt.Sprintf("this machine cannot make boxes (%s): %v", f.Op, f.Err), hint}
	}
	return &failure{exitFailed, err.Error(), ""}
}

// firstProblem is a sentence with what the arbiter said about it.
func firstProblem(err error, sentence string) string {
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok {
		return sentence + ": " + p.Error()
	}
	return sentence
}

func refused(p *gavelapi.Problem) *failure {
	f := &failure{code: exitFailed, message: p.Error()}
	switch p.Status {
	case http.StatusUnauthorized, http.StatusForbidden:
		f.code = exitNotAllowed
	case http.StatusNotFound:
		f.code = exitNotFound
	case http.StatusConflict, http.StatusGone:
		f.code = exitConflict
	case http.StatusServiceUnavailable, http.StatusTooManyRequests:
		f.code = exitUnreachable
	case http.StatusUpgradeRequired:
		f.hint = "install gavel-worker of the arbiter's release"
	}
	return f
}
