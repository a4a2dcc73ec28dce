package judge_test

import (
	"cmp"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/fstest"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// fakeProvider plays a machine: each function says what a run of that profile
// does, and nil does what a well-behaved program would.
type fakeProvider struct {
	compile, run, check func(context.Context, *sandbox.Spec) (sandbox.Result, error)
	openErr             error
	version             string // what compilers say; empty is "fake 1.0"

	mu             sync.Mutex
	opened, closed int
	specs          []*sandbox.Spec
	boxOf          map[sandbox.Profile]map[*fakeBox]bool
}

func (p *fakeProvider) Open(context.Context) (sandbox.Box, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.openErr != nil {
		return nil, p.openErr
	}
	p.opened++
	return &fakeBox{p: p}, nil
}

func (p *fakeProvider) Info() sandbox.Info { return sandbox.Info{} }
func (p *fakeProvider) Close() error       { return nil }

type fakeBox struct{ p *fakeProvider }

func (b *fakeBox) Close() error {
	b.p.mu.Lock()
	defer b.p.mu.Unlock()
	b.p.closed++
	return nil
}

func (b *fakeBox) Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	if ctx.Err() != nil {
		return sandbox.Result{}, context.Cause(ctx)
	}
	b.p.mu.Lock()
	b.p.specs = append(b.p.specs, spec)
	if b.p.boxOf == nil {
		b.p.boxOf = map[sandbox.Profile]map[*fakeBox]bool{}
	}
	if b.p.boxOf[spec.Profile] == nil {
		b.p.boxOf[spec.Profile] = map[*fakeBox]bool{}
	}
	b.p.boxOf[spec.Profile][b] = true
	b.p.mu.Unlock()

	play := map[sandbox.Profile]func(context.Context, *sandbox.Spec) (sandbox.Result, error){
		sandbox.ProfileCompile: b.p.compile, sandbox.ProfileRun: b.p.run, sandbox.ProfileChecker: b.p.check,
	}[spec.Profile]
	if len(spec.Argv) == 2 && spec.Argv[1] == "--version" {
		_, err := io.WriteString(spec.Stdout, cmp.Or(b.p.version, "fake 1.0\nmore\n"))
		return sandbox.Result{}, err
	}
	if play != nil {
		return play(ctx, spec)
	}
	return wellBehaved(spec)
}

// wellBehaved echoes its input; a compiler leaves a program, a checker accepts.
func wellBehaved(spec *sandbox.Spec) (res sandbox.Result, err error) {
	switch spec.Profile {
	case sandbox.ProfileCompile:
		res.Files = map[string]sandbox.File{}
		for _, c := range spec.CopyOut {
			if res.Files[c.Path], err = fileOf("program"); err != nil {
				return res, err
			}
		}
	case sandbox.ProfileRun:
		if spec.Stdin != nil {
			res.StdoutBytes, err = io.Copy(spec.Stdout, spec.Stdin)
		}
	case sandbox.ProfileChecker:
		res.ExitCode = 42
	}
	return res, err
}

// fileOf is a copied-out file.
func fileOf(text string) (sandbox.File, error) {
	f, err := os.CreateTemp("", "fake")
	if err != nil {
		return sandbox.File{}, err
	}
	_ = os.Remove(f.Name())
	if _, err := f.WriteString(text); err != nil {
		return sandbox.File{}, err
	}
	_, err = f.Seek(0, io.SeekStart)
	return sandbox.File{State: sandbox.FileOK, Size: int64(len(text)), Content: f}, err
}

func result(res sandbox.Result) func(context.Context, *sandbox.Spec) (sandbox.Result, error) {
	return func(context.Context, *sandbox.Spec) (sandbox.Result, error) { return res, nil }
}

// ofSources plays f for all that is compiled but a self-test program, which a
// compile error has compiled as well.
func ofSources(f func(context.Context, *sandbox.Spec) (sandbox.Result, error)) func(context.Context, *sandbox.Spec) (sandbox.Result, error) {
	return func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if isSelfTest(spec) {
			return wellBehaved(spec)
		}
		return f(ctx, spec)
	}
}

