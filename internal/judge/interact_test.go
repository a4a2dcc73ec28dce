package judge_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// guess is an interactor: it has a number in its input, and answers each guess
// with "lower", "higher" or "correct". Some words of a program, never its
// number, make it misbehave.
const guess = `import os, signal, sys, time
secret = int(open(sys.argv[1]).read())
said = open(sys.argv[3] + "judgemessage.txt", "w")
def end(code, text):
    said.write(text)
    said.close()
    sys.stdout.flush()
    os._exit(code)
for tries in range(1, 12):
    line = sys.stdin.readline().strip()
    if line == "crash": 1 // 0
    elif line == "kill": os.kill(os.getpid(), signal.SIGKILL)
    elif line == "think":
        until = time.process_time() + 0.2
        while time.process_time() < until: pass
        time.sleep(0.2)
        line = "0"
    elif line == "work":
        while True: pass
    elif line == "flood":
        while True: print("x" * 65536)
    elif line == "sleep":
        time.sleep(1000)
    elif line == "deaf":
        os.close(1)
        while True: time.sleep(1000)
    elif line == "close":
        os.close(1)
        end(42 if sys.stdin.read().strip() == str(secret) else 43, "after the end")
    if line == "": end(43, "no guess")
    if not line.isdigit(): end(43, "not a number: " + line)
    if int(line) == secret:
        print("correct", flush=True)
        end(42, "%d tries" % tries)
    print("lower" if int(line) > secret else "higher", flush=True)
end(43, "too many tries")
`

// search guesses as one should.
const search = `import sys
low, high = 0, 1023
while True:
    n = (low + high) // 2
    print(n, flush=True)
    word = input()
    if word == "correct": break
    if word == "lower": high = n - 1
    else: low = n + 1
`

func interactivePackage(t testing.TB, interactor string, secrets ...int) *problem.Package {
	t.Helper()
	content := files{"validator/guess.py": interactor}
	var tests []problem.Test
	for i, secret := range secrets {
		name := fmt.Sprint(i + 1)
		content["data/"+name+".in"], content["data/"+name+".ans"] = fmt.Sprintln(secret), ""
		tests = append(tests, problem.Test{Name: name, Input: "data/" + name + ".in", Answer: "data/" + name + ".ans"})
	}
	pkg := writePackage(t, content, tests, problem.Checker{Kind: problem.CheckerInteractor, Program: "validator", Language: "python3"})
	pkg.Manifest.Limits.ValidationMemoryBytes = 64 << 20
	return pkg
}

