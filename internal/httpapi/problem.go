package httpapi

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"net/http"
	"strconv"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

const problemType = "application/problem+json"

// statusClientGone is logged, never sent: the client left before the answer.
const statusClientGone = 499

// problemFor is the one place where an error becomes what a client sees. The
// cause stays out of it; reqInfo keeps the chain for the log.
func problemFor(ctx context.Context, err error) *gavelapi.Problem {
	info := infoOf(ctx)
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok {
		switch {
		case errors.Is(err, context.Canceled), errors.Is(err, context.DeadlineExceeded):
			// The service gave up because the client left or a deadline passed;
			// the first is never read, the second may succeed later.
			e = apperr.New(apperr.Unavailable, "repeat the request", "the request was not finished in time")
		default:
			e = apperr.New(apperr.Internal, "give the operator the request id", "internal error")
		}
	}
	kind := kindOf(e.Code)
	p := &gavelapi.Problem{
		Type:         "/problems/" + string(kind.Code),
		Title:        kind.Title,
		Status:       kind.Status,
		Detail:       e.Message,
		Hint:         e.Hint,
		Instance:     info.requestID,
		RetryAfterMS: (time.Duration(kind.RetryAfterSeconds) * time.Second).Milliseconds(),
	}
	switch {
	case kind.Code == apperr.Gone:
		p.Reason = e.Field
	case kind.Code == apperr.Internal:
		// Internal messages are for operators, whatever code path made them.
		p.Detail, p.Hint = "internal error", "give the operator the request id"
	case e.Field != "":
		p.Errors = []gavelapi.ProblemField{{Location: e.Field, Message: e.Message}}
	}
	info.fail(err)
	return p
}

// problemHeaders are the headers that go with a problem.
func problemHeaders(p *gavelapi.Problem) http.Header {
	h := http.Header{}
	if p.RetryAfterMS > 0 {
		h.Set("Retry-After", strconv.FormatInt((p.RetryAfterMS+999)/1000, 10))
	}
	switch p.Status {
	case http.StatusUnauthorized:
		h.Set("WWW-Authenticate", `Bearer realm="gavel"`)
	case http.StatusUpgradeRequired:
		h.Set(gavelapi.ProtocolHeader, strconv.Itoa(gavelapi.ProtocolVersion))
	}
	return h
}

// writeError answers with a problem from outside huma.
func writeError(w http.ResponseWriter, r *http.Request, err error) {
	writeProblem(w, problemFor(r.Context(), err))
}

func writeProblem(w http.ResponseWriter, p *gavelapi.Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		panic(err) // a struct of strings and numbers always encodes
	}
	maps.Copy(w.Header(), problemHeaders(p))
	w.Header().Set("Content-Type", problemType)
	w.WriteHeader(p.Status)
	_, _ = w.Write(append(body, '\n'))
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(append(body, '\n'))
}
