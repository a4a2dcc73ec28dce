package worker

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
)

func TestAllFilesOfALeaseAreJudged(t *testing.T) {
	t.Parallel()
	got := task(gavelapi.Lease{Source: []byte("m"), SourceName: "m.c", Files: []gavelapi.LeaseFile{{Name: "a.h", Content: []byte("a")}, {Name: "b.h"}}})
	want := []judge.SourceFile{{Name: "a.h", Text: []byte("a")}, {Name: "b.h"}}
	if diff := cmp.Diff(want, got.More); diff != "" || string(got.Source) != "m" || got.SourceName != "m.c" {
		t.Errorf("%+v\n%s", got, diff)
	}
	if got = task(gavelapi.Lease{Source: []byte("m")}); got.More != nil {
		t.Errorf("a single file brought others: %+v", got.More)
	}
}

func TestEveryRunOfATestIsReported(t *testing.T) {
	t.Parallel()
	w := &Worker{cfg: Config{Capabilities: func() gavelapi.Capabilities { return gavelapi.Capabilities{} }}}
	report := w.wireReport(gavelapi.Lease{}, &judge.Report{Verdict: verdict.TLE, Tests: []judge.Test{
		{
			Name: "secret/1", Sample: true, Verdict: verdict.TLE, Reason: verdict.ReasonCPU, CPU: 505 * time.Millisecond, Wall: time.Second,
			MemoryBytes: 3, OutputBytes: 4, ExitCode: 5, Signal: 6, Message: "m",
			Attempts: []judge.Attempt{{CPU: 520 * time.Millisecond, Wall: 2 * time.Second}, {CPU: 505 * time.Millisecond, Wall: time.Second}},
		},
		{Name: "secret/2", Verdict: verdict.Skipped},
		{Name: "secret/3", Verdict: verdict.RE, Wrote: &judge.Wrote{Stdout: []byte("o\xff"), StdoutCut: true, Stderr: []byte("e")}},
	}}, nil)
	want := []gavelapi.TestResult{
		{
			Name: "secret/1", Sample: true, Verdict: "TLE", Reason: "cpu", CPUUS: 505_000, WallUS: 1_000_000,
			MemoryBytes: 3, OutputBytes: 4, ExitCode: 5, Signal: 6, Message: "m",
			Attempts: []gavelapi.TestAttempt{{CPUUS: 520_000, WallUS: 2_000_000}, {CPUUS: 505_000, WallUS: 1_000_000}},
		},
		{Name: "secret/2", Verdict: "skipped"},
		{Name: "secret/3", Verdict: "RE"},
	}
	if diff := cmp.Diff(want, report.Tests); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([]gavelapi.TestOutput{{Test: "secret/3", Stdout: "o\uFFFD", StdoutCut: true, Stderr: "e"}}, report.Outputs); diff != "" {
		t.Error(diff)
	}
	if report.CPUUS != 505_000 || report.WallUS != 1_000_000 || report.MemoryBytes != 3 {
		t.Errorf("the most of any test: %+v", report)
	}
}
