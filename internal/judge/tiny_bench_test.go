package judge_test

import (
	"slices"
	"testing"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// BenchmarkHundredTinyTests is what a test adds to a submission when its
// program does nothing to speak of: on one core, and on all.
func BenchmarkHundredTinyTests(b *testing.B) {
	const tests = 100
	for name, cpus := range map[string][]sandbox.CPU{"one-core": realCPUs(b)[:1], "all-cores": realCPUs(b)} {
		b.Run(name, func(b *testing.B) {
			e := newEngineWith(b, judge.Config{Provider: realProvider(b), Slots: 1, CPUs: cpus})
			pkg := newPackage(b, slices.Repeat([]string{"", "1"}, tests)...)
			task := newTask(pkg, "c", "#include <stdio.h>\nint main(void){puts(\"1\");}\n")
			if _, err := e.Judge(b.Context(), task, quiet); err != nil { // warms boxes and version
				b.Fatal(err)
			}
			var us float64
			for b.Loop() {
				r, err := e.Judge(b.Context(), task, quiet)
				if err != nil || r.Verdict != verdict.AC {
					b.Fatal(r, err)
				}
				us += float64((r.Stages["run"] + r.Stages["check"]).Microseconds())
			}
			b.ReportMetric(us/tests/float64(b.N), "µs/test")
		})
	}
}