func isSelfTest(spec *sandbox.Spec) bool {
	text, err := os.ReadFile(spec.Mounts[0].Host)
	return err == nil && strings.Contains(string(text), "ONLINE_JUDGE")
}

func failure(err error) func(context.Context, *sandbox.Spec) (sandbox.Result, error) {
	return func(context.Context, *sandbox.Spec) (sandbox.Result, error) { return sandbox.Result{}, err }
}

func TestTimeThatTheMachineTookIsNoTLE(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		over time.Duration // what the program waited by itself, beyond the limit
		want verdict.Verdict
	}{{0, verdict.AC}, {time.Millisecond, verdict.TLE}} {
		p := &fakeProvider{run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			res, err := wellBehaved(spec)
			res.Starved = time.Minute
			res.Wall = spec.Limits.Wall + res.Starved + tt.over
			return res, err
		}}
		report, err := newEngine(t, p, 1).Judge(t.Context(), newTask(newPackage(t, "1\n", "1\n"), "c", ""), quiet)
		if err != nil || report.Verdict != tt.want {
			t.Errorf("%v over: %+v, %v", tt.over, report, err)
		}
	}
}

func TestFaultsOfTheMachineAreNeverVerdicts(t *testing.T) {
	t.Parallel()
	machine := &sandbox.Fault{Op: "cgroup", Err: errors.New("gone")}
	notThere := &sandbox.Fault{Op: "exec", Err: syscall.ENOENT}
	noMemory := &sandbox.Fault{Op: "exec", Err: syscall.ENOMEM}
	tests := []struct {
		name  string
		p     *fakeProvider
		spoil func(*judge.Task)
		blame judge.Blame
		says  string
	}{
		{"no box", &fakeProvider{openErr: machine}, nil, judge.BlameHost, "gone"},
		{"compile box fails", &fakeProvider{compile: failure(machine)}, nil, judge.BlameHost, "compile"},
		{"run box fails", &fakeProvider{run: failure(machine)}, nil, judge.BlameHost, "secret/1"},
		{"compiler missing", &fakeProvider{compile: failure(notThere)}, nil, judge.BlameToolchain, "/usr/bin/gcc"},
		{"no memory to start the compiler", &fakeProvider{compile: failure(noMemory)}, nil, judge.BlameHost, "compile"},
		{"no memory to start the program", &fakeProvider{run: failure(noMemory)}, nil, judge.BlameHost, "secret/1"},
		{"interpreter gone between check and run", &fakeProvider{run: failure(notThere)}, func(t *judge.Task) { t.Language = "python3" }, judge.BlameToolchain, "/usr/bin/python3"},
		{"compiler leaves nothing", &fakeProvider{compile: result(sandbox.Result{})}, nil, judge.BlameToolchain, "no program"},
		{"busy host", &fakeProvider{compile: failure(&sandbox.Fault{Op: "cpu", Err: errors.New("the machine is too busy")})}, nil, judge.BlameHost, "too busy"},
		{"unknown limit on a run", &fakeProvider{run: result(sandbox.Result{Fired: "moon"})}, nil, judge.BlameHost, "moon"},
		{"unknown limit on a compiler", &fakeProvider{compile: result(sandbox.Result{Fired: "moon"})}, nil, judge.BlameHost, "moon"},
		{"scratch disk full", &fakeProvider{run: failure(&sandbox.Fault{Op: "output", Err: syscall.ENOSPC})}, nil, judge.BlameHost, "no space left"},
		{"unknown language", &fakeProvider{}, func(t *judge.Task) { t.Language = "cobol" }, judge.BlameToolchain, "cobol"},
		{"no package", &fakeProvider{}, func(t *judge.Task) { t.Package = nil }, judge.BlamePackage, "no tests"},
		{"no tests", &fakeProvider{}, func(t *judge.Task) { t.Package.Manifest.Tests = nil }, judge.BlamePackage, "no tests"},
		{"no CPU limit", &fakeProvider{}, func(t *judge.Task) { t.Limits.CPU = 0 }, judge.BlamePackage, "CPU limit"},
		{"no output limit", &fakeProvider{}, func(t *judge.Task) { t.Limits.OutputBytes = 0 }, judge.BlamePackage, "output limit"},
		{"wall limit below CPU limit", &fakeProvider{}, func(t *judge.Task) { t.Limits.Wall = t.Limits.CPU - 1 }, judge.BlamePackage, "contradict"},
		{"unknown stop rule", &fakeProvider{}, func(t *judge.Task) { t.Stop = "" }, judge.BlamePackage, "stop rule"},
		{"unknown kind of checker", &fakeProvider{}, func(t *judge.Task) { t.Package.Manifest.Checker.Kind = "oracle" }, judge.BlamePackage, "oracle"},
		{"bad tolerance", &fakeProvider{}, func(t *judge.Task) { t.Package.Manifest.Checker.Tokens.FloatAbsolute = "nan" }, judge.BlamePackage, "float_absolute_tolerance"},
		{"bad tolerance of one test", &fakeProvider{}, func(t *judge.Task) {
			t.Package.Manifest.Tests[1].Tokens = &problem.TokenOptions{FloatRelative: "-1"}
		}, judge.BlamePackage, "secret/2"},
		{"file of the package gone", &fakeProvider{}, func(t *judge.Task) { _ = os.Remove(t.Package.Path("data/secret/2.in")) }, judge.BlamePackage, "data/secret/2.in"},
		{"input that no file list names is gone", &fakeProvider{}, func(t *judge.Task) { t.Package.Manifest.Tests[0].Input = "data/no.in" }, judge.BlamePackage, "data/no.in"},
		{"answer that no file list names is gone", &fakeProvider{}, func(t *judge.Task) { t.Package.Manifest.Tests[0].Answer = "data/no.ans" }, judge.BlamePackage, "data/no.ans"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			task := newTask(newPackage(t, "1", "1", "2", "2"), "c", "")
			if tt.spoil != nil {
				tt.spoil(&task)
			}
			r, err := newEngine(t, tt.p, 1).Judge(t.Context(), task, quiet)
			if r != nil {
				t.Fatalf("a report: %+v", r)
			}
			if f := wantFault(t, err, tt.blame); !strings.Contains(f.Error(), tt.says) {
				t.Errorf("fault %q does not say %q", f, tt.says)
			}
		})
	}
}

