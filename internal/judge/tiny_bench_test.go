package judge_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// BenchmarkHundredTinyTests is what a test adds to a submission when its
// program does nothing to speak of: the program alone, started a hundred times
// one after the other with files as its input and output, and its tests judged
// on one core, and on all.
func BenchmarkHundredTinyTests(b *testing.B) {
	const tests = 100
	const source = "#include <stdio.h>\nint main(void){puts(\"1\");}\n"
	perTest := func(b *testing.B, took time.Duration) {
		b.ReportMetric(float64(took.Nanoseconds())/1000/tests/float64(b.N), "µs/test")
	}
	b.Run("base=program-alone", func(b *testing.B) {
		dir := b.TempDir()
		program, src := filepath.Join(dir, "p"), filepath.Join(dir, "p.c")
		if err := os.WriteFile(src, []byte(source), 0o600); err != nil {
			b.Fatal(err)
		}
		if out, err := exec.CommandContext(b.Context(), "gcc", "-O2", "-o", program, src).CombinedOutput(); err != nil {
			b.Fatalf("%v\n%s", err, out)
		}
		var took time.Duration
		for b.Loop() {
			from := time.Now()
			for range tests {
				if err := runAlone(program, src, filepath.Join(dir, "out")); err != nil {
					b.Fatal(err)
				}
			}
			took += time.Since(from)
		}
		perTest(b, took)
	})
	for _, bench := range []struct {
		name string
		cpus []sandbox.CPU
	}{{"one-core", realCPUs(b)[:1]}, {"all-cores", realCPUs(b)}} {
		b.Run(bench.name, func(b *testing.B) {
			e := newEngineWith(b, judge.Config{Provider: realProvider(b), Slots: 1, CPUs: bench.cpus})
			pkg := newPackage(b, slices.Repeat([]string{"", "1"}, tests)...)
			task := newTask(pkg, "c", source)
			if _, err := e.Judge(b.Context(), task, quiet); err != nil { // warms boxes and version
				b.Fatal(err)
			}
			var took time.Duration
			for b.Loop() {
				r, err := e.Judge(b.Context(), task, quiet)
				if err != nil || r.Verdict != verdict.AC {
					b.Fatal(r, err)
				}
				took += r.Stages["run"] + r.Stages["check"]
			}
			perTest(b, took)
		})
	}
}

// runAlone runs a program with files as input and output.
func runAlone(program, input, output string) error {
	in, err := os.Open(input)
	if err != nil {
		return err
	}
	defer in.Close()
	out, err := os.Create(output)
	if err != nil {
		return err
	}
	defer out.Close()
	p, err := os.StartProcess(program, []string{program}, &os.ProcAttr{Files: []*os.File{in, out, nil}})
	if err != nil {
		return err
	}
	_, err = p.Wait()
	return err
}
