package langtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/judge/langtest"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/verdict"
)

func TestMain(m *testing.M) {
	linuxbox.Init()
	code := m.Run()
	if err := machine.close(); err != nil {
		fmt.Fprintln(os.Stderr, "close:", err)
		code = 1
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// machine is the real engine, with one self-test of all languages: making a
// toolchain ready is too dear to do it in each test.
var machine real

type real struct {
	once     sync.Once
	err      error
	scratch  string
	provider *linuxbox.Provider
	engine   *judge.Engine
	registry *language.Registry
}

func (m *real) open() {
	if m.registry, m.err = language.Builtin(); m.err != nil {
		return
	}
	if m.scratch, m.err = os.MkdirTemp("", "langtest"); m.err != nil {
		return
	}
	if m.err = os.Chmod(m.scratch, 0o755); m.err != nil {
		return
	}
	if m.provider, m.err = linuxbox.Open(linuxbox.Config{TempDir: m.scratch}); m.err != nil {
		return
	}
	m.engine, m.err = judge.New(judge.Config{
		Provider: m.provider, Slots: runtime.GOMAXPROCS(0), Languages: m.registry, ScratchDir: filepath.Join(m.scratch, "judge"),
	})
}

func (m *real) close() (err error) {
	if m.engine != nil {
		err = m.engine.Close()
	}
	if m.provider != nil {
		err = errors.Join(err, m.provider.Close())
	}
	if m.scratch != "" {
		err = errors.Join(err, os.RemoveAll(m.scratch))
	}
	return err
}

// engine is the machine's engine.
func engine(t *testing.T) *judge.Engine {
	t.Helper()
	machine.once.Do(machine.open)
	if machine.engine == nil {
		testkit.Missing(t, testkit.Cgroup, "%v", machine.err)
	}
	return machine.engine
}

// installed ends the test when l's compiler is not on this machine. That it is
// there and does not work is a failure.
func installed(t *testing.T, l *language.Language) {
	t.Helper()
	program := l.Version.Argv[0]
	if program == "/usr/bin/env" {
		program = l.Version.Argv[1]
		for _, entry := range l.CompileEnv() {
			if dirs, ok := strings.CutPrefix(entry, "PATH="); ok {
				for _, dir := range filepath.SplitList(dirs) {
					if _, err := os.Stat(filepath.Join(dir, program)); err == nil {
						return
					}
				}
			}
		}
	} else if _, err := os.Stat(program); err == nil {
		return
	}
	testkit.Missing(t, testkit.Lang, "%s: %s is not installed", l.ID, program)
}

// submissions are where the declared-verdict submissions of a language are.
func submissions(id string) string {
	switch id {
	case "cpp17", "cpp20", "cpp23":
		return "testdata/cpp"
	case "python3", "pypy3":
		return "testdata/python"
	}
	return "testdata/" + id
}

// compileErrors are what the log of each language's CE says, among it the line.
var compileErrors = map[string][]string{
	"c":                          {"/src/main.c:1:", "missing"},
	"cpp":                        {"/src/main.cpp:3:", "error"},
	"python":                     {"line 2", "if a > b\n", "SyntaxError"},
	"pypy3":                      {"File \"main.py\", line ", "SyntaxError: expected ':'"},
	"java":                       {"Main.java:2: error: cannot find symbol", "int x = missing;", "1 error"},
	"java/CE-two-public-classes": {"Main.java:5: error: class Two is public, should be declared in a file named Two.java", "1 error"},
	"java/CE-no-main":            {"no class has a method public static void main(String[] args)"},
	"kotlin":                     {"main.kt:1:", "unresolved reference: missing"},
	"go":                         {"main.go:3:15", "undefined: missing"},
	"rust":                       {"/src/main.rs:2:", "cannot find value `missing`"},
	"javascript":                 {"main.js:2", "const y = ;", "SyntaxError: Unexpected token ';'"},
	"pascal":                     {"main.pas(2,", "Identifier not found \"missing\""},
	"csharp":                     {"main.cs(1,", "error CS0103", "missing"},
	"ruby":                       {"main.rb:3", "syntax error"},
	"php":                        {"syntax error, unexpected token \";\"", "on line 3"},
	"lua":                        {"main.lua:2:", "unexpected symbol near '='"},
	"haskell":                    {"main.hs:2:", "not in scope: missing"},
	"bash":                       {"main.sh: line 3", "syntax error"},
}

// packageLimits are those of an ordinary problem. The time is for a machine
// that runs other tests beside these.
var packageLimits = problem.Limits{
	CPUMS: 1500, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, CodeBytes: 64 << 10, Processes: 64,
}

// TestVerdictsOfEveryLanguage judges, in each language, submissions whose
// verdict their file's name declares, on the sum of two numbers.
func TestVerdictsOfEveryLanguage(t *testing.T) {
	t.Parallel()
	e := engine(t)
	pkg := sumPackage(t)
	for _, l := range machine.registry.All() {
		t.Run(l.ID, func(t *testing.T) {
			t.Parallel()
			installed(t, l)
			results, err := langtest.Run(t.Context(), e, []*language.Language{l})
			if err != nil {
				t.Fatal(err)
			}
			if r := results[0]; !r.OK || r.Version == "" || r.MS <= 0 {
				t.Fatalf("self-test: %+v", r)
			}
			t.Logf("self-test: %+v", results[0])
			dir := submissions(l.ID)
			files, err := os.ReadDir(dir)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[verdict.Verdict]bool{}
			for _, f := range files {
				name := strings.TrimSuffix(f.Name(), filepath.Ext(f.Name()))
				want, _, _ := strings.Cut(name, "-")
				seen[verdict.Verdict(want)] = true
				t.Run(name, func(t *testing.T) {
					t.Parallel()
					submit(t, e, l, pkg, filepath.Join(dir, f.Name()), verdict.Verdict(want))
				})
			}
			for _, want := range []verdict.Verdict{verdict.AC, verdict.WA, verdict.TLE, verdict.MLE, verdict.RE, verdict.CE} {
				if !seen[want] {
					t.Errorf("no submission declares %s", want)
				}
			}
		})
	}
}

func submit(t *testing.T, e *judge.Engine, l *language.Language, pkg *problem.Package, file string, want verdict.Verdict) {
	limits := packageLimits
	if want == verdict.MLE {
		// How fast pages come is the machine's business, and slow ones are
		// charged to the program: only memory is in question here.
		limits.CPUMS *= 6
	}
	r := judged(t, e, l, pkg, file, limits)
	for _, test := range r.Tests {
		t.Logf("%s: %s %s, cpu %v, memory %d KiB, exit code %d, signal %d", test.Name, test.Verdict, test.Reason, test.CPU, test.MemoryBytes>>10, test.ExitCode, test.Signal)
	}
	if r.Verdict != want {
		t.Fatalf("verdict %s, want %s; compile log:\n%s", r.Verdict, want, r.Compile.Log)
	}
	if want == verdict.CE {
		if len(r.Tests) > 0 {
			t.Errorf("%d tests were run", len(r.Tests))
		}
		family := filepath.Base(filepath.Dir(file))
		var texts []string
		for _, key := range []string{family + "/" + strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)), l.ID, family} {
			if texts == nil {
				texts = compileErrors[key]
			}
		}
		if len(texts) == 0 {
			t.Errorf("nothing is known about what the log must say")
		}
		for _, text := range texts {
			if !strings.Contains(r.Compile.Log, text) {
				t.Errorf("the log does not say %q:\n%s", text, r.Compile.Log)
			}
		}
		return
	}
	for _, test := range r.Tests {
		if test.Verdict != verdict.Skipped && test.MemoryBytes > 2*packageLimits.MemoryBytes {
			t.Errorf("%d MiB of memory: no resident memory", test.MemoryBytes>>20)
		}
	}
	if r.Toolchain == "" {
		t.Error("no version of the toolchain")
	}
}

