package history

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"

	"github.com/gavel-oj/gavel/internal/lease"
)

// job is what the model knows of a job. It is compared with ==.
type job struct {
	lease.Job
	token   string // of the live lease
	ended   string // "token=outcome;" for each lease that ended
	verdict string
	by      string // token of the recorded result
}

func (j job) outcome(token string) lease.Outcome {
	_, rest, found := strings.Cut(j.ended, token+"=")
	if !found || token == "" {
		return ""
	}
	o, _, _ := strings.Cut(rest, ";")
	return lease.Outcome(o)
}

// after lets an event happen.
func (j job) after(e lease.Event, attemptCap int) []job {
	next, outcome, ok := lease.Apply(j.Job, e, attemptCap)
	if !ok {
		return nil
	}
	j.Job = next
	if outcome != lease.Running {
		j.ended += j.token + "=" + string(outcome) + ";"
		j.token = ""
	}
	return []job{j}
}

// String is a state in a drawing.
func (j job) String() string {
	s := fmt.Sprintf("%s, gen %d, attempts %d", j.State, j.Gen, j.Attempts)
	if j.token != "" {
		s += ", held by " + short(j.token)
		if !j.Confirmed {
			s += " (unconfirmed)"
		}
	}
	return s
}

// jobModel is a job and what may be said about it. Time is not in it: a live
// lease may run out before any call. Grants that no client heard of show in the
// generation of the next one.
func jobModel(attemptCap int) porcupine.Model {
	nondeterministic := porcupine.NondeterministicModel{
		Init: func() []any { return []any{job{Job: lease.Job{State: lease.Pending}}} },
		Step: func(state, input, _ any) []any {
			var out []any
			j, _ := state.(job)
			op, _ := input.(Op)
			for _, from := range append([]job{j}, j.after(lease.Expire, attemptCap)...) {
				for _, next := range from.step(op, attemptCap) {
					out = append(out, next)
				}
			}
			return out
		},
		DescribeOperation: func(input, _ any) string { return fmt.Sprint(input) },
	}
	return nondeterministic.ToModel()
}

// step returns the states in which the answer of op is true, none if it cannot be.
func (j job) step(op Op, attemptCap int) []job {
	here := []job{j}
	holds := j.State == lease.Leased && j.token == op.Token
	if op.Answer == Unknown { // it may have happened or not
		op.Answer = OK
		return append(here, j.step(op, attemptCap)...)
	}
	if op.Answer == Dead {
		o := j.outcome(op.Token)
		if superseded := o == lease.WasCancelled && op.Reason == "superseded"; holds ||
			op.Reason != "" && op.Reason != lease.EndReason(o) && !superseded ||
			op.Kind != Heartbeat && (o == lease.Completed || o == lease.Failed) {
			return nil
		}
		return here
	}
	switch op.Kind {
	case Grant:
		return j.granted(op)
	case Heartbeat:
		if holds {
			return j.after(lease.Heartbeat, attemptCap)
		}
	case Result, Fault:
		if o := j.outcome(op.Token); op.Answer == Already && (o == lease.Completed || o == lease.Failed) {
			return here
		}
		if op.Answer != OK || !holds {
			return nil
		}
		if op.Kind == Fault {
			return j.after(lease.Fault, attemptCap)
		}
		j.verdict, j.by = op.Verdict, op.Token
		return j.after(lease.Result, attemptCap)
	case Release:
		if holds {
			return j.after(lease.Release, attemptCap)
		}
		if j.outcome(op.Token) == lease.Released {
			return here
		}
	case Cancel:
		if final := j.State.Final(); final && (op.Answer == Refused) == (j.State != lease.Cancelled) {
			return here
		} else if !final && op.Answer == OK {
			return j.after(lease.Cancel, attemptCap)
		}
	case Supersede:
		if !j.State.Final() {
			return j.after(lease.Cancel, attemptCap)
		}
		return here
	case Succeed: // the lease runs out soon and is charged, as its holder had it
		if holds {
			return j.after(lease.Heartbeat, attemptCap)
		}
	case Audit:
		if j.agrees(op) {
			return here
		}
	}
	return nil
}

// granted: the same lease once more, or a new one. Each generation in between
// was a grant that nobody heard of; it cost an attempt or not.
func (j job) granted(op Op) []job {
	unheard := int(op.Gen - j.Gen - 1)
	switch {
	case j.State == lease.Leased && j.token == op.Token && j.Gen == op.Gen:
		return []job{j}
	case j.State != lease.Pending || unheard < 0 || op.Attempt <= j.Attempts || op.Attempt > j.Attempts+1+unheard:
		return nil
	}
	j.Job = lease.Job{State: lease.Leased, Gen: op.Gen, Attempts: op.Attempt}
	j.token = op.Token
	return []job{j}
}

// agrees compares the facts with what the calls say about them.
func (j job) agrees(op Op) bool {
	if string(j.State) != op.State || j.verdict != op.Verdict {
		return false
	}
	last := ""
	for _, a := range op.Attempts {
		last = a.Token
		unheard := !strings.Contains(j.ended, a.Token+"=")
		ends := []string{string(lease.Expired), string(lease.Undelivered), string(lease.WasCancelled)}
		if unheard && !slices.Contains(ends, a.Outcome) || !unheard && a.Outcome != string(j.outcome(a.Token)) {
			return false
		}
	}
	return j.by == "" || j.by == last // nothing was granted after the recorded result
}
