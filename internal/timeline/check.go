package timeline

import (
	"fmt"
	"time"
)

// Alarms that replays know.
const (
	JudgeDown = "judge_down"       // the server's worker has shown no life for two minutes
	Unhealthy = "unhealthy"        // a worker's claims have failed three times in a row
	SetAside  = "worker_set_aside" // the arbiter gives a worker no more work, with evidence
)

// Expectation is what is known of a way of an incident: from the incident
// itself for the old ones, from what is promised for the new.
type Expectation struct {
	Way string
	// The longest hold-up of a claim, and the longest wait of a submission, lie
	// in these ranges; a To of 0 asks for nothing.
	ClaimHeldUp, Waited Range
	// Rings is the alarm that must ring within a time, "" for that none may.
	Rings string
	When  Range
}

// Range is a range of times, both ends included.
type Range struct{ From, To time.Duration }

// Check says what is not as expected. slack is by how much the machine itself
// may lengthen or shorten any time, in the time of the incident: who is late to
// wait has waited less.
func (r *Replay) Check(want []Expectation, slack time.Duration) (why []string) {
	complain := func(format string, args ...any) { why = append(why, fmt.Sprintf(format, args...)) }
	for _, e := range want {
		w, ok := r.Way(e.Way)
		if !ok {
			complain("%s: it was not replayed", e.Way)
			continue
		}
		lead := e.Way
		if e.Way == Old || e.Way == Fix {
			lead += ": the model is not faithful"
		}
		if judged, all := w.Judged(); judged != all || all == 0 {
			complain("%s: %d of %d submissions were judged", e.Way, judged, all)
		}
		for i := range w.Submissions {
			if s := &w.Submissions[i]; s.Judged && s.Verdict != "AC" {
				complain("%s: submission %d became %s", e.Way, s.ID, s.Verdict)
			}
		}
		for _, c := range []struct {
			what string
			got  Offset
			want Range
		}{
			{"a claim was held up", w.ClaimHeldUp, e.ClaimHeldUp},
			{"a submission waited", w.Waited(), e.Waited},
		} {
			if got := time.Duration(c.got); c.want.To > 0 && (got < c.want.From-slack || got > c.want.To+slack) {
				complain("%s: %s for %s at most, which should be %s to %s", lead, c.what, Short(got), Short(max(0, c.want.From-slack)), Short(c.want.To+slack))
			}
		}
		for _, a := range w.Alarms {
			if a.Name != e.Rings {
				complain("%s: the alarm %s rang", lead, a.Name)
			}
		}
		if e.Rings == "" {
			continue
		}
		a, rang := w.alarm(e.Rings)
		switch at := time.Duration(a.Rang); {
		case !rang:
			complain("%s: the alarm %s did not ring", lead, e.Rings)
		case at < e.When.From || at > e.When.To+slack:
			complain("%s: the alarm %s rang after %s, which should be %s to %s", lead, e.Rings, Short(at), Short(e.When.From), Short(e.When.To+slack))
		}
	}
	return why
}
