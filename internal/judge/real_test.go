package judge_test

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/verdict"
)

const (
	cSum      = "#include <stdio.h>\nint main(void){int a,b;scanf(\"%d %d\",&a,&b);printf(\"%d\\n\",a+b);}\n"
	cppSum    = "#include <iostream>\nint main(){int a,b;std::cin>>a>>b;std::cout<<a+b<<'\\n';}\n"
	pythonSum = "a, b = map(int, input().split())\nprint(a + b)\n"
)

// TestVerdictsInRealBoxes judges small programs on a package that asks for the
// sum of two numbers: 1+2, then 40+2.
func TestVerdictsInRealBoxes(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := newPackage(t, "1 2\n", "3\n", "40 2\n", "42\n")
	c := func(body string) string {
		return "#define _GNU_SOURCE\n#include <signal.h>\n#include <stdio.h>\n#include <stdlib.h>\n#include <string.h>\n#include <sys/resource.h>\n#include <unistd.h>\nint main(void){int a,b;if(scanf(\"%d %d\",&a,&b)!=2)return 9;\n" +
			body + "\nprintf(\"%d\\n\",a+b);return 0;}\n"
	}
	tests := []struct {
		name, lang, source string
		want               verdict.Verdict
		reason             verdict.Reason
		exit, signal       int
	}{
		{"right in C", "c", cSum, verdict.AC, "", 0, 0},
		{"right in C++17", "cpp17", cppSum, verdict.AC, "", 0, 0},
		{"right in C++20", "cpp20", cppSum, verdict.AC, "", 0, 0},
		{"right in Python", "python3", pythonSum, verdict.AC, "", 0, 0},
		{"wrong", "c", c("a++;"), verdict.WA, "checker", 0, 0},
		{"wrong in Python", "python3", "print(3)\nprint(4)", verdict.WA, "checker", 0, 0},
		{"no output", "c", c("return 0;"), verdict.WA, "checker", 0, 0},
		{"CPU loop", "c", c("for(volatile int i=0;;i++);"), verdict.TLE, "cpu", 0, 9},
		{"CPU loop in Python", "python3", "while True: pass", verdict.TLE, "cpu", 0, 9},
		{"right output, then a CPU loop", "c", c("printf(\"%d\\n\",a+b);fflush(stdout);for(volatile int i=0;;i++);"), verdict.TLE, "cpu", 0, 9},
		{"CPU burnt in children", "c", c("for(int i=0;i<4;i++)if(!fork())for(volatile int j=0;;j++);pause();"), verdict.TLE, "cpu", 0, 9},
		{"asleep", "c", c("sleep(60);"), verdict.TLE, "idle", 0, 9},
		{"memory", "c", c("for(size_t n=1<<20;;){char*p=malloc(n);if(!p)return 1;memset(p,1,n);}"), verdict.MLE, "memory", 0, 9},
		{"memory in Python", "python3", "x = []\nwhile True: x.append(bytearray(1 << 20))", verdict.MLE, "memory", 0, 9},
		{"memory by a child, parent ends well", "c", c("if(!fork()){for(;;)memset(malloc(1<<20),1,1<<20);}sleep(1);"), verdict.MLE, "memory", 0, -1},
		{"large allocation that is not touched", "c", c("if(!malloc(1ul<<30))return 5;"), verdict.AC, "", 0, 0},
		{"output", "c", c("for(;;)puts(\"0123456789012345678901234567890123456789\");"), verdict.OLE, "output", 0, -1},
		{"output file", "c", c("FILE*f=fopen(\"big\",\"w\");signal(SIGXFSZ,SIG_IGN);for(int i=0;i<3000;i++)for(int j=0;j<1024;j++)putc('x',f);"), verdict.OLE, "output", 0, -1},
		{"flood on stderr is not an offence", "c", c("for(int i=0;i<100000;i++)fputs(\"0123456789012345678901234567890123456789\\n\",stderr);"), verdict.AC, "", 0, 0},
		{"exit code", "c", c("printf(\"%d\\n\",a+b);return 7;"), verdict.RE, "exit", 7, 0},
		{"exit code in Python", "python3", "raise SystemExit(7)", verdict.RE, "exit", 7, 0},
		{"exception in Python", "python3", "print(1 // 0)", verdict.RE, "exit", 1, 0},
		{"abort", "c", c("abort();"), verdict.RE, "signal", 0, 6},
		{"null pointer", "c", c("volatile int*p=0;*p=1;"), verdict.RE, "signal", 0, 11},
		{"division by zero", "c", c("volatile int z=0;a/=z;"), verdict.RE, "signal", 0, 8},
		{"uncaught exception in C++", "cpp20", "#include <stdexcept>\nint main(){throw std::runtime_error(\"x\");}", verdict.RE, "signal", 0, 6},
		{"kills itself", "c", c("kill(getpid(),SIGKILL);"), verdict.RE, "signal", 0, 9},
		{"raises SIGXCPU at 0 ms", "c", c("raise(SIGXCPU);"), verdict.RE, "signal", 0, 24},
		{"prints Killed", "c", c("puts(\"Killed\");return 137;"), verdict.RE, "exit", 137, 0},
		{"reads its whole input twice over", "python3", "import sys\nd = sys.stdin.read().split()\nprint(int(d[0]) + int(d[1]))", verdict.AC, "", 0, 0},
		{"the answer is nowhere", "python3", "import os, sys\nfor top in ('/data', '/src', '/box', '/w', '/proc/self/fd'):\n    for where, _, names in os.walk(top):\n        for name in names:\n            if name.endswith('.ans') or 'answer' in name: sys.exit('found ' + name)\n" + pythonSum, verdict.AC, "", 0, 0},
		{"deep recursion within the memory limit", "c", "#include <stdio.h>\nint f(int n){volatile char x[1000];x[0]=1;return n?f(n-1)+x[0]:0;}\nint main(void){int a,b;scanf(\"%d %d\",&a,&b);volatile int r=f(40000);(void)r;printf(\"%d\\n\",a+b);}", verdict.AC, "", 0, 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			task := newTask(pkg, tt.lang, tt.source)
			if tt.reason == verdict.ReasonIdle {
				task.Limits.Wall = time.Second
			}
			r, err := e.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if !r.Compile.OK {
				t.Fatalf("does not compile: %s", r.Compile.Log)
			}
			first := r.Tests[0]
			if r.Verdict != tt.want && r.Verdict != verdict.AC || r.Verdict == verdict.AC != (tt.want == verdict.AC) {
				t.Fatalf("verdict %s, want %s: %+v", r.Verdict, tt.want, r.Tests)
			}
			if tt.want == verdict.AC {
				return
			}
			if first.Verdict == verdict.AC { // "wrong in Python" is right on the first
				first = r.Tests[1]
			} else if r.Tests[1].Verdict != verdict.Skipped {
				t.Errorf("second test is %s, want skipped", r.Tests[1].Verdict)
			}
			if first.Verdict != tt.want || first.Reason != tt.reason || first.ExitCode != tt.exit ||
				tt.signal >= 0 && first.Signal != tt.signal {
				t.Errorf("%+v, want %s %s exit %d signal %d", first, tt.want, tt.reason, tt.exit, tt.signal)
			}
		})
	}
}

