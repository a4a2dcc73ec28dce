package cli

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Whoever reads a submission is told by which rejudges it was judged again,
// whose they were and why, and nothing is compared with a verdict that never was.
func TestASubmissionNamesItsRejudges(t *testing.T) {
	at := time.Date(2026, 3, 1, 9, 0, 0, 0, time.UTC)
	of := func(id int64, state, verdict string, current bool) gavelapi.JudgingInfo {
		return gavelapi.JudgingInfo{ID: id, Kind: "rejudge", State: state, Verdict: verdict, Current: current, CreatedAt: at, RejudgeID: id, RejudgeBy: "ann", RejudgeReason: "weak tests"}
	}
	first := func(state, verdict string) gavelapi.JudgingInfo {
		return gavelapi.JudgingInfo{ID: 1, Kind: "judge", State: state, Verdict: verdict, CreatedAt: at}
	}
	nobody := of(2, gavelapi.StateDone, "WA", true)
	nobody.RejudgeBy = ""
	const by = "2, 2026-03-01 09:00:00 UTC, by ann (weak tests): "
	for _, c := range []struct {
		name     string
		judgings []gavelapi.JudgingInfo
		want     []string
	}{
		{"never rejudged", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC")}, nil},
		{"applied", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC"), of(2, gavelapi.StateDone, "WA", true)}, []string{by + "WA instead of AC"}},
		{"by nobody's note", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC"), nobody}, []string{"2, 2026-03-01 09:00:00 UTC, by a token without a note (weak tests): WA instead of AC"}},
		{"not applied", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC"), of(2, gavelapi.StateDone, "WA", false)}, []string{by + "WA instead of AC, not current"}},
		{"the same", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC"), of(2, gavelapi.StateDone, "AC", true)}, []string{by + "AC again"}},
		{"running", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC"), of(2, gavelapi.StatePending, "", false)}, []string{by + "judged again now"}},
		{"superseded", []gavelapi.JudgingInfo{first(gavelapi.StateCancelled, ""), of(2, gavelapi.StateDone, "WA", true)}, []string{by + "WA, its first verdict"}},
		{"superseded and waiting", []gavelapi.JudgingInfo{first(gavelapi.StateCancelled, ""), of(2, gavelapi.StatePending, "", true)}, []string{by + "not judged yet"}},
		{"cancelled", []gavelapi.JudgingInfo{first(gavelapi.StateDone, "AC"), of(2, gavelapi.StateCancelled, "", false)}, []string{by + "cancelled"}},
		{"after a system error", []gavelapi.JudgingInfo{first(gavelapi.StateSystemError, "SE"), of(2, gavelapi.StateDone, "AC", true)}, []string{by + "AC instead of SE"}},
	} {
		s := gavelapi.Submission{Detail: &gavelapi.SubmissionDetail{Judgings: c.judgings}}
		if diff := cmp.Diff(c.want, rejudgings(&s)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.name, diff)
		}
	}
}

func TestAppliedIsSaidAsItIs(t *testing.T) {
	done := gavelapi.StateDone
	for _, c := range []struct {
		state  string
		change gavelapi.RejudgeChange
		want   string
	}{
		{gavelapi.RejudgeReady, gavelapi.RejudgeChange{NewState: done}, "no"},
		{gavelapi.RejudgeApplied, gavelapi.RejudgeChange{NewState: done, Applied: true}, "yes"},
		{gavelapi.RejudgeApplied, gavelapi.RejudgeChange{NewState: done}, "no"}, // a part was
		{gavelapi.RejudgeReady, gavelapi.RejudgeChange{NewState: done, First: true}, "first verdict"},
		{gavelapi.RejudgeDiscarded, gavelapi.RejudgeChange{NewState: done, First: true}, "first verdict"},
		{gavelapi.RejudgeCancelled, gavelapi.RejudgeChange{NewState: gavelapi.StatePending, First: true}, "first verdict"},
		{gavelapi.RejudgeDiscarded, gavelapi.RejudgeChange{NewState: done}, "discarded"},
		{gavelapi.RejudgeCancelled, gavelapi.RejudgeChange{NewState: gavelapi.StateCancelled}, "cancelled"},
		{gavelapi.RejudgeCancelled, gavelapi.RejudgeChange{NewState: gavelapi.StateCancelled, First: true}, "cancelled"},
		{gavelapi.RejudgeCancelled, gavelapi.RejudgeChange{NewState: done, Applied: true}, "yes"}, // at once, before it was cancelled
	} {
		if got := applied(c.state, &c.change); got != c.want {
			t.Errorf("%s, %+v: %q, want %q", c.state, c.change, got, c.want)
		}
	}
}
