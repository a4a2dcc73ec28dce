package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// VerifyStep is one look at a package before it is published.
type VerifyStep string

// The steps.
const (
	VerifyChecker    VerifyStep = "checker"    // build it, and have it judge the answers
	VerifyValidator  VerifyStep = "validator"  // build an input validator, and have it look at the inputs
	VerifyRefusal    VerifyStep = "refusal"    // build all input validators, and have them refuse the inputs that are not valid
	VerifySubmission VerifyStep = "submission" // judge a submission that the package declares
)

// VerifyTask is a step to do.
type VerifyTask struct {
	Package *problem.Package
	Step    VerifyStep
	Path    string // of the validator or the submission, in the package
	// Language and Limits are a submission's.
	Language string
	Limits   Limits
}

// VerifyReport is the outcome of a step that could be carried out.
type VerifyReport struct {
	// Verdict and Judged are set for a submission that could be judged; it has
	// one finding.
	Verdict  verdict.Verdict
	Judged   *Report
	Findings []Finding // at least one
}

// Finding is one thing that was looked at.
type Finding struct {
	Step   string // build, answers, outputs, empty output, inputs, invalid inputs or submission
	What   string // path in the package, or name of a test
	Failed bool
	Detail string // valid UTF-8
	Took   time.Duration
}

// Verifier verifies packages. Implemented by *Engine.
//
// Verify behaves as Judge does: its error is a *Fault or ctx's cause, every
// process is gone when it returns, and it shares the slots with Judge. What is
// wrong with the package is a finding, never an error.
type Verifier interface {
	Verify(ctx context.Context, task VerifyTask, progress func(Progress)) (*VerifyReport, error)
}

var _ Verifier = (*Engine)(nil)

// maxFailedTests bounds the tests of one step that a report names.
const maxFailedTests = 20

// maxFailingTime bounds what tests that fail may take in one step: a program that
// hangs does so in each of hundreds of tests, and a worker waits for all of them.
const maxFailingTime = 30 * time.Second

// Verify implements Verifier.
func (e *Engine) Verify(ctx context.Context, task VerifyTask, progress func(Progress)) (*VerifyReport, error) {
	if err := task.Package.Check(); err != nil {
		return nil, faultf(BlameHost, err, "package on disk is not complete")
	}
	if task.Step == VerifySubmission {
		return e.verifySubmission(ctx, task, progress)
	}
	ctx, core, end, err := e.begin(ctx, placeKept)
	if err != nil {
		return nil, err
	}
	defer end()
	v, done, err := e.evaluation(ctx, &Task{Package: task.Package}, core, nil, progress)
	if err != nil {
		return nil, err
	}
	defer done()
	var look func(context.Context, *VerifyReport) error
	switch task.Step {
	case VerifyChecker:
		look = v.lookAtAnswers
	case VerifyValidator:
		look = func(ctx context.Context, r *VerifyReport) error { return v.lookAtInputs(ctx, task.Path, r) }
	case VerifyRefusal:
		look = v.lookAtRefusals
	case VerifySubmission: // above
	}
	if look == nil {
		return nil, faultf(BlameHost, nil, "this worker does not know the step %q", task.Step)
	}
	rep := &VerifyReport{}
	if err := look(ctx, rep); err != nil {
		return nil, asFault(ctx, err, "verify")
	}
	return rep, nil
}

// add notes a finding that began at from.
func (v *evaluation) add(r *VerifyReport, from time.Time, f Finding) {
	f.Took = v.e.clock.Now().Sub(from)
	r.Findings = append(r.Findings, f)
}

// ofPackage returns what a fault says of the package, and whether it is the
// package's.
func ofPackage(err error) (string, bool) {
	var f *Fault
	if !errors.As(err, &f) || f.Blame != BlameChecker && f.Blame != BlamePackage {
		return "", false
	}
	return strings.TrimPrefix(f.Error(), string(f.Blame)+": "), true
}

