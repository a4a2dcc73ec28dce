package arbiter_test

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/httpapi"
)

func (s *stand) submitAs(user, problem string) gavelapi.Submission {
	s.t.Helper()
	sub, _, err := s.CreateSubmission(s.t.Context(), s.admin, "", nil, gavelapi.NewSubmission{Problem: problem, Language: "c", Source: "int main(){}", User: user})
	if err != nil {
		s.t.Fatal(err)
	}
	return sub
}

// judge gives whatever waits next a verdict.
func (f *fake) judge(verdict string) gavelapi.Lease {
	f.s.t.Helper()
	l := f.claim()
	f.report(l.LeaseToken, verdictReport(verdict))
	return l
}

func (s *stand) rejudge(f gavelapi.RejudgeFilter, apply string) gavelapi.Rejudge {
	s.t.Helper()
	r, err := s.StartRejudge(s.t.Context(), s.admin, gavelapi.NewRejudge{Filter: f, Reason: "test", Apply: apply})
	if err != nil {
		s.t.Fatal(err)
	}
	return r
}

func (s *stand) awaitRejudge(id int64, state string) gavelapi.Rejudge {
	s.t.Helper()
	var r gavelapi.Rejudge
	until(s.t, "the rejudge is "+state, func() bool {
		var err error
		if r, err = s.Rejudge(s.t.Context(), id); err != nil {
			s.t.Fatal(err)
		}
		return r.State == state
	})
	return r
}

func TestARejudgeShowsWhatWouldChangeAndChangesItWhenApplied(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	var subs []gavelapi.Submission
	for range 3 {
		subs = append(subs, s.submit("c"))
		w.judge("WA")
	}
	r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
	if r.State != gavelapi.RejudgeRunning || r.Total != 3 || len(r.Skipped) != 0 {
		t.Fatalf("started as %s", asJSON(r))
	}
	if got := s.read(subs[0].ID); got.Verdict != "WA" || got.State != gavelapi.StateDone || !got.Rejudging {
		t.Errorf("while rejudging it reads %s", asJSON(got))
	}
	if _, err := s.ApplyRejudge(t.Context(), s.admin, r.ID, nil, ""); apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("applying a running rejudge: %v", err)
	}
	w.judge("AC")
	w.judge("WA")
	w.judge("TLE")
	r = s.awaitRejudge(r.ID, gavelapi.RejudgeReady)
	if r.Done != 3 || r.Changed != 2 {
		t.Errorf("ready as %s", asJSON(r))
	}
	if got := s.read(subs[0].ID); got.Verdict != "WA" || got.Rejudging {
		t.Errorf("before it is applied it reads %s", asJSON(got))
	}
	diff, err := s.RejudgeChanges(t.Context(), r.ID, true, "", 10)
	if err != nil || len(diff.Changes) != 2 || diff.Changes[0].OldVerdict != "WA" || diff.Changes[0].NewVerdict != "AC" || diff.Changes[1].NewVerdict != "TLE" {
		t.Errorf("changes %s, %v", asJSON(diff), err)
	}
	// A part first, then the rest; and both again, which changes nothing.
	for _, part := range [][]int64{{subs[0].ID}, {subs[0].ID}, nil, nil} {
		if _, err := s.ApplyRejudge(t.Context(), s.admin, r.ID, part, ""); err != nil {
			t.Fatal(err)
		}
		want := []string{"AC", "WA", "WA"}
		if part == nil {
			want[2] = "TLE"
		}
		for i, sub := range subs {
			if got := s.read(sub.ID); got.Verdict != want[i] {
				t.Errorf("after applying %v submission %d is %s, want %s", part, i, got.Verdict, want[i])
			}
		}
	}
	got := s.read(subs[0].ID).Detail.Judgings
	if len(got) != 2 || got[0].Current || !got[1].Current || got[0].Verdict != "WA" || got[1].RejudgeID != r.ID ||
		got[0].RejudgeBy != "" || got[1].RejudgeBy != "test" || got[1].RejudgeReason != "test" {
		t.Errorf("the history is %s", asJSON(got))
	}
}

func (s *stand) changes(id int64) gavelapi.RejudgeChangeList {
	s.t.Helper()
	list, err := s.RejudgeChanges(s.t.Context(), id, false, "", 10)
	if err != nil {
		s.t.Fatal(err)
	}
	return list
}

