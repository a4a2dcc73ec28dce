package arbiter_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
)

// What was written in failed tests is stored with the judging that it belongs
// to, apart from what sites read; a report that comes too late leaves none.
func TestOutputsOfFailedTestsAreKeptForTheJury(t *testing.T) {
	s := newStand(t, quick)
	w, late := s.worker("w", 1, "c"), s.worker("late", 1, "c")
	sub := s.submit("c")
	kept := func() gavelapi.SubmissionOutputs {
		t.Helper()
		got, err := s.SubmissionOutputs(t.Context(), sub.ID)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	if got := kept(); got.SubmissionID != sub.ID || got.Outputs == nil || len(got.Outputs) != 0 {
		t.Errorf("before it is judged: %s", asJSON(got))
	}
	wrote := func(text string) gavelapi.Report {
		r := verdictReport("WA")
		r.Outputs = []gavelapi.TestOutput{{Test: r.Tests[0].Name, Stdout: text, StdoutCut: true, Stderr: "e\x00"}}
		return r
	}
	dead := late.hold()
	s.expire(dead.LeaseToken)
	l := w.hold()
	if got := w.report(l.LeaseToken, wrote("one")); got.Outcome != gavelapi.OutcomeRecorded {
		t.Fatalf("%+v", got)
	}
	if got := late.report(dead.LeaseToken, wrote("late")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Fatalf("%+v", got)
	}
	want := []gavelapi.TestOutput{{Test: "secret/1", Stdout: "one", StdoutCut: true, Stderr: "e\uFFFD"}}
	first := kept()
	if diff := cmp.Diff(want, first.Outputs); diff != "" {
		t.Error(diff)
	}
	if n := s.number("select count(*) from attempts where late_report::text like '%stdout%'"); n != 0 {
		t.Error("a late report has kept outputs")
	}
	if n := s.number("select count(*) from judgings where tests::text like '%one%'"); n != 0 {
		t.Error("outputs are among what sites read")
	}

	// Beside a rejudge the old one stays; what is right has none.
	r := s.rejudge(gavelapi.RejudgeFilter{Submissions: []int64{sub.ID}}, "later")
	w.judge("AC")
	s.awaitRejudge(r.ID, gavelapi.RejudgeReady)
	if diff := cmp.Diff(first, kept()); diff != "" {
		t.Error(diff)
	}
	if _, err := s.ApplyRejudge(t.Context(), s.admin, r.ID, nil, "test"); err != nil {
		t.Fatal(err)
	}
	if got := kept(); got.JudgingID == first.JudgingID || len(got.Outputs) != 0 {
		t.Errorf("%s", asJSON(got))
	}
}

func TestOldOutputsAreDropped(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	for range 2 {
		s.submit("c")
		l := w.hold()
		r := verdictReport("WA")
		r.Outputs = []gavelapi.TestOutput{{Test: r.Tests[0].Name, Stdout: "x"}}
		w.report(l.LeaseToken, r)
	}
	s.exec("update judging_outputs set created_at = now() - interval '31 days' where judging_id = (select min(judging_id) from judging_outputs)")
	s.exec("update judging_outputs set created_at = now() - interval '29 days' where created_at > now() - interval '1 day'")
	s.stop()
	next := startOn(t, s.url, quick) // a leader looks when it begins, and once an hour
	until(t, "the older one is gone", func() bool { return next.number("select count(*) from judging_outputs") == 1 })
	if n := next.number("select count(*) from judging_outputs where created_at < now() - interval '30 days'"); n != 0 {
		t.Error("the wrong one is gone")
	}
}