// lookAtAnswers has the checker built, and asked about each answer as if it
// were an output, and about outputs that are empty.
func (v *evaluation) lookAtAnswers(ctx context.Context, r *VerifyReport) error {
	m := &v.task.Package.Manifest
	v.progress(Progress{Phase: PhaseCompiling, TestsTotal: len(m.Tests)})
	from := v.e.clock.Now()
	build := Finding{Step: "build", What: "default output validator"}
	if m.Checker.Kind != problem.CheckerTokens {
		build.What = m.Checker.Program
	}
	release, err := v.prepareChecker(ctx)
	if why, ok := ofPackage(err); ok {
		build.Failed, build.Detail = true, why
		v.add(r, from, build)
		return nil
	}
	if err != nil {
		return err
	}
	defer release()
	build.Detail = v.report.CheckerToolchain
	v.add(r, from, build)
	if m.Checker.Kind == problem.CheckerInteractor {
		return nil // its answers are no outputs, and it judges nobody who does not talk
	}

	err = v.eachTest(ctx, r, "answers", "each is accepted as an output", func(ctx context.Context, _ int, t *problem.Test) (string, error) {
		answer, err := os.Open(v.task.Package.Path(t.Answer))
		if err != nil {
			return "", packageFault(err, t.Answer)
		}
		defer func() { _ = answer.Close() }()
		result, err := v.ask(ctx, t, answer)
		if err != nil || result.Accepted {
			return "", err
		}
		return withMessage("its own answer is not accepted as an output", result.Message), nil
	})
	if err == nil {
		err = v.lookAtOutputs(ctx, r)
	}
	if err != nil || m.Checker.Kind != problem.CheckerProgram {
		return err
	}
	// What a program that writes nothing gets is the checker's to say, but it has to say something.
	return v.eachTest(ctx, r, "empty output", "the checker judges that of the first and of the last", func(ctx context.Context, i int, t *problem.Test) (string, error) {
		if i != 0 && i != len(m.Tests)-1 {
			return "", nil
		}
		empty, err := newOutput(v.dir)
		if err != nil {
			return "", asFault(ctx, err, "make an empty file")
		}
		defer func() { _ = empty.Close() }()
		_, err = v.ask(ctx, t, empty)
		return "", err
	})
}

// ask has an output judged, as that of a submission would be.
func (v *evaluation) ask(ctx context.Context, t *problem.Test, output *os.File) (checker.Result, error) {
	a := attempt{evaluation: v, core: v.core}
	if v.custom != nil {
		return a.check(ctx, nil, t, output)
	}
	options := v.task.Package.Manifest.Checker.Tokens
	if t.Tokens != nil {
		options = *t.Tokens
	}
	tokens, err := checker.NewTokens(options)
	if err != nil {
		return checker.Result{}, faultf(BlamePackage, err, "checker's options of test %s", t.Name)
	}
	return a.check(ctx, tokens, t, output)
}

// lookAtInputs has an input validator built and asked about each input.
func (v *evaluation) lookAtInputs(ctx context.Context, path string, r *VerifyReport) error {
	m := &v.task.Package.Manifest
	v.progress(Progress{Phase: PhaseCompiling, TestsTotal: len(m.Tests)})
	n := slices.IndexFunc(m.InputValidators, func(p problem.Program) bool { return p.Path == path })
	if n < 0 {
		return faultf(BlameHost, nil, "the package has no input validator %q", path)
	}
	built, err := v.buildValidator(ctx, n, r)
	if built == nil || err != nil {
		return err
	}
	refused := func(ctx context.Context, _ int, t *problem.Test) (string, error) {
		result, err := v.validate(ctx, built, t)
		if err != nil || result.Accepted {
			return "", err
		}
		return "by " + path + ": " + result.Message, nil
	}
	if err := v.eachTest(ctx, r, "inputs", "each is valid by "+path, refused); err != nil {
		return err
	}
	outputs := v.trials(problem.TrialInvalidOutput, problem.TrialValidOutput)
	if len(outputs) == 0 {
		return nil
	}
	return v.each(ctx, r, look{"inputs", "inputs of outputs to try", "each is valid by " + path}, outputs, refused)
}

// buildValidator builds the n-th input validator; nil when it cannot be, which
// is then a finding.
func (v *evaluation) buildValidator(ctx context.Context, n int, r *VerifyReport) (*builtChecker, error) {
	p := v.task.Package.Manifest.InputValidators[n]
	dir := filepath.Join(v.dir, "validator"+strconv.Itoa(n))
	if err := makeDir(dir); err != nil {
		return nil, asFault(ctx, err, "make directory for validator")
	}
	from := v.e.clock.Now()
	build := Finding{Step: "build", What: p.Path}
	built, err := v.e.buildPackaged(ctx, v.core.compile, v.task.Package, packaged{what: "input validator", path: p.Path, language: p.Language}, dir)
	if why, ok := ofPackage(err); ok {
		build.Failed, build.Detail = true, why
		v.add(r, from, build)
		return nil, nil //nolint:nilnil // as promised
	}
	if err != nil {
		return nil, err
	}
	build.Detail = built.toolchain
	v.add(r, from, build)
	return built, nil
}

// validate asks an input validator about a test's input.
func (v *evaluation) validate(ctx context.Context, validator *builtChecker, t *problem.Test) (checker.Result, error) {
	input, err := os.Open(v.task.Package.Path(t.Input))
	if err != nil {
		return checker.Result{}, packageFault(err, t.Input)
	}
	defer func() { _ = input.Close() }()
	result, err := validator.program.Validate(ctx, v.core.check, input, t.InputArgs)
	return result, asFault(ctx, err, "run input validator")
}

