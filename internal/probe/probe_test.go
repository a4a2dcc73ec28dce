package probe_test

import (
	"bytes"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/probe"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestMain(m *testing.M) {
	linuxbox.Init()
	os.Exit(m.Run())
}

func builtin(t *testing.T) *language.Registry {
	t.Helper()
	r, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func TestEveryLanguageHasItsProbes(t *testing.T) {
	quick := 0
	for _, l := range builtin(t).All() {
		for _, program := range health.Programs {
			a, ok := probe.Make(l.ID, program, "one")
			b, _ := probe.Make(l.ID, program, "two")
			if !ok || bytes.Equal(a.Source, b.Source) {
				t.Errorf("%s %s: known %v, and two probes are the same: %v", l.ID, program, ok, bytes.Equal(a.Source, b.Source))
				continue
			}
			if bytes.Contains(a.Source, []byte("@@")) || bytes.Contains(a.Source, []byte("$$")) {
				t.Errorf("%s %s: a placeholder is left in\n%s", l.ID, program, a.Source)
			}
			if a.Package != b.Package || a.Package.Digest != problem.Digest(a.Package.Manifest) {
				t.Errorf("%s %s: the package is not one and the same", l.ID, program)
			}
			var archive bytes.Buffer
			if err := problem.WriteArchive(&archive, a.Package.Manifest, a.Package.Files); err != nil {
				t.Errorf("%s %s: %v", l.ID, program, err)
			}
			for _, word := range []string{"AC", "WA", "TLE", "CE"} {
				if bytes.Contains(a.Source, []byte(word)) {
					t.Errorf("%s %s: the source says %s", l.ID, program, word)
				}
			}
		}
		if probe.Quick(l.ID) {
			quick++
		}
	}
	if quick < 8 {
		t.Errorf("%d languages are quick", quick)
	}
	if _, ok := probe.Make("cobol", probe.AC, "x"); ok {
		t.Error("an answer is known in COBOL")
	}
}

func report(verdict string, cpu time.Duration) gavelapi.Report {
	return gavelapi.Report{
		Verdict: verdict, CPUUS: cpu.Microseconds(), WallUS: cpu.Microseconds(),
		Tests: []gavelapi.TestResult{{Name: "secret/1", Verdict: verdict, Reason: "exit", ExitCode: 1}},
	}
}

func TestOnlyTheKnownAnswerPasses(t *testing.T) {
	limits := gavelapi.Limits{CPUUS: 500_000, WallUS: 2_000_000}
	fault := gavelapi.Report{Fault: &gavelapi.Fault{Blame: "host", Message: "no space"}}
	stopped := report("CE", 0)
	stopped.Compile.Reason = "memory"
	asleep := report("TLE", 0)
	asleep.WallUS = 2_000_000
	for _, c := range []struct {
		name, program string
		report        gavelapi.Report
		took          time.Duration
		want          string // in the complaint; "" passes
	}{
		{"right", "AC", report("AC", 100*time.Millisecond), time.Second, ""},
		{"wrong answer", "WA", report("WA", time.Millisecond), time.Second, ""},
		{"no compile", "CE", report("CE", 0), time.Second, ""},
		{"too slow", "TLE", report("TLE", 510*time.Millisecond), time.Second, ""},
		{"too slow by the wall", "TLE", asleep, time.Second, ""},
		{"says AC to everything", "WA", report("AC", time.Millisecond), time.Second, "got AC, want WA"},
		{"cannot run anything", "AC", report("RE", time.Millisecond), time.Second, "got RE, want AC (exit, exit code 1, signal 0)"},
		{"does not run it at all", "AC", report("AC", 0), time.Second, "which cannot be"},
		{"stopped early", "TLE", report("TLE", 10*time.Millisecond), time.Second, "TLE after 10ms of CPU"},
		{"stopped late", "TLE", report("TLE", 10*time.Second), time.Second, "stopped after 10s"},
		{"a compiler that was stopped", "CE", stopped, time.Second, "memory limit"},
		{"a fault", "AC", fault, time.Second, "fault of the host instead of AC: no space"},
		{"late", "AC", report("AC", 100*time.Millisecond), time.Hour, "AC took 1h"},
	} {
		got := probe.Check(c.program, &c.report, limits, c.took)
		if got == "" != (c.want == "") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %q, want something with %q", c.name, got, c.want)
		}
	}
}

// The real engine gives the known answers, in every language that this machine
// has, and its reports pass the check.
func TestTheRealEngineGivesTheKnownAnswers(t *testing.T) {
	provider, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	defer provider.Close()
	languages := builtin(t)
	engine, err := judge.New(judge.Config{
		Provider: provider, Slots: 1, Languages: languages, ScratchDir: filepath.Join(t.TempDir(), "scratch"), NoPrecompiledHeaders: true,
	})
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	offered := 0
	for _, l := range languages.All() {
		if testing.Short() && !probe.Quick(l.ID) {
			continue
		}
		offers, err := engine.SelfTestOf(t.Context(), []*language.Language{l})
		if err != nil {
			t.Fatal(err)
		}
		if !offers[0].OK {
			t.Logf("%s is not here: %.100s", l.ID, offers[0].Reason)
			continue
		}
		offered++
		for _, program := range health.Programs {
			t.Run(l.ID+" "+program, func(t *testing.T) {
				p, _ := probe.Make(l.ID, program, fmt.Sprint("test ", l.ID, program))
				limits, err := language.Effective(p.Package.Manifest.Limits, l)
				if err != nil {
					t.Fatal(err)
				}
				began := time.Now()
				got, err := engine.Judge(t.Context(), judge.Task{
					Source: p.Source, Language: l.ID, Package: unpack(t, p.Package), Limits: judge.Limits(limits), Stop: judge.StopFirst,
				}, func(judge.Progress) {})
				took := time.Since(began)
				wire := gavelapi.Report{}
				if err != nil {
					wire.Fault = &gavelapi.Fault{Blame: "host", Message: err.Error()}
				} else {
					wire.Verdict, wire.Compile.Log, wire.Compile.Reason = string(got.Verdict), got.Compile.Log, string(got.Compile.Fired)
					for _, r := range got.Tests {
						wire.CPUUS, wire.WallUS = r.CPU.Microseconds(), r.Wall.Microseconds()
						wire.Tests = append(wire.Tests, gavelapi.TestResult{Verdict: string(r.Verdict), Reason: string(r.Reason), ExitCode: r.ExitCode, Signal: r.Signal})
					}
				}
				t.Logf("%v in all, %v of CPU, %v compiling", took.Round(time.Millisecond), time.Duration(wire.CPUUS)*time.Microsecond, got.Compile.Wall)
				if why := probe.Check(program, &wire, gavelapi.Limits{CPUUS: limits.CPU.Microseconds(), WallUS: limits.Wall.Microseconds()}, took); why != "" {
					t.Error(why)
				}
			})
		}
	}
	if offered == 0 {
		testkit.Missing(t, testkit.Cgroup, "no language works here")
	}
}

// unpack writes a package to a directory as a worker has it.
func unpack(t *testing.T, p *probe.Package) *problem.Package {
	t.Helper()
	dir := t.TempDir()
	for _, f := range p.Manifest.Files {
		text, err := fs.ReadFile(p.Files, f.Path)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(dir, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, text, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	return &problem.Package{Dir: dir, Digest: p.Digest, Manifest: *p.Manifest}
}