func TestWhatCompilersDoToThemselvesIsACompileError(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name string
		res  sandbox.Result
		says string
	}{
		{"CPU limit", sandbox.Result{Fired: sandbox.LimitCPU, Signal: 9}, "compile time limit (10s of CPU)"},
		{"wall limit while waiting", sandbox.Result{Fired: sandbox.LimitWall, CPU: 21 * time.Millisecond, Signal: 9}, "the compiler waited for what never came"},
		{"wall limit while working", sandbox.Result{Fired: sandbox.LimitWall, CPU: 6 * time.Second, Signal: 9}, "compile time limit (30s)"},
		{"memory limit", sandbox.Result{Fired: sandbox.LimitMemory, Signal: 9}, "compiler memory limit (1024 MiB)"},
		{"child killed for memory, driver exits with 1", sandbox.Result{OOMKills: 1, ExitCode: 1}, "compiler memory limit"},
		{"file limit", sandbox.Result{Fired: sandbox.LimitOutput, Signal: 25}, "larger than 128 MiB"},
		{"asleep", sandbox.Result{Fired: sandbox.LimitAsleep, Asleep: 10 * time.Second, Signal: 9}, "waited for 10s"},
		{"endless text", sandbox.Result{Fired: sandbox.LimitOutput, StdoutBytes: 1<<20 + 1}, "printed more than"},
		{"crash", sandbox.Result{Signal: 11}, "compiler ended by signal 11"},
		{"program too large", sandbox.Result{Files: map[string]sandbox.File{"prog": {State: sandbox.FileTooLarge, Size: 1 << 30}}}, "program is larger than 128 MiB"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			p := &fakeProvider{compile: ofSources(result(tt.res))}
			r, err := newEngine(t, p, 1).Judge(t.Context(), newTask(newPackage(t, "1", "1"), "c", ""), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if r.Verdict != verdict.CE || !strings.Contains(r.Compile.Log, tt.says) {
				t.Errorf("verdict %s, log %q", r.Verdict, r.Compile.Log)
			}
		})
	}
}