// look is what each says of the things that it goes through.
type look struct {
	step   string
	things string // how many of what
	fine   string // when nothing is wrong
}

// eachTest asks about every test.
func (v *evaluation) eachTest(ctx context.Context, r *VerifyReport, step, fine string,
	ask func(ctx context.Context, i int, t *problem.Test) (wrong string, err error),
) error {
	tests := make([]*problem.Test, len(v.task.Package.Manifest.Tests))
	for i := range tests {
		tests[i] = &v.task.Package.Manifest.Tests[i]
	}
	return v.each(ctx, r, look{step, "tests", fine}, tests, ask)
}

// each asks about each of some tests. Those that something is wrong with are
// named one by one; when nothing is, one finding says how many there are.
func (v *evaluation) each(ctx context.Context, r *VerifyReport, l look, tests []*problem.Test,
	ask func(ctx context.Context, i int, t *problem.Test) (wrong string, err error),
) error {
	began := v.e.clock.Now()
	failed, failing := 0, time.Duration(0)
	for i, t := range tests {
		v.progress(Progress{Phase: PhaseRunning, TestsDone: i, TestsTotal: len(tests)})
		from := v.e.clock.Now()
		wrong, err := ask(ctx, i, t)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		if why, ok := ofPackage(err); ok {
			wrong = why
		} else if err != nil {
			return onTest(err, t.Name)
		}
		if wrong == "" {
			continue
		}
		if failed++; failed <= maxFailedTests {
			v.add(r, from, Finding{Step: l.step, What: t.Name, Failed: true, Detail: wrong})
		}
		failing += v.e.clock.Now().Sub(from)
		if left := len(tests) - i - 1; left > 0 && failing > maxFailingTime {
			v.add(r, began, Finding{
				Step: l.step, What: fmt.Sprintf("%d %s", left, l.things), Failed: true,
				Detail: fmt.Sprintf("not looked at: the %d that failed took %s", failed, failing.Round(time.Second)),
			})
			return nil
		}
	}
	all := fmt.Sprintf("%d %s", len(tests), l.things)
	switch {
	case failed > maxFailedTests:
		v.add(r, began, Finding{Step: l.step, What: all, Failed: true, Detail: fmt.Sprintf("and %d more", failed-maxFailedTests)})
	case failed == 0:
		v.add(r, began, Finding{Step: l.step, What: all, Detail: l.fine})
	}
	return nil
}

func withMessage(text, message string) string {
	if message = strings.TrimSpace(message); message != "" {
		return text + ": " + message
	}
	return text
}

// verifySubmission judges a submission of the package as any other.
func (e *Engine) verifySubmission(ctx context.Context, task VerifyTask, progress func(Progress)) (*VerifyReport, error) {
	from := e.clock.Now()
	rep := &VerifyReport{Findings: []Finding{{Step: "submission", What: task.Path}}}
	f := &rep.Findings[0]
	defer func() { f.Took = e.clock.Now().Sub(from) }()
	source, err := os.ReadFile(task.Package.Path(task.Path))
	if err != nil {
		return nil, faultf(BlameHost, err, "read a submission of the package")
	}
	judged, err := e.Judge(ctx, Task{
		Source: source, SourceName: filepath.Base(task.Path), Language: task.Language, Package: task.Package, Limits: task.Limits, Stop: StopFirst,
	}, progress)
	if why, ok := ofPackage(err); ok {
		f.Failed, f.Detail = true, why
		return rep, nil
	}
	if err != nil {
		return nil, err
	}
	rep.Verdict, rep.Judged = judged.Verdict, judged
	f.Detail = summary(judged, task.Limits)
	return rep, nil
}

// summary says in a line how a judging came to its verdict.
func summary(r *Report, l Limits) string {
	if r.Verdict == verdict.CE {
		first := ""
		for line := range strings.Lines(r.Compile.Log) {
			if line = strings.TrimSpace(line); strings.Contains(strings.ToLower(line), "error") {
				return line
			} else if first == "" {
				first = line
			}
		}
		return first
	}
	var slowest time.Duration
	for _, t := range r.Tests {
		slowest = max(slowest, t.CPU)
	}
	used := fmt.Sprintf("%d of %d ms CPU", slowest.Milliseconds(), l.CPU.Milliseconds())
	for _, t := range r.Tests {
		if t.Verdict != verdict.AC && t.Verdict != verdict.Skipped {
			return withMessage(fmt.Sprintf("%s, on test %s", used, t.Name), t.Message)
		}
	}
	return fmt.Sprintf("%s, %d tests", used, len(r.Tests))
}
