package cli

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/cmdline"
	"github.com/gavel-oj/gavel/internal/config"
)

// Exit codes. They are a contract (docs/reference/exit-codes.md): codes may be
// added, none changes its meaning.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitUsage       = cmdline.ExitUsage
	ExitPartly      = 3
	ExitNotFound    = 4
	ExitConflict    = 5
	ExitNotAllowed  = 6
	ExitUnreachable = 7
	ExitNotAccepted = 8
	ExitProgram     = 9
	ExitTooMany     = 10
	ExitInterrupted = 130
)

// Error is an error as a person sees it. An empty Message prints nothing: the
// result on standard output has said it.
type Error struct {
	Code    int
	Message string
	Hint    string
	cause   error
}

func (e *Error) Error() string { return e.Message }

func (e *Error) Unwrap() error { return e.cause }

func withCause(err error, e *Error) *Error {
	e.cause = err
	return e
}

func usage(hint, format string, args ...any) *Error {
	return &Error{Code: ExitUsage, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

func failed(hint, format string, args ...any) *Error {
	return &Error{Code: ExitFailed, Hint: hint, Message: fmt.Sprintf(format, args...)}
}

// configError makes a mistake in the settings one of usage.
func configError(err error) error {
	if c, ok := errors.AsType[*config.Error](err); ok {
		return withCause(err, usage(c.Hint, "%s", c.Message))
	}
	return err
}

// statusExits turns the arbiter's refusals into exit codes; others are
// ExitFailed. What cannot be judged, stored or understood is wrong usage
// whoever finds it out, this program or the arbiter.
var statusExits = map[int]int{
	http.StatusBadRequest:            ExitUsage,
	http.StatusRequestEntityTooLarge: ExitUsage,
	http.StatusUnprocessableEntity:   ExitUsage,
	http.StatusUnauthorized:          ExitNotAllowed,
	http.StatusForbidden:             ExitNotAllowed,
	http.StatusNotFound:              ExitNotFound,
	http.StatusConflict:              ExitConflict,
	http.StatusGone:                  ExitConflict,
	http.StatusTooManyRequests:       ExitTooMany,
	http.StatusServiceUnavailable:    ExitUnreachable,
}

// codeExits is the same for errors of this side. What is not available here is
// no arbiter that does not answer.
var codeExits = map[apperr.Code]int{
	apperr.Invalid: ExitUsage, apperr.Malformed: ExitUsage, apperr.TooLarge: ExitUsage, apperr.Unsupported: ExitUsage,
	apperr.Unauthorized: ExitNotAllowed, apperr.Forbidden: ExitNotAllowed,
	apperr.NotFound: ExitNotFound, apperr.Conflict: ExitConflict, apperr.Gone: ExitConflict,
}

// codeExit is the exit code of an error of this side.
func codeExit(c apperr.Code) int {
	if code, ok := codeExits[c]; ok {
		return code
	}
	return ExitFailed
}

// explain finds for any error what to print and the exit code.
func (a *App) explain(err error) *Error {
	if e, ok := errors.AsType[*Error](err); ok {
		return e
	}
	if u, ok := errors.AsType[*cmdline.Usage](err); ok {
		return &Error{Code: ExitUsage, Message: u.Message, Hint: u.Hint}
	}
	if errors.Is(err, context.Canceled) || a.Ctx.Err() != nil {
		return &Error{Code: ExitInterrupted, Message: "interrupted"}
	}
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok {
		return a.refused(p)
	}
	if u, ok := errors.AsType[*client.Unreachable](err); ok {
		hint := "is the arbiter running there? start one with `gavel up`, or set --url or GAVEL_URL"
		switch {
		case isTLS(u):
			hint = "somebody answers there, but not by TLS, or not with a certificate that this machine trusts for this name; for plain HTTP give http://, for a CA of your own SSL_CERT_FILE"
		case u.Status != 0:
			hint = "check that the URL is the arbiter's own address, and whether a proxy in front of it works"
		}
		return &Error{Code: ExitUnreachable, Message: u.Error(), Hint: hint}
	}
	if e, ok := errors.AsType[*apperr.Error](err); ok {
		message := e.Message
		if e.Field != "" {
			message = e.Field + ": " + message
		}
		return &Error{Code: codeExit(e.Code), Message: message, Hint: e.Hint}
	}
	return &Error{Code: ExitFailed, Message: err.Error()}
}

// isTLS says whether a server was reached and only the encryption failed.
func isTLS(err error) bool {
	_, unverified := errors.AsType[*tls.CertificateVerificationError](err)
	_, alert := errors.AsType[tls.AlertError](err)
	_, noTLS := errors.AsType[tls.RecordHeaderError](err)
	// net/http recognises an answer in plain HTTP, and keeps no type for it.
	return unverified || alert || noTLS || strings.Contains(err.Error(), "server gave HTTP response to HTTPS client")
}

// noTokenSent is what an arbiter says to a call without a token.
const noTokenSent = "no token was sent"

func (a *App) refused(p *gavelapi.Problem) *Error {
	e := &Error{Code: statusExits[p.Status], Message: p.Detail, Hint: p.Hint}
	if e.Code == 0 {
		e.Code = ExitFailed
	}
	if strings.HasSuffix(p.Type, "/"+string(apperr.Unsupported)) {
		e.Code = ExitUsage
	}
	if e.Message == "" {
		e.Message = p.Title
	}
	if len(p.Errors) == 1 {
		where := strings.TrimPrefix(strings.TrimPrefix(p.Errors[0].Location, "body."), "query.")
		if !strings.Contains(e.Message, where[strings.LastIndexByte(where, '.')+1:]) {
			e.Message = where + ": " + e.Message
		}
	}
	switch p.Status {
	case http.StatusUnauthorized:
		if p.Detail == noTokenSent {
			e.Message = "the arbiter wants a token, and neither GAVEL_TOKEN nor --token-file gives one"
		}
		e.Hint = "set GAVEL_TOKEN or --token-file; `gavel up` writes the administrator's token to admin-token in its data directory"
	case http.StatusInternalServerError:
		e.Message += " (request " + p.Instance + ")"
	}
	return e
}
