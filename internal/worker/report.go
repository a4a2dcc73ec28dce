package worker

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// maxFaultBytes cuts fault messages: they are for people.
const maxFaultBytes = 4 << 10

// wireReport turns an engine's report into the wire form.
func (w *Worker) wireReport(l gavelapi.Lease, r *judge.Report, stages map[string]int64) gavelapi.Report {
	out := gavelapi.Report{
		Verdict:    string(r.Verdict),
		Compile:    wireCompile(r.Compile),
		Tests:      make([]gavelapi.TestResult, 0, len(r.Tests)),
		Limits:     l.Limits,
		Provenance: w.provenance(l, stages),
	}
	out.Provenance.Toolchain, out.Provenance.CheckerToolchain = r.Toolchain, r.CheckerToolchain
	for name, d := range r.Stages {
		out.Provenance.Stages[name] = d.Microseconds()
	}
	for _, t := range r.Tests {
		row := gavelapi.TestResult{
			Name: t.Name, Sample: t.Sample, Verdict: string(t.Verdict), Reason: string(t.Reason),
			CPUUS: t.CPU.Microseconds(), WallUS: t.Wall.Microseconds(),
			MemoryBytes: t.MemoryBytes, OutputBytes: t.OutputBytes,
			ExitCode: t.ExitCode, Signal: t.Signal, Message: t.Message,
		}
		for _, a := range t.Attempts {
			row.Attempts = append(row.Attempts, gavelapi.TestAttempt{CPUUS: a.CPU.Microseconds(), WallUS: a.Wall.Microseconds()})
		}
		out.Tests = append(out.Tests, row)
		if w := t.Wrote; w != nil {
			out.Outputs = append(out.Outputs, gavelapi.TestOutput{
				Test: t.Name, Stdout: showable(w.Stdout), StdoutCut: w.StdoutCut, Stderr: showable(w.Stderr), StderrCut: w.StderrCut,
			})
		}
		out.CPUUS = max(out.CPUUS, row.CPUUS)
		out.WallUS = max(out.WallUS, row.WallUS)
		out.MemoryBytes = max(out.MemoryBytes, row.MemoryBytes)
	}
	return out
}

// showable is a program's output as text; the arbiter makes it storable.
func showable(b []byte) string { return strings.ToValidUTF8(string(b), "\uFFFD") }

func wireCompile(c judge.Compile) gavelapi.CompileInfo {
	return gavelapi.CompileInfo{
		Log: c.Log, LogCut: c.LogCut, Reason: string(c.Fired),
		CPUUS: c.CPU.Microseconds(), WallUS: c.Wall.Microseconds(),
		Cached: c.Cached, Precompiled: c.Precompiled, Header: c.Header,
	}
}

// wireRun turns a runner's report into the wire form. Outputs go as base64,
// which carries every byte at a size that is known beforehand.
func (w *Worker) wireRun(l gavelapi.Lease, r *judge.RunReport, stages map[string]int64) gavelapi.Report {
	run := &gavelapi.RunReport{Compiled: r.Compile.OK, Results: make([]gavelapi.RunResult, 0, len(r.Results))}
	out := gavelapi.Report{
		Run: run, Compile: wireCompile(r.Compile), Tests: []gavelapi.TestResult{}, Limits: l.Limits, Provenance: w.provenance(l, stages),
	}
	out.Provenance.Toolchain = r.Toolchain
	for name, d := range r.Stages {
		out.Provenance.Stages[name] = d.Microseconds()
	}
	for _, t := range r.Results {
		run.Results = append(run.Results, gavelapi.RunResult{
			Ended: string(t.Ended), ExitCode: t.ExitCode, Signal: t.Signal, Message: t.Message,
			CPUUS: t.CPU.Microseconds(), WallUS: t.Wall.Microseconds(), MemoryBytes: t.MemoryBytes,
			StdoutBase64: t.Stdout, StdoutCut: t.StdoutCut, StderrBase64: t.Stderr, StderrCut: t.StderrCut,
		})
		out.CPUUS = max(out.CPUUS, t.CPU.Microseconds())
		out.WallUS = max(out.WallUS, t.Wall.Microseconds())
		out.MemoryBytes = max(out.MemoryBytes, t.MemoryBytes)
	}
	return out
}

