package arbiter_test

import (
	"bytes"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

func (s *stand) run(n gavelapi.NewRun) gavelapi.Run {
	s.t.Helper()
	if n.Language == "" {
		n.Language = "c"
	}
	if n.Source == "" {
		n.Source = "int main(){}"
	}
	run, _, err := s.CreateRun(s.t.Context(), s.admin, "", nil, n)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

func (s *stand) readRun(id int64) gavelapi.Run {
	s.t.Helper()
	run, err := s.ReadRun(s.t.Context(), id, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return run
}

// runner is a worker that does runs.
func (s *stand) runner(name string, slots int, languages ...string) *fake {
	f := s.worker(name, slots, languages...)
	f.features = []string{gavelapi.FeatureRun}
	return f
}

func runReport(outputs ...string) gavelapi.Report {
	r := gavelapi.Report{Run: &gavelapi.RunReport{Compiled: true}}
	for _, out := range outputs {
		r.Run.Results = append(r.Run.Results, gavelapi.RunResult{Ended: gavelapi.EndedExit, StdoutBase64: []byte(out), StderrBase64: []byte("e")})
	}
	return r
}

func TestARunFromTheApiToItsResult(t *testing.T) {
	s := newStand(t, quick)
	run := s.run(gavelapi.NewRun{
		User: "ann", SourceName: "main.c", Files: []gavelapi.SourceFile{{Name: "x.h", Content: "int x;"}},
		Inputs: []gavelapi.RunInput{{Content: "1\n"}, {}, {ContentBase64: []byte{0, 255}}},
		Limits: gavelapi.RunLimits{CPUUS: 1_500_000, MemoryBytes: 64 << 20, OutputBytes: 1000},
	})
	if run.State != gavelapi.StatePending || run.Waiting == "" || run.Inputs != 3 || run.Results == nil {
		t.Errorf("%s", asJSON(run))
	}
	w := s.runner("w", 1, "c")
	lease := w.claim()
	if lease.Kind != "run" || lease.Run == nil || lease.Run.RunID != run.ID || lease.SubmissionID != 0 || lease.PackageDigest != "" ||
		len(lease.Run.Inputs) != 3 || string(lease.Run.Inputs[0]) != "1\n" || len(lease.Run.Inputs[1]) != 0 || !bytes.Equal(lease.Run.Inputs[2], []byte{0, 255}) ||
		string(lease.Source) != "int main(){}" || lease.SourceName != "main.c" || len(lease.Files) != 1 || string(lease.Files[0].Content) != "int x;" ||
		lease.Limits.CPUUS != 1_500_000 || lease.Limits.MemoryBytes != 64<<20 || lease.Limits.OutputBytes != 1000 || lease.Limits.WallUS != 4_000_000 {
		t.Fatalf("%s", asJSON(lease))
	}
	_, err := s.Heartbeat(t.Context(), w.p, gavelapi.HeartbeatRequest{LeaseToken: lease.LeaseToken, Progress: &gavelapi.Progress{Phase: "running", TestsDone: 1, TestsTotal: 3}})
	if err != nil {
		t.Fatal(err)
	}
	if got := s.readRun(run.ID); got.State != gavelapi.StateRunning || got.Worker != "w" || got.Progress == nil || got.Progress.TestsDone != 1 {
		t.Errorf("%s", asJSON(got))
	}
	changed := make(chan gavelapi.Run)
	go func() {
		got, err := s.ReadRun(t.Context(), run.ID, 20*time.Second)
		if err != nil {
			t.Error(err)
		}
		changed <- got
	}()
	report := runReport("1\n", "", "\x00\xff")
	if got := w.report(lease.LeaseToken, report); got.Outcome != gavelapi.OutcomeRecorded {
		t.Fatalf("%+v", got)
	}
	got := <-changed
	if got.State != gavelapi.StateDone || !got.Compiled || len(got.Results) != 3 || got.ExpiresAt == nil || got.ExpiresAt.Sub(*got.FinishedAt) != time.Hour {
		t.Fatalf("%s", asJSON(got))
	}
	if r := got.Results; r[0].Stdout != "1\n" || r[1].Stdout != "" || r[1].StdoutBase64 != nil || !bytes.Equal(r[2].StdoutBase64, []byte{0, 255}) || r[0].Stderr != "e" {
		t.Errorf("%s", asJSON(got))
	}
	if again := w.report(lease.LeaseToken, report); again.Outcome != gavelapi.OutcomeAlreadyRecorded {
		t.Errorf("%+v", again)
	}
	if n := s.number("select (select count(*) from submissions) + (select count(*) from judgings) + (select count(*) from jobs)"); n != 0 {
		t.Errorf("%d rows of submissions or open work", n)
	}
}

func TestARunLeaseIsRepeatedWithItsInputs(t *testing.T) {
	s := newStand(t, quick)
	s.run(gavelapi.NewRun{Inputs: []gavelapi.RunInput{{Content: "in"}}})
	w := s.runner("w", 1, "c")
	id := uuid.NewString()
	first, err := s.Claim(t.Context(), w.p, w.request(id, 10*time.Second))
	if err != nil || len(first.Leases) != 1 {
		t.Fatal(first, err)
	}
	again, err := s.Claim(t.Context(), w.p, w.request(id, 0))
	if err != nil || len(again.Leases) != 1 || again.Leases[0].LeaseToken != first.Leases[0].LeaseToken || string(again.Leases[0].Run.Inputs[0]) != "in" {
		t.Errorf("%s %v", asJSON(again), err)
	}
}

func TestRunsGoOnlyToWorkersThatDoThem(t *testing.T) {
	s := newStand(t, quick)
	run := s.run(gavelapi.NewRun{})
	old := s.worker("old", 1, "c")
	if leases, err := old.tryClaim(50 * time.Millisecond); err != nil || len(leases) != 0 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	if got := s.readRun(run.ID); !strings.Contains(got.Waiting, "run") {
		t.Errorf("it waits because %q", got.Waiting)
	}
	s.runner("new", 1, "c").claim()
}

// The lane of runs is preferred but bounded: with four slots, runs hold two
// while something else waits.
func TestRunsGoFirstButLeaveOthersTheirShare(t *testing.T) {
	s := newStand(t, quick)
	for range 4 {
		s.submit("c")
	}
	for i := range 4 {
		s.run(gavelapi.NewRun{User: fmt.Sprint("user", i)})
	}
	w := s.runner("w", 4, "c")
	leases, err := w.tryClaim(10 * time.Second)
	if err != nil || len(leases) != 4 {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	kinds := map[string]int{}
	for _, l := range leases {
		kinds[l.Kind]++
	}
	if kinds["run"] != 2 || kinds["judge"] != 2 || leases[0].Kind != "run" {
		t.Errorf("%v, the first is a %s", kinds, leases[0].Kind)
	}
}

func TestFaultsOfRunsAndLostOnesAreTriedAgain(t *testing.T) {
	s := newStand(t, quick)
	run := s.run(gavelapi.NewRun{})
	w := s.runner("w", 1, "c")
	lease := w.hold()
	s.expire(lease.LeaseToken) // as when its worker is killed
	late := w.report(lease.LeaseToken, runReport("late output"))
	if late.Outcome != gavelapi.OutcomeDiscarded || late.Reason != gavelapi.LeaseExpired {
		t.Errorf("%+v", late)
	}
	if n := s.number("select count(*) from attempts where late_report is not null and late_report::text not like '%' || encode('late output', 'base64') || '%'"); n != 1 {
		t.Errorf("%d late reports kept as evidence, without their output", n)
	}
	second := w.claim()
	w.report(second.LeaseToken, faultReport("host"))
	if got := s.readRun(run.ID); got.State != gavelapi.StatePending || len(got.Attempts) != 2 || got.Attempts[0].LateReport != "run" {
		t.Errorf("%s", asJSON(got))
	}
	// A verdict is no result of a run, and a report that contradicts itself is
	// a fault: this is the third.
	third := w.claim()
	if got := w.report(third.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeRecorded {
		t.Errorf("%+v", got)
	}
	if got := s.readRun(run.ID); got.State != gavelapi.StateSystemError || got.Fault == nil || !strings.Contains(got.Fault.Message, "contradicts itself") {
		t.Errorf("%s", asJSON(got))
	}
}

func TestReportsOfRunsThatContradictThemselves(t *testing.T) {
	s := newStand(t, quick)
	w := s.runner("w", 1, "c")
	for name, r := range map[string]gavelapi.Report{
		"compiled, no results":    {Run: &gavelapi.RunReport{Compiled: true}},
		"not compiled, results":   {Run: &gavelapi.RunReport{Results: runReport("x").Run.Results}},
		"ended by something else": {Run: &gavelapi.RunReport{Compiled: true, Results: []gavelapi.RunResult{{Ended: "moon"}}}},
	} {
		run := s.run(gavelapi.NewRun{})
		w.report(w.claim().LeaseToken, r)
		got := s.readRun(run.ID)
		if got.State != gavelapi.StatePending || len(got.Attempts) != 1 || got.Attempts[0].Outcome != "failed" {
			t.Errorf("%s: %s", name, asJSON(got))
		}
		if _, err := s.CancelRun(t.Context(), s.admin, run.ID); err != nil {
			t.Fatal(err)
		}
	}
	sub := s.submit("c") // and the other way round
	w.report(w.claim().LeaseToken, runReport("x"))
	if got := s.read(sub.ID); got.State != gavelapi.StatePending || got.Detail.Attempts[0].Outcome != "failed" {
		t.Errorf("a judging took the result of a run: %s", asJSON(got))
	}
}

func TestCancellingRuns(t *testing.T) {
	s := newStand(t, quick)
	run := s.run(gavelapi.NewRun{})
	w := s.runner("w", 1, "c")
	lease := w.claim()
	for range 2 { // repeating it is fine
		got, err := s.CancelRun(t.Context(), s.admin, run.ID)
		if err != nil || got.State != gavelapi.StateCancelled {
			t.Fatalf("%s %v", asJSON(got), err)
		}
	}
	wantGone(t, w.beat(lease.LeaseToken), gavelapi.LeaseCancelled)
	done := s.run(gavelapi.NewRun{})
	w.report(w.claim().LeaseToken, runReport("x"))
	if _, err := s.CancelRun(t.Context(), s.admin, done.ID); apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("error %v", err)
	}
	if _, err := s.CancelRun(t.Context(), s.admin, 1<<40); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("error %v", err)
	}
}

func TestExpiredRunsAreDeletedByTheLeader(t *testing.T) {
	s := newStand(t, quick)
	run := s.run(gavelapi.NewRun{})
	if _, err := s.CancelRun(t.Context(), s.admin, run.ID); err != nil {
		t.Fatal(err)
	}
	s.exec("update runs set expires_at = now() where id = $1", run.ID)
	if _, err := s.ReadRun(t.Context(), run.ID, 0); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("error %v", err)
	}
	until(t, "the expired run is deleted", func() bool { return s.number("select count(*) from runs") == 0 })
}

func TestRunsThatAreRefused(t *testing.T) {
	s := newStand(t, quick)
	inputs := func(n, size int) (list []gavelapi.RunInput) {
		for range n {
			list = append(list, gavelapi.RunInput{ContentBase64: make([]byte, size)})
		}
		return list
	}
	for name, tt := range map[string]struct {
		run   gavelapi.NewRun
		code  apperr.Code
		field string
	}{
		"unknown language": {gavelapi.NewRun{Language: "cobol"}, apperr.Unsupported, "body.language"},
		"too many inputs":  {gavelapi.NewRun{Inputs: inputs(21, 0)}, apperr.Invalid, "body.inputs"},
		"huge inputs":      {gavelapi.NewRun{Inputs: inputs(3, 1<<20)}, apperr.TooLarge, "body.inputs"},
		"long source":      {gavelapi.NewRun{Source: strings.Repeat("x", 1<<20)}, apperr.TooLarge, "body.source"},
		"NUL in a source":  {gavelapi.NewRun{SourceBase64: []byte("a\x00")}, apperr.Invalid, "body.source"},
		"name of a file":   {gavelapi.NewRun{Files: []gavelapi.SourceFile{{Name: "../x"}}}, apperr.Invalid, "body.files[0].name"},
		"much CPU":         {gavelapi.NewRun{Limits: gavelapi.RunLimits{CPUUS: 11_000_000}}, apperr.Invalid, "body.limits.cpu_us"},
		"CPU overflows":    {gavelapi.NewRun{Limits: gavelapi.RunLimits{CPUUS: 1 << 62}}, apperr.Invalid, "body.limits.cpu_us"},
		"much CPU in all":  {gavelapi.NewRun{Inputs: inputs(20, 0), Limits: gavelapi.RunLimits{CPUUS: 4_000_000}}, apperr.Invalid, "body.limits.cpu_us"},
		"much memory":      {gavelapi.NewRun{Limits: gavelapi.RunLimits{MemoryBytes: 1 << 40}}, apperr.Invalid, "body.limits.memory_bytes"},
		"much output":      {gavelapi.NewRun{Limits: gavelapi.RunLimits{OutputBytes: 1 << 62}}, apperr.Invalid, "body.limits.output_bytes"},
		"in all":           {gavelapi.NewRun{Inputs: inputs(9, 0), Limits: gavelapi.RunLimits{OutputBytes: 1 << 20}}, apperr.Invalid, "body.limits.output_bytes"},
	} {
		if tt.run.Language == "" {
			tt.run.Language = "c"
		}
		if tt.run.Source == "" && tt.run.SourceBase64 == nil {
			tt.run.Source = "x"
		}
		_, _, err := s.CreateRun(t.Context(), s.admin, "", nil, tt.run)
		if e, ok := err.(*apperr.Error); !ok || e.Code != tt.code || e.Field != tt.field || e.Hint == "" { //nolint:errorlint // it is promised as it is
			t.Errorf("%s: %v", name, err)
		}
	}
	if n := s.number("select (select count(*) from runs) + (select count(*) from jobs)"); n != 0 {
		t.Errorf("%d rows of refused runs", n)
	}
	s.run(gavelapi.NewRun{Inputs: inputs(20, 100_000)}) // the defaults shrink to fit
}

// More in one answer than a client reads is left for the next claim, at no cost.
func TestALeaseThatDoesNotFitIntoTheAnswerComesBack(t *testing.T) {
	settings := quick
	settings.Confirm = time.Second
	s := newStand(t, settings)
	const runs = 18
	for i := range runs {
		s.run(gavelapi.NewRun{User: fmt.Sprint(i), Inputs: []gavelapi.RunInput{{ContentBase64: make([]byte, 2<<20)}}})
	}
	w := s.runner("w", runs, "c")
	leases, err := w.tryClaim(10 * time.Second)
	if err != nil || len(leases) == 0 || len(leases) >= runs {
		t.Fatalf("%d leases, %v", len(leases), err)
	}
	for _, l := range leases {
		w.report(l.LeaseToken, runReport("x"))
	}
	for done := len(leases); done < runs; {
		more, err := w.tryClaim(10 * time.Second)
		if err != nil || len(more) == 0 {
			t.Fatalf("%d leases, %v", len(more), err)
		}
		for _, l := range more {
			if l.Attempt != 1 {
				t.Errorf("it cost an attempt: %d", l.Attempt)
			}
			w.report(l.LeaseToken, runReport("x"))
		}
		done += len(more)
	}
}

// The edge functions end lost leases while no arbiter leads, and know judgings
// only.
func TestARunWhoseJobIsGoneIsASystemError(t *testing.T) {
	s := newStand(t, quick)
	kept, run := s.run(gavelapi.NewRun{}), s.run(gavelapi.NewRun{})
	s.exec("delete from jobs where work_id = $1", run.ID)
	until(t, "the run is given up", func() bool { return s.readRun(run.ID).State == gavelapi.StateSystemError })
	if got := s.readRun(kept.ID); got.State != gavelapi.StatePending {
		t.Errorf("%s", asJSON(got))
	}
}