// Applied is what an apply, or an apply at once, did: not what counts because
// there was nothing before, and also what another rejudge has replaced since.
func TestWhatIsAppliedIsWhatWasApplied(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	judged := s.submit("c")
	w.judge("WA")
	waits := s.submit("c")
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{judged.ID, waits.ID}}, "later")
	w.judge("AC")
	w.judge("AC")
	s.awaitRejudge(r.ID, gavelapi.RejudgeReady)
	want := func(id int64, state string, count int, flags ...[2]bool) {
		t.Helper()
		list, got := s.changes(id), [][2]bool{}
		for _, c := range list.Changes {
			got = append(got, [2]bool{c.First, c.Applied})
		}
		if diff := cmp.Diff(flags, got); diff != "" || list.State != state {
			t.Errorf("state %s, want %s; first and applied of each (-want +got):\n%s", list.State, state, diff)
		}
		if r, err := s.Rejudge(t.Context(), id); err != nil || r.Applied != count {
			t.Errorf("%d are applied, want %d: %v", r.Applied, count, err)
		}
	}
	if got := s.read(waits.ID); got.Verdict != "AC" {
		t.Errorf("the first verdict is %q", got.Verdict)
	}
	want(r.ID, gavelapi.RejudgeReady, 0, [2]bool{false, false}, [2]bool{true, false})
	if _, err := s.ApplyRejudge(t.Context(), s.admin, r.ID, nil, ""); err != nil {
		t.Fatal(err)
	}
	want(r.ID, gavelapi.RejudgeApplied, 1, [2]bool{false, true}, [2]bool{true, false})
	again := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{judged.ID, waits.ID}}, "at_once")
	w.judge("TLE")
	w.judge("TLE")
	s.awaitRejudge(again.ID, gavelapi.RejudgeApplied)
	want(again.ID, gavelapi.RejudgeApplied, 2, [2]bool{false, true}, [2]bool{false, true})
	want(r.ID, gavelapi.RejudgeApplied, 1, [2]bool{false, true}, [2]bool{true, false})
	list, err := s.Rejudges(t.Context(), "", 10)
	if err != nil || len(list.Rejudges) != 2 || list.Rejudges[0].Applied != 2 || list.Rejudges[1].Applied != 1 {
		t.Errorf("listed: %s, %v", asJSON(list), err)
	}
}

// Applying takes parts, in any order and as often as somebody asks. Each part
// says what it did, and only what did something is in the audit trail.
func TestARejudgeIsAppliedInParts(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	var ids []int64
	for range 3 {
		ids = append(ids, s.submit("c").ID)
		w.judge("WA")
	}
	outside := s.submit("c")
	w.judge("WA")
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: ids}, "later")
	w.judge("AC")
	w.judge("AC")
	apply := func(only ...int64) (gavelapi.Rejudge, error) {
		return s.ApplyRejudge(t.Context(), s.admin, r.ID, only, "in parts")
	}
	if _, err := apply(ids[0]); apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(err.Error(), fmt.Sprintf("rejudge %d is still running", r.ID)) {
		t.Errorf("while one of it waits: %v", err)
	}
	w.judge("AC")
	s.awaitRejudge(r.ID, gavelapi.RejudgeReady)
	_, err := apply(ids[0], outside.ID, 9999, ids[1])
	if apperr.CodeOf(err) != apperr.Invalid || !strings.Contains(err.Error(), fmt.Sprintf("not in rejudge %d: submission %d, 9999", r.ID, outside.ID)) {
		t.Errorf("with some that are not in it: %v", err)
	}
	for _, step := range []struct {
		only             []int64
		applied, audited int
	}{
		{[]int64{ids[1], ids[1]}, 1, 1},
		{[]int64{ids[1]}, 1, 1}, // again
		{[]int64{ids[2], ids[1]}, 2, 2},
		{nil, 3, 3}, // the rest
		{nil, 3, 3},
		{ids, 3, 3},
	} {
		got, err := apply(step.only...)
		if err != nil || got.State != gavelapi.RejudgeApplied || got.Applied != step.applied || got.Changed != 3 {
			t.Errorf("applying %v: %s, %v; want %d applied", step.only, asJSON(got), err, step.applied)
		}
		if n := s.number("select count(*) from audit where action = 'rejudge.apply'"); n != step.audited {
			t.Errorf("after applying %v there are %d entries in the audit trail, want %d", step.only, n, step.audited)
		}
	}
	for _, id := range ids {
		if got := s.read(id); got.Verdict != "AC" {
			t.Errorf("submission %d is %s", id, got.Verdict)
		}
	}
	if got := s.read(outside.ID); got.Verdict != "WA" {
		t.Errorf("outside of it: %s", got.Verdict)
	}
	_, err = s.DiscardRejudge(t.Context(), s.admin, r.ID, "")
	if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Code != apperr.Conflict || !strings.Contains(e.Hint, "start another") {
		t.Errorf("discarding it then: %v", err)
	}
}