// wireVerified turns a verifier's report into the wire form.
func (w *Worker) wireVerified(l gavelapi.Lease, r *judge.VerifyReport, stages map[string]int64) gavelapi.Report {
	out := gavelapi.Report{Limits: l.Limits, Provenance: w.provenance(l, stages)}
	if r.Judged != nil {
		out = w.wireReport(l, r.Judged, stages)
		out.Verdict = ""
	}
	out.Tests, out.Outputs = []gavelapi.TestResult{}, nil // the finding says what there is to say
	out.Prepare = &gavelapi.PrepareReport{Verdict: string(r.Verdict), Findings: make([]gavelapi.Finding, 0, len(r.Findings))}
	for _, f := range r.Findings {
		outcome := gavelapi.FindingOK
		if f.Failed {
			outcome = gavelapi.FindingFailed
		}
		out.Prepare.Findings = append(out.Prepare.Findings, gavelapi.Finding{
			Step: f.Step, What: f.What, Outcome: outcome, Detail: f.Detail, TookUS: f.Took.Microseconds(),
		})
	}
	return out
}

// faultReport is the wire form of an attempt that the system failed. What is
// not a *judge.Fault is blamed on this machine: whatever it is, it is not the
// user's.
func (w *Worker) faultReport(l gavelapi.Lease, err error, stages map[string]int64) gavelapi.Report {
	f := &gavelapi.Fault{Blame: gavelapi.BlameHost, Message: err.Error()}
	if jf, ok := errors.AsType[*judge.Fault](err); ok {
		f.Message = strings.TrimPrefix(jf.Error(), string(jf.Blame)+": ")
		switch jf.Blame {
		case judge.BlameHost, judge.BlameToolchain, judge.BlamePackage, judge.BlameChecker:
			f.Blame = string(jf.Blame)
		}
	}
	f.Message = strings.ToValidUTF8(f.Message, "�")
	if len(f.Message) > maxFaultBytes {
		f.Message = strings.ToValidUTF8(f.Message[:maxFaultBytes], "") + "…"
	}
	return gavelapi.Report{Fault: f, Tests: []gavelapi.TestResult{}, Limits: l.Limits, Provenance: w.provenance(l, stages)}
}

func (w *Worker) provenance(l gavelapi.Lease, stages map[string]int64) gavelapi.Provenance {
	c := w.cfg.Capabilities()
	if stages == nil {
		stages = map[string]int64{}
	}
	return gavelapi.Provenance{
		WorkerBuild: c.Build, Kernel: c.Kernel, MemoryMeter: c.MemoryMeter, CPUMeter: w.cfg.CPUMeter,
		PackageDigest: l.PackageDigest, Stages: stages,
	}
}

// checkReport refuses what an engine must never return, so that its mistake
// cannot pass for a verdict.
func checkReport(r *judge.Report, tests int) error {
	switch r.Verdict {
	case verdict.CE:
		return nil
	case verdict.AC, verdict.WA, verdict.TLE, verdict.MLE, verdict.OLE, verdict.RE:
	default:
		return fmt.Errorf("the engine returned %q, which is no verdict", r.Verdict)
	}
	if len(r.Tests) != tests || tests == 0 {
		return fmt.Errorf("the engine returned %d tests for a package with %d", len(r.Tests), tests)
	}
	return nil
}

// task is the engine's view of a lease; its package is added when fetched.
func task(l gavelapi.Lease) judge.Task {
	stop := judge.StopFirst
	if l.StopRule == string(judge.StopAll) {
		stop = judge.StopAll
	}
	return judge.Task{
		Source: l.Source, More: moreFiles(l), SourceName: l.SourceName, Language: l.Language, Stop: stop, Limits: limits(l),
	}
}

// runTask is the same of a lease of kind run.
func runTask(l gavelapi.Lease) judge.RunTask {
	return judge.RunTask{
		Source: l.Source, More: moreFiles(l), SourceName: l.SourceName, Language: l.Language, Inputs: l.Run.Inputs, Limits: limits(l),
	}
}

// verifyTask is the same of a lease of kind prepare.
func verifyTask(l gavelapi.Lease, pkg *problem.Package) judge.VerifyTask {
	return judge.VerifyTask{
		Package: pkg, Step: judge.VerifyStep(l.Prepare.Step), Path: l.Prepare.Path, Language: l.Language, Limits: limits(l),
	}
}

func moreFiles(l gavelapi.Lease) (more []judge.SourceFile) {
	for _, f := range l.Files {
		more = append(more, judge.SourceFile{Name: f.Name, Text: f.Content})
	}
	return more
}

func limits(l gavelapi.Lease) judge.Limits {
	us := func(n int64) time.Duration { return time.Duration(n) * time.Microsecond }
	return judge.Limits{
		CPU: us(l.Limits.CPUUS), Wall: us(l.Limits.WallUS), MemoryBytes: l.Limits.MemoryBytes,
		OutputBytes: l.Limits.OutputBytes, Processes: l.Limits.Processes,
	}
}
