package judge_test

import (
	"fmt"
	"testing"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// BenchmarkFirstVerdict is a verdict on a source that nobody sent before, from
// a program that includes everything, with one test and warm boxes:
//
//	base=without-header  compiled from its beginning
//	with-header          with the header compiled ahead
//	same-source-again    from the compile cache
func BenchmarkFirstVerdict(b *testing.B) {
	for _, bench := range []struct {
		name          string
		header, again bool
	}{
		{"base=without-header", false, false},
		{"with-header", true, false},
		{"same-source-again", false, true},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := newEngineWith(b, judge.Config{Provider: realProvider(b), Slots: 1, NoPrecompiledHeaders: !bench.header})
			if err := e.Precompile(b.Context(), "cpp20"); err != nil {
				b.Fatal(err)
			}
			pkg := newPackage(b, "", "Hello World!\n")
			judgeNth := func(n int) *judge.Report {
				r, err := e.Judge(b.Context(), newTask(pkg, "cpp20", fmt.Sprintf("%s// %d\n", bitsHello, n)), quiet)
				if err != nil || r.Verdict != verdict.AC {
					b.Fatal(r, err)
				}
				return r
			}
			judgeNth(0) // warms boxes and version
			n := 0
			var compileUS, cpuUS int64
			for b.Loop() {
				if !bench.again {
					n++
				}
				r := judgeNth(n)
				if r.Compile.Precompiled != bench.header || r.Compile.Cached != bench.again {
					b.Fatalf("%+v", r.Compile)
				}
				compileUS += r.Stages["compile"].Microseconds()
				if !r.Compile.Cached {
					cpuUS += r.Compile.CPU.Microseconds()
				}
			}
			b.ReportMetric(float64(compileUS)/1000/float64(b.N), "compile-ms")
			b.ReportMetric(float64(cpuUS)/1000/float64(b.N), "compiler-cpu-ms") // less at the mercy of what else runs
		})
	}
}
