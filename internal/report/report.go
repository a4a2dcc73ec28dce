// Package report makes what workers report storable, whatever it contains. It is
// used on both ways of a result into the database: by the arbiter, and by workers
// straight on the database.
package report

import (
	"fmt"
	"strings"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Bounds of texts that workers report. Longer ones are cut, never refused.
const (
	maxCompileLog = 64 << 10
	maxMessage    = 4 << 10
	maxName       = 256
	maxTests      = 10_000
	maxOutputs    = 4       // tests of which it is kept what was written
	maxOutput     = 4 << 10 // of each stream of one
	maxFindings   = 64
	maxAllDetails = 32 << 10 // of the findings of one step together
)

const selfContradiction = "the worker's report contradicts itself: "

// verdicts that a worker may report.
var verdicts = map[string]bool{"AC": true, "WA": true, "TLE": true, "MLE": true, "OLE": true, "RE": true, "CE": true}

// Tidy makes a report storable whatever it contains: valid UTF-8 without NUL,
// bounded, and consistent. A report that contradicts itself becomes a fault of
// its host, so that a broken worker can neither pass a verdict nor lose one.
func Tidy(kind string, r gavelapi.Report) gavelapi.Report {
	if why := contradiction(kind, &r); why != "" {
		r.Verdict, r.Run, r.Prepare = "", nil, nil
		r.Fault = &gavelapi.Fault{Blame: gavelapi.BlameHost, Message: selfContradiction + why}
	}
	var cut bool
	r.Compile.Log, cut = Clean(r.Compile.Log, maxCompileLog)
	r.Compile.LogCut = r.Compile.LogCut || cut
	r.Compile.Reason, _ = Clean(r.Compile.Reason, maxName)
	r.Compile.Header, _ = Clean(r.Compile.Header, maxName)
	if r.Fault != nil {
		f := *r.Fault
		f.Message, _ = Clean(f.Message, maxMessage)
		if f.Blame != gavelapi.BlameToolchain && f.Blame != gavelapi.BlamePackage && f.Blame != gavelapi.BlameChecker {
			f.Blame = gavelapi.BlameHost
		}
		r.Fault = &f
	}
	if r.Run != nil {
		run := *r.Run
		run.Results = make([]gavelapi.RunResult, len(r.Run.Results))
		for i, t := range r.Run.Results {
			t.Message, _ = Clean(t.Message, maxMessage)
			run.Results[i] = t
		}
		r.Run = &run
	}
	if r.Prepare != nil {
		r.Prepare = tidyFindings(r.Prepare)
	}
	tests := make([]gavelapi.TestResult, min(len(r.Tests), maxTests))
	for i := range tests {
		t := r.Tests[i]
		t.Name, _ = Clean(t.Name, maxName)
		t.Verdict, _ = Clean(t.Verdict, maxName)
		t.Reason, _ = Clean(t.Reason, maxName)
		t.Message, _ = Clean(t.Message, maxMessage)
		tests[i] = t
	}
	r.Tests, r.Outputs = tests, tidyOutputs(&r)
	p := &r.Provenance
	for _, s := range []*string{&p.WorkerBuild, &p.Kernel, &p.MemoryMeter, &p.CPUMeter, &p.Toolchain, &p.CheckerToolchain, &p.PackageDigest} {
		*s, _ = Clean(*s, maxName)
	}
	stages := make(map[string]int64, len(p.Stages))
	for name, us := range p.Stages {
		name, _ = Clean(name, maxName)
		stages[name] = us
	}
	p.Stages = stages
	if r.Fault != nil {
		dropNonsense(&r)
	}
	return r
}

// tidyOutputs bounds what was written in failed tests, and drops what is of no
// such test.
func tidyOutputs(r *gavelapi.Report) (kept []gavelapi.TestOutput) {
	if r.Verdict == "" {
		return nil
	}
	failed := map[string]bool{}
	for i := range r.Tests {
		failed[r.Tests[i].Name] = r.Tests[i].Verdict != "AC" && r.Tests[i].Verdict != gavelapi.SkippedTest
	}
	for _, o := range r.Outputs {
		if o.Test, _ = Clean(o.Test, maxName); !failed[o.Test] || len(kept) == maxOutputs {
			continue
		}
		failed[o.Test] = false // once each
		var cut bool
		o.Stdout, cut = Clean(o.Stdout, maxOutput)
		o.StdoutCut = o.StdoutCut || cut
		o.Stderr, cut = Clean(o.Stderr, maxOutput)
		o.StderrCut = o.StderrCut || cut
		kept = append(kept, o)
	}
	return kept
}

func contradiction(kind string, r *gavelapi.Report) string {
	switch {
	case r.Fault != nil && (r.Verdict != "" || r.Run != nil || r.Prepare != nil):
		return "it has both an outcome and a fault"
	case r.Fault != nil:
		return ""
	case kind == KindRun:
		return runContradiction(r)
	case kind == KindPrepare:
		return prepareContradiction(r)
	case r.Run != nil:
		return "it reports a run, and the lease is none"
	case r.Prepare != nil:
		return "it reports a step of preparing a package, and the lease is none"
	case !verdicts[r.Verdict]:
		return "it has neither a known verdict nor a fault"
	case len(r.Tests) > maxTests:
		return fmt.Sprintf("it has %d tests, at most %d are possible", len(r.Tests), maxTests)
	case r.Verdict == "CE":
		return ""
	case len(r.Tests) == 0:
		return "it has a verdict but no tests"
	}
	first := ""
	for i := range r.Tests {
		v := r.Tests[i].Verdict
		if v != "AC" && v != gavelapi.SkippedTest && (!verdicts[v] || v == "CE") {
			return fmt.Sprintf("test %d has no known verdict", i+1)
		}
		if first == "" && v != "AC" {
			first = v
		}
	}
	switch {
	case r.Verdict == "AC" && first != "":
		return "it is AC but not all of its tests are"
	case r.Verdict != "AC" && first != r.Verdict:
		return "its verdict is not that of the first test that is not AC"
	}
	return ""
}

// Clean makes s valid UTF-8 without NUL and at most limit bytes long.
func Clean(s string, limit int) (out string, cut bool) {
	s = strings.ReplaceAll(strings.ToValidUTF8(s, "\uFFFD"), "\x00", "\uFFFD")
	if len(s) <= limit {
		return s, false
	}
	s = s[:limit]
	for !utf8.ValidString(s) { // at most three bytes of a cut character
		s = s[:len(s)-1]
	}
	return s, true
}

// KindRun is the kind of a run's lease.
const KindRun = "run"

// endings are what may end a program in a report.
var endings = map[string]bool{
	gavelapi.EndedExit: true, gavelapi.EndedSignal: true, gavelapi.EndedCPU: true, gavelapi.EndedWall: true,
	gavelapi.EndedIdle: true, gavelapi.EndedMemory: true, gavelapi.EndedOutput: true,
}

// runContradiction is contradiction for the report of a run's lease.
func runContradiction(r *gavelapi.Report) string {
	switch {
	case r.Run == nil || r.Verdict != "" || r.Prepare != nil:
		return "the lease is a run, and it has no result of one"
	case !r.Run.Compiled && len(r.Run.Results) > 0:
		return "it did not compile and has results"
	case r.Run.Compiled && len(r.Run.Results) == 0:
		return "it compiled and has no results"
	case len(r.Run.Results) > maxTests:
		return fmt.Sprintf("it has %d results", len(r.Run.Results))
	}
	for i, t := range r.Run.Results {
		if !endings[t.Ended] {
			return fmt.Sprintf("result %d does not say what ended it", i+1)
		}
	}
	return ""
}
