package judge

import (
	"context"
	"os"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// Judge implements the interface of that name.
func (e *Engine) Judge(ctx context.Context, task Task, progress func(Progress)) (*Report, error) {
	ctx, core, end, err := e.begin(ctx, task.place)
	if err != nil {
		return nil, err
	}
	defer end()

	lang, err := e.check(&task)
	if err != nil {
		return nil, err
	}
	v, done, err := e.evaluation(ctx, &task, core, lang, progress)
	if err != nil {
		return nil, err
	}
	defer done()
	if err := v.run(ctx); err != nil {
		return nil, asFault(ctx, err, "judge")
	}
	return v.report, nil
}

// evaluation begins one in a directory of its own, which done removes.
func (e *Engine) evaluation(ctx context.Context, task *Task, own *core, lang *language.Language, progress func(Progress)) (v *evaluation, done func(), err error) {
	dir, err := e.scratch.newTask()
	if err != nil {
		return nil, nil, asFault(ctx, err, "make task directory")
	}
	v = &evaluation{
		e: e, core: own, task: task, lang: lang, dir: dir, progress: progress,
		report: &Report{Stages: make(map[string]time.Duration)},
	}
	return v, func() {
		if err := os.RemoveAll(dir); err != nil {
			e.log.Warn("remove task directory", "dir", dir, "err", err)
		}
	}, nil
}

// check refuses tasks that can not be carried out.
func (e *Engine) check(task *Task) (*language.Language, error) {
	pkg := task.Package
	if pkg == nil || len(pkg.Manifest.Tests) == 0 {
		return nil, faultf(BlamePackage, nil, "package has no tests: nothing can be accepted by it")
	}
	lang, err := e.checkRun(task.Language, task.Limits)
	if err != nil {
		return nil, err
	}
	if task.Stop != StopFirst && task.Stop != StopAll {
		return nil, faultf(BlamePackage, nil, "unknown stop rule %q", task.Stop)
	}
	if err := pkg.Check(); err != nil {
		return nil, faultf(BlamePackage, err, "package on disk is not complete")
	}
	return lang, nil
}

// evaluation is one task on its way.
type evaluation struct {
	e        *Engine
	core     *core
	task     *Task
	lang     *language.Language
	dir      string
	progress func(Progress)
	report   *Report

	program sandbox.Mount     // the contestant's
	mounts  []sandbox.Mount   // it, and what its runtime needs
	argv    []string          // and how to run it
	tokens  []*checker.Tokens // by test, when the comparator decides
	custom  *builtChecker     // else
}

// stage adds the time since from to a stage of the report.
func (v *evaluation) stage(name string, from time.Time) {
	v.report.Stages[name] += v.e.clock.Now().Sub(from)
}

func (v *evaluation) run(ctx context.Context) error {
	tests := v.task.Package.Manifest.Tests
	v.progress(Progress{Phase: PhaseCompiling, TestsTotal: len(tests)})
	if err := v.compile(ctx); err != nil {
		return err
	}
	if !v.report.Compile.OK {
		v.report.Verdict = verdict.CE
		return nil
	}
	release, err := v.prepareChecker(ctx)
	if err != nil {
		return err
	}
	defer release()

	if err := v.runTests(ctx); err != nil {
		return err
	}
	verdicts := make([]verdict.Verdict, len(tests))
	for i, t := range v.report.Tests {
		verdicts[i] = t.Verdict
	}
	v.report.Verdict = verdict.OfSubmission(verdicts)
	if !v.report.Verdict.Final() {
		return faultf(BlameHost, nil, "tests ended in the verdict %s", v.report.Verdict)
	}
	return nil
}

// compile compiles the source and decides what is mounted in the run box.
func (v *evaluation) compile(ctx context.Context) (err error) {
	defer v.stage("compile", v.e.clock.Now())
	tools, err := v.e.toolchain(ctx, v.core.compile, v.lang, v.task.place)
	if err != nil {
		return err
	}
	v.report.Toolchain = tools.version
	src, err := v.layOut()
	if err != nil {
		return asFault(ctx, err, "write source")
	}
	compile := v.e.compileSource
	if v.task.fresh {
		compile = v.e.buildSource
	}
	b, err := compile(ctx, v.core.compile, v.lang, v.lang.CompileLimits(v.task.Package.Manifest.Limits),
		src.files, append([]sandbox.Mount{src.at(sandbox.SourceDir)}, tools.compile...), src.compiled(v.lang), v.dir)
	if err != nil {
		return err
	}
	if b.suspect && !v.task.fresh { // a self-test's failure speaks for itself
		if err := v.e.recheck(ctx, v.core.compile, v.lang, tools); err != nil {
			return err
		}
	}
	v.report.Compile = b.compile
	name := v.lang.ProgramName()
	v.program = sandbox.Mount{Host: b.program, Box: sandbox.ProgramDir + "/" + name}
	if v.lang.Interpreted() {
		name, v.program = src.files[0].name, src.at(sandbox.ProgramDir)
	}
	v.mounts = append([]sandbox.Mount{v.program}, tools.run...)
	v.argv = v.lang.RunArgv(name, v.task.Limits.MemoryBytes)
	return nil
}

// prepareChecker readies what decides about outputs.
func (v *evaluation) prepareChecker(ctx context.Context) (release func(), err error) {
	defer v.stage("prepare", v.e.clock.Now())
	pkg := v.task.Package
	c := pkg.Manifest.Checker
	switch c.Kind {
	case problem.CheckerTokens:
		return func() {}, v.prepareTokens(c)
	case problem.CheckerProgram, problem.CheckerInteractor:
		from := v.e.clock.Now()
		v.custom, release, err = v.e.checkerFor(ctx, v.core.compile, pkg)
		v.stage("checker_build", from)
		if err != nil {
			return nil, err
		}
		v.report.CheckerToolchain = v.custom.toolchain
		return release, nil
	}
	return nil, faultf(BlamePackage, nil, "unknown kind of checker %q", c.Kind)
}

func (v *evaluation) prepareTokens(c problem.Checker) error {
	common, err := checker.NewTokens(c.Tokens)
	if err != nil {
		return faultf(BlamePackage, err, "checker's options")
	}
	tests := v.task.Package.Manifest.Tests
	v.tokens = make([]*checker.Tokens, len(tests))
	for i, t := range tests {
		v.tokens[i] = common
		if t.Tokens == nil {
			continue
		}
		if v.tokens[i], err = checker.NewTokens(*t.Tokens); err != nil {
			return faultf(BlamePackage, err, "checker's options of test %s", t.Name)
		}
	}
	return nil
}