// What says that an allocation was refused is shown as a hint: by the exit code
// alone, nobody could tell it from a crash.
func TestRefusedAllocationsAreHintedAt(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := newPackage(t, "", "1")
	const hint = "its error text says that it was refused memory"
	for _, tt := range []struct{ name, lang, source, want string }{
		// More than any address space, so that no kernel lets it pass.
		{"C++", "cpp20", "#include <cstdio>\nint main(){char*volatile p=new char[1ul<<50];std::printf(\"%p\",p);}", hint},
		{"Python", "python3", "bytearray(1 << 50)", hint},
		{"C by hand", "c", "#include <stdio.h>\n#include <stdlib.h>\nint main(void){if(!malloc(1ul<<50)){perror(\"x\");return 1;}}", hint},
		{"another exception", "python3", "print(1 // 0)", ""},
		{"nothing said", "c", "int main(void){return 1;}", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := e.Judge(t.Context(), newTask(pkg, tt.lang, tt.source), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Tests[0]; got.Verdict != verdict.RE || got.Message != tt.want {
				t.Errorf("%s %+v", r.Compile.Log, r.Tests)
			}
		})
	}
}

func TestMeasuresAreReported(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	source := "#include <stdio.h>\n#include <string.h>\n#include <stdlib.h>\n#include <time.h>\nint main(void){volatile char*p=malloc(20<<20);for(int i=0;i<20<<20;i+=4096)p[i]=1;while(clock()<CLOCKS_PER_SEC/5);puts(\"1\");}"
	r, err := e.Judge(t.Context(), newTask(newPackage(t, "", "1"), "c", source), quiet)
	if err != nil {
		t.Fatal(err)
	}
	got := r.Tests[0]
	if r.Verdict != verdict.AC || got.CPU < 150*time.Millisecond || got.CPU > 400*time.Millisecond ||
		got.Wall < got.CPU/2 || got.MemoryBytes < 20<<20 || got.MemoryBytes > 24<<20 || got.OutputBytes != 2 {
		t.Errorf("%+v", got)
	}
	if r.Compile.CPU <= 0 || r.Compile.Wall <= 0 || !strings.Contains(r.Toolchain, "gcc") {
		t.Errorf("compile %+v, toolchain %q", r.Compile, r.Toolchain)
	}
	for _, stage := range []string{"compile", "run", "check"} {
		if r.Stages[stage] <= 0 {
			t.Errorf("stage %s took %v", stage, r.Stages[stage])
		}
	}
}

