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
)

// Kind of a call.
type Kind string

// The kinds. Supersede is a rejudge's cancel: unlike one that is asked for, it
// may find the job final. Succeed is that another process of the same worker has
// begun to claim: it may end the lease, in which case it is charged even though
// nobody confirmed it; its answer is always Unknown. Audit is a look at the facts when everything is over.
const (
	Grant     Kind = "grant"
	Heartbeat Kind = "heartbeat"
	Result    Kind = "result"
	Fault     Kind = "fault"
	Release   Kind = "release"
	Cancel    Kind = "cancel"
	Supersede Kind = "supersede"
	Succeed   Kind = "succeed"
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
	Who    string // a client's name, where it has one
	Job    int64  // whatever names the job; histories of different jobs are independent
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
	who := o.Who
	if who == "" {
		who = fmt.Sprintf("client %d", o.Client)
	}
	s := strings.TrimSpace(fmt.Sprintf("%s: %s %s", who, o.Kind, short(o.Token)))
	switch o.Kind {
	case Grant:
		s += fmt.Sprintf(" gen %d attempt %d", o.Gen, o.Attempt)
	case Audit:
		return s + fmt.Sprintf(" %s %s %v", o.State, o.Verdict, o.Attempts)
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
	r.ops = append(r.ops, op.During(begin, r.now))
}

// During is the call with its times by any one clock: a call that ended before
// another began has the smaller time. One with the answer Unknown has no end.
func (o Op) During(began, ended int64) Op {
	o.began, o.ended = began, ended
	if o.Answer == Unknown {
		o.ended = notKnown
	}
	return o
}

// Ops is a copy of what was recorded.
func (r *Recorder) Ops() []Op {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.ops)
}