func TestADiscardedRejudgeChangesNothing(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	w.judge("AC")
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{sub.ID}}, "later")
	if _, err := s.DiscardRejudge(t.Context(), s.admin, r.ID, ""); apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("discarding a running rejudge: %v", err)
	}
	w.judge("WA")
	s.awaitRejudge(r.ID, gavelapi.RejudgeReady)
	for range 2 {
		if got, err := s.DiscardRejudge(t.Context(), s.admin, r.ID, ""); err != nil || got.State != gavelapi.RejudgeDiscarded {
			t.Fatalf("%s, %v", got.State, err)
		}
	}
	for _, only := range [][]int64{nil, {sub.ID}} {
		if _, err := s.ApplyRejudge(t.Context(), s.admin, r.ID, only, ""); apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(err.Error(), "is discarded and cannot be applied") {
			t.Errorf("applying a discarded rejudge: %v", err)
		}
	}
	if got := s.read(sub.ID); got.Verdict != "AC" {
		t.Errorf("the verdict is %s", got.Verdict)
	}
	if list := s.changes(r.ID); list.State != gavelapi.RejudgeDiscarded || len(list.Changes) != 1 || list.Changes[0].Applied {
		t.Errorf("%s", asJSON(list))
	}
}

// A14, L08: asked while the first judging runs, and asked five times.
func TestARejudgeSupersedesWhatIsOpen(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	old := w.hold()
	ids := map[int64]bool{}
	for range 5 {
		r, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "again")
		if err != nil {
			t.Fatal(err)
		}
		ids[r.ID] = true
		if got := s.read(sub.ID); got.State != gavelapi.StatePending {
			t.Errorf("it is %s", got.State)
		}
	}
	if len(ids) != 1 {
		t.Errorf("five requests made %d rejudges", len(ids))
	}
	wantGone(t, w.beat(old.LeaseToken), gavelapi.LeaseSuperseded)
	if got := w.report(old.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseSuperseded {
		t.Errorf("the superseded report was %+v", got)
	}
	if l := w.judge("AC"); l.Kind != "rejudge" || l.SubmissionID != sub.ID {
		t.Errorf("the lease was %s", asJSON(l))
	}
	got := s.read(sub.ID)
	if got.Verdict != "AC" || len(got.Detail.Judgings) != 2 || got.Detail.Judgings[0].State != gavelapi.StateCancelled {
		t.Errorf("%s", asJSON(got))
	}
}

func TestOneSubmissionIsRejudgedAndAppliedAtOnce(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	w.judge("AC")
	r, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "tests were weak")
	if err != nil {
		t.Fatal(err)
	}
	if got := s.read(sub.ID); got.Verdict != "AC" {
		t.Errorf("before the new verdict it reads %q", got.Verdict)
	}
	w.judge("WA")
	if got := s.read(sub.ID); got.Verdict != "WA" {
		t.Errorf("after the new verdict it reads %q", got.Verdict)
	}
	s.awaitRejudge(r.ID, gavelapi.RejudgeApplied)
}

func TestASystemErrorNeverReplacesAVerdict(t *testing.T) {
	settings := quick
	settings.AttemptCap = 1
	s := newStand(t, settings)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	w.judge("AC")
	r, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "x")
	if err != nil {
		t.Fatal(err)
	}
	l := w.claim()
	w.report(l.LeaseToken, faultReport(gavelapi.BlameHost))
	if got := s.awaitRejudge(r.ID, gavelapi.RejudgeApplied); got.Failed != 1 {
		t.Errorf("%s", asJSON(got))
	}
	if got := s.read(sub.ID); got.Verdict != "AC" {
		t.Errorf("the verdict is %q", got.Verdict)
	}
}

// L25: the operator clears a fault: what it turned into system errors is
// judged again with one call, and only that.
func TestSystemErrorsAreRetriedWithOneCall(t *testing.T) {
	settings := quick
	settings.AttemptCap = 1
	s := newStand(t, settings)
	w := s.worker("w", 1, "c")
	good, bad := s.submit("c"), s.submit("c")
	w.judge("WA")
	l := w.claim()
	w.report(l.LeaseToken, faultReport(gavelapi.BlameHost))
	r := s.rejudge(gavelapi.RejudgeFilter{Verdict: "SE"}, "at_once")
	if r.Total != 1 {
		t.Fatalf("%s", asJSON(r))
	}
	w.judge("AC")
	if g, b := s.read(good.ID), s.read(bad.ID); g.Verdict != "WA" || b.Verdict != "AC" || b.State != gavelapi.StateDone {
		t.Errorf("good %s, bad %s %s", g.Verdict, b.State, b.Verdict)
	}
}

