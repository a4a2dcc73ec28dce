package history

import (
	"strings"
	"testing"
	"time"
)

// calls makes a history in which each call ends before the next begins.
func calls(ops ...Op) []Op {
	var r Recorder
	for _, o := range ops {
		r.End(r.Begin(), o)
	}
	return r.Ops()
}

func grant(token string, gen int64, attempt int) Op {
	return Op{Kind: Grant, Token: token, Gen: gen, Attempt: attempt, Answer: OK}
}

func call(k Kind, token, answer string) Op {
	o := Op{Kind: k, Token: token, Answer: answer}
	if k == Result {
		o.Verdict = "AC"
	}
	return o
}

func dead(k Kind, token, reason string) Op {
	return Op{Kind: k, Token: token, Answer: Dead, Reason: reason}
}

func audit(state, verdict string, attempts ...Attempt) Op {
	return Op{Kind: Audit, State: state, Verdict: verdict, Attempts: attempts, Answer: OK}
}

func TestHistoriesThatCouldHaveHappened(t *testing.T) {
	for name, ops := range map[string][]Op{
		"straight through": calls(grant("a", 1, 1), call(Heartbeat, "a", OK), call(Result, "a", OK), call(Result, "a", Already),
			audit("done", "AC", Attempt{1, "a", "completed"})),
		"a lease that ran out": calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 2), dead(Heartbeat, "a", "expired"),
			dead(Result, "a", "expired"), call(Result, "b", OK), audit("done", "AC", Attempt{1, "a", "expired"}, Attempt{2, "b", "completed"})),
		"a grant nobody heard of":   calls(grant("a", 1, 1), grant("c", 3, 1)),
		"the same lease once more":  calls(grant("a", 1, 1), grant("a", 1, 1)),
		"handed back for nothing":   calls(grant("a", 1, 1), call(Release, "a", OK), call(Release, "a", OK), grant("b", 2, 1)),
		"given up at the cap":       calls(grant("a", 1, 1), call(Fault, "a", OK), grant("b", 2, 2), call(Fault, "b", OK), audit("system_error", "", Attempt{1, "a", "failed"}, Attempt{2, "b", "failed"})),
		"a report of unknown fate":  calls(grant("a", 1, 1), call(Result, "a", Unknown), grant("b", 2, 1), call(Result, "a", Unknown), call(Cancel, "", OK)),
		"recorded, the answer lost": calls(grant("a", 1, 1), call(Result, "a", Unknown), call(Result, "a", Already), call(Cancel, "", Refused)),
		"cancelled":                 calls(grant("a", 1, 1), call(Cancel, "", OK), dead(Heartbeat, "a", "cancelled"), audit("cancelled", "", Attempt{1, "a", "cancelled"})),
	} {
		if err := Check(ops, 2, time.Minute); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestHistoriesThatAreWrongAreRejected(t *testing.T) {
	for name, ops := range map[string][]Op{
		"a late result applied":        calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 2), call(Result, "a", OK)),
		"two results recorded":         calls(grant("a", 1, 1), call(Result, "a", OK), call(Result, "a", OK)),
		"granted after its result":     calls(grant("a", 1, 1), call(Result, "a", OK), grant("b", 2, 2)),
		"a generation used twice":      calls(grant("a", 1, 1), call(Release, "a", OK), grant("b", 1, 1)),
		"two leases at once":           calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 2), call(Heartbeat, "a", OK)),
		"a lost lease for nothing":     calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 1)),
		"an undelivered grant charged": calls(grant("a", 1, 1), grant("b", 2, 2)),
		"a hand-back charged":          calls(grant("a", 1, 1), call(Release, "a", OK), grant("b", 2, 2)),
		"a third try of two":           calls(grant("a", 1, 1), call(Fault, "a", OK), grant("b", 2, 2), call(Fault, "b", OK), grant("c", 3, 3)),
		"a live lease called dead":     calls(grant("a", 1, 1), dead(Heartbeat, "a", "expired"), call(Heartbeat, "a", OK)),
		"a wrong reason":               calls(grant("a", 1, 1), call(Release, "a", OK), dead(Heartbeat, "a", "cancelled")),
		"a cancel undone":              calls(grant("a", 1, 1), call(Cancel, "", OK), call(Result, "a", OK)),
		"a recorded result discarded":  calls(grant("a", 1, 1), call(Result, "a", OK), dead(Result, "a", "")),
		"facts that say otherwise":     calls(grant("a", 1, 1), call(Result, "a", OK), audit("done", "WA", Attempt{1, "a", "completed"})),
		"a lease after the result":     calls(grant("a", 1, 1), call(Result, "a", OK), audit("done", "AC", Attempt{1, "a", "completed"}, Attempt{2, "b", "undelivered"})),
	} {
		err := Check(ops, 2, time.Minute)
		if err == nil || !strings.Contains(err.Error(), "follow from no order") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// Calls that overlap may have taken effect in either order, those that do not
// only in theirs.
func TestOrderMattersOnlyWhereCallsDoNotOverlap(t *testing.T) {
	var r Recorder
	r.End(r.Begin(), grant("a", 1, 1))
	first := r.Begin()
	second := r.Begin()
	r.End(second, call(Result, "a", Already)) // answered before the one that recorded it
	r.End(first, call(Result, "a", OK))
	if err := Check(r.Ops(), 2, time.Minute); err != nil {
		t.Error(err)
	}
	if Check(calls(grant("a", 1, 1), call(Result, "a", Already), call(Result, "a", OK)), 2, time.Minute) == nil {
		t.Error("a report was recorded already before anybody sent it")
	}
}
