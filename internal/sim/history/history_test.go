package history

import (
	"bytes"
	"fmt"
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
		"succeeded, so charged":     calls(grant("a", 1, 1), call(Succeed, "a", Unknown), grant("b", 2, 2)),
		"succeeded too late":        calls(grant("a", 1, 1), call(Result, "a", OK), call(Succeed, "a", Unknown)),
		"superseded":                calls(grant("a", 1, 1), call(Supersede, "", OK), dead(Heartbeat, "a", "superseded"), dead(Result, "a", "cancelled"), audit("cancelled", "", Attempt{1, "a", "cancelled"})),
		"judged again when done":    calls(grant("a", 1, 1), call(Result, "a", OK), call(Supersede, "", OK), audit("done", "AC", Attempt{1, "a", "completed"})),
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
		"a superseded result applied":  calls(grant("a", 1, 1), call(Supersede, "", OK), call(Result, "a", OK)),
		"two holders, one unanswered":  calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 2), call(Heartbeat, "b", Unknown), call(Heartbeat, "a", OK)),
		"a lost lease superseded":      calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 2), dead(Heartbeat, "a", "superseded")),
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

// A worker that nobody answers calls again and again. Each of these calls may
// have taken effect at any later time or never; that must not make the search
// for a wrong answer endless.
func TestManyUnansweredCallsAreDecided(t *testing.T) {
	var ops []Op
	for gen := range int64(4) {
		token := fmt.Sprint("token-", gen)
		ops = append(ops, grant(token, gen+1, 1), call(Heartbeat, token, Unknown), call(Result, token, Unknown), call(Release, token, Unknown))
		for range 10 {
			ops = append(ops, call(Heartbeat, token, Unknown), call(Result, token, Unknown))
		}
		ops = append(ops, dead(Heartbeat, token, "released"))
	}
	if err := Check(calls(ops...), 2, time.Minute); err != nil {
		t.Error(err)
	}
	ops = append(ops, call(Release, "token-9", OK))
	if err := Check(calls(ops...), 2, time.Minute); err == nil || !strings.Contains(err.Error(), "follow from no order") {
		t.Error(err)
	}
}

func TestTheAnswerThatDoesNotFitIsNamed(t *testing.T) {
	ops := calls(grant("a", 1, 1), call(Heartbeat, "a", OK), grant("b", 2, 2), call(Result, "a", OK), call(Result, "b", OK))
	for i := range ops {
		ops[i].Who = "worker-" + ops[i].Token
	}
	found := Examine(append(ops, Op{Job: 7, Kind: Cancel, Answer: OK}.During(100, 101)), 2, func() time.Duration { return time.Minute })
	if found.Jobs != 2 || found.Calls != 6 || len(found.Undecided) != 0 || len(found.Wrong) != 1 {
		t.Fatalf("%+v", found)
	}
	c := found.Wrong[0]
	if c.Misfit.Kind != Result || c.Misfit.Token != "a" {
		t.Errorf("the misfit is %v", c.Misfit)
	}
	for _, want := range []string{"about job 0", "up to this one they do: worker-a: result a AC → ok", "\n\t! [6, 7] worker-a: result", "\n\t  [0, 1] worker-a: grant a gen 1 attempt 1"} {
		if !strings.Contains(c.String(), want) {
			t.Errorf("no %q in\n%s", want, c)
		}
	}
	var page bytes.Buffer
	if err := c.Draw(&page, time.Minute); err != nil || !strings.Contains(page.String(), "<html") || !strings.Contains(page.String(), "worker-a: result a AC") {
		t.Errorf("%v, %d bytes of a drawing", err, page.Len())
	}
}

// What was not looked at is not right.
func TestAHistoryWithoutTimeToLookIsUndecided(t *testing.T) {
	ops := calls(grant("a", 1, 1), call(Result, "a", OK))
	found := Examine(ops, 2, func() time.Duration { return 0 })
	if len(found.Undecided) != 1 || len(found.Wrong) != 0 {
		t.Errorf("%+v", found)
	}
	if err := Check(ops, 2, 0); err == nil || !strings.Contains(err.Error(), "nothing was found out") {
		t.Errorf("%v", err)
	}
}