func TestACancelledRejudgeStopsAndIsCancelledOnce(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	for range 3 {
		s.submit("c")
		w.judge("AC")
	}
	r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
	running := w.claim()
	for range 3 {
		if got, err := s.CancelRejudge(t.Context(), s.admin, r.ID, ""); err != nil || got.State != gavelapi.RejudgeCancelled {
			t.Fatalf("%s, %v", got.State, err)
		}
	}
	wantGone(t, w.beat(running.LeaseToken), gavelapi.LeaseCancelled)
	if leases, err := w.tryClaim(0); err != nil || len(leases) != 0 {
		t.Errorf("cancelled work was granted: %v, %v", leases, err)
	}
	if n := s.number("select count(*) from judgings where state = 'cancelled'"); n != 3 {
		t.Errorf("%d judgings were cancelled", n)
	}
	again := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later") // it no longer holds anything up
	if again.Total != 3 {
		t.Errorf("%s", asJSON(again))
	}
}

// Whoever asks what became of a submission is told which rejudge took it over,
// whose it was and why, and how that ended.
func TestTheHistoryNamesTheRejudge(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	running := w.claim()
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{sub.ID}}, "later")
	wantGone(t, w.beat(running.LeaseToken), gavelapi.LeaseSuperseded)
	if _, err := s.CancelRejudge(t.Context(), s.admin, r.ID, "the wrong one"); err != nil {
		t.Fatal(err)
	}
	e, err := s.Explain(t.Context(), sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, h := range e.History {
		texts = append(texts, h.Text)
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{
		fmt.Sprintf("rejudge %d, which it is in, was begun by test: test", r.ID), "it was cancelled: superseded by a rejudge",
		fmt.Sprintf("rejudge %d, which it is in, was cancelled by test: the wrong one", r.ID),
	} {
		if !strings.Contains(all, want) {
			t.Errorf("not said: %s\n%s", want, all)
		}
	}
}

// Nobody takes another's rejudge for the one that was asked for.
func TestASecondRejudgeForAnotherReasonIsRefused(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	w.judge("AC")
	first, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "weak tests")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "weak tests"); err != nil || again.ID != first.ID {
		t.Errorf("the same request again: %+v, %v", again, err)
	}
	_, err = s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "another checker")
	if apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(err.Error(), fmt.Sprintf("rejudge %d", first.ID)) {
		t.Errorf("another reason: %v", err)
	}
	w.judge("AC")
	applied := s.awaitRejudge(first.ID, gavelapi.RejudgeApplied)
	_, err = s.CancelRejudge(t.Context(), s.admin, applied.ID, "")
	if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Code != apperr.Conflict || strings.Contains(e.Hint, "discard") {
		t.Errorf("cancelling an applied rejudge: %v, which cannot be discarded either", err)
	}
	got := s.read(sub.ID)
	for i, a := range got.Detail.Attempts {
		if want := got.Detail.Judgings[i].ID; a.JudgingID != want {
			t.Errorf("attempt %d says judging %d, want %d", i, a.JudgingID, want)
		}
	}
}

func TestFiltersByWhatDoesNotExistAreRefused(t *testing.T) {
	s := newStand(t, quick)
	for name, f := range map[string]httpapi.SubmissionFilter{
		`no problem "nosuch"`:  {Problem: "nosuch", Limit: 5},
		`no language "nosuch"`: {Language: "nosuch", Limit: 5},
	} {
		if _, err := s.Submissions(t.Context(), f); apperr.CodeOf(err) != apperr.NotFound || !strings.Contains(err.Error(), name) {
			t.Errorf("listing: %v, want %s", err, name)
		}
	}
	if list, err := s.Submissions(t.Context(), httpapi.SubmissionFilter{Problem: "p", Language: "c", Limit: 5}); err != nil || len(list.Submissions) != 0 {
		t.Errorf("of what is there but has none: %+v, %v", list, err)
	}
	for name, f := range map[string]gavelapi.RejudgeFilter{
		`no problem "nosuch"`:  {Problem: "nosuch"},
		`no language "nosuch"`: {Language: "nosuch", Problem: "p"},
	} {
		if _, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Filter: f, Reason: "x"}); apperr.CodeOf(err) != apperr.NotFound || !strings.Contains(err.Error(), name) {
			t.Errorf("rejudging: %v, want %s", err, name)
		}
	}
}

