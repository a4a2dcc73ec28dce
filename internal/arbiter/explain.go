package arbiter

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/store"
)

// Explain implements httpapi.Service.
func (a *Arbiter) Explain(ctx context.Context, id int64) (gavelapi.Explanation, error) {
	sub, err := a.readSubmission(ctx, id)
	if err != nil {
		return gavelapi.Explanation{}, err
	}
	e := gavelapi.Explanation{SubmissionID: id, State: sub.State, Workers: []gavelapi.WorkerReason{}}
	e.History = append(e.History, gavelapi.ExplanationStep{At: sub.CreatedAt, Text: "handed in"})
	for _, t := range sub.Detail.Attempts {
		e.History = append(e.History, gavelapi.ExplanationStep{At: t.GrantedAt, Text: "given to " + t.Worker})
		if t.EndedAt != nil {
			e.History = append(e.History, gavelapi.ExplanationStep{At: *t.EndedAt, Text: attemptEnd(&t)})
		}
	}
	if err := a.doneTo(ctx, &sub, &e); err != nil {
		return gavelapi.Explanation{}, err
	}
	switch {
	case sub.State == gavelapi.StateJudging:
		silence, err := a.silence(ctx, id)
		if err != nil {
			return gavelapi.Explanation{}, err
		}
		e.Summary = "being judged by " + sub.Worker + silence
	case sub.State != gavelapi.StatePending:
		e.Summary = sub.State
		if sub.Verdict != "" {
			e.Summary += " with " + sub.Verdict
		}
		if sub.FinishedAt != nil {
			e.Summary += fmt.Sprintf(", %s after it was handed in", sub.FinishedAt.Sub(sub.CreatedAt).Round(time.Millisecond))
		}
		e.Spent = spent(&sub)
	default:
		e.Summary = sub.Waiting
		a.explainWaiting(ctx, id, &e)
	}
	return e, nil
}

// silentAfter is how many heartbeats are missing when a worker is said to be silent.
const silentAfter = 2

// silence says for how long the worker that judges a submission was not heard of,
// when that is long, and what will become of it. Each heartbeat renews the lease
// in full, so what is left of it says when the last one came.
func (a *Arbiter) silence(ctx context.Context, id int64) (string, error) {
	l, err := a.q.LeaseOfSubmission(ctx, a.db.Pool, id)
	if store.IsNoRows(err) {
		return "", nil // it has just ended
	}
	if err != nil {
		return "", unavailable(err, "read a lease")
	}
	whole := a.cfg.Lease.TTL
	if !l.Confirmed {
		whole = a.cfg.Lease.Confirm
	}
	left := time.Duration(l.LeftS * float64(time.Second))
	silent := whole - left
	if silent < silentAfter*a.cfg.Lease.Heartbeat {
		return "", nil
	}
	return fmt.Sprintf(", who was not heard of for %s; in %s its lease ends and others may have the job", silent.Round(time.Second), max(left, 0).Round(time.Second)), nil
}

// doneTo adds to a history what people did to a submission.
func (a *Arbiter) doneTo(ctx context.Context, sub *gavelapi.Submission, e *gavelapi.Explanation) error {
	rows, err := a.q.DoneToSubmission(ctx, a.db.Pool, sub.ID)
	if err != nil {
		return unavailable(err, "read what was done to a submission")
	}
	cancelled := false
	for _, r := range rows {
		text := map[string]string{
			"submission.cancel": "cancelled", "queue.bump": "put in front", "rejudge.start": "begun", "rejudge.apply": "applied",
			"rejudge.discard": "discarded", "rejudge.cancel": "cancelled",
		}[r.Action]
		if r.RejudgeID != 0 {
			text = fmt.Sprintf("rejudge %d, which it is in, was %s", r.RejudgeID, text)
		}
		text += " by " + cmp.Or(r.TokenNote, "a token without a note")
		if r.Reason != "" {
			text += ": " + r.Reason
		}
		e.History = append(e.History, gavelapi.ExplanationStep{At: r.At.UTC(), Text: text})
		cancelled = cancelled || r.Action == "submission.cancel"
	}
	if sub.State == gavelapi.StateCancelled && !cancelled && sub.FinishedAt != nil { // by SQL, or before it was written down
		e.History = append(e.History, gavelapi.ExplanationStep{At: *sub.FinishedAt, Text: "cancelled"})
	}
	slices.SortStableFunc(e.History, func(x, y gavelapi.ExplanationStep) int { return x.At.Compare(y.At) })
	return nil
}

