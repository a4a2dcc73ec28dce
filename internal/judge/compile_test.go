package judge_test

import (
	"context"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// TestOnlySuccessesAreCompiledOnce counts what reaches the compiler when the
// same source comes twice.
func TestOnlySuccessesAreCompiledOnce(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name   string
		res    *sandbox.Result // nil: a success
		cached int64           // bytes of cache
		change func(*judge.Task)
		want   int
	}{
		{"success", nil, 0, nil, 1},
		{"cache off", nil, -1, nil, 2},
		{"cache too small", nil, 100, nil, 2},
		{"errors in the source", &sandbox.Result{ExitCode: 1}, 0, nil, 2},
		{"out of CPU time", &sandbox.Result{Fired: sandbox.LimitCPU, Signal: 9}, 0, nil, 2},
		{"out of memory", &sandbox.Result{Fired: sandbox.LimitMemory, Signal: 9}, 0, nil, 2},
		{"killed", &sandbox.Result{Signal: 9}, 0, nil, 2},
		{"another source", nil, 0, func(t *judge.Task) { t.Source = []byte("other") }, 2},
		{"another name for people", nil, 0, func(t *judge.Task) { t.SourceName = "other.c" }, 1},
		{"other limits of runs", nil, 0, func(t *judge.Task) { t.Limits.MemoryBytes *= 2 }, 1},
		{"other limits of compiling", nil, 0, func(t *judge.Task) { t.Package.Manifest.Limits.CompileCPUMS = 1 }, 2},
		{"another package", nil, 0, func(t *judge.Task) { t.Package.Digest += "-next" }, 1},
		{"another language", nil, 0, func(t *judge.Task) { t.Language = "cpp20" }, 2},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			compiles := 0
			p := &fakeProvider{compile: ofSources(func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
				compiles++
				if tt.res != nil {
					return *tt.res, nil
				}
				return wellBehaved(spec)
			})}
			e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, CompileCacheBytes: tt.cached})
			task := newTask(newPackage(t, "1", "1"), "c", "source")
			first, err := e.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if tt.change != nil {
				tt.change(&task)
			}
			second, err := e.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			if compiles != tt.want || first.Compile.Cached || second.Compile.Cached != (tt.want == 1) {
				t.Errorf("%d compiles, want %d; %+v, then %+v", compiles, tt.want, first.Compile, second.Compile)
			}
			if second.Verdict != first.Verdict || second.Toolchain != first.Toolchain || second.Compile.Log != first.Compile.Log {
				t.Errorf("%+v, then %+v", first, second)
			}
		})
	}
}

func TestTheSameSourceInManySlotsIsCompiledOnce(t *testing.T) {
	t.Parallel()
	var mu sync.Mutex
	compiles := 0
	p := &fakeProvider{compile: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		mu.Lock()
		defer mu.Unlock()
		compiles++
		return wellBehaved(spec)
	}}
	e := newEngine(t, p, 4)
	pkg := newPackage(t, "1", "1")
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() {
			if r, err := e.Judge(t.Context(), newTask(pkg, "c", "source"), quiet); err != nil || r.Verdict != verdict.AC {
				t.Errorf("%+v, %v", r, err)
			}
		})
	}
	wg.Wait()
	if compiles != 1 {
		t.Errorf("%d compiles", compiles)
	}
}

// TestCheckersAreNotInTheCompileCache: their sources may hold a package's
// secrets, and whoever guesses one must not learn that it was right.
func TestCheckersAreNotInTheCompileCache(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "scratch")
	e := newEngineWith(t, judge.Config{Provider: &fakeProvider{}, Slots: 1, ScratchDir: dir})
	pkg := customPackage(t, "c", nil, files{"checker/main.c": "secret"})
	for _, source := range []string{"source", "secret"} {
		r, err := e.Judge(t.Context(), newTask(pkg, "c", source), quiet)
		if err != nil || r.Compile.Cached {
			t.Fatalf("%s: %+v, %v", source, r, err)
		}
	}
	kept, err := os.ReadDir(filepath.Join(dir, "compiled"))
	if err != nil || len(kept) != 2 {
		t.Errorf("%d programs, %v", len(kept), err)
	}
}