func TestProgramThatTheKernelRefusesIsARuntimeError(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{run: failure(&sandbox.Fault{Op: "exec", Err: syscall.ENOEXEC})}
	r, err := newEngine(t, p, 1).Judge(t.Context(), newTask(newPackage(t, "1", "1"), "c", ""), quiet)
	if err != nil {
		t.Fatal(err)
	}
	if r.Verdict != verdict.RE || r.Tests[0].ExitCode != 127 || !strings.Contains(r.Tests[0].Message, "kernel refuses") {
		t.Errorf("%+v", r.Tests)
	}
}

func TestAHintIsForRuntimeErrorsAndFoundInPieces(t *testing.T) {
	t.Parallel()
	says := func(res sandbox.Result, pieces ...string) *fakeProvider {
		return &fakeProvider{run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			for _, p := range pieces {
				if _, err := io.WriteString(spec.Stderr, p); err != nil {
					return res, err
				}
			}
			return res, nil
		}}
	}
	filler := strings.Repeat("x", 5000)
	for name, c := range map[string]struct {
		p    *fakeProvider
		hint bool
	}{
		"in one piece":            {says(sandbox.Result{Signal: 6}, "std::bad_alloc"), true},
		"in two, behind filler":   {says(sandbox.Result{ExitCode: 1}, filler, filler+"Cannot allocate memor", "y"), true},
		"byte by byte":            {says(sandbox.Result{ExitCode: 1}, strings.Split("fatal: out of memory", "")...), true},
		"found and then filler":   {says(sandbox.Result{ExitCode: 1}, "MemoryError", filler), true},
		"words apart":             {says(sandbox.Result{ExitCode: 1}, "bad_", filler, "alloc"), false},
		"a limit that was broken": {says(sandbox.Result{Fired: sandbox.LimitMemory, OOMKills: 1, Signal: 9}, "MemoryError"), false},
		"a wrong answer":          {says(sandbox.Result{}, "MemoryError"), false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r, err := newEngine(t, c.p, 1).Judge(t.Context(), newTask(newPackage(t, "1", "1"), "c", ""), quiet)
			if err != nil {
				t.Fatal(err)
			}
			if got := r.Tests[0]; strings.Contains(got.Message, "refused memory") != c.hint {
				t.Errorf("%+v", got)
			}
		})
	}
}

func TestFaultyBoxIsReplaced(t *testing.T) {
	t.Parallel()
	broken := true
	p := &fakeProvider{}
	p.run = func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if broken {
			broken = false
			return sandbox.Result{}, &sandbox.Fault{Op: "supervise", Err: errors.New("helper gone")}
		}
		return wellBehaved(spec)
	}
	e := newEngine(t, p, 1)
	task := newTask(newPackage(t, "1", "1"), "c", "")
	_, err := e.Judge(t.Context(), task, quiet)
	wantFault(t, err, judge.BlameHost)
	if p.closed != 1 {
		t.Errorf("%d boxes closed after a fault, want 1", p.closed)
	}
	r, err := e.Judge(t.Context(), task, quiet)
	if err != nil || r.Verdict != verdict.AC {
		t.Errorf("after the fault: %+v, %v", r, err)
	}
	if p.opened != 3 {
		t.Errorf("%d boxes opened, want 3: compile, run, run", p.opened)
	}
}

func TestKindsOfProgramsNeverShareABox(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{}
	pkg := customPackage(t, "c", nil, files{"checker/check.c": ""})
	if _, err := newEngine(t, p, 1).Judge(t.Context(), newTask(pkg, "c", ""), quiet); err != nil {
		t.Fatal(err)
	}
	seen := map[*fakeBox]sandbox.Profile{}
	for profile, boxes := range p.boxOf {
		for b := range boxes {
			if other, ok := seen[b]; ok {
				t.Errorf("%s and %s ran in one box", profile, other)
			}
			seen[b] = profile
		}
	}
	if len(p.boxOf) != 3 {
		t.Errorf("profiles %v, want three", p.boxOf)
	}
}