func attemptEnd(t *gavelapi.Attempt) string {
	texts := map[string]string{
		"completed": "the result was recorded", "failed": "it failed", "expired": "the worker was not heard of until its lease ended",
		"undelivered": "the worker never got it; that costs no attempt", "released": "the worker handed it back", "cancelled": "it was cancelled",
	}
	text := texts[t.Outcome]
	if t.Blame != "" {
		text += ", to blame: " + t.Blame
	}
	if t.Message != "" {
		text += ": " + t.Message
	}
	if t.LateReport != "" {
		text += "; later its report " + t.LateReport + " came and was discarded"
	}
	return text
}

// headerWords says how a compile came by the header compiled ahead, or not.
func headerWords(c *gavelapi.CompileInfo) string {
	switch {
	case c.Precompiled:
		return ", with the header compiled ahead"
	case c.Header == "being_made":
		return ", without the header compiled ahead: the worker was still making it, beside this or next; later ones are faster"
	case c.Header == "failed":
		return ", without the header compiled ahead: the worker could not make it, and its log says why"
	case c.Header == "redone":
		return ", once more without the header compiled ahead, because with it there was something to say"
	}
	return ""
}

// spent says where the time of the judging went that was recorded: all that is
// known of it, with the rest at the end.
func spent(sub *gavelapi.Submission) (list []gavelapi.TimeSpent) {
	attempts := sub.Detail.Attempts
	i := slices.IndexFunc(attempts, func(t gavelapi.Attempt) bool {
		return t.JudgingID == sub.Detail.JudgingID && t.Outcome == "completed" && t.EndedAt != nil
	})
	if i < 0 || sub.Verdict == "" {
		return nil
	}
	took := func(what string, us int64) { list = append(list, gavelapi.TimeSpent{What: what, US: us}) }
	t := attempts[i]
	if rejudged := len(sub.Detail.Judgings) > 0 && sub.Detail.Judgings[0].ID != sub.Detail.JudgingID; !rejudged {
		took("until "+t.Worker+" was given it, earlier attempts included", t.GrantedAt.Sub(sub.CreatedAt).Microseconds())
	}
	c := &sub.Detail.Compile
	rest := t.EndedAt.Sub(t.GrantedAt).Microseconds()
	if c.Cached {
		took("compiling: nothing, an earlier compile of the same source was used", 0)
	} else {
		took("compiling"+headerWords(c), c.WallUS)
		rest -= c.WallUS
	}
	tests, run, repeats := int64(0), 0, 0
	for _, r := range sub.Detail.Tests {
		if r.Verdict == gavelapi.SkippedTest {
			continue
		}
		run++
		if len(r.Attempts) == 0 {
			tests += r.WallUS
		}
		for _, again := range r.Attempts { // the one that counts among them
			tests += again.WallUS
		}
		repeats += max(0, len(r.Attempts)-1)
	}
	what := fmt.Sprintf("running the program on %d tests", run)
	if repeats > 0 {
		what += fmt.Sprintf(" and %d times more, because of times near the limit or a busy machine", repeats)
	}
	if tests > rest { // some ran side by side, and how much of it nobody counts
		took(what+", in sum: some ran side by side", tests)
		return list
	}
	took(what, tests)
	took("the rest: fetching the package, making boxes, checking, reporting", rest-tests)
	return list
}
