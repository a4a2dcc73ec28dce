package judge_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// What was written until a limit, a crash or the end is kept of a test that
// failed, whichever way it failed.
func TestWhatFailedTestsWroteIsKept(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := newPackage(t, "", "1")
	const c = "#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <unistd.h>\nint main(void){fputs(\"why\",stderr);puts(\"begun\");fflush(stdout);"
	flood := strings.Repeat("0123456789abcde\n", judge.WroteBytes/16)
	for _, tt := range []struct {
		name, source string
		want         verdict.Verdict
		out, err     string
		outCut       bool
	}{
		{"TLE by CPU", c + "for(;;);}", verdict.TLE, "begun\n", "why", false},
		{"TLE by wall", c + "for(;;)pause();}", verdict.TLE, "begun\n", "why", false},
		{"MLE", c + "for(;;)memset(malloc(1<<20),1,1<<20);}", verdict.MLE, "begun\n", "why", false},
		{"RE", c + "return 3;}", verdict.RE, "begun\n", "why", false},
		{"WA", c + "}", verdict.WA, "begun\n", "why", false},
		{"OLE", "#include <stdio.h>\nint main(void){for(;;)puts(\"0123456789abcde\");}", verdict.OLE, flood, "", true},
		{"every byte", "#include <stdio.h>\nint main(void){for(int i=0;i<256;i++)putchar(i);}", verdict.WA, string(every()), "", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			task := newTask(pkg, "c", tt.source)
			if tt.name == "TLE by wall" {
				task.Limits.Wall = time.Second
			}
			r, err := e.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Tests[0]
			if got.Verdict != tt.want || got.Wrote == nil {
				t.Fatalf("%s: %+v", r.Compile.Log, got)
			}
			if w := got.Wrote; string(w.Stdout) != tt.out || w.StdoutCut != tt.outCut || string(w.Stderr) != tt.err || w.StderrCut {
				t.Errorf("%q, %q, cut %v %v", w.Stdout, w.Stderr, w.StdoutCut, w.StderrCut)
			}
		})
	}
}

func every() []byte {
	b := make([]byte, 256)
	for i := range b {
		b[i] = byte(i)
	}
	return b
}

// However many tests fail and however much they write, the report holds as much
// as it may; what was right, or wrote nothing, is not in it.
func TestWhatIsKeptOfFailedTestsIsBounded(t *testing.T) {
	e := newEngine(t, realProvider(t), 2)
	const fails = judge.WroteTests + 3
	lines := []string{"1", "1", "", "1"} // the first is right, the second says nothing
	for range fails {
		lines = append(lines, "0", "1")
	}
	task := newTask(newPackage(t, lines...), "python3",
		"import sys\nx = sys.stdin.read().strip()\nif x == '1': print(1)\nif x == '0': sys.stderr.write('e' * 100000); print('x' * 100000)\n")
	task.Stop = judge.StopAll
	r, err := e.Judge(t.Context(), task, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range r.Tests {
		kept := i >= 2 && i < 2+judge.WroteTests
		switch {
		case kept != (got.Wrote != nil):
			t.Errorf("test %d: %+v", i+1, got.Wrote)
		case kept && (!bytes.Equal(got.Wrote.Stdout, bytes.Repeat([]byte("x"), judge.WroteBytes)) || !got.Wrote.StdoutCut ||
			!bytes.Equal(got.Wrote.Stderr, bytes.Repeat([]byte("e"), judge.WroteBytes)) || !got.Wrote.StderrCut):
			t.Errorf("test %d: %d and %d bytes, cut %v %v", i+1, len(got.Wrote.Stdout), len(got.Wrote.Stderr), got.Wrote.StdoutCut, got.Wrote.StderrCut)
		}
	}
}

// The interactor has read what a program of an interactive problem said; its
// error text is kept.
func TestErrorTextOfATalkIsKept(t *testing.T) {
	e := newEngine(t, realProvider(t), 2)
	task := newTask(interactivePackage(t, guess, 700), "python3", "import sys\nsys.stderr.write('lost')\nprint(1, flush=True)\ninput()\nsys.exit(3)")
	r, err := e.Judge(t.Context(), task, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Tests[0]; got.Verdict != verdict.RE || got.Wrote == nil || string(got.Wrote.Stderr) != "lost" || len(got.Wrote.Stdout) > 0 {
		t.Errorf("%+v", got)
	}
}