func TestContestantsBoxShowsTheProgramOnly(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{}
	pkg := customPackage(t, "c", nil, files{"checker/check.c": ""})
	if _, err := newEngine(t, p, 1).Judge(t.Context(), newTask(pkg, "c", ""), quiet); err != nil {
		t.Fatal(err)
	}
	runs := 0
	for _, spec := range p.specs {
		if spec.Profile == sandbox.ProfileChecker {
			continue
		}
		for _, m := range spec.Mounts {
			if strings.Contains(m.Host, "data") || strings.HasPrefix(m.Box, sandbox.DataDir) {
				t.Errorf("%s box shows %+v", spec.Profile, m)
			}
		}
		if spec.Profile == sandbox.ProfileRun {
			runs++
			if len(spec.Mounts) != 1 || spec.Mounts[0].Box != "/box/prog" {
				t.Errorf("run box shows %+v", spec.Mounts)
			}
		}
	}
	if runs == 0 {
		t.Error("nothing ran")
	}
}

func TestOutputOverTheLimitIsNeverChecked(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{
		run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			_, err := io.WriteString(spec.Stdout, "1")
			return sandbox.Result{Fired: sandbox.LimitOutput, StdoutBytes: spec.Limits.StdoutBytes + 1, Signal: 9}, err
		},
		check: failure(errors.New("the checker was asked")),
	}
	pkg := customPackage(t, "c", nil, files{"checker/check.c": ""})
	r, err := newEngine(t, p, 1).Judge(t.Context(), newTask(pkg, "c", ""), quiet)
	if err != nil || r.Verdict != verdict.OLE {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestCancellationReturnsItsCause(t *testing.T) {
	t.Parallel()
	lost := errors.New("lease lost")
	for _, phase := range []sandbox.Profile{sandbox.ProfileCompile, sandbox.ProfileRun, sandbox.ProfileChecker} {
		t.Run(string(phase), func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			hang := func(ctx context.Context, _ *sandbox.Spec) (sandbox.Result, error) {
				cancel(lost)
				<-ctx.Done()
				return sandbox.Result{}, context.Cause(ctx)
			}
			p := &fakeProvider{}
			switch phase {
			case sandbox.ProfileCompile:
				p.compile = hang
			case sandbox.ProfileRun:
				p.run = hang
			case sandbox.ProfileChecker:
				p.check = hang
			}
			e := newEngine(t, p, 1)
			pkg := customPackage(t, "c", nil, files{"checker/check.c": ""})
			if _, err := e.Judge(ctx, newTask(pkg, "c", ""), quiet); !errors.Is(err, lost) {
				t.Errorf("error %v, want the cause", err)
			}
			// The engine is as good as before, also when a build was cut off.
			p.compile, p.run, p.check = nil, nil, nil
			if r, err := e.Judge(t.Context(), newTask(pkg, "c", ""), quiet); err != nil || r.Verdict != verdict.AC {
				t.Errorf("afterwards: %+v, %v", r, err)
			}
		})
	}
}

func TestWaitingForASlotEndsWithTheContext(t *testing.T) {
	t.Parallel()
	running, release := make(chan struct{}), make(chan struct{})
	p := &fakeProvider{run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		close(running)
		<-release
		return wellBehaved(spec)
	}}
	e := newEngine(t, p, 1)
	task := newTask(newPackage(t, "1", "1"), "c", "")
	var wg sync.WaitGroup
	wg.Go(func() {
		if _, err := e.Judge(t.Context(), task, quiet); err != nil {
			t.Error(err)
		}
	})
	<-running
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := e.Judge(ctx, task, quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("error %v", err)
	}
	close(release)
	wg.Wait()
}

