package judge

import (
	"context"
	"errors"
	"os"
	"slices"
	"time"

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
)

// exitNotStarted is the exit code shown for a program that compiled but that
// the kernel refuses to start; shells use the same.
const exitNotStarted = 127

// attempt is one test on one core.
type attempt struct {
	*evaluation

	core               *core
	runTime, checkTime time.Duration
}

// test runs the program on test i, more than once if need be, and has its
// output checked.
func (a *attempt) test(ctx context.Context, i int, out *Test) (err error) {
	t := &a.task.Package.Manifest.Tests[i]
	from := a.e.clock.Now()
	r, err := a.measure(ctx, t)
	a.runTime = a.e.clock.Now().Sub(from)
	if err != nil {
		return err
	}
	defer r.close()
	defer func() {
		if err == nil {
			err = asFault(ctx, r.keepWrote(), "read output")
		}
		*out = r.test
	}()
	if r.test.Verdict != verdict.AC || a.interactive() {
		return nil
	}

	from = a.e.clock.Now()
	defer func() { a.checkTime = a.e.clock.Now().Sub(from) }()
	var tokens *checker.Tokens
	if a.custom == nil {
		tokens = a.tokens[i]
	}
	answer, err := a.check(ctx, tokens, t, r.output)
	if err != nil {
		return err
	}
	r.test.Message = answer.Message
	if answer.Accepted {
		return nil
	}
	r.test.Verdict, r.test.Reason = verdict.WA, verdict.ReasonChecker
	if a.task.Wrong == nil {
		return nil
	}
	output, err := reopen(r.output)
	if err != nil {
		return asFault(ctx, err, "open output")
	}
	defer func() { _ = output.Close() }()
	a.task.Wrong(i, output)
	return nil
}

// once runs the program once, to be killed when it used killAt of CPU time.
func (a *attempt) once(ctx context.Context, t *problem.Test, killAt time.Duration) (_ *ran, err error) {
	if a.interactive() {
		return a.converse(ctx, t, killAt)
	}
	output, err := newOutput(a.dir)
	if err != nil {
		return nil, asFault(ctx, err, "make output file")
	}
	defer func() {
		if err != nil {
			_ = output.Close()
		}
	}()
	said := newStderr()
	res, err := a.runTest(ctx, t, output, said, killAt)
	if err != nil {
		if r := a.notStarted(err); r != nil {
			r.output = output
			return r, nil
		}
		return nil, err
	}
	r := &ran{output: output, stderr: said, fired: res.Fired, test: testOf(res)}
	r.test.Verdict, r.test.Reason = verdict.OfRun(a.facts(res))
	if r.test.Verdict == verdict.SE {
		return nil, faultf(BlameHost, nil, "run ended by the limit %q, which this engine does not know", res.Fired)
	}
	said.refused.hint(&r.test)
	return r, nil
}

// testOf is what a run's result says of its test.
func testOf(res sandbox.Result) Test {
	return Test{
		CPU: res.CPU, Wall: res.Wall, MemoryBytes: res.MemoryBytes, OutputBytes: res.StdoutBytes,
		ExitCode: res.ExitCode, Signal: res.Signal,
	}
}

// notStarted is what became of a program that has itself to blame for not
// being started, or nil.
func (v *evaluation) notStarted(err error) *ran {
	f, ok := checker.NotStarted(err)
	if !ok || !v.ownFault() {
		return nil
	}
	return &ran{test: Test{
		Verdict: verdict.RE, Reason: verdict.ReasonExit, ExitCode: exitNotStarted,
		Message: "the kernel refuses to start the program: " + f.Err.Error(),
	}}
}

// ownFault reports whether a program that could not be started has itself to
// blame: it was compiled well, is there and is executable, so the kernel
// refuses its content (or the loader that it names is not there).
func (v *evaluation) ownFault() bool {
	return v.argv[0] == v.program.Box && executable(v.program.Host) == nil
}