// A rejudge may select what was never judged. To cancel it must not take that
// first judging away; what an operator had cancelled before stays cancelled.
func TestACancelledRejudgeLeavesFirstJudgingsToBeDone(t *testing.T) {
	for _, leased := range []bool{false, true} {
		t.Run(fmt.Sprintf("leased %t", leased), func(t *testing.T) {
			s := newStand(t, quick)
			judged, gone, first := s.submit("c"), s.submit("c"), s.submit("c")
			w := s.worker("w", 1, "c")
			w.judge("AC")
			s.cancel(gone.ID)
			r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
			if r.Total != 3 {
				t.Fatalf("in the rejudge: %s", asJSON(r))
			}
			leases := map[int64]gavelapi.Lease{}
			if leased {
				w = s.worker("three", 3, "c")
				for len(leases) < 3 {
					granted, err := w.tryClaim(10 * time.Second)
					if err != nil {
						t.Fatal(err)
					}
					for _, l := range granted {
						leases[l.SubmissionID] = l
					}
				}
			}
			if _, err := s.CancelRejudge(t.Context(), s.admin, r.ID, "mistake"); err != nil {
				t.Fatal(err)
			}
			if n := s.number("select count(*) from jobs"); n != 1 {
				t.Errorf("%d jobs are open, want that of the first judging alone", n)
			}
			if got := s.read(gone.ID); got.State != gavelapi.StateCancelled {
				t.Errorf("what was cancelled before: %s", asJSON(got))
			}
			if got := s.read(judged.ID); got.State != gavelapi.StateDone || got.Verdict != "AC" {
				t.Errorf("what was judged before: %s", asJSON(got))
			}
			if got := s.read(first.ID); gavelapi.Final(got.State) {
				t.Fatalf("the first judging ended with the rejudge: %s", asJSON(got))
			}
			if leased {
				w.report(leases[first.ID].LeaseToken, verdictReport("WA"))
			} else {
				w.judge("WA")
			}
			if got := s.read(first.ID); got.State != gavelapi.StateDone || got.Verdict != "WA" {
				t.Errorf("the first judging: %s", asJSON(got))
			}
			again, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Submissions: []int64{first.ID}}, Reason: "again"})
			if err != nil || again.Total != 1 {
				t.Errorf("rejudged again: %s, %v", asJSON(again), err)
			}
		})
	}
}

// What a cancelled rejudge gives back waits where it would have waited without
// it: in the lane judge, with its own priority and nothing of the rejudge's
// budget. Here only the lane rejudge is held, so that it shows who is in which.
func TestACancelledRejudgeGivesFirstJudgingsBackToTheirLane(t *testing.T) {
	s := newStand(t, quick)
	leases := s.submit("c")
	practice := s.submit("c")
	contest, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil,
		gavelapi.NewSubmission{Problem: "p", Language: "c", Source: "int main(){}", Priority: gavelapi.PriorityContest})
	if err != nil {
		t.Fatal(err)
	}
	r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
	w := s.worker("w", 1, "c")
	held := w.claim()
	if held.SubmissionID != leases.ID {
		t.Fatalf("submission %d went first", held.SubmissionID)
	}
	if err := s.SetBrake(t.Context(), s.admin, gavelapi.Brake{Kind: "lane", Name: "rejudge", Reason: "not now"}); err != nil {
		t.Fatal(err)
	}
	s.awaitStored(practice.ID, dispatch.Held, "not now")
	want := func(id int64, lane, priority string) {
		t.Helper()
		e, err := s.Explain(t.Context(), id)
		if err != nil || e.Lane != lane || e.Priority != priority || (e.Cause == string(dispatch.Held)) != (lane == "rejudge") {
			t.Errorf("want it in %s as %s; it is explained by %s, %v", lane, priority, asJSON(e), err)
		}
	}
	want(contest.ID, "rejudge", "batch")
	for range 2 {
		if _, err := s.CancelRejudge(t.Context(), s.admin, r.ID, "mistake"); err != nil {
			t.Fatal(err)
		}
		want(contest.ID, "judge", "contest") // at once: the board is told with the cancel
		want(practice.ID, "judge", "practice")
	}
	if n := s.number("select count(*) from jobs where lane = 'judge' and batch_id is null and batch_budget = 0 and first_priority is null"); n != 3 {
		t.Errorf("%d jobs are stored as they would be without the rejudge, want 3", n)
	}
	s.awaitStored(practice.ID, dispatch.Queued, "")
	w.release(held.LeaseToken)
	for _, next := range []gavelapi.Submission{contest, leases, practice} {
		if l := w.judge("AC"); l.SubmissionID != next.ID {
			t.Errorf("submission %d went before %d", l.SubmissionID, next.ID)
		}
	}
	if got, err := s.Rejudge(t.Context(), r.ID); err != nil || got.Done != 0 {
		t.Errorf("of the rejudge %d were done when it was cancelled, want none: %v", got.Done, err)
	}
	again := s.submit("c") // and so the next time, by another arbiter that only reads what is stored
	r = s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{again.ID}}, "later")
	s.awaitStored(again.ID, dispatch.Held, "not now")
	standby := startWith(t, s.url, quick, func(cfg *arbiter.Config) { cfg.Leader.Poll = time.Hour })
	if _, err := standby.CancelRejudge(t.Context(), s.admin, r.ID, "mistake"); err != nil {
		t.Fatal(err)
	}
	if l := w.judge("AC"); l.SubmissionID != again.ID {
		t.Errorf("submission %d went", l.SubmissionID)
	}
}