func judged(t *testing.T, e *judge.Engine, l *language.Language, pkg *problem.Package, file string, limits problem.Limits) *judge.Report {
	t.Helper()
	source, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	effective, err := language.Effective(limits, l)
	if err != nil {
		t.Fatal(err)
	}
	effective.Wall *= 10 // many tests run at once
	r, err := e.Judge(t.Context(), judge.Task{
		Source: source, SourceName: filepath.Base(file), Language: l.ID, Package: pkg, Limits: judge.Limits(effective), Stop: judge.StopFirst,
	}, func(judge.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestSourcesOfSeveralFiles judges each directory of testdata/files as one
// source; its main file is the one named main or Main.
func TestSourcesOfSeveralFiles(t *testing.T) {
	t.Parallel()
	e := engine(t)
	pkg := sumPackage(t)
	dirs, err := os.ReadDir("testdata/files")
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range dirs {
		t.Run(d.Name(), func(t *testing.T) {
			t.Parallel()
			l, ok := machine.registry.Get(d.Name())
			if !ok {
				t.Fatal("no such language")
			}
			installed(t, l)
			limits, err := language.Effective(packageLimits, l)
			if err != nil {
				t.Fatal(err)
			}
			limits.Wall *= 10
			task := judge.Task{Language: l.ID, Package: pkg, Limits: judge.Limits(limits), Stop: judge.StopFirst}
			files, err := filepath.Glob(filepath.Join("testdata/files", d.Name(), "*"))
			if err != nil {
				t.Fatal(err)
			}
			for _, file := range files {
				text, err := os.ReadFile(file)
				if err != nil {
					t.Fatal(err)
				}
				name := filepath.Base(file)
				if strings.EqualFold(strings.TrimSuffix(name, filepath.Ext(name)), "main") {
					task.Source, task.SourceName = text, name
				} else {
					task.More = append(task.More, judge.SourceFile{Name: name, Text: text})
				}
			}
			r, err := e.Judge(t.Context(), task, func(judge.Progress) {})
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != verdict.AC {
				t.Errorf("verdict %s: %+v\n%s", r.Verdict, r.Tests, r.Compile.Log)
			}
			// An error in a file that is not the main one is one of the source.
			task.More[len(task.More)-1].Text = []byte("((( \" broken")
			if r, err = e.Judge(t.Context(), task, func(judge.Progress) {}); err != nil || r.Verdict != verdict.CE || len(r.Tests) > 0 {
				t.Errorf("broken: %+v, %v", r, err)
			}
		})
	}
}

// TestGoRunsInLittleMemory holds that neither its virtual memory nor its
// threads are counted against a Go program.
func TestGoRunsInLittleMemory(t *testing.T) {
	t.Parallel()
	e := engine(t)
	l, _ := machine.registry.Get("go")
	installed(t, l)
	limits := packageLimits
	limits.MemoryBytes = 64 << 20
	r := judged(t, e, l, sumPackage(t), "testdata/go/AC.go", limits)
	if r.Verdict != verdict.AC || r.Tests[0].MemoryBytes > 32<<20 {
		t.Errorf("verdict %s, %+v", r.Verdict, r.Tests)
	}
}

func sumPackage(t *testing.T) *problem.Package {
	t.Helper()
	return writtenPackage(t, [][2]string{{"1 2\n", "3\n"}, {"40 2\n", "42\n"}})
}

// writtenPackage has a test for each pair of input and answer.
func writtenPackage(t *testing.T, pairs [][2]string) *problem.Package {
	t.Helper()
	dir := t.TempDir()
	m := problem.Manifest{Schema: 1, Name: "test", Checker: problem.Checker{Kind: problem.CheckerTokens}}
	for i, pair := range pairs {
		test := problem.Test{Name: fmt.Sprint(i + 1), Input: fmt.Sprintf("%d.in", i+1), Answer: fmt.Sprintf("%d.ans", i+1)}
		for j, name := range []string{test.Input, test.Answer} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(pair[j]), 0o444); err != nil {
				t.Fatal(err)
			}
			m.Files = append(m.Files, problem.File{Path: name, SizeBytes: int64(len(pair[j]))})
		}
		m.Tests = append(m.Tests, test)
	}
	return &problem.Package{Manifest: m, Dir: dir, Digest: "sha256:" + t.Name()}
}

var _ langtest.Tester = (*judge.Engine)(nil)
