package judge_test

import (
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// BenchmarkHelloWorld is the engine's part of the way from submit to verdict,
// with warm boxes: one test, and where its time goes in milliseconds.
func BenchmarkHelloWorld(b *testing.B) {
	for _, bench := range []struct{ name, lang, source string }{
		{"c", "c", "#include <stdio.h>\nint main(void){puts(\"Hello World!\");}\n"},
		{"cpp20", "cpp20", "#include <iostream>\nint main(){std::cout<<\"Hello World!\\n\";}\n"},
		{"cpp20-bits", "cpp20", "#include <bits/stdc++.h>\nint main(){std::cout<<\"Hello World!\\n\";}\n"},
		{"python3", "python3", "print('Hello World!')\n"},
	} {
		b.Run(bench.name, func(b *testing.B) {
			e := newEngineWith(b, judge.Config{Provider: realProvider(b), Slots: 1, CompileCacheBytes: -1})
			task := newTask(newPackage(b, "", "Hello World!\n"), bench.lang, bench.source)
			if _, err := e.Judge(b.Context(), task, quiet); err != nil { // warms boxes and version
				b.Fatal(err)
			}
			stages := map[string]time.Duration{}
			for b.Loop() {
				r, err := e.Judge(b.Context(), task, quiet)
				if err != nil || r.Verdict != verdict.AC {
					b.Fatal(r, err)
				}
				for name, d := range r.Stages {
					stages[name] += d
				}
			}
			for _, name := range []string{"compile", "run", "check"} {
				b.ReportMetric(float64(stages[name].Microseconds())/1000/float64(b.N), name+"-ms")
			}
		})
	}
}