func TestSubmissionsThatDoNotExistAreLeftOutByName(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	there := s.submit("c")
	w.judge("AC")
	none := []gavelapi.RejudgeSkipped{{SubmissionID: 9998, Reason: "there is no such submission"}, {SubmissionID: 9999, Reason: "there is no such submission"}}
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{9999, there.ID, 9998, 9999}}, "later")
	if diff := cmp.Diff(none, r.Skipped); diff != "" || r.Total != 1 {
		t.Errorf("total %d; skipped (-want +got):\n%s", r.Total, diff)
	}
	_, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Submissions: []int64{9998, 9999}}, Reason: "later"})
	if apperr.CodeOf(err) != apperr.NotFound || !strings.Contains(err.Error(), "9998, 9999") {
		t.Errorf("only such ones: %v", err)
	}
}

func TestASubmissionInALanguageThatIsGoneIsLeftOutByName(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	gone, there := s.submit("c"), s.submit("c")
	w.judge("AC")
	w.judge("AC")
	s.exec("update submissions set language = 'algol60' where id = $1", gone.ID)
	r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
	if want := []gavelapi.RejudgeSkipped{{SubmissionID: gone.ID, Reason: `its language "algol60" does not exist any more`}}; r.Total != 1 || !cmp.Equal(want, r.Skipped) {
		t.Errorf("%s", asJSON(r))
	}
	if l := w.judge("AC"); l.SubmissionID != there.ID {
		t.Errorf("%s", asJSON(l))
	}
	if got := s.read(gone.ID); got.State != gavelapi.StateDone || got.Verdict != "AC" {
		t.Errorf("%s", asJSON(got))
	}
}

func TestOutdatedResultsAreJudgedAgainWithTheLivePackage(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	old := s.submit("c")
	w.judge("AC")
	if _, err := s.tryImport(httpapi.Import{Name: "p", Verify: gavelapi.VerifyNone, Reason: "test"}, packageOf("New", 0, nil)); err != nil {
		t.Fatal(err)
	}
	live := s.problem("p").PackageDigest
	fresh := s.submit("c")
	if l := w.judge("AC"); l.SubmissionID != fresh.ID || l.PackageDigest != live {
		t.Errorf("%s", asJSON(l))
	}
	r := s.rejudge(gavelapi.RejudgeFilter{Outdated: true}, "at_once")
	if r.Total != 1 {
		t.Errorf("%s", asJSON(r))
	}
	if l := w.judge("WA"); l.SubmissionID != old.ID || l.PackageDigest != live {
		t.Errorf("%s", asJSON(l))
	}
	s.awaitRejudge(r.ID, gavelapi.RejudgeApplied)
	if got := s.read(old.ID); got.Verdict != "WA" {
		t.Errorf("%s", asJSON(got))
	}
	if r := s.rejudge(gavelapi.RejudgeFilter{Outdated: true}, "later"); r.Total != 0 {
		t.Errorf("nothing is outdated any more: %s", asJSON(r))
	}
}

func TestWhatAnotherRejudgeHoldsIsLeftOutByName(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	first, second := s.submit("c"), s.submit("c")
	w.judge("AC")
	w.judge("AC")
	held := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{first.ID}}, "later")
	r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
	if r.Total != 1 || len(r.Skipped) != 1 || r.Skipped[0].SubmissionID != first.ID || !strings.Contains(r.Skipped[0].Reason, fmt.Sprint(held.ID)) {
		t.Errorf("%s", asJSON(r))
	}
	_ = second
	_, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Problem: "p"}, Reason: "x"})
	if apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("everything is held elsewhere, yet: %v", err)
	}
}

// What is refused because others have it says who has which.
func TestWhatTwoRejudgesHoldIsToldOfBoth(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	one, two, gone := s.submit("c"), s.submit("c"), s.submit("c")
	for range 3 {
		w.judge("AC")
	}
	s.exec("update submissions set language = 'algol60' where id = $1", gone.ID)
	a := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{one.ID}}, "later")
	b := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{two.ID}}, "later")
	start := func(ids ...int64) error {
		_, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{Submissions: ids}, Reason: "x"})
		if apperr.CodeOf(err) != apperr.Conflict {
			t.Errorf("%v: %v", ids, err)
		}
		return err
	}
	if err := start(one.ID); !strings.Contains(err.Error(), fmt.Sprintf("everything selected is in rejudge %d", a.ID)) {
		t.Error(err)
	}
	for name, err := range map[string]error{"both": start(one.ID, two.ID), "and one without a language": start(one.ID, two.ID, gone.ID)} {
		for _, want := range []string{
			fmt.Sprintf("submission %d: it is in rejudge %d", one.ID, a.ID), fmt.Sprintf("submission %d: it is in rejudge %d", two.ID, b.ID),
		} {
			if !strings.Contains(err.Error(), want) {
				t.Errorf("%s: not said: %s\n%v", name, want, err)
			}
		}
	}
	if err := start(gone.ID, one.ID); !strings.Contains(err.Error(), "algol60") {
		t.Errorf("that the language of one is gone is not said: %v", err)
	}
}

