package worker

import (
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/problem"
)

// What wallBound allows for each run besides its limits, and how often the
// engine may run a test (a TLE near the limit is repeated twice).
const (
	perRunOverhead   = 2 * time.Second
	comparatorWall   = 5 * time.Second
	maxRunsPerTest   = 3
	checkerBuildRuns = 1
	scriptBuildWall  = 3 * time.Minute // of a program that the package builds itself
)

// wallBound is the longest that an honest judging can take: every limit of
// every step reached, one after the other. A run past it hangs, and its
// heartbeats must not make it look alive. It is far above what judgings take;
// it only has to be finite and never too small.
func wallBound(l gavelapi.Limits, m problem.Manifest, compileWall, slack time.Duration) time.Duration {
	compile := compileWall
	if pkg := 2*time.Duration(m.Limits.CompileCPUMS)*time.Millisecond + time.Second; m.Limits.CompileCPUMS > 0 {
		compile = max(compile, pkg)
	}
	test := maxRunsPerTest * (time.Duration(l.WallUS)*time.Microsecond + perRunOverhead)
	bound := slack + compile + perRunOverhead
	check := comparatorWall
	if m.Checker.Kind != problem.CheckerTokens {
		bound += checkerBuildRuns * (compile + perRunOverhead)
		// An interactor's time begins with the run's, and may end so much after it.
		check = checker.WallOf(time.Duration(m.Limits.ValidationCPUMS)*time.Millisecond) + perRunOverhead
	}
	return bound + time.Duration(len(m.Tests))*(test+maxRunsPerTest*check)
}

// runBound is wallBound for a run on so many inputs.
func runBound(l gavelapi.Limits, inputs int, compileWall, slack time.Duration) time.Duration {
	return slack + compileWall + perRunOverhead + time.Duration(inputs)*(time.Duration(l.WallUS)*time.Microsecond+perRunOverhead)
}

// lookBound is wallBound for a step of preparing that builds programs of the
// package and runs each on every test and trial, twice for the outputs that are
// empty.
func lookBound(m problem.Manifest, compileWall, slack time.Duration) time.Duration {
	build := max(compileWall, scriptBuildWall) + perRunOverhead
	check := 3*time.Duration(m.Limits.ValidationCPUMS)*time.Millisecond + perRunOverhead
	programs := max(1, len(m.InputValidators)) // the step that tries what is to be refused has all of them
	runs := programs * (2*len(m.Tests) + len(m.Trials))
	return slack + time.Duration(programs)*build + time.Duration(runs)*max(check, comparatorWall)
}
