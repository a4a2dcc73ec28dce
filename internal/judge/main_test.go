package judge_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestMain(m *testing.M) {
	linuxbox.Init()
	code := m.Run()
	if boxes.provider != nil {
		if err := boxes.provider.Close(); err != nil {
			fmt.Fprintln(os.Stderr, "close provider:", err)
			code = 1
		}
	}
	if code == 0 {
		if err := goleak.Find(); err != nil {
			fmt.Fprintln(os.Stderr, "goroutines left:", err)
			code = 1
		}
	}
	os.Exit(code)
}

// boxes is the real sandbox, opened by the first test that needs it.
var boxes struct {
	once     sync.Once
	provider sandbox.Provider
	err      error
}

func realProvider(t testing.TB) sandbox.Provider {
	t.Helper()
	boxes.once.Do(func() {
		p, err := linuxbox.Open(linuxbox.Config{})
		if err != nil {
			boxes.err = err
			return
		}
		boxes.provider = p
	})
	if boxes.err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", boxes.err)
	}
	return boxes.provider
}

var builtinOnce = sync.OnceValues(language.Builtin)

func builtin(t testing.TB) *language.Registry {
	t.Helper()
	r, err := builtinOnce()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// newEngine makes an engine over the provider with a scratch directory of its own.
func newEngine(t testing.TB, p sandbox.Provider, slots int) *judge.Engine {
	t.Helper()
	return newEngineWith(t, judge.Config{Provider: p, Slots: slots})
}

func newEngineWith(t testing.TB, cfg judge.Config) *judge.Engine {
	t.Helper()
	if cfg.Languages == nil {
		cfg.Languages = builtin(t)
	}
	if cfg.ScratchDir == "" {
		cfg.ScratchDir = filepath.Join(t.TempDir(), "scratch")
	}
	e, err := judge.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
		for _, sub := range []string{"tasks", "checkers"} {
			if left, _ := os.ReadDir(filepath.Join(cfg.ScratchDir, sub)); len(left) > 0 {
				t.Errorf("left in %s: %v", sub, left)
			}
		}
	})
	return e
}

// files are a package's files by path.
type files map[string]string

// newPackage writes a package with the tokens checker; each pair of strings is
// the input and the answer of one test.
func newPackage(t testing.TB, pairs ...string) *problem.Package {
	t.Helper()
	content := files{}
	var tests []problem.Test
	for i := 0; i+1 < len(pairs); i += 2 {
		name := fmt.Sprintf("secret/%d", i/2+1)
		content["data/"+name+".in"], content["data/"+name+".ans"] = pairs[i], pairs[i+1]
		tests = append(tests, problem.Test{Name: name, Input: "data/" + name + ".in", Answer: "data/" + name + ".ans"})
	}
	return writePackage(t, content, tests, problem.Checker{Kind: problem.CheckerTokens})
}

var serial struct {
	sync.Mutex
	n int
}

// writePackage writes files with the modes that unpacking gives them. A file
// named build or run is executable.
func writePackage(t testing.TB, content files, tests []problem.Test, c problem.Checker) *problem.Package {
	t.Helper()
	dir := t.TempDir()
	m := problem.Manifest{Schema: 1, Name: "test", Tests: tests, Checker: c}
	for name, text := range content {
		path := filepath.Join(dir, name)
		executable := filepath.Base(path) == "build" || filepath.Base(path) == "run"
		mode := os.FileMode(0o444)
		if executable {
			mode = 0o555
		}
		if err := errors.Join(
			os.MkdirAll(filepath.Dir(path), 0o755),
			os.WriteFile(path, []byte(text), mode),
		); err != nil {
			t.Fatal(err)
		}
		m.Files = append(m.Files, problem.File{Path: name, SizeBytes: int64(len(text)), Executable: executable})
	}
	slices.SortFunc(m.Files, func(a, b problem.File) int { return map[bool]int{true: -1, false: 1}[a.Path < b.Path] })
	serial.Lock()
	defer serial.Unlock()
	serial.n++
	return &problem.Package{Manifest: m, Dir: dir, Digest: fmt.Sprintf("sha256:test-%d", serial.n)}
}

// standard has much wall time: the machine that runs tests may be busy.
var standard = judge.Limits{
	CPU: 500 * time.Millisecond, Wall: 20 * time.Second, MemoryBytes: 64 << 20, OutputBytes: 1 << 20, Processes: 64,
}

func newTask(pkg *problem.Package, lang, source string) judge.Task {
	return judge.Task{Source: []byte(source), SourceName: "source", Language: lang, Package: pkg, Limits: standard, Stop: judge.StopFirst}
}

func quiet(judge.Progress) {}

func wantFault(t *testing.T, err error, blame judge.Blame) *judge.Fault {
	t.Helper()
	f, ok := err.(*judge.Fault) //nolint:errorlint // the fault itself is promised, not a wrapped one
	if !ok {
		t.Fatalf("error %v (%T), want a fault", err, err)
	}
	if f.Blame != blame {
		t.Fatalf("blame %s, want %s: %v", f.Blame, blame, f)
	}
	return f
}