// Somebody may cancel the last submission that a rejudge waits for. The rejudge
// is done then, and not when a result of something else comes.
func TestARejudgeEndsWithASubmissionThatIsCancelled(t *testing.T) {
	settings := quick
	settings.Sweep = time.Hour
	s := newStand(t, settings)
	sub := s.submit("c")
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{sub.ID}}, "later")
	s.awaitRejudge(s.rejudge(gavelapi.RejudgeFilter{User: "nobody"}, "later").ID, gavelapi.RejudgeReady) // the leader has looked
	s.cancel(sub.ID)
	if got := s.awaitRejudge(r.ID, gavelapi.RejudgeReady); got.Done != 0 || got.Applied != 0 {
		t.Errorf("%s", asJSON(got))
	}
	if got := s.read(sub.ID); got.State != gavelapi.StateCancelled {
		t.Errorf("%s", asJSON(got))
	}
}

func TestRejudgesThatMakeNoSenseAreRefused(t *testing.T) {
	s := newStand(t, quick)
	if _, err := s.StartRejudge(t.Context(), s.admin, gavelapi.NewRejudge{Reason: "oops"}); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("an empty filter: %v", err)
	}
	for name, err := range map[string]error{
		"show":    func() error { _, err := s.Rejudge(t.Context(), 99); return err }(),
		"apply":   func() error { _, err := s.ApplyRejudge(t.Context(), s.admin, 99, nil, ""); return err }(),
		"cancel":  func() error { _, err := s.CancelRejudge(t.Context(), s.admin, 99, ""); return err }(),
		"discard": func() error { _, err := s.DiscardRejudge(t.Context(), s.admin, 99, ""); return err }(),
		"single":  func() error { _, err := s.RejudgeSubmission(t.Context(), s.admin, 99, "x"); return err }(),
	} {
		if apperr.CodeOf(err) != apperr.NotFound {
			t.Errorf("%s of nothing: %v", name, err)
		}
	}
	if r := s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later"); r.Total != 0 { // nothing matches: done at once
		t.Errorf("%s", asJSON(r))
	} else {
		s.awaitRejudge(r.ID, gavelapi.RejudgeReady)
	}
}

// A20, L27, L29, O13: five thousand at once while results come in. It answers
// at once, nothing deadlocks, every row is judged once, and it completes once.
func TestALargeRejudgeAmongLiveWork(t *testing.T) {
	const n = 5000
	s := newStand(t, quick)
	s.exec(`insert into submissions (problem_id, language, source_bytes) select id, 'c', 1 from problems, generate_series(1, $1)`, n)
	s.exec(`insert into submission_sources select id, 'x' from submissions`)
	s.exec(`insert into judgings (submission_id, kind, package_digest, limits, state, verdict, tests, finished_at)
	        select s.id, 'judge', p.package_digest, '{}', 'done', 'AC', '[]', now() from submissions s join problems p on p.id = s.problem_id`)
	s.exec(`update submissions s set current_judging_id = g.id from judgings g where g.submission_id = s.id`)
	r := s.rejudge(gavelapi.RejudgeFilter{All: true}, "at_once")
	if r.Total != n {
		t.Fatalf("%s", asJSON(r))
	}
	live := make([]gavelapi.Submission, 50)
	var wg sync.WaitGroup
	for i := range 10 {
		w := s.worker(fmt.Sprintf("w%d", i), 20, "c")
		wg.Go(func() {
			for {
				leases, err := w.tryClaim(500 * time.Millisecond)
				if err != nil {
					t.Error(err)
					return
				}
				if len(leases) == 0 && s.number("select count(*) from jobs where state = 'pending'") == 0 {
					return // and not because the rejudge has as many out as it may
				}
				var each sync.WaitGroup
				for _, l := range leases {
					each.Go(func() {
						got, err := s.Result(t.Context(), w.p, gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("WA")})
						if err != nil || got.Outcome != gavelapi.OutcomeRecorded {
							t.Errorf("%+v, %v", got, err)
						}
					})
				}
				each.Wait()
			}
		})
	}
	for i := range live {
		live[i] = s.submit("c")
	}
	wg.Wait()
	r = s.awaitRejudge(r.ID, gavelapi.RejudgeApplied)
	if r.Done != n || r.Changed != n {
		t.Errorf("%s", asJSON(r))
	}
	for _, sub := range live {
		if got := s.read(sub.ID); got.Verdict != "WA" || len(got.Detail.Attempts) != 1 {
			t.Fatalf("a live submission among the rejudge: %s", asJSON(got))
		}
	}
	if many := s.number("select count(*) from (select judging_id from attempts group by judging_id having count(*) <> 1) x"); many != 0 {
		t.Errorf("%d judgings were not attempted exactly once", many)
	}
	if open := s.number("select count(*) from jobs"); open != 0 {
		t.Errorf("%d jobs are left", open)
	}
}