// TestEachWayThatATalkEnds is on real boxes. The secret is 700. Sleeps in the
// programs only put off what happens anyway: no case depends on who is first.
func TestEachWayThatATalkEnds(t *testing.T) {
	e := newEngine(t, realProvider(t), 4)
	pkg := interactivePackage(t, guess, 700)
	pkg.Manifest.Limits.ValidationCPUMS = 3000
	short := func(l *judge.Limits) { l.Wall = time.Second } // for programs that never end
	tests := []struct {
		name, program string
		limits        func(*judge.Limits)
		want          verdict.Verdict
		reason        verdict.Reason
		says          string
	}{
		{"both are content", search, nil, verdict.AC, "", "10 tries"},
		{"wrong guesses", "for i in range(20): print(i, flush=True); input()", nil, verdict.WA, "checker", "too many tries"},
		{"not a number", "print('abc', flush=True); input()", nil, verdict.WA, "checker", "not a number: abc"},
		{"nothing said", "", nil, verdict.WA, "checker", "no guess"},
		{"leaves early", "print(1, flush=True)", nil, verdict.WA, "checker", "no guess"},
		{"leaves early with its output closed", "import os\nos.close(1)", nil, verdict.WA, "checker", "no guess"},
		{"crashes before anything is said", "1 // 0", nil, verdict.RE, "exit", ""},
		{"crashes in the middle", "print(1, flush=True); input(); 1 // 0", nil, verdict.RE, "exit", ""},
		{"exit code after a right guess", "import sys\nprint(700, flush=True)\ninput()\nsys.exit(3)", nil, verdict.RE, "exit", ""},
		{"reads on after a right guess", "import sys\nprint(700, flush=True)\nsys.stdin.read()", nil, verdict.AC, "", "1 tries"},
		{"writes on after a right guess", "import sys\nprint(700, flush=True)\ninput()\nsys.stdin.read()\nfor i in range(1000): print('x' * 100)\nsys.stdout.flush()", nil, verdict.AC, "", "1 tries"},
		{"crashes because the interactor left", "print('abc', flush=True); input(); input()", nil, verdict.WA, "checker", "not a number: abc"},
		{"goes on for ever when the interactor has left", "print('abc', flush=True)\nwhile True: pass", func(l *judge.Limits) { l.CPU = 10 * time.Second }, verdict.WA, "checker", "not a number: abc"},
		{"closes its output and sleeps", "import os, time\nos.close(1)\ntime.sleep(1000)", short, verdict.TLE, "idle", ""},
		{"both wait", "import sys\nsys.stdin.readline()", short, verdict.TLE, "idle", ""},
		{"forgets to flush", "import sys\nprint(700)\nsys.stdin.readline()", short, verdict.TLE, "idle", ""},
		{"half a line", "import sys\nsys.stdout.write('70')\nsys.stdout.flush()\ninput()", short, verdict.TLE, "idle", ""},
		{"computes for ever while the interactor waits", "print(1, flush=True)\nwhile True: pass", nil, verdict.TLE, "cpu", ""},
		{"floods", "import sys\nwhile True: sys.stdout.write('1' * 65536)", nil, verdict.OLE, "output", ""},
		{"floods when the interactor has left", "import sys\nprint('abc', flush=True)\nwhile True: sys.stdout.write('1\\n' * 32768)", nil, verdict.WA, "checker", "not a number: abc"},
		{"does not read", "import sys\nsys.stdout.write('1\\n' * 5)\nsys.stdout.flush()", nil, verdict.WA, "checker", "no guess"},
		{"takes too much memory", "print(1, flush=True)\nx = []\nwhile True: x.append(bytearray(1 << 20))", nil, verdict.MLE, "memory", ""},
		{"opens its streams by name", "f, g = open('/dev/stdin'), open('/dev/stdout', 'w')\nprint(700, file=g, flush=True)\nf.readline()", nil, verdict.AC, "", "1 tries"},
		{"the interactor closes its output and reads on", "import sys\nprint('close', flush=True)\nsys.stdin.read()\nprint(700)", nil, verdict.AC, "", "after the end"},
		{"crashes when the interactor has closed its output and reads on", "import sys\nprint('close', flush=True)\nsys.stdin.read()\nprint(700, flush=True)\n1 // 0", nil, verdict.RE, "exit", ""},
		{"the interactor thinks and sleeps", "print('think', flush=True)\ninput()\nprint(700, flush=True)", func(l *judge.Limits) { l.CPU = 300 * time.Millisecond }, verdict.AC, "", "2 tries"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := newTask(pkg, "python3", tt.program)
			if tt.limits != nil {
				tt.limits(&task.Limits)
			}
			r, err := e.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if tt.reason == "idle" && r.Tests[0].Reason == "wall" {
				tt.reason = "wall" // its start alone may take a tenth of its CPU limit
			}
			if got := r.Tests[0]; got.Verdict != tt.want || got.Reason != tt.reason || got.Message != tt.says || r.Verdict != tt.want {
				t.Errorf("%s, %+v, want %s %q %q", r.Verdict, got, tt.want, tt.reason, tt.says)
			}
		})
	}
}

// TestInteractorsFaultsAreNeverTheProgramsDoing: the program's wall limit is far
// away, so that it is the interactor's own limits that end it.
func TestInteractorsFaultsAreNeverTheProgramsDoing(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := interactivePackage(t, guess, 700)
	pkg.Manifest.Limits.ValidationCPUMS = 1000
	pkg.Manifest.Limits.ValidationOutputBytes = 1 << 20
	for _, tt := range []struct{ word, says string }{
		{"crash", "ZeroDivisionError"},
		{"kill", "signal 9"},
		{"work", "CPU limit of 1s"},
		{"flood", "wrote more than 1048576 bytes"},
	} {
		t.Run(tt.word, func(t *testing.T) {
			program := fmt.Sprintf("import sys\nprint(%q, flush=True)\nsys.stdin.read()", tt.word)
			_, err := e.Judge(t.Context(), newTask(pkg, "python3", program), quiet)
			if f := wantFault(t, err, judge.BlameChecker); !strings.Contains(f.Message, "interactor") || !strings.Contains(f.Message, tt.says) {
				t.Errorf("%v, want one that says %q", f, tt.says)
			}
		})
	}
	t.Run("does not end when the program has", func(t *testing.T) {
		task := newTask(pkg, "python3", "print('sleep', flush=True)")
		task.Limits.Wall = time.Second
		_, err := e.Judge(t.Context(), task, quiet)
		if f := wantFault(t, err, judge.BlameChecker); !strings.Contains(f.Message, "interactor took longer than") {
			t.Error(f)
		}
	})
	for name, text := range map[string]string{"does not compile": "if\n", "is killed at its start": "import os\nos.abort()\n"} {
		t.Run(name, func(t *testing.T) {
			_, err := e.Judge(t.Context(), newTask(interactivePackage(t, text, 1), "python3", search), quiet)
			wantFault(t, err, judge.BlameChecker)
		})
	}
}