func (a *attempt) runTest(ctx context.Context, t *problem.Test, output *os.File, said *stderrOf, killAt time.Duration) (sandbox.Result, error) {
	input, err := os.Open(a.task.Package.Path(t.Input))
	if err != nil {
		return sandbox.Result{}, packageFault(err, t.Input)
	}
	defer func() { _ = input.Close() }()
	spec := a.spec(t.Args, killAt)
	spec.Stdin, spec.Stdout, spec.Stderr = input, output, said
	return a.start(ctx, spec)
}

// spec is a run of the program with further arguments, to be killed when it
// used killAt of CPU time. Its streams are the caller's.
func (a *attempt) spec(args []string, killAt time.Duration) *sandbox.Spec {
	l := a.task.Limits
	return &sandbox.Spec{
		Argv:   append(slices.Clone(a.argv), args...),
		Env:    a.lang.RunEnv(l.MemoryBytes),
		Mounts: a.mounts, // and nothing of the package: E2
		Limits: sandbox.Limits{
			CPU: killAt, Wall: l.Wall, MemoryBytes: l.MemoryBytes,
			StdoutBytes: l.OutputBytes, StderrBytes: runStderrBytes,
			FileBytes: l.OutputBytes + 1, // reaching it is the box's sign for "over"
			DiskBytes: max(runDiskBytes, l.OutputBytes+1<<20), DiskInodes: runDiskInodes,
			Processes: l.Processes, OpenFiles: a.lang.RunOpenFiles(),
		},
		Profile: sandbox.ProfileRun,
	}
}

// start runs the program in the core's box.
func (a *attempt) start(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	return a.startIn(ctx, a.core.run, spec)
}

func (a *attempt) startIn(ctx context.Context, box checker.Runner, spec *sandbox.Spec) (sandbox.Result, error) {
	res, err := box.Run(ctx, spec)
	closeFiles(res)
	if err == nil {
		return res, nil
	}
	if f, ok := checker.NotStarted(err); ok && a.argv[0] != a.program.Box {
		return res, faultf(BlameToolchain, f.Err, "%s: %s can not be started", a.lang.ID, a.argv[0])
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
		Wall: res.Wall - res.Starved, WallLimit: l.Wall,
		MemoryBytes: res.MemoryBytes, MemoryLimit: l.MemoryBytes,
		OutputBytes: res.StdoutBytes, OutputLimit: l.OutputBytes,
		OOMKills: res.OOMKills,
		ExitCode: res.ExitCode, Signal: res.Signal,
	}
}

// checkerArgs are those of the test, or else of all.
func (v *evaluation) checkerArgs(t *problem.Test) []string {
	if t.CheckerArgs != nil {
		return t.CheckerArgs
	}
	return v.task.Package.Manifest.Checker.Args
}

// check asks the comparator, or the package's program when it has one, about a
// whole output.
func (a *attempt) check(ctx context.Context, tokens *checker.Tokens, t *problem.Test, output *os.File) (checker.Result, error) {
	pkg := a.task.Package
	in, err := reopen(output)
	if err != nil {
		return checker.Result{}, asFault(ctx, err, "open output")
	}
	defer func() { _ = in.Close() }()

	if a.custom == nil {
		answer, err := os.Open(pkg.Path(t.Answer))
		if err != nil {
			return checker.Result{}, packageFault(err, t.Answer)
		}
		defer func() { _ = answer.Close() }()
		result, err := tokens.Compare(ctx, answer, in)
		return result, asFault(ctx, err, "compare")
	}

	for _, rel := range []string{t.Input, t.Answer} {
		if _, err := os.Stat(pkg.Path(rel)); err != nil {
			return checker.Result{}, packageFault(err, rel)
		}
	}
	result, err := a.custom.program.Check(ctx, a.core.check, checker.Case{
		Input: pkg.Path(t.Input), Answer: pkg.Path(t.Answer), Output: in, Args: a.checkerArgs(t),
	})
	if failure, ok := errors.AsType[*checker.Failure](err); ok {
		return result, faultf(BlameChecker, nil, "%s", failure.Message)
	}
	return result, asFault(ctx, err, "run checker")
}
