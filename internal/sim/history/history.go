// Package history records what clients of an arbiter were told about leases,
// and checks that it could have happened one call at a time: that each answer
// follows from some order of the calls that respects who had finished before
// whom began. The check is porcupine's; the model is that of one job (model.go).
//
// Recording does not disturb: a call is noted before and after. A call whose
// answer was lost has the answer Unknown: it may have taken effect at any later
// time, or never.
package history

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/anishathalye/porcupine"
)

// Kind of a call.
type Kind string

// The kinds. Audit is a look at the facts when everything is over.
const (
	Grant     Kind = "grant"
	Heartbeat Kind = "heartbeat"
	Result    Kind = "result"
	Fault     Kind = "fault"
	Release   Kind = "release"
	Cancel    Kind = "cancel"
	Audit     Kind = "audit"
)

// Answers. Reasons of dead leases are those of gavelapi.
const (
	OK       = "ok"      // granted, extended, recorded, released, cancelled
	Already  = "already" // an earlier report of this lease was recorded
	Dead     = "dead"    // the lease is not live; Reason says why
	Refused  = "refused" // a cancel that came too late
	Unknown  = "unknown" // no answer, or one that says nothing
	notKnown = int64(math.MaxInt64)
)

// Op is one call about one job.
type Op struct {
	Client int
	Job    int64 // whatever names the job; histories of different jobs are independent
	Kind   Kind
	Token  string

	Gen     int64  // of a grant
	Attempt int    // of a grant
	Verdict string // of a result or an audit

	Answer string
	Reason string // of Dead, "" when none was given

	// Of an audit.
	State    string // done, system_error, cancelled
	Attempts []Attempt

	began, ended int64
}

// Attempt is one row of the facts.
type Attempt struct {
	Gen     int64
	Token   string
	Outcome string
}

func (o Op) String() string {
	s := fmt.Sprintf("client %d: %s %s", o.Client, o.Kind, short(o.Token))
	switch o.Kind {
	case Grant:
		s += fmt.Sprintf(" gen %d attempt %d", o.Gen, o.Attempt)
	case Audit:
		return s + fmt.Sprintf("%s %s %v", o.State, o.Verdict, o.Attempts)
	}
	return strings.TrimSpace(s+" "+o.Verdict) + " → " + strings.TrimSpace(o.Answer+" "+o.Reason)
}

func short(token string) string { return token[:min(8, len(token))] }

// String is a row in a report.
func (a Attempt) String() string { return fmt.Sprintf("%d:%s:%s", a.Gen, short(a.Token), a.Outcome) }

// Recorder collects the calls of any number of clients.
type Recorder struct {
	mu  sync.Mutex
	now int64
	ops []Op
}

// Begin notes that a call starts. Its result goes to End.
func (r *Recorder) Begin() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	return r.now
}

// End notes a call that began at begin and has its answer now.
func (r *Recorder) End(begin int64, op Op) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now++
	op.began, op.ended = begin, r.now
	if op.Answer == Unknown {
		op.ended = notKnown
	}
	r.ops = append(r.ops, op)
}

// Ops is a copy of what was recorded.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}

// Check says whether the history could have happened one call at a time; if
// not, the error tells the calls about the first job for which it could not.
// A search that takes longer than limit for one job is an error, too.
func Check(ops []Op, attemptCap int, limit time.Duration) error {
	byJob := map[int64][]Op{}
	for _, o := range ops {
		byJob[o.Job] = append(byJob[o.Job], o)
	}
	model := jobModel(attemptCap)
	jobs := make([]int64, 0, len(byJob))
	for job := range byJob {
		jobs = append(jobs, job)
	}
	slices.Sort(jobs)
	for _, job := range jobs {
		calls := make([]porcupine.Operation, 0, len(byJob[job]))
		for _, o := range byJob[job] {
			calls = append(calls, porcupine.Operation{ClientId: o.Client, Input: o, Call: o.began, Output: o.Answer, Return: o.ended})
		}
		switch porcupine.CheckOperationsTimeout(model, calls, limit) {
		case porcupine.Ok:
		case porcupine.Illegal:
			return fmt.Errorf("the answers about job %d follow from no order of its calls:\n%s", job, tell(byJob[job]))
		default:
			return fmt.Errorf("no answer within %v about job %d:\n%s", limit, job, tell(byJob[job]))
		}
	}
	return nil
}

func tell(ops []Op) string {
	slices.SortFunc(ops, func(a, b Op) int { return int(a.began - b.began) })
	var b strings.Builder
	for _, o := range ops {
		end := fmt.Sprint(o.ended)
		if o.ended == notKnown {
			end = "…"
		}
		fmt.Fprintf(&b, "\t[%d, %s] %s\n", o.began, end, o)
	}
	return b.String()
}