// TestEndOfATalkIsStable: the interactor says wrong and leaves, and the program
// crashes for that very reason, as fast as it can.
func TestEndOfATalkIsStable(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	const bash = `#!/bin/bash
read -r word
echo no >"$3/judgemessage.txt"
exit 43
`
	pkg := writePackage(t, files{"v/run": bash, "data/1.in": "", "data/1.ans": ""},
		[]problem.Test{{Name: "1", Input: "data/1.in", Answer: "data/1.ans"}},
		problem.Checker{Kind: problem.CheckerInteractor, Program: "v", Language: "script"})
	const crashes = "#include <stdio.h>\n#include <stdlib.h>\nint main(void){puts(\"x\");fflush(stdout);if(getchar()==EOF)abort();}\n"
	for range 100 {
		r, err := e.Judge(t.Context(), newTask(pkg, "c", crashes), quiet)
		if err != nil {
			t.Fatal(err)
		}
		if r.Verdict != verdict.WA {
			t.Fatalf("%+v", r.Tests[0])
		}
	}
}

// TestInteractorThatTakesTheProgramsTimeIsAFault: of the run's wall time the
// program had less than its limit, because the interactor worked.
func TestInteractorThatTakesTheProgramsTimeIsAFault(t *testing.T) {
	t.Parallel()
	stopped := sandbox.Result{Fired: sandbox.LimitWall, Signal: 9, Wall: standard.Wall + 2*time.Second}
	worked := sandbox.Result{Fired: sandbox.LimitWall, Signal: 9, CPU: 3 * time.Second}
	waited := sandbox.Result{Fired: sandbox.LimitWall, Signal: 9, CPU: time.Second}
	for _, tt := range []struct {
		interactor sandbox.Result
		fault      bool
	}{{worked, true}, {waited, false}} {
		// The program ended first and was seen to: the box is told to end the interactor.
		outlives := func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			select {
			case <-spec.Enforce:
			case <-ctx.Done():
			}
			return tt.interactor, nil
		}
		e := newEngine(t, &fakeProvider{run: result(stopped), check: outlives}, 1)
		r, err := e.Judge(t.Context(), newTask(interactivePackage(t, guess, 1), "python3", search), quiet)
		if tt.fault {
			if f := wantFault(t, err, judge.BlameChecker); !strings.Contains(f.Message, "left the program less than its wall limit") {
				t.Error(f)
			}
		} else if err != nil || r.Verdict != verdict.TLE {
			t.Errorf("%+v, %v, want TLE", r, err)
		}
	}
}

// TestTalkWithAFailingMachine holds that a fault of either box ends the other,
// and is no verdict.
func TestTalkWithAFailingMachine(t *testing.T) {
	t.Parallel()
	waits := func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		spec.Started()
		<-ctx.Done()
		return sandbox.Result{}, context.Cause(ctx)
	}
	fails := failure(&sandbox.Fault{Op: "cgroup"})
	for name, p := range map[string]*fakeProvider{
		"the program's":    {run: fails, check: waits},
		"the interactor's": {run: waits, check: fails},
		"both":             {run: fails, check: fails},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			e := newEngine(t, p, 1)
			_, err := e.Judge(t.Context(), newTask(interactivePackage(t, guess, 1), "python3", search), quiet)
			wantFault(t, err, judge.BlameHost)
		})
	}
	t.Run("the judging is called off", func(t *testing.T) {
		t.Parallel()
		ctx, cancel := context.WithCancel(t.Context())
		var both sync.WaitGroup
		both.Add(2)
		begun := func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			both.Done()
			return waits(ctx, spec)
		}
		go func() { both.Wait(); cancel() }()
		e := newEngine(t, &fakeProvider{run: begun, check: begun}, 1)
		if _, err := e.Judge(ctx, newTask(interactivePackage(t, guess, 1), "python3", search), quiet); err != context.Canceled { //nolint:errorlint // the cause itself
			t.Errorf("error %v", err)
		}
	})
}

// TestBothSidesAskForMemoryAtOnce: each alone would fit, as compilers do.
func TestBothSidesAskForMemoryAtOnce(t *testing.T) {
	t.Parallel()
	e := newEngineWith(t, judge.Config{Provider: &fakeProvider{}, Slots: 1, MemoryBudget: 4 << 30})
	pkg := interactivePackage(t, guess, 1)
	pkg.Manifest.Limits.ValidationMemoryBytes = 2 << 30
	task := newTask(pkg, "python3", search)
	task.Limits.MemoryBytes = 3 << 30
	_, err := e.Judge(t.Context(), task, quiet)
	if f := wantFault(t, err, judge.BlameHost); !strings.Contains(f.Message, "5120 MiB") {
		t.Error(f)
	}
}
