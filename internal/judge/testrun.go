package judge

import (
	"context"
	"errors"
	"os"
	"slices"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// What a run may have beside the package's limits.
const (
	runStderrBytes = 64 << 10
	runDiskBytes   = 64 << 20
	runDiskInodes  = 1024
	runOpenFiles   = 64
)

// exitNotStarted is the exit code shown for a program that compiled but that
// the kernel refuses to start; shells use the same.
const exitNotStarted = 127

// test runs the program on test i and has its output checked.
func (v *evaluation) test(ctx context.Context, i int, out *Test) error {
	t := &v.task.Package.Manifest.Tests[i]
	output, err := newOutput(v.dir)
	if err != nil {
		return asFault(ctx, err, "make output file")
	}
	defer func() { _ = output.Close() }()

	from := v.e.clock.Now()
	res, err := v.runTest(ctx, t, output)
	v.stage("run", from)
	if err != nil {
		if f, ok := checker.NotStarted(err); ok && v.ownFault() {
			out.Verdict, out.Reason, out.ExitCode = verdict.RE, verdict.ReasonExit, exitNotStarted
			out.Message = "the kernel refuses to start the program: " + f.Err.Error()
			return nil
		}
		return err
	}
	out.CPU, out.Wall = res.CPU, res.Wall
	out.MemoryBytes, out.OutputBytes = res.MemoryBytes, res.StdoutBytes
	out.ExitCode, out.Signal = res.ExitCode, res.Signal
	out.Verdict, out.Reason = verdict.OfRun(v.facts(res))
	switch out.Verdict {
	case verdict.AC: // ask the checker
	case verdict.SE:
		return faultf(BlameHost, nil, "run ended by the limit %q, which this engine does not know", res.Fired)
	default:
		return nil
	}

	from = v.e.clock.Now()
	answer, err := v.check(ctx, i, t, output)
	v.stage("check", from)
	if err != nil {
		return err
	}
	out.Message = answer.Message
	if !answer.Accepted {
		out.Verdict, out.Reason = verdict.WA, verdict.ReasonChecker
	}
	return nil
}

// ownFault reports whether a program that could not be started has itself to
// blame: it was compiled well, is there and is executable, so the kernel
// refuses its content (or the loader that it names is not there).
func (v *evaluation) ownFault() bool {
	return !v.lang.Interpreted() && executable(v.program.Host) == nil
}

func (v *evaluation) runTest(ctx context.Context, t *problem.Test, output *os.File) (sandbox.Result, error) {
	input, err := os.Open(v.task.Package.Path(t.Input))
	if err != nil {
		return sandbox.Result{}, packageFault(err, t.Input)
	}
	defer func() { _ = input.Close() }()
	l := v.task.Limits
	res, err := v.slot.run.Run(ctx, &sandbox.Spec{
		Argv:   append(slices.Clone(v.argv), t.Args...),
		Env:    v.lang.RunEnv(),
		Mounts: []sandbox.Mount{v.program}, // and nothing of the package: E2
		Stdin:  input,
		Stdout: output,
		Limits: sandbox.Limits{
			CPU: l.CPU, Wall: l.Wall, MemoryBytes: l.MemoryBytes,
			StdoutBytes: l.OutputBytes, StderrBytes: runStderrBytes,
			FileBytes: l.OutputBytes + 1, // reaching it is the box's sign for "over"
			DiskBytes: max(runDiskBytes, l.OutputBytes+1<<20), DiskInodes: runDiskInodes,
			Processes: l.Processes, OpenFiles: runOpenFiles,
		},
		Profile: sandbox.ProfileRun,
	})
	closeFiles(res)
	if err == nil {
		return res, nil
	}
	if f, ok := checker.NotStarted(err); ok && v.lang.Interpreted() {
		return res, faultf(BlameToolchain, f.Err, "%s: %s can not be started", v.lang.ID, v.argv[0])
	} else if ok {
		return res, err // the caller decides
	}
	return res, asFault(ctx, err, "run")
}

// facts are what verdict.OfRun decides by.
func (v *evaluation) facts(res sandbox.Result) verdict.Run {
	l := v.task.Limits
	return verdict.Run{
		Fired: verdict.Limit(res.Fired),
		CPU:   res.CPU, CPULimit: l.CPU,
		Wall: res.Wall, WallLimit: l.Wall,
		MemoryBytes: res.MemoryBytes, MemoryLimit: l.MemoryBytes,
		OutputBytes: res.StdoutBytes, OutputLimit: l.OutputBytes,
		OOMKills: res.OOMKills,
		ExitCode: res.ExitCode, Signal: res.Signal,
	}
}

// check asks the comparator or the package's program about a whole output.
func (v *evaluation) check(ctx context.Context, i int, t *problem.Test, output *os.File) (checker.Result, error) {
	pkg := v.task.Package
	in, err := reopen(output)
	if err != nil {
		return checker.Result{}, asFault(ctx, err, "open output")
	}
	defer func() { _ = in.Close() }()

	if v.custom == nil {
		answer, err := os.Open(pkg.Path(t.Answer))
		if err != nil {
			return checker.Result{}, packageFault(err, t.Answer)
		}
		defer func() { _ = answer.Close() }()
		result, err := v.tokens[i].Compare(ctx, answer, in)
		return result, asFault(ctx, err, "compare")
	}

	for _, rel := range []string{t.Input, t.Answer} {
		if _, err := os.Stat(pkg.Path(rel)); err != nil {
			return checker.Result{}, packageFault(err, rel)
		}
	}
	args := pkg.Manifest.Checker.Args
	if t.CheckerArgs != nil {
		args = t.CheckerArgs
	}
	result, err := v.custom.program.Check(ctx, v.slot.check, checker.Case{
		Input: pkg.Path(t.Input), Answer: pkg.Path(t.Answer), Output: in, Args: args,
	})
	if failure, ok := errors.AsType[*checker.Failure](err); ok {
		return result, faultf(BlameChecker, nil, "%s", failure.Message)
	}
	return result, asFault(ctx, err, "run checker")
}