func TestADamagedProgramIsCompiledAgain(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	var log logText
	e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, ScratchDir: dir, Logger: log.logger()})
	task := newTask(newPackage(t, "1 2", "3"), "c", cSum)
	for i, want := range []struct{ cached, damage bool }{{false, false}, {true, true}, {false, false}, {true, false}} {
		r, err := e.Judge(t.Context(), task, quiet)
		if err != nil || r.Verdict != verdict.AC || r.Compile.Cached != want.cached {
			t.Fatalf("%d: %+v, %v", i, r, err)
		}
		if r.Compile.CPU <= 0 || r.Stages["compile"] <= 0 {
			t.Errorf("%d: compile took %v of CPU, stage %v", i, r.Compile.CPU, r.Stages["compile"])
		}
		if want.damage {
			found, err := filepath.Glob(filepath.Join(dir, "compiled/*"))
			if err != nil || len(found) != 1 {
				t.Fatalf("%v, %v", found, err)
			}
			rewrite(t, found[0], flipMiddle)
		}
	}
	if !strings.Contains(log.String(), "program is not the one that was kept") {
		t.Errorf("the log does not say so: %s", &log)
	}
}

// TestTheCompileCacheEndsWithItsEngine: nobody watched the toolchain since.
func TestTheCompileCacheEndsWithItsEngine(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "scratch")
	left := filepath.Join(dir, "compiled", "0123.1")
	if err := os.MkdirAll(filepath.Dir(left), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(left, nil, 0o400); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		e := newEngineWith(t, judge.Config{Provider: &fakeProvider{}, Slots: 1, ScratchDir: dir})
		if _, err := os.Stat(left); err == nil {
			t.Error("what an earlier engine kept is still there")
		}
		r, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "c", ""), quiet)
		if err != nil || r.Compile.Cached {
			t.Errorf("%+v, %v", r, err)
		}
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestHeadersOfLanguagesThatAreGoneAreRemoved(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "scratch")
	for _, id := range []string{"x", "cpp20", "gone"} {
		if err := os.MkdirAll(filepath.Join(dir, "headers", id, "include"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	newEngineWith(t, judge.Config{Provider: &fakeProvider{}, Slots: 1, ScratchDir: dir, Languages: withSmallHeader(t)})
	left, err := os.ReadDir(filepath.Join(dir, "headers"))
	if err != nil || len(left) != 1 || left[0].Name() != "x" {
		t.Errorf("left: %v, %v", left, err)
	}
}

func TestSelfTestsAskTheCompilerItself(t *testing.T) {
	t.Parallel()
	compiles := 0
	p := &fakeProvider{compile: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		compiles++
		return wellBehaved(spec)
	}}
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Languages: languageLike(t)})
	for i := range 2 {
		if _, err := e.SelfTest(t.Context()); err != nil || compiles != i+1 {
			t.Errorf("%d compiles after %d self-tests, %v", compiles, i+1, err)
		}
	}
}

// laterClock is the system's, ahead by what a test says.
type laterClock struct {
	clock.System
	ahead atomic.Int64
}

func (c *laterClock) Now() time.Time { return c.System.Now().Add(time.Duration(c.ahead.Load())) }

