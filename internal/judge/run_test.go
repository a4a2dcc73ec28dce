package judge_test

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

func runTask(lang, source string, inputs ...string) judge.RunTask {
	t := judge.RunTask{Source: []byte(source), Language: lang, Limits: standard}
	for _, in := range inputs {
		t.Inputs = append(t.Inputs, []byte(in))
	}
	return t
}

// TestRunsInRealBoxes holds that what a program writes comes back byte by byte,
// and that how it ended is told.
func TestRunsInRealBoxes(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	every := every()
	huge := strings.Repeat("0123456789abcde\n", 2<<20/16)
	tests := []struct {
		name, lang, source, input string
		ended                     verdict.Reason
		exit, signal              int
		out, err                  string // exactly
	}{
		{"echo in C++", "cpp17", "#include <iostream>\nint main(){std::cout<<std::cin.rdbuf();std::cerr<<\"no newline\";}", "a b\n\n", verdict.ReasonExit, 0, 0, "a b\n\n", "no newline"},
		{"every byte, both ways", "python3", "import sys\nd = sys.stdin.buffer.read()\nsys.stdout.buffer.write(d)\nsys.stderr.buffer.write(d[::-1])", string(every), verdict.ReasonExit, 0, 0, string(every), reversed(every)},
		{"huge input", "python3", "import sys\nd = sys.stdin.buffer.read()\nprint(len(d), d.count(b'e'))", huge, verdict.ReasonExit, 0, 0, "2097152 131072\n", ""},
		{"no input", "python3", "import sys\nprint(repr(sys.stdin.read()))", "", verdict.ReasonExit, 0, 0, "''\n", ""},
		{"exit code", "python3", "print('so far'); raise SystemExit(7)", "", verdict.ReasonExit, 7, 0, "so far\n", ""},
		{"signal", "c", "#include <stdlib.h>\nint main(void){abort();}", "", verdict.ReasonSignal, 0, 6, "", ""},
		{"CPU limit, with what was written before", "c", "#include <stdio.h>\nint main(void){puts(\"begun\");fflush(stdout);for(volatile int i=0;;i++);}", "", verdict.ReasonCPU, 0, -1, "begun\n", ""},
		{"memory limit", "c", "#include <stdlib.h>\n#include <string.h>\nint main(void){for(;;)memset(malloc(1<<20),1,1<<20);}", "", verdict.ReasonMemory, 0, -1, "", ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			r, err := e.Run(t.Context(), runTask(tt.lang, tt.source, tt.input), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Compile.OK || len(r.Results) != 1 || r.Toolchain == "" {
				t.Fatalf("%+v", r)
			}
			got := r.Results[0]
			if got.Ended != tt.ended || got.ExitCode != tt.exit || tt.signal >= 0 && got.Signal != tt.signal {
				t.Errorf("ended by %s, exit %d, signal %d", got.Ended, got.ExitCode, got.Signal)
			}
			if string(got.Stdout) != tt.out || got.StdoutCut {
				t.Errorf("stdout %q, want %q", got.Stdout, tt.out)
			}
			if string(got.Stderr) != tt.err || got.StderrCut {
				t.Errorf("stderr %q, want %q", got.Stderr, tt.err)
			}
		})
	}
}

func reversed(b []byte) string {
	out := make([]byte, len(b))
	for i, c := range b {
		out[len(b)-1-i] = c
	}
	return string(out)
}