func (s *stand) solved(user string) map[string]int64 {
	s.t.Helper()
	a, err := s.Account(s.t.Context(), user)
	if err != nil {
		s.t.Fatal(err)
	}
	got := map[string]int64{}
	for _, x := range a.Solved {
		got[x.Problem] = x.SubmissionID
	}
	if a.Points != int64(len(a.Solved)) { // every problem here gives one point
		s.t.Errorf("%d points for %d solves", a.Points, len(a.Solved))
	}
	return got
}

// I5 by example: a rejudge takes a solve away, the next accepted submission
// takes it over, and another rejudge gives it back; what came after never mattered.
func TestSolvesFollowTheCurrentVerdicts(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	first := s.submitAs("ann", "p")
	w.judge("AC")
	second := s.submitAs("ann", "p")
	w.judge("AC")
	s.submitAs("ann", "p")
	w.judge("WA") // V28: a wrong one after an accepted one unsolves nothing
	if diff := cmp.Diff(map[string]int64{"p": first.ID}, s.solved("ann")); diff != "" {
		t.Error(diff)
	}
	verdictOf := func(id int64, v string) {
		t.Helper()
		if _, err := s.RejudgeSubmission(t.Context(), s.admin, id, "x"); err != nil {
			t.Fatal(err)
		}
		w.judge(v)
	}
	verdictOf(first.ID, "TLE")
	if diff := cmp.Diff(map[string]int64{"p": second.ID}, s.solved("ann")); diff != "" {
		t.Errorf("after the first was taken away: %s", diff)
	}
	verdictOf(second.ID, "WA")
	if got := s.solved("ann"); len(got) != 0 {
		t.Errorf("nothing is accepted any more, yet %v", got)
	}
	verdictOf(first.ID, "AC")
	if diff := cmp.Diff(map[string]int64{"p": first.ID}, s.solved("ann")); diff != "" {
		t.Errorf("after it was given back: %s", diff)
	}
	if got := s.solved("nobody"); len(got) != 0 {
		t.Errorf("nobody has solved %v", got)
	}
}

// I5 as a property: any order of submitting, judging and rejudging gives the
// totals that the final verdicts give by themselves.
func TestAnyHistoryGivesTheSameTotals(t *testing.T) {
	s := newStand(t, quick)
	s.publish("q")
	w := s.worker("w", 1, "c")
	run := 0
	rapid.Check(t, func(rt *rapid.T) {
		run++
		users := []string{fmt.Sprintf("u%d", run), fmt.Sprintf("v%d", run)}
		type key struct{ user, problem string }
		final := map[int64]string{}
		owner := map[int64]key{}
		var ids []int64
		for range rapid.IntRange(1, 8).Draw(rt, "steps") {
			verdict := rapid.SampledFrom([]string{"AC", "WA", "CE"}).Draw(rt, "verdict")
			if len(ids) > 0 && rapid.Bool().Draw(rt, "rejudge") {
				id := rapid.SampledFrom(ids).Draw(rt, "which")
				if _, err := s.RejudgeSubmission(t.Context(), s.admin, id, "x"); err != nil {
					t.Fatal(err)
				}
				final[id] = verdict
			} else {
				k := key{rapid.SampledFrom(users).Draw(rt, "user"), rapid.SampledFrom([]string{"p", "q"}).Draw(rt, "problem")}
				sub := s.submitAs(k.user, k.problem)
				ids = append(ids, sub.ID)
				owner[sub.ID], final[sub.ID] = k, verdict
			}
			l := w.claim()
			report := verdictReport(verdict)
			if verdict == "CE" {
				report.Tests = nil
			}
			for range rapid.IntRange(1, 2).Draw(rt, "sends") { // repeating a report changes nothing
				w.report(l.LeaseToken, report)
			}
		}
		for _, user := range users {
			want := map[string]int64{}
			for _, id := range ids { // ids ascend: the first accepted one counts
				if k := owner[id]; k.user == user && final[id] == "AC" && want[k.problem] == 0 {
					want[k.problem] = id
				}
			}
			if diff := cmp.Diff(want, s.solved(user)); diff != "" {
				rt.Fatalf("%s: %s", user, diff)
			}
		}
	})
}
