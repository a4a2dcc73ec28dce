package httpapi

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"regexp"
	"runtime/debug"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// goodRequestID is what a caller's own request id may look like. Tokens would
// fit, so their prefix is excluded: an id is logged and sent back.
var goodRequestID = regexp.MustCompile(`^[A-Za-z0-9._-]{1,64}$`)

func requestID(r *http.Request) string {
	id := r.Header.Get(gavelapi.RequestIDHeader)
	if goodRequestID.MatchString(id) && !strings.Contains(strings.ToLower(id), "gvl_") {
		return id
	}
	return rand.Text()
}

// outermost gives the request its id, its guarded writer and body, catches
// panics, and writes the access log and the metrics.
func (s *server) outermost(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		start := s.Clock.Now()
		info := &reqInfo{requestID: requestID(r), bodyLimit: MaxJSONBytes}
		r = r.WithContext(withInfo(r.Context(), info))
		gw := &guardedWriter{ResponseWriter: w, control: http.NewResponseController(w), clock: s.Clock}
		if r.ProtoMajor == 1 {
			gw.extend() // for the "100 Continue" that reading a body may send
		}
		info.body = newGuardedBody(r.Body, gw.control, s.Clock)
		r.Body, gw.body = info.body, info.body
		h := w.Header()
		h.Set(gavelapi.RequestIDHeader, info.requestID)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Cache-Control", "no-store")

		_, pattern := s.mux.Handler(r)
		defer func() {
			s.finish(gw, r, pattern, info, s.Clock.Now().Sub(start), recover())
		}()
		next.ServeHTTP(gw, r)
	})
}

// finish answers a panic, then logs and measures.
func (s *server) finish(gw *guardedWriter, r *http.Request, pattern string, info *reqInfo, took time.Duration, panicked any) {
	aborted := panicked == http.ErrAbortHandler //nolint:errorlint // a sentinel by contract of net/http
	cut := panicked != nil && (gw.started || aborted)
	if panicked != nil && !aborted {
		s.Logger.LogAttrs(r.Context(), slog.LevelError, "handler panicked",
			slog.String("request_id", info.requestID), slog.String("route", routeName(pattern)),
			slog.String("panic", panicText(panicked)), slog.String("stack", string(debug.Stack())))
		if gw.status == 0 {
			writeError(gw, r, apperr.New(apperr.Internal, "", "panic"))
		}
	}
	status := gw.status
	switch {
	case status == 0 || (r.Context().Err() != nil && status >= 500):
		status = statusClientGone
	case panicked != nil:
		status = http.StatusInternalServerError
	}
	s.metrics.observe(routeName(pattern), r.Method, status, took)
	s.access(r, pattern, status, gw.bytes, info, took)
	if cut {
		// The client has a part of an answer: cutting the connection is the
		// only way to say that the rest is missing.
		panic(http.ErrAbortHandler)
	}
}

// panicText keeps the type of foreign values and the text of errors that are
// ours to print: a runtime error never holds request data, a string might.
func panicText(v any) string {
	if e, ok := v.(error); ok {
		if re, ok := errors.AsType[interface {
			error
			RuntimeError()
		}](e); ok {
			return re.Error()
		}
	}
	return fmt.Sprintf("value of type %T", v)
}

// access writes one line per request. The path is replaced by the route's
// pattern: a secret that somebody put into a path or query is not logged.
func (s *server) access(r *http.Request, pattern string, status int, bytes int64, info *reqInfo, took time.Duration) {
	attrs, err := info.attrs()
	attrs = append(attrs,
		slog.String("method", methodName(r.Method)), slog.String("route", routeName(pattern)), slog.Int("status", status),
		slog.Float64("duration_ms", float64(took.Microseconds())/1000), slog.Int64("bytes", bytes), slog.String("remote", r.RemoteAddr))
	level := slog.LevelInfo
	switch {
	case status == http.StatusInternalServerError:
		level = slog.LevelError
	case status >= 500:
		level = slog.LevelWarn
	case status < 300 && quietRoutes[pattern]:
		level = slog.LevelDebug
	}
	if err != nil {
		if _, ok := errors.AsType[*apperr.Error](err); ok || status >= 500 {
			attrs = append(attrs, slog.String("error", err.Error()))
		}
	}
	s.Logger.LogAttrs(context.WithoutCancel(r.Context()), level, "request", attrs...)
}

// quietRoutes are called all the time by machines; their successes are logged
// at debug level only.
var quietRoutes = map[string]bool{
	"POST /v1/worker/claim": true, "POST /v1/worker/heartbeat": true,
	"GET /healthz": true, "GET /readyz": true, "GET /metrics": true,
}

// routeName is the closed set that labels and logs use.
func routeName(pattern string) string {
	if pattern == "" {
		return "unmatched"
	}
	if _, path, ok := strings.Cut(pattern, " "); ok {
		return path
	}
	return pattern
}

func methodName(m string) string {
	switch m {
	case http.MethodGet, http.MethodHead, http.MethodPost, http.MethodPut, http.MethodDelete, http.MethodPatch, http.MethodOptions:
		return m
	}
	return "other"
}

// dispatch is the mux with problem documents instead of its plain texts.
func (s *server) dispatch(w http.ResponseWriter, r *http.Request) {
	h, pattern := s.mux.Handler(r)
	if pattern != "" {
		s.mux.ServeHTTP(w, r)
		return
	}
	// No route: the mux's own handler knows whether another method exists.
	probe := &probeWriter{header: http.Header{}}
	h.ServeHTTP(probe, r)
	if probe.status == http.StatusMethodNotAllowed {
		w.Header()["Allow"] = probe.header["Allow"]
		writeError(w, r, apperr.New(codeMethod, "use a method of the Allow header", "this route does not take this method"))
		return
	}
	writeError(w, r, apperr.New(apperr.NotFound, "see /openapi.json for the routes", "there is no such route"))
}

// probeWriter takes a handler's status and headers and drops its text.
type probeWriter struct {
	header http.Header
	status int
}

func (p *probeWriter) Header() http.Header         { return p.header }
func (p *probeWriter) Write(b []byte) (int, error) { return len(b), nil }
func (p *probeWriter) WriteHeader(status int)      { p.status = status }
