package httpapi

import (
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

// errSlowBody marks a body that missed one of its deadlines.
var errSlowBody = &slowBodyError{}

// slowBodyError is a net.Error so that huma answers 408 by itself.
type slowBodyError struct{}

func (*slowBodyError) Error() string   { return "the body did not arrive in time" }
func (*slowBodyError) Timeout() bool   { return true }
func (*slowBodyError) Temporary() bool { return false }

// guardedBody bounds how slowly a body may arrive: each read, and the whole.
// After the end of the body it keeps its hands off the deadline: from then on
// net/http watches the connection itself, and a deadline set during that would
// end the request's context in the middle of a long-poll.
type guardedBody struct {
	body    io.ReadCloser
	control *http.ResponseController
	clock   clock.Clock
	begun   time.Time
	total   time.Duration
	ended   bool
}

func newGuardedBody(body io.ReadCloser, control *http.ResponseController, c clock.Clock) *guardedBody {
	b := &guardedBody{body: body, control: control, clock: c, begun: c.Now(), total: jsonBodyTime}
	if body == http.NoBody {
		b.ended = true
	}
	b.extend()
	return b
}

// extend gives the next read its time and says whether any is left.
func (b *guardedBody) extend() bool {
	if b.ended {
		return true
	}
	now := b.clock.Now()
	left := b.begun.Add(b.total).Sub(now)
	_ = b.control.SetReadDeadline(now.Add(min(left, bodyStall)))
	return left > 0
}

func (b *guardedBody) Read(p []byte) (int, error) {
	if !b.extend() {
		return 0, errSlowBody
	}
	n, err := b.body.Read(p)
	if errors.Is(err, io.EOF) {
		b.ended = true
		return n, err
	}
	if ne, ok := errors.AsType[net.Error](err); ok && ne.Timeout() {
		err = errSlowBody
	}
	return n, err
}

// Close bounds what closing costs.
func (b *guardedBody) Close() error {
	b.drain()
	return b.body.Close()
}

// drain prepares for net/http's habit of reading a little of an unread body
// before it sends the answer: a client that sends nothing must not hold back
// its own refusal.
func (b *guardedBody) drain() {
	if !b.ended {
		_ = b.control.SetReadDeadline(b.clock.Now().Add(drainTime))
	}
}

// guardedWriter counts, and gives each write its own deadline so that a client
// that stops reading is dropped while long-polls are not. It hides ReaderFrom
// on purpose: a copy then goes through Write piece by piece.
type guardedWriter struct {
	http.ResponseWriter
	control *http.ResponseController
	clock   clock.Clock
	body    *guardedBody
	status  int
	started bool // a part of the body is out
	bytes   int64
}

// Unwrap lets http.ResponseController through.
func (w *guardedWriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }

func (w *guardedWriter) extend() { _ = w.control.SetWriteDeadline(w.clock.Now().Add(bodyStall)) }

func (w *guardedWriter) WriteHeader(status int) {
	w.extend()
	if w.status == 0 && status >= 200 {
		w.status = status
		w.body.drain()
		if status == http.StatusNoContent {
			w.Header().Del("Content-Type")
		}
	}
	w.ResponseWriter.WriteHeader(status)
}

func (w *guardedWriter) Write(p []byte) (int, error) {
	if w.status == 0 {
		w.WriteHeader(http.StatusOK)
	}
	w.extend()
	w.started = true
	n, err := w.ResponseWriter.Write(p)
	w.bytes += int64(n)
	return n, err
}
