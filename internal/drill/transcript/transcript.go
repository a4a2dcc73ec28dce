// Package transcript writes down what the workers and the operators of a drill
// asked and were answered about leases, and makes of it histories that package
// history can check.
//
// Each process writes files of its own, a line when a call is about to be sent
// and a line when its answer is there, so that a process that is killed or
// frozen at any moment leaves what it had asked: a call without a second line
// is one whose outcome nobody knows. A call that cannot be written down is not
// made. Times are those of CLOCK_MONOTONIC, which is one clock for all processes
// of a machine and is not the wall clock that some drills put wrong.
package transcript

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"os"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/sim/history"
)

// claim is the kind of a call that may bring leases.
const claim = "claim"

// line is one line of a file. The first of a call says what was asked, the
// second, with the same number, what was answered.
type line struct {
	N    int64  `json:"n"`
	AtNS int64  `json:"at_ns"`
	Who  string `json:"who,omitempty"`
	Call string `json:"call,omitempty"` // claim, or a kind of package history

	// Asked: of a claim, of a report of a lease, of a cancel.
	Request string `json:"request,omitempty"`
	Session string `json:"session,omitempty"`
	Token   string `json:"token,omitempty"`
	Verdict string `json:"verdict,omitempty"`
	Job     int64  `json:"job,omitempty"`

	Answer *answer `json:"answer,omitempty"` // in the second line
}

type answer struct {
	What   string  `json:"what"` // an answer of package history
	Reason string  `json:"reason,omitempty"`
	Leases []grant `json:"leases,omitempty"`
	Fault  bool    `json:"fault,omitempty"` // a verdict was recorded as a fault, because it was not believed
}

type grant struct {
	Job        int64  `json:"job"`
	Submission int64  `json:"submission"`
	Token      string `json:"token"`
	Gen        int64  `json:"gen"`
	Attempt    int    `json:"attempt"`
}

// Now is the time by the clock of all transcripts, in nanoseconds.
func Now() int64 {
	var t unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &t); err != nil {
		panic(err) // every kernel has this clock
	}
	return t.Nano()
}

// Log is the transcript of one caller. Its methods may be called at once.
type Log struct {
	who string

	mu   sync.Mutex
	file *os.File
	last int64
}

// Create makes a new file below dir for what somebody of that name asks.
func Create(dir, who string) (*Log, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	f, err := os.CreateTemp(dir, who+"-*"+suffix)
	if err != nil {
		return nil, fmt.Errorf("transcript: %w", err)
	}
	return &Log{who: who, file: f}, nil
}

// Close ends the transcript.
func (l *Log) Close() error { return l.file.Close() }

// write appends a line; its number is given when it has none.
func (l *Log) write(what line) (n int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if what.N == 0 {
		l.last++
		what.N = l.last
	}
	what.AtNS = Now()
	raw, err := json.Marshal(what)
	if err == nil {
		_, err = l.file.Write(append(raw, '\n'))
	}
	if err != nil {
		return 0, fmt.Errorf("transcript: %w", err)
	}
	return what.N, nil
}

// do makes a call between its two lines. asked has the answer's line from err
// and what the call returned; no answer, no line.
func do[R any](l *Log, asked line, call func() (R, error), told func(R, error) *answer) (R, error) {
	asked.Who = l.who
	n, err := l.write(asked)
	if err != nil {
		var none R
		return none, err
	}
	got, err := call()
	if a := told(got, err); a != nil {
		if _, failed := l.write(line{N: n, Answer: a}); failed != nil {
			return got, failed
		}
	}
	return got, err
}

// Cancel makes a call that ends whatever lease a job has. superseding says that
// it is not refused when the job is final.
func (l *Log) Cancel(job int64, superseding bool, call func() error) error {
	kind := history.Cancel
	if superseding {
		kind = history.Supersede
	}
	_, err := do(l, line{Call: string(kind), Job: job}, func() (struct{}, error) { return struct{}{}, call() }, func(_ struct{}, err error) *answer {
		switch {
		case err == nil:
			return &answer{What: history.OK}
		case client.StatusOf(err) == http.StatusConflict:
			return &answer{What: history.Refused}
		}
		return nil
	})
	return err
}

// Calls are those of a worker.
type Calls interface {
	Claim(ctx context.Context, in gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error)
	Heartbeat(ctx context.Context, in gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error)
	Result(ctx context.Context, in gavelapi.ResultRequest) (*gavelapi.ResultResponse, error)
	Release(ctx context.Context, in gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error)
	FetchPackage(ctx context.Context, digest string, offset int64) (*client.PackageStream, error)
}

// Of are a worker's calls, written down. Packages are not.
func (l *Log) Of(calls Calls) Calls { return written{calls, l} }

type written struct {
	Calls

	log *Log
}

// Claim implements Calls.
func (w written) Claim(ctx context.Context, in gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error) {
	return do(w.log, askedClaim(in), func() (*gavelapi.ClaimResponse, error) { return w.Calls.Claim(ctx, in) }, toldClaim)
}

// Heartbeat implements Calls.
func (w written) Heartbeat(ctx context.Context, in gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error) {
	return do(w.log, line{Call: string(history.Heartbeat), Token: in.LeaseToken},
		func() (*gavelapi.HeartbeatResponse, error) { return w.Calls.Heartbeat(ctx, in) }, toldHeartbeat)
}

// Result implements Calls.
func (w written) Result(ctx context.Context, in gavelapi.ResultRequest) (*gavelapi.ResultResponse, error) {
	return do(w.log, askedResult(in), func() (*gavelapi.ResultResponse, error) { return w.Calls.Result(ctx, in) }, toldResult)
}

// Release implements Calls.
func (w written) Release(ctx context.Context, in gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error) {
	return do(w.log, line{Call: string(history.Release), Token: in.LeaseToken},
		func() (*gavelapi.ReleaseResponse, error) { return w.Calls.Release(ctx, in) }, toldRelease)
}
