package arbiter_test

import (
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// publishTwo publishes a problem "p" of two tests.
func (s *stand) publishTwo() {
	s.t.Helper()
	m := &problem.Manifest{
		Schema: 1, Name: "p", Titles: map[string]string{"en": "p"}, Format: "icpc-2025-09",
		Limits:  problem.Limits{CPUMS: 1000, MemoryBytes: 256 << 20, OutputBytes: 8 << 20, CodeBytes: 1 << 10, Processes: 64},
		Checker: problem.Checker{Kind: problem.CheckerTokens},
		Tests: []problem.Test{
			{Name: "sample/1", Input: "data/sample/1.in", Answer: "data/sample/1.ans", Sample: true},
			{Name: "secret/1", Input: "data/secret/1.in", Answer: "data/secret/1.ans"},
		},
	}
	_, err := s.db.Publish(s.t.Context(), storedb.InsertPackageParams{Digest: problem.Digest(m), Manifest: problem.Encode(m), SizeBytes: 1}, "p", "p", nil)
	if err != nil {
		s.t.Fatal(err)
	}
}

func twoTests(verdict, first, second string) gavelapi.Report {
	return gavelapi.Report{Verdict: verdict, CPUUS: 1, Tests: []gavelapi.TestResult{
		{Name: "sample/1", Verdict: first, CPUUS: 1}, {Name: "secret/1", Verdict: second},
	}}
}

func TestAReportThatContradictsItsPackageIsAFaultOfItsHost(t *testing.T) {
	s := newStand(t, quick)
	s.publishTwo()
	w := s.worker("w", 1, "c")
	changed := func(change func(*gavelapi.Report)) gavelapi.Report {
		r := twoTests("WA", "AC", "WA")
		change(&r)
		return r
	}
	for name, c := range map[string]struct {
		report gavelapi.Report
		says   string
	}{
		"a test is missing":      {changed(func(r *gavelapi.Report) { r.Verdict, r.Tests = "AC", r.Tests[:1] }), "1 tests, its package has 2"},
		"a test too many":        {changed(func(r *gavelapi.Report) { r.Tests = append(r.Tests, r.Tests[1]) }), "3 tests, its package has 2"},
		"another name":           {changed(func(r *gavelapi.Report) { r.Tests[1].Name = "secret/2" }), `"secret/2", in its package "secret/1"`},
		"another order":          {changed(func(r *gavelapi.Report) { r.Tests[0].Name, r.Tests[1].Name = r.Tests[1].Name, r.Tests[0].Name }), "its test 1"},
		"CE with tests":          {changed(func(r *gavelapi.Report) { r.Verdict = "CE" }), "CE but has results"},
		"negative time":          {changed(func(r *gavelapi.Report) { r.CPUUS = -1 }), "negative"},
		"a time of years":        {changed(func(r *gavelapi.Report) { r.WallUS = 1 << 62 }), "beyond reason"},
		"memory of an exabyte":   {changed(func(r *gavelapi.Report) { r.MemoryBytes = 1 << 60 }), "beyond reason"},
		"a test's negative time": {changed(func(r *gavelapi.Report) { r.Tests[0].WallUS = -5 }), `"sample/1"`},
		"a test's output":        {changed(func(r *gavelapi.Report) { r.Tests[0].OutputBytes = -5 }), `"sample/1"`},
		"a test's exit code":     {changed(func(r *gavelapi.Report) { r.Tests[1].ExitCode = -1 }), "exit code"},
		"a test's signal":        {changed(func(r *gavelapi.Report) { r.Tests[1].Signal = -9 }), "signal"},
		"an attempt's time":      {changed(func(r *gavelapi.Report) { r.Tests[1].Attempts = []gavelapi.TestAttempt{{CPUUS: -1}} }), `"secret/1"`},
		"a stage's time":         {changed(func(r *gavelapi.Report) { r.Provenance.Stages = map[string]int64{"run": -1} }), `"run"`},
		"skipped and measured": {changed(func(r *gavelapi.Report) {
			r.Verdict, r.Tests[0].Verdict, r.Tests[1] = "WA", "WA", gavelapi.TestResult{Name: "secret/1", Verdict: "skipped", CPUUS: 7}
		}), "skipped"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := s.submit("c")
			answer := w.report(w.claim().LeaseToken, c.report)
			if answer.Outcome != gavelapi.OutcomeRecorded || !strings.Contains(answer.Reason, c.says) {
				t.Errorf("the worker is told %+v, want a reason with %q", answer, c.says)
			}
			got := s.read(sub.ID)
			if got.Verdict != "" || len(got.Detail.Attempts) != 1 || got.Detail.Attempts[0].Blame != "host" || !strings.Contains(got.Detail.Attempts[0].Message, c.says) {
				t.Errorf("%s", asJSON(got))
			}
			if _, err := s.CancelSubmission(t.Context(), s.admin, sub.ID, ""); err != nil {
				t.Fatal(err)
			}
		})
	}
	for name, r := range map[string]gavelapi.Report{
		"AC": twoTests("AC", "AC", "AC"), "WA": twoTests("WA", "AC", "WA"), "skipped": twoTests("WA", "WA", "skipped"), "CE": {Verdict: "CE"},
	} {
		t.Run(name, func(t *testing.T) {
			sub := s.submit("c")
			if answer := w.report(w.claim().LeaseToken, r); answer.Outcome != gavelapi.OutcomeRecorded || answer.Reason != "" {
				t.Errorf("%+v", answer)
			}
			if got := s.read(sub.ID); got.Verdict != r.Verdict {
				t.Errorf("%s", asJSON(got))
			}
		})
	}
}