func TestStopRules(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := newPackage(t, "1 2", "3", "1 2", "4", "1 2", "3", "1 2", "5")
	for stop, want := range map[judge.StopRule][]verdict.Verdict{
		judge.StopFirst: {verdict.AC, verdict.WA, verdict.Skipped, verdict.Skipped},
		judge.StopAll:   {verdict.AC, verdict.WA, verdict.AC, verdict.WA},
	} {
		task := newTask(pkg, "python3", pythonSum)
		task.Stop = stop
		var seen []string
		r, err := e.Judge(t.Context(), task, func(p judge.Progress) {
			seen = append(seen, fmt.Sprintf("%s %d/%d", p.Phase, p.TestsDone, p.TestsTotal))
		})
		if err != nil {
			t.Fatal(err)
		}
		var got []verdict.Verdict
		for _, tt := range r.Tests {
			got = append(got, tt.Verdict)
		}
		if diff := cmp.Diff(want, got); diff != "" || r.Verdict != verdict.WA {
			t.Errorf("%s: verdict %s, %s", stop, r.Verdict, diff)
		}
		progress := []string{"compiling 0/4", "running 0/4", "running 1/4", "running 2/4", "running 3/4", "running 4/4"}
		if stop == judge.StopFirst {
			progress = slices.Delete(progress, 4, 5) // skipping takes no time
		}
		if diff := cmp.Diff(progress, seen); diff != "" {
			t.Errorf("%s: progress: %s", stop, diff)
		}
	}
}

