// Package judge turns a source and a problem package into a verdict: compile
// once in a box, run each test in a box, check each output, decide. It knows
// sandboxes only through the sandbox interfaces and nothing of leases, HTTP or
// databases, so the worker and an offline command use the same engine.
package judge

import (
	"context"
	"fmt"
	"io"
	"time"

	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// StopRule says how far to go after a failing test.
type StopRule string

// The stop rules.
const (
	StopFirst StopRule = "first" // the rest is skipped
	StopAll   StopRule = "all"
)

// Limits are the effective limits of each test run.
type Limits struct {
	CPU         time.Duration
	Wall        time.Duration
	MemoryBytes int64
	OutputBytes int64
	Processes   int
}

// Task is one evaluation to do.
type Task struct {
	Source     []byte
	SourceName string // for messages only, unless there are More files: then Source's name in the boxes
	// More are further files of the source: other units, headers, modules.
	// language.Files says what names they may have.
	More     []SourceFile
	Language string // language id
	Package  *problem.Package
	Limits   Limits
	Stop     StopRule
	fresh    bool  // the compiler itself is asked, never the cache
	place    place // how it holds its place among the evaluations
	// Wrong, when set, gets the output of each test that is WA, open at its
	// start and only until it returns. It is called for several tests at once,
	// and also for some that are then skipped because an earlier one failed.
	Wrong func(test int, output io.ReadSeeker)
}

// SourceFile is one file of a source.
type SourceFile struct {
	Name string // without directories
	Text []byte
}

// Phase is a stage of an evaluation.
type Phase string

// The phases.
const (
	PhaseCompiling Phase = "compiling"
	PhaseRunning   Phase = "running"
)

// Progress is how far an evaluation is.
type Progress struct {
	Phase      Phase
	TestsDone  int
	TestsTotal int
}

// Report is the outcome of an evaluation that could be carried out.
type Report struct {
	Verdict   verdict.Verdict
	Compile   Compile
	Tests     []Test // one per test of the package, in its order; empty on CE
	Toolchain string // version of the compiler or interpreter
	// CheckerToolchain is set when the package brought its own checker.
	CheckerToolchain string
	// Stages says where the wall time went: "compile", "checker_build",
	// "run", "check", "prepare".
	Stages map[string]time.Duration
}

// Compile says how compiling went.
type Compile struct {
	OK     bool
	Log    string // valid UTF-8, cut at a limit
	LogCut bool
	Fired  sandbox.Limit // which limit stopped the compiler, if one did
	// CPU and Wall are those of the compiler's run that made the program, also
	// when that was an earlier one; Stages has the time of this evaluation.
	CPU  time.Duration
	Wall time.Duration
	// Cached says that an earlier compile of the same source was used.
	Cached bool
	// Precompiled says that the compiler used a header compiled ahead. Header is
	// why not, where the source could have: "being_made", "failed" to be made, or
	// "redone", because what came of it was not clean.
	Precompiled bool
	Header      string
}

// Test is one test's outcome.
type Test struct {
	Name        string
	Sample      bool
	Verdict     verdict.Verdict // verdict.Skipped when not run
	Reason      verdict.Reason
	CPU         time.Duration
	Wall        time.Duration
	MemoryBytes int64
	OutputBytes int64
	ExitCode    int
	Signal      int
	Message     string // from the checker, cut, valid UTF-8
	// Wrote is set for the first WroteTests tests that are not AC and wrote
	// something.
	Wrote *Wrote
	// Attempts are all runs of the test, in their order, when there was more
	// than one; the fields above are those of the one that counts.
	Attempts []Attempt
}

// Attempt is what one of several runs of a test took.
type Attempt struct {
	CPU  time.Duration
	Wall time.Duration
}

// Blame says which part of the system a Fault comes from.
type Blame string

// The blames.
const (
	BlameHost      Blame = "host"
	BlameToolchain Blame = "toolchain"
	BlamePackage   Blame = "package"
	BlameChecker   Blame = "checker"
)

// Fault is a failure of the system. Judge returns it as its error; it never
// becomes a verdict on the user.
type Fault struct {
	Blame   Blame
	Message string
	Err     error
}

func (f *Fault) Error() string {
	if f.Err != nil {
		return fmt.Sprintf("%s: %s: %v", f.Blame, f.Message, f.Err)
	}
	return fmt.Sprintf("%s: %s", f.Blame, f.Message)
}

func (f *Fault) Unwrap() error { return f.Err }

// Judge is what the worker needs of an engine. Implemented by *Engine.
//
// Judge evaluates task and calls progress (never nil, must not block, never
// called twice at once) as it goes. It returns a *Fault when the system failed, and ctx's cause when ctx
// ended first; every process is gone when it returns. It is safe for
// concurrent use up to the number of slots the engine was made with.
type Judge interface {
	Judge(ctx context.Context, task Task, progress func(Progress)) (*Report, error)
}