// A leader that took over does not have the lease's package in memory.
func TestANewLeaderComparesReportsToo(t *testing.T) {
	s := newStand(t, quick)
	s.publishTwo()
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.hold()
	s.stop()
	next := startOn(t, s.url, quick)
	next.awaitReady()
	w.s = next
	if answer := w.report(l.LeaseToken, verdictReport("AC")); !strings.Contains(answer.Reason, "1 tests, its package has 2") {
		t.Errorf("%+v", answer)
	}
	if got := next.read(sub.ID); got.Verdict != "" {
		t.Errorf("%s", asJSON(got))
	}
}

func TestProgressThatMakesNoSenseIsNotShown(t *testing.T) {
	s := newStand(t, quick)
	s.publishTwo()
	w := s.worker("w", 1, "c")
	s.submit("c")
	w.report(w.claim().LeaseToken, twoTests("AC", "AC", "AC")) // the package is known from here on
	sub := s.submit("c")
	l := w.claim()
	for name, p := range map[string]gavelapi.Progress{
		"negative":        {Phase: "running", TestsDone: -1, TestsTotal: 2},
		"more than all":   {Phase: "running", TestsDone: 3, TestsTotal: 2},
		"another package": {Phase: "running", TestsDone: 3, TestsTotal: 50},
		"a negative sum":  {Phase: "running", TestsDone: -2, TestsTotal: -1},
	} {
		if _, err := s.Heartbeat(t.Context(), w.p, gavelapi.HeartbeatRequest{LeaseToken: l.LeaseToken, Progress: &p}); err != nil {
			t.Fatalf("%s: %v: the lease lives all the same", name, err)
		}
		if got := s.read(sub.ID); got.Progress != nil {
			t.Errorf("%s: %s", name, asJSON(got.Progress))
		}
	}
	good := gavelapi.Progress{Phase: "running", TestsDone: 1, TestsTotal: 2}
	if _, err := s.Heartbeat(t.Context(), w.p, gavelapi.HeartbeatRequest{LeaseToken: l.LeaseToken, Progress: &good}); err != nil {
		t.Fatal(err)
	}
	if got := s.read(sub.ID); got.Progress == nil || *got.Progress != good {
		t.Errorf("%s", asJSON(got.Progress))
	}
}