func TestCompileErrors(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := newPackage(t, "", "1")
	tests := []struct {
		name, lang, source string
		fired              sandbox.Limit
		log                []string
	}{
		{"syntax error in C", "c", "int main(void){\n  return x;\n}", "", []string{"/src/main.c:2:", "‘x’ undeclared"}},
		{"syntax error in C++17", "cpp17", "int main(){", "", []string{"/src/main.cpp:1:"}},
		{"C++20 words in C++17", "cpp17", "#include <span>\nint main(){std::span<int> s;}", "", []string{"span"}},
		{"empty C++", "cpp20", "", "", []string{"undefined reference to `main'"}},
		{"syntax error in Python", "python3", "a = 1\nif a\n    pass\n", "", []string{"File \"main.py\", line 2", "    if a\n        ^", "SyntaxError: expected ':'"}},
		{"indentation in Python", "python3", "if 1:\npass", "", []string{"line 2", "IndentationError"}},
		{"NUL in Python", "python3", "print(1)\x00", "", []string{"null bytes"}},
		{"bad encoding in Python", "python3", "# \xff\nprint(1)", "", []string{"SyntaxError"}},
		{"deep nesting in Python", "python3", strings.Repeat("(", 5000), "", []string{"parentheses"}},
		{
			"compile time", "cpp20",
			"template<int a,int b,int c>struct X{static const int v=X<a-1,b,c>::v+X<a,b-1,c>::v+X<a,b,c-1>::v;};\n" +
				"template<int b,int c>struct X<0,b,c>{static const int v=1;};template<int a,int c>struct X<a,0,c>{static const int v=1;};" +
				"template<int a,int b>struct X<a,b,0>{static const int v=1;};\nint main(){return X<180,180,180>::v;}",
			sandbox.LimitCPU,
			[]string{"compile time limit (2s of CPU) exceeded"},
		},
		{"huge binary", "c", "int a[100000000]={-1};int main(void){return a[1];}", sandbox.LimitOutput, []string{"program or a file made while compiling is larger than 128 MiB"}},
		{"includes a device", "c", "#include \"/dev/zero\"\n", "*", nil},
		{"source of random bytes", "c", "\x00\xff\x7fELF\x1b[2J", "", []string{"main.c"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			limited := *pkg
			limited.Manifest.Limits.CompileCPUMS = 2000
			r, err := e.Judge(t.Context(), newTask(&limited, tt.lang, tt.source), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != verdict.CE || r.Compile.OK || len(r.Tests) != 0 {
				t.Fatalf("verdict %s: %+v", r.Verdict, r)
			}
			if tt.fired != "*" && r.Compile.Fired != tt.fired {
				t.Errorf("limit %q, want %q", r.Compile.Fired, tt.fired)
			}
			for _, want := range tt.log {
				if !strings.Contains(r.Compile.Log, want) {
					t.Errorf("log does not say %q:\n%s", want, r.Compile.Log)
				}
			}
			if strings.ContainsRune(r.Compile.Log, 0) || strings.ContainsRune(r.Compile.Log, 0x1b) {
				t.Errorf("control characters in the log: %q", r.Compile.Log)
			}
		})
	}
}

func TestCompilerMemoryLimitIsNamed(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := newPackage(t, "", "1")
	pkg.Manifest.Limits.CompileMemoryBytes = 32 << 20
	r, err := e.Judge(t.Context(), newTask(pkg, "cpp20", "#include <bits/stdc++.h>\nint main(){}"), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != verdict.CE || !strings.HasPrefix(r.Compile.Log, "compiler memory limit (32 MiB) exceeded") {
		t.Errorf("verdict %s, log %q", r.Verdict, r.Compile.Log)
	}
}

func TestCompileLogIsCut(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	var source strings.Builder
	for i := range 4000 {
		fmt.Fprintf(&source, "undeclared%d é;\n", i)
	}
	r, err := e.Judge(t.Context(), newTask(newPackage(t, "", "1"), "c", source.String()), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if !r.Compile.LogCut || len(r.Compile.Log) > 64<<10 || len(r.Compile.Log) < 60<<10 {
		t.Errorf("log of %d bytes, cut %t", len(r.Compile.Log), r.Compile.LogCut)
	}
}

// TestLargeInputDoesNotCountAsMemory holds what cgroups make of page cache: a
// peak at the limit, and no harm.
func TestLargeInputDoesNotCountAsMemory(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	line := strings.Repeat("1", 1023) + "\n"
	pkg := newPackage(t, strings.Repeat(line, 64<<10), "65536")
	task := newTask(pkg, "c", "#include <stdio.h>\nint main(void){int c,n=0;while((c=getchar())!=EOF)n+=c=='\\n';printf(\"%d\\n\",n);}")
	task.Limits.MemoryBytes = 16 << 20
	r, err := e.Judge(t.Context(), task, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != verdict.AC {
		t.Errorf("verdict %s: %+v", r.Verdict, r.Tests)
	}
}

func TestSelfTestOffersTheLanguagesThatAreAlwaysHere(t *testing.T) {
	e := newEngine(t, realProvider(t), 2)
	var required []*language.Language // the rest is tested in langtest
	for _, id := range []string{"c", "cpp17", "cpp20", "python3"} {
		l, _ := builtin(t).Get(id)
		required = append(required, l)
	}
	offers, err := e.SelfTestOf(t.Context(), required)
	if err != nil {
		t.Fatal(err)
	}
	if len(offers) != len(required) {
		t.Errorf("%d offers", len(offers))
	}
	for _, o := range offers {
		if !o.OK || o.Version == "" || o.Reason != "" || o.Took <= 0 {
			t.Errorf("%+v", o)
		}
		t.Logf("%s: %s, %v", o.Language, o.Version, o.Took.Round(time.Millisecond))
	}
}

// TestALanguageIsWithheldWithoutTheLibraryThatItPromises has self-tests that
// import what their language promises, one of which is not there.
func TestALanguageIsWithheldWithoutTheLibraryThatItPromises(t *testing.T) {
	python := readFile(t, "../language/data/python3.yaml")
	for library, has := range map[string]bool{"ctypes": true, "promised_and_not_there": false} {
		promising := strings.Replace(python, "import collections,", "import "+library+", collections,", 1)
		languages, err := language.Load(fstest.MapFS{"python3.yaml": {Data: []byte(promising)}})
		if err != nil {
			t.Fatal(err)
		}
		e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, Languages: languages})
		offers, err := e.SelfTest(t.Context())
		if err != nil || len(offers) != 1 || offers[0].OK != has || strings.Contains(offers[0].Reason, library) == has {
			t.Errorf("%s: %+v, %v", library, offers, err)
		}
	}
}

// TestFullScratchDiskIsTheHostsFault uses a file system of 1 MiB.
func TestFullScratchDiskIsTheHostsFault(t *testing.T) {
	p := realProvider(t)
	dir := t.TempDir()
	if err := syscall.Mount("scratch", dir, "tmpfs", 0, "size=1m,mode=0755"); err != nil {
		testkit.Missing(t, testkit.Cgroup, "mount a small file system: %v", err)
	}
	t.Cleanup(func() {
		if err := syscall.Unmount(dir, 0); err != nil {
			t.Error(err)
		}
	})
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, ScratchDir: filepath.Join(dir, "scratch")})
	for name, task := range map[string]judge.Task{
		"output":  newTask(newPackage(t, "", "1"), "python3", "print('x' * (3 << 20))"),
		"program": newTask(newPackage(t, "", "1"), "cpp20", cppSum),
	} {
		task.Limits.OutputBytes = 8 << 20
		_, err := e.Judge(t.Context(), task, quiet)
		if f := wantFault(t, err, judge.BlameHost); !strings.Contains(f.Error(), "no space left in the scratch directory") {
			t.Errorf("%s: %v", name, f)
		}
	}
	// And it recovers by itself: nothing of the tasks is left.
	if r, err := e.Judge(t.Context(), newTask(newPackage(t, "1 2", "3"), "python3", pythonSum), quiet); err != nil || r.Verdict != verdict.AC {
		t.Errorf("afterwards: %+v, %v", r, err)
	}
}

func TestCancellationEndsARealRun(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	lost := errors.New("lease lost")
	task := newTask(newPackage(t, "", "1"), "python3", "import time\ntime.sleep(60)")
	from := time.Now()
	_, err := e.Judge(ctx, task, func(p judge.Progress) {
		if p.Phase == judge.PhaseRunning {
			time.AfterFunc(50*time.Millisecond, func() { cancel(lost) })
		}
	})
	if !errors.Is(err, lost) {
		t.Errorf("error %v, want the cause", err)
	}
	if took := time.Since(from); took > task.Limits.Wall/2 {
		t.Errorf("took %v", took)
	}
}
