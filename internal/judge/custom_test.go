package judge_test

import (
	"context"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// customPackage has two tests and a checker of its own in checker/.
func customPackage(t testing.TB, lang string, args []string, checker files) *problem.Package {
	t.Helper()
	content := files{"data/1.in": "1\n", "data/1.ans": "one\n", "data/2.in": "2\n", "data/2.ans": "two\n"}
	maps.Copy(content, checker)
	return writePackage(t, content,
		[]problem.Test{{Name: "1", Input: "data/1.in", Answer: "data/1.ans"}, {Name: "2", Input: "data/2.in", Answer: "data/2.ans"}},
		problem.Checker{Kind: problem.CheckerProgram, Program: "checker", Language: lang, Args: args})
}

// cppChecker reads input, answer and output, and accepts when the output is
// "input answer".
const cppChecker = `#include "compare.h"
int main(int argc, char **argv) {
    std::ifstream in(argv[1]), ans(argv[2]);
    std::ofstream judge(std::string(argv[3]) + "judgemessage.txt");
    std::string a, b, x, y;
    in >> a; ans >> b; std::cin >> x >> y;
    if (same(a, x) && same(b, y)) return 42;
    judge << "want " << a << ' ' << b << ", got " << x << ' ' << y << "\x1b\n";
    return 43;
}
`

var cppFiles = files{
	"checker/check.cpp":   cppChecker,
	"checker/compare.cpp": "#include \"compare.h\"\nbool same(const std::string &a, const std::string &b) { return a == b; }\n",
	"checker/compare.h":   "#include <fstream>\n#include <iostream>\n#include <string>\nbool same(const std::string &, const std::string &);\n",
}

const pythonChecker = `import sys
from helper import read
a, b = read(sys.argv[1]), read(sys.argv[2])
if sys.stdin.read().split() == [a, b]: sys.exit(42)
open(sys.argv[3] + "teammessage.txt", "w").write("not so")
sys.exit(43)
`

// echo prints its input and the answer to it, so that cppChecker accepts.
const echo = "n = input()\nprint(n, {'1': 'one', '2': 'two'}[n])\n"

func TestCheckersOfThePackage(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	script := files{
		"checker/build": "#!/bin/sh\nset -e\nmkdir out\ng++ -O1 -o out/checker src/check.cpp src/compare.cpp\n",
		"checker/run":   "#!/bin/sh\nexec \"$(dirname \"$0\")/out/checker\" \"$@\"\n",
	}
	for name, text := range cppFiles {
		script[strings.Replace(name, "checker/", "checker/src/", 1)] = text
	}
	kinds := []struct {
		name, lang string
		files      files
		message    string
	}{
		{"C++ in several files", "cpp20", cppFiles, "want 1 one, got 1 none\ufffd"},
		{"Python with a module", "python3", files{
			"checker/main.py": pythonChecker, "checker/helper.py": "def read(p): return open(p).read().strip()\n",
		}, "not so"},
		{"script that needs no building", "script", files{
			"checker/run": "#!/bin/sh\nread x y\nread a <\"$1\"\nread b <\"$2\"\n[ \"$x $y\" = \"$a $b\" ] && exit 42\necho no >$3/judgemessage.txt\nexit 43\n",
		}, "no"},
		{"script that builds", "script", script, "want 1 one, got 1 none\ufffd"},
	}
	for _, tt := range kinds {
		t.Run(tt.name, func(t *testing.T) {
			pkg := customPackage(t, tt.lang, nil, tt.files)
			r, err := e.Judge(t.Context(), newTask(pkg, "python3", echo), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != verdict.AC || r.CheckerToolchain == "" {
				t.Errorf("verdict %s, toolchain %q, %+v", r.Verdict, r.CheckerToolchain, r.Tests)
			}
			r, err = e.Judge(t.Context(), newTask(pkg, "python3", "print(input(), 'none')"), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Tests[0]; got.Verdict != verdict.WA || got.Message != tt.message || r.Tests[1].Verdict != verdict.Skipped {
				t.Errorf("%+v, want message %q", r.Tests, tt.message)
			}
		})
	}
}

func TestCheckerArguments(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := customPackage(t, "python3", []string{"common", "x y"}, files{
		"checker/check.py": "import sys\nopen(sys.argv[3] + 'judgemessage.txt', 'w').write(repr(sys.argv[4:]))\nsys.exit(42)\n",
	})
	pkg.Manifest.Tests[1].CheckerArgs = []string{"own"}
	r, err := e.Judge(t.Context(), newTask(pkg, "python3", echo), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Tests[0].Message != "['common', 'x y']" || r.Tests[1].Message != "['own']" {
		t.Errorf("%+v", r.Tests)
	}
}

// TestCheckerFaults holds that whatever goes wrong with a checker is a fault of
// the checker and never the contestant's.
func TestCheckerFaults(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	python := func(body string) files {
		return files{"checker/check.py": "import os, sys, time\n" + body + "\n"}
	}
	tests := []struct {
		name, lang string
		files      files
		says       []string
	}{
		{"exit code 0", "python3", python("sys.exit(0)"), []string{"test 1", "exit code 0", "42"}},
		{"exit code 1 of an exception", "python3", python("1 // 0"), []string{"exit code 1", "ZeroDivisionError"}},
		{"exit code 44", "python3", python("sys.exit(44)"), []string{"exit code 44"}},
		{"signal", "python3", python("os.abort()"), []string{"signal 6"}},
		{"endless loop", "python3", python("while True: pass"), []string{"checker"}},
		{"sleeps", "python3", python("time.sleep(60)"), []string{"took longer than 1.2s"}},
		{"memory", "python3", python("x = []\nwhile True: x.append(bytearray(1 << 20))"), []string{"memory limit of 64 MiB"}},
		{"endless message", "python3", python("f = open(sys.argv[3] + 'judgemessage.txt', 'w')\nwhile True: f.write('x' * 65536)"), []string{"wrote more than 65536 bytes"}},
		{"endless output", "python3", python("while True: print('x' * 65536)"), []string{"wrote more than 65536 bytes"}},
		{"does not compile", "cpp20", files{"checker/check.cpp": "int main( {"}, []string{"checker does not compile", "/src/check.cpp:1"}},
		{"syntax error", "python3", files{"checker/check.py": "if\n"}, []string{"checker does not compile", "SyntaxError"}},
		{"unknown language", "cobol", files{"checker/check.cob": ""}, []string{"cobol"}},
		{"no source", "cpp20", files{"checker/README": ""}, []string{"no cpp20 source", "checker"}},
		{"two scripts, none to start with", "python3", files{"checker/a.py": "", "checker/b.py": ""}, []string{"main.py"}},
		{"no run", "script", files{"checker/readme": ""}, []string{"no executable file run"}},
		{"build fails", "script", files{"checker/build": "#!/bin/sh\necho broken >&2\nexit 1\n", "checker/run": ""}, []string{"build script of the checker failed", "broken"}},
		{"build leaves a link", "script", files{"checker/build": "#!/bin/sh\nln -s /etc/passwd x\n", "checker/run": ""}, []string{"only files and directories"}},
		{"run without an interpreter line", "script", files{"checker/run": "exit 42\n"}, []string{"can not be started"}},
		{"run with a missing interpreter", "script", files{"checker/run": "#!/usr/bin/none\n"}, []string{"can not be started"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			pkg := customPackage(t, tt.lang, nil, tt.files)
			if tt.name == "endless loop" || tt.name == "sleeps" {
				pkg.Manifest.Limits.ValidationCPUMS = 400 // else the default: machines may be busy
			}
			pkg.Manifest.Limits.ValidationMemoryBytes = 64 << 20
			pkg.Manifest.Limits.ValidationOutputBytes = 64 << 10
			_, err := e.Judge(t.Context(), newTask(pkg, "python3", echo), quiet)
			f := wantFault(t, err, judge.BlameChecker)
			for _, want := range tt.says {
				if !strings.Contains(f.Error(), want) {
					t.Errorf("fault %q does not say %q", f, want)
				}
			}
		})
	}
}

func TestCheckerIsBuiltOncePerPackage(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	builds, fail := 0, false
	p := &fakeProvider{}
	p.compile = func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if spec.Mounts[0].Box != sandbox.SourceDir { // a contestant's
			return wellBehaved(spec)
		}
		mu.Lock()
		defer mu.Unlock()
		builds++
		if fail {
			return sandbox.Result{ExitCode: 1}, nil
		}
		return wellBehaved(spec)
	}
	e := newEngine(t, p, 4)
	judgeAll := func(pkg *problem.Package, n int) (errs []error) {
		var wg sync.WaitGroup
		for range n {
			wg.Go(func() {
				_, err := e.Judge(t.Context(), newTask(pkg, "c", ""), quiet)
				mu.Lock()
				defer mu.Unlock()
				if err != nil {
					errs = append(errs, err)
				}
			})
		}
		wg.Wait()
		return errs
	}
	pkg := customPackage(t, "c", nil, files{"checker/check.c": ""})
	if errs := judgeAll(pkg, 20); len(errs) > 0 || builds != 1 {
		t.Errorf("%d builds for 20 tasks, errors %v", builds, errs)
	}
	other := *pkg
	other.Digest += "-next"
	if errs := judgeAll(&other, 5); len(errs) > 0 || builds != 2 {
		t.Errorf("%d builds for two packages, errors %v", builds, errs)
	}
	fail = true
	bad := *pkg
	bad.Digest += "-bad"
	errs := judgeAll(&bad, 5)
	if len(errs) != 5 || builds != 3 {
		t.Errorf("%d builds, errors %v", builds, errs)
	}
	for _, err := range errs {
		wantFault(t, err, judge.BlameChecker)
	}
}

func TestOldCheckersMakeRoom(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	e := newEngineWith(t, judge.Config{Provider: &fakeProvider{}, Slots: 1, ScratchDir: dir})
	pkg := customPackage(t, "c", nil, files{"checker/check.c": ""})
	for i := range 200 { // round and round: none is in the cache when its turn comes
		next := *pkg
		next.Digest = fmt.Sprintf("sha256:%d", i%100)
		if _, err := e.Judge(t.Context(), newTask(&next, "c", ""), quiet); err != nil {
			t.Fatal(err)
		}
	}
	kept, err := os.ReadDir(filepath.Join(dir, "checkers"))
	if err != nil {
		t.Fatal(err)
	}
	if len(kept) != 64 {
		t.Errorf("%d built checkers kept, want 64", len(kept))
	}
}