func TestAHeaderThatTheMachineFailedToMakeIsTriedAgainLater(t *testing.T) {
	t.Parallel()
	tried := make(chan struct{}, 10)
	p := &fakeProvider{compile: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if slices.Contains(spec.Argv, "-M") {
			tried <- struct{}{}
			return sandbox.Result{}, &sandbox.Fault{Op: "fork", Err: syscall.EAGAIN}
		}
		return wellBehaved(spec)
	}}
	clock := &laterClock{}
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Clock: clock, Languages: withSmallHeader(t), CompileCacheBytes: -1})
	task := newTask(newPackage(t, "1", "1"), "x", "#include <string.h>\n")
	compile := func() {
		t.Helper()
		if r, err := e.Judge(t.Context(), task, quiet); err != nil || !r.Compile.OK || r.Compile.Precompiled {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if err := e.Precompile(t.Context(), "x"); err == nil {
		t.Fatal("no error")
	}
	<-tried
	compile()
	clock.ahead.Store(int64(11 * time.Minute))
	compile()
	<-tried // in the background
	// It gives way to submissions and would be begun again: wait for its end.
	if err := e.Precompile(t.Context(), "x"); err == nil {
		t.Fatal("no error")
	}
	for len(tried) > 0 { // it had ended already, and this one tried itself
		<-tried
	}
	compile()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if len(tried) > 0 {
		t.Errorf("tried %d times more", len(tried))
	}
}

// TestWhateverGoesWrongWithAHeaderIsDoneAgainWithout: the attempt with the
// header has no say but in success.
func TestWhateverGoesWrongWithAHeaderIsDoneAgainWithout(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	{ // a header of the real compiler
		e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, ScratchDir: dir, Languages: withSmallHeader(t)})
		if err := e.Precompile(t.Context(), "x"); err != nil {
			t.Fatal(err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, attempt := range map[string]func(*sandbox.Spec) (sandbox.Result, error){
		"CE":            func(*sandbox.Spec) (sandbox.Result, error) { return sandbox.Result{ExitCode: 1}, nil },
		"crash":         func(*sandbox.Spec) (sandbox.Result, error) { return sandbox.Result{Signal: 11}, nil },
		"out of memory": func(*sandbox.Spec) (sandbox.Result, error) { return sandbox.Result{OOMKills: 1, ExitCode: 1}, nil },
		"out of time": func(*sandbox.Spec) (sandbox.Result, error) {
			return sandbox.Result{Fired: sandbox.LimitCPU, Signal: 9}, nil
		},
		"busy machine": func(*sandbox.Spec) (sandbox.Result, error) {
			return sandbox.Result{Fired: sandbox.LimitWall, Signal: 9}, nil
		},
		"no program": func(*sandbox.Spec) (sandbox.Result, error) { return sandbox.Result{}, nil },
		"fault": func(*sandbox.Spec) (sandbox.Result, error) {
			return sandbox.Result{}, &sandbox.Fault{Op: "x", Err: syscall.EIO}
		},
		"not used":        logging("main.c:1:10: warning: h.gch: not used because x [-Winvalid-pch]\n"),
		"a chain is lost": logging("In file included from /usr/include/string.h:1:\n"),
	} {
		t.Run(name, func(t *testing.T) {
			var seen []sandbox.Limits
			p := &fakeProvider{version: gccVersion(t, dir)}
			p.compile = func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
				seen = append(seen, spec.Limits)
				if slices.Contains(spec.Argv, "-Winvalid-pch") {
					return attempt(spec)
				}
				return wellBehaved(spec)
			}
			e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, ScratchDir: dir, Languages: withSmallHeader(t)})
			if err := e.Precompile(t.Context(), "x"); err != nil {
				t.Fatal(err)
			}
			r, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "x", "#include <string.h>\n"), quiet)
			if err != nil || r.Verdict != verdict.AC || r.Compile.Precompiled || r.Compile.Log != "" {
				t.Fatalf("%+v, %v", r, err)
			}
			if len(seen) != 2 || seen[0].CPU*2 != seen[1].CPU || seen[0].Wall*2 != seen[1].Wall || seen[0].MemoryBytes != seen[1].MemoryBytes {
				t.Errorf("limits of the attempts: %+v", seen)
			}
		})
	}
}

// logging is a success with something in the log.
func logging(text string) func(*sandbox.Spec) (sandbox.Result, error) {
	return func(spec *sandbox.Spec) (sandbox.Result, error) {
		if _, err := io.WriteString(spec.Stderr, text); err != nil {
			return sandbox.Result{}, err
		}
		return wellBehaved(spec)
	}
}

// gccVersion is what the compiler that made the header below dir said.
func gccVersion(t *testing.T, dir string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(dir, "headers/x/manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	var m struct{ Version string }
	if err := json.Unmarshal(text, &m); err != nil {
		t.Fatal(err)
	}
	return m.Version + "\n"
}
