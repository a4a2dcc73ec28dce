package judge_test

import (
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// BenchmarkTalk is what a line to an interactor and its answer take, of 2000 in
// one run: four pipes, two programs on one core and the worker in between.
func BenchmarkTalk(b *testing.B) {
	const rounds = 2000
	const interactor = `#include <stdio.h>
int main(void) { char s[9]; while (fgets(s, sizeof s, stdin)) { fputs(s, stdout); fflush(stdout); } return 42; }
`
	const program = `#include <stdio.h>
int main(void) { char s[9]; for (int i = 0; i < 2000; i++) { puts("x"); fflush(stdout); if (!fgets(s, sizeof s, stdin)) return 1; } }
`
	e := newEngineWith(b, judge.Config{Provider: realProvider(b), Slots: 1, CPUs: realCPUs(b)[:1]})
	pkg := writePackage(b, files{"v/talk.c": interactor, "data/1.in": "", "data/1.ans": ""},
		[]problem.Test{{Name: "1", Input: "data/1.in", Answer: "data/1.ans"}},
		problem.Checker{Kind: problem.CheckerInteractor, Program: "v", Language: "c"})
	var took time.Duration
	for b.Loop() {
		r, err := e.Judge(b.Context(), newTask(pkg, "c", program), quiet)
		if err != nil || r.Verdict != verdict.AC {
			b.Fatal(r, err)
		}
		took += r.Tests[0].Wall
	}
	b.ReportMetric(float64(took.Microseconds())/rounds/float64(b.N), "µs/round-trip")
}
