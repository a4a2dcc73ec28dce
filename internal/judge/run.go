package judge

import (
	"bytes"
	"context"
	"os"
	"strconv"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// RunTask is a program to run on inputs, without a package.
type RunTask struct {
	Source     []byte
	SourceName string // as in Task
	More       []SourceFile
	Language   string // language id
	Inputs     [][]byte
	// Limits are those of each input's run. OutputBytes is also how much of
	// the standard output is kept.
	Limits Limits
}

// RunReport is the outcome of a RunTask that could be carried out.
type RunReport struct {
	Compile   Compile
	Results   []RunResult // one per input, in their order; empty when it does not compile
	Toolchain string
	Stages    map[string]time.Duration // "compile" and "run"
}

// RunResult is what the program did with one input.
type RunResult struct {
	// Ended is what ended the program: a limit, a signal, or itself by an exit
	// code (ReasonExit, also for 0).
	Ended                verdict.Reason
	ExitCode             int
	Signal               int
	CPU                  time.Duration
	Wall                 time.Duration
	MemoryBytes          int64
	Stdout, Stderr       []byte // exactly what was written, up to the limits
	StdoutCut, StderrCut bool   // there was more
	Message              string // why it could not be started
}

// Runner runs programs without a package. Implemented by *Engine.
//
// Run behaves as Judge does: progress counts inputs as tests, the error is a
// *Fault or ctx's cause, every process is gone when it returns, and it shares
// the slots with Judge.
type Runner interface {
	Run(ctx context.Context, task RunTask, progress func(Progress)) (*RunReport, error)
}

var _ Runner = (*Engine)(nil)

// Run implements Runner. The inputs are run one after the other on the task's
// own core, each once: a person who tries something out wants to see what
// happens, not a verdict that holds.
func (e *Engine) Run(ctx context.Context, task RunTask, progress func(Progress)) (*RunReport, error) {
	ctx, core, end, err := e.begin(ctx, placeKept)
	if err != nil {
		return nil, err
	}
	defer end()

	t := &Task{
		Source: task.Source, SourceName: task.SourceName, More: task.More, Language: task.Language, Limits: task.Limits,
		Package: &problem.Package{}, // no package has no wishes for the compiler
	}
	lang, err := e.checkRun(task.Language, task.Limits)
	if err != nil {
		return nil, err
	}
	if len(task.Inputs) == 0 {
		return nil, faultf(BlameHost, nil, "a run without inputs")
	}
	v, done, err := e.evaluation(ctx, t, core, lang, progress)
	if err != nil {
		return nil, err
	}
	defer done()
	results, err := v.runInputs(ctx, task.Inputs)
	if err != nil {
		return nil, asFault(ctx, err, "run")
	}
	return &RunReport{Compile: v.report.Compile, Results: results, Toolchain: v.report.Toolchain, Stages: v.report.Stages}, nil
}

func (v *evaluation) runInputs(ctx context.Context, inputs [][]byte) ([]RunResult, error) {
	v.progress(Progress{Phase: PhaseCompiling, TestsTotal: len(inputs)})
	if err := v.compile(ctx); err != nil || !v.report.Compile.OK {
		return nil, err
	}
	defer v.stage("run", v.e.clock.Now())
	a := attempt{evaluation: v, core: v.core}
	results := make([]RunResult, len(inputs))
	for i, input := range inputs {
		v.progress(Progress{Phase: PhaseRunning, TestsDone: i, TestsTotal: len(inputs)})
		if err := a.runInput(ctx, input, &results[i]); err != nil {
			return nil, onInput(err, i)
		}
	}
	v.progress(Progress{Phase: PhaseRunning, TestsDone: len(inputs), TestsTotal: len(inputs)})
	return results, nil
}

func onInput(err error, i int) error { return onTest(err, "input "+strconv.Itoa(i+1)) }

// runInput runs the program once and keeps what it writes.
func (a *attempt) runInput(ctx context.Context, input []byte, out *RunResult) error {
	stdin, err := inputFile(a.dir, input)
	if err != nil {
		return asFault(ctx, err, "write input")
	}
	defer func() { _ = stdin.Close() }()
	stdout, stderr := &keeper{limit: a.task.Limits.OutputBytes}, &keeper{limit: runStderrBytes}
	spec := a.spec(nil, a.task.Limits.CPU)
	spec.Stdin, spec.Stdout, spec.Stderr = stdin, stdout, stderr
	res, err := a.start(ctx, spec)
	if err != nil {
		f, ok := checker.NotStarted(err)
		if !ok || !a.ownFault() {
			return err
		}
		*out = RunResult{
			Ended: verdict.ReasonExit, ExitCode: exitNotStarted,
			Message: "the kernel refuses to start the program: " + f.Err.Error(),
		}
		return nil
	}
	v, reason := verdict.OfRun(a.facts(res))
	switch {
	case v == verdict.SE:
		return faultf(BlameHost, nil, "run ended by the limit %q, which this engine does not know", res.Fired)
	case v == verdict.AC:
		reason = verdict.ReasonExit
	}
	*out = RunResult{
		Ended: reason, ExitCode: res.ExitCode, Signal: res.Signal, CPU: res.CPU, Wall: res.Wall, MemoryBytes: res.MemoryBytes,
		Stdout: stdout.bytes(), StdoutCut: stdout.cut || res.StdoutBytes > stdout.limit,
		Stderr: stderr.bytes(), StderrCut: stderr.cut || res.StderrBytes > stderr.limit,
	}
	return nil
}

// inputFile is a file without a name that holds input, open at its start and
// read-only, as a box wants it.
func inputFile(dir string, input []byte) (*os.File, error) {
	f, err := newOutput(dir)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	if _, err := f.Write(input); err != nil {
		return nil, err
	}
	return reopen(f)
}

// keeper keeps the beginning of what is written to it.
type keeper struct {
	limit int64
	buf   bytes.Buffer
	cut   bool
}

func (k *keeper) Write(p []byte) (int, error) {
	room := k.limit - int64(k.buf.Len())
	if int64(len(p)) > room {
		k.cut = true
		k.buf.Write(p[:room])
		return len(p), nil
	}
	return k.buf.Write(p)
}

func (k *keeper) bytes() []byte { return k.buf.Bytes() }

// checkRun refuses what cannot be run anywhere here.
func (e *Engine) checkRun(id string, l Limits) (*language.Language, error) {
	lang, ok := e.cfg.Languages.Get(id)
	if !ok {
		return nil, faultf(BlameToolchain, nil, "language %q is not known to this worker", id)
	}
	for _, limit := range []struct {
		name  string
		value int64
	}{
		{"CPU", int64(l.CPU)},
		{"wall", int64(l.Wall)},
		{"memory", l.MemoryBytes},
		{"output", l.OutputBytes},
		{"processes", int64(l.Processes)},
	} {
		if limit.value <= 0 {
			return nil, faultf(BlamePackage, nil, "effective %s limit is %d; a run without a limit is refused", limit.name, limit.value)
		}
	}
	if _, err := language.Wall(l.CPU, l.Wall); err != nil {
		return nil, faultf(BlamePackage, err, "effective limits contradict each other")
	}
	if l.MemoryBytes > e.memory.total {
		return nil, tooMuchMemory(l.MemoryBytes, e.memory.total)
	}
	return lang, nil
}
