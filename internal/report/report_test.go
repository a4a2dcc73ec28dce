package report

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Whatever a worker sends as outputs, what is stored is bounded, text, and of
// tests that failed.
func TestOutputsAreTidied(t *testing.T) {
	many := strings.Repeat("x", maxOutput+1)
	r := gavelapi.Report{Verdict: "TLE", Tests: []gavelapi.TestResult{
		{Name: "a", Verdict: "AC"},
		{Name: "b", Verdict: "TLE"},
		{Name: "c", Verdict: gavelapi.SkippedTest},
		{Name: "d", Verdict: "RE"},
		{Name: "e", Verdict: "WA"},
		{Name: "f", Verdict: "MLE"},
		{Name: "g", Verdict: "OLE"},
	}, Outputs: []gavelapi.TestOutput{
		{Test: "a", Stdout: "right"},
		{Test: "c", Stdout: "skipped"},
		{Test: "z", Stdout: "unknown"},
		{Test: "b", Stdout: "1\x00\xff", Stderr: many},
		{Test: "b", Stdout: "again"},
		{Test: "d", Stdout: many},
		{Test: "e", StdoutCut: true},
		{Test: "f"},
		{Test: "g", Stdout: "one too many"},
	}}
	want := []gavelapi.TestOutput{
		{Test: "b", Stdout: "1\uFFFD\uFFFD", Stderr: many[:maxOutput], StderrCut: true},
		{Test: "d", Stdout: many[:maxOutput], StdoutCut: true},
		{Test: "e", StdoutCut: true},
		{Test: "f"},
	}
	if diff := cmp.Diff(want, Tidy("judge", r).Outputs); diff != "" {
		t.Error(diff)
	}
	r.Verdict = "AC" // contradicts its tests, so it becomes a fault
	if got := Tidy("judge", r); got.Fault == nil || got.Outputs != nil {
		t.Errorf("%+v", got)
	}
}