func TestAFloodIsCutWithAMark(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	task := runTask("python3", "import sys\nsys.stderr.write('e' * 300000)\nfor i in range(10 * 1024): sys.stdout.write('x' * 1024)", "", "")
	task.Limits.OutputBytes = 100_000
	r, err := e.Run(t.Context(), task, quiet)
	if err != nil {
		t.Fatal(err)
	}
	for i, got := range r.Results {
		if got.Ended != verdict.ReasonOutput || !got.StdoutCut || !bytes.Equal(got.Stdout, bytes.Repeat([]byte("x"), 100_000)) {
			t.Errorf("input %d: ended by %s, cut %v, %d bytes", i, got.Ended, got.StdoutCut, len(got.Stdout))
		}
		if !got.StderrCut || !bytes.Equal(got.Stderr, bytes.Repeat([]byte("e"), 64<<10)) {
			t.Errorf("input %d: stderr cut %v, %d bytes", i, got.StderrCut, len(got.Stderr))
		}
	}
	task.Limits.OutputBytes = 11 << 20
	task.Limits.CPU = 5 * time.Second
	if r, err = e.Run(t.Context(), task, quiet); err != nil {
		t.Fatal(err)
	}
	if got := r.Results[0]; got.Ended != verdict.ReasonExit || got.StdoutCut || len(got.Stdout) != 10<<20 {
		t.Errorf("within the limit: ended by %s, cut %v, %d bytes", got.Ended, got.StdoutCut, len(got.Stdout))
	}
}

func TestInputsRunInTheirOrderAndAloneEach(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	var done []int
	r, err := e.Run(t.Context(), runTask("python3", "import os\nn = int(input())\nopen('left', 'x')\nif n == 2: raise SystemExit(2)\nprint(n)", "1\n", "2\n", "3\n"), func(p judge.Progress) {
		if p.Phase == judge.PhaseRunning {
			done = append(done, p.TestsDone)
		}
	})
	if err != nil {
		t.Fatal(err)
	}
	got := r.Results
	if len(got) != 3 || string(got[0].Stdout) != "1\n" || got[1].ExitCode != 2 || string(got[2].Stdout) != "3\n" {
		t.Errorf("%+v", got)
	}
	if len(done) != 4 || done[0] != 0 || done[3] != 3 {
		t.Errorf("progress %v", done)
	}
}

func TestARunThatDoesNotCompileHasItsLog(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	r, err := e.Run(t.Context(), runTask("cpp17", "int main( {", ""), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Compile.OK || len(r.Results) != 0 || !strings.Contains(r.Compile.Log, "error") {
		t.Errorf("%+v", r)
	}
}

func TestFaultsOfTheMachineEndRunsAsFaults(t *testing.T) {
	t.Parallel()
	machine := &sandbox.Fault{Op: "cgroup", Err: errors.New("gone")}
	for name, tt := range map[string]struct {
		p     *fakeProvider
		task  func(*judge.RunTask)
		blame judge.Blame
	}{
		"the box fails":    {&fakeProvider{run: failure(machine)}, nil, judge.BlameHost},
		"unknown limit":    {&fakeProvider{run: result(sandbox.Result{Fired: "moon"})}, nil, judge.BlameHost},
		"unknown language": {&fakeProvider{}, func(r *judge.RunTask) { r.Language = "cobol" }, judge.BlameToolchain},
		"no limit":         {&fakeProvider{}, func(r *judge.RunTask) { r.Limits.CPU = 0 }, judge.BlamePackage},
		"no input at all":  {&fakeProvider{}, func(r *judge.RunTask) { r.Inputs = nil }, judge.BlameHost},
		"too much memory":  {&fakeProvider{}, func(r *judge.RunTask) { r.Limits.MemoryBytes = 1 << 60 }, judge.BlameHost},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			task := runTask("c", "", "1")
			if tt.task != nil {
				tt.task(&task)
			}
			r, err := newEngine(t, tt.p, 1).Run(t.Context(), task, quiet)
			if r != nil {
				t.Fatalf("a report: %+v", r)
			}
			wantFault(t, err, tt.blame)
		})
	}
}

func TestARunEndsWithItsContext(t *testing.T) {
	t.Parallel()
	why := errors.New("the lease is dead")
	ctx, cancel := context.WithCancelCause(t.Context())
	p := &fakeProvider{run: func(ctx context.Context, _ *sandbox.Spec) (sandbox.Result, error) {
		cancel(why)
		<-ctx.Done()
		return sandbox.Result{}, context.Cause(ctx)
	}}
	if _, err := newEngine(t, p, 1).Run(ctx, runTask("c", "", "1", "2"), quiet); !errors.Is(err, why) {
		t.Errorf("ended with %v", err)
	}
}