func TestCloseEndsWhatRuns(t *testing.T) {
	t.Parallel()
	running := make(chan struct{})
	p := &fakeProvider{run: func(ctx context.Context, _ *sandbox.Spec) (sandbox.Result, error) {
		close(running)
		<-ctx.Done()
		return sandbox.Result{}, context.Cause(ctx)
	}}
	e := newEngine(t, p, 1)
	task := newTask(newPackage(t, "1", "1"), "c", "")
	done := make(chan error, 1)
	go func() {
		_, err := e.Judge(t.Context(), task, quiet)
		done <- err
	}()
	<-running
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := <-done; err == nil || !strings.Contains(err.Error(), "closed") {
		t.Errorf("error %v", err)
	}
	if _, err := e.Judge(t.Context(), task, quiet); err == nil {
		t.Error("a closed engine judged")
	}
	if p.opened != p.closed {
		t.Errorf("%d boxes opened, %d closed", p.opened, p.closed)
	}
}

func TestScratchDirectoryIsClearedAndExclusive(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "scratch")
	left := filepath.Join(dir, "tasks", "12345", "output")
	if err := os.MkdirAll(left, 0o755); err != nil {
		t.Fatal(err)
	}
	cfg := judge.Config{Provider: &fakeProvider{}, Slots: 1, Languages: builtin(t), ScratchDir: dir}
	newEngineWith(t, cfg)
	if _, err := os.Stat(left); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("leftovers are still there: %v", err)
	}
	if _, err := judge.New(cfg); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Errorf("a second engine on the same directory: %v", err)
	}
	cfg.ScratchDir = "relative"
	if _, err := judge.New(cfg); err == nil || !strings.Contains(err.Error(), "absolute") {
		t.Errorf("a relative directory: %v", err)
	}
}

func TestNewRefusesBadConfigs(t *testing.T) {
	t.Parallel()
	good := judge.Config{Provider: &fakeProvider{}, Slots: 1, Languages: builtin(t), ScratchDir: t.TempDir()}
	for name, spoil := range map[string]func(*judge.Config){
		"provider":  func(c *judge.Config) { c.Provider = nil },
		"languages": func(c *judge.Config) { c.Languages = nil },
		"slots":     func(c *judge.Config) { c.Slots = 0 },
	} {
		cfg := good
		spoil(&cfg)
		if _, err := judge.New(cfg); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// languageLike is the C file with replacements, as the only language "x".
func languageLike(t *testing.T, pairs ...string) *language.Registry {
	t.Helper()
	text, err := os.ReadFile("../language/data/c.yaml")
	if err != nil {
		t.Fatal(err)
	}
	changed := strings.NewReplacer(append([]string{"id: c\n", "id: x\n"}, pairs...)...).Replace(string(text))
	r, err := language.Load(fstest.MapFS{"x.yaml": {Data: []byte(changed)}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestSelfTestWithholdsWhatFails(t *testing.T) {
	t.Parallel()
	flaky := 0
	tests := []struct {
		name string
		p    *fakeProvider
		says string
	}{
		{"wrong output", &fakeProvider{}, "WA"},
		{"does not compile", &fakeProvider{compile: result(sandbox.Result{ExitCode: 1})}, "does not compile"},
		{"flaky", &fakeProvider{run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			flaky++
			_, err := io.WriteString(spec.Stdout, "48 1.414\n")
			return sandbox.Result{Signal: map[bool]int{true: 11}[flaky == 3]}, err
		}}, "run-3 of the self-test program: RE signal"},
		{"compiler missing", &fakeProvider{compile: failure(&sandbox.Fault{Op: "exec", Err: syscall.ENOENT})}, "toolchain"},
		{"box missing", &fakeProvider{openErr: &sandbox.Fault{Op: "cgroup", Hint: "mount it", Err: errors.New("read-only")}}, "mount it"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			e := newEngineWith(t, judge.Config{Provider: tt.p, Slots: 1, Languages: languageLike(t)})
			offers, err := e.SelfTest(t.Context())
			if err != nil || len(offers) != 1 {
				t.Fatalf("%+v, %v", offers, err)
			}
			if offers[0].OK || !strings.Contains(offers[0].Reason, tt.says) {
				t.Errorf("%+v does not say %q", offers[0], tt.says)
			}
		})
	}
}
