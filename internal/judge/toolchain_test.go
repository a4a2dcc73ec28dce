package judge_test

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// fakeLanguage is a language x with these lines more.
func fakeLanguage(t *testing.T, more string) *language.Registry {
	t.Helper()
	r, err := language.Load(fstest.MapFS{"x.yaml": {Data: []byte(fakeText("x", more))}})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func fakeText(id, more string) string {
	const limits = "limits: {cpu_ms: 1000, wall_ms: 1000, memory_bytes: 1048576, file_bytes: 1048576, disk_bytes: 1048576, processes: 1}"
	text := `id: ID
name: X
package_codes: [ID]
extensions: [ID]
source: main.ID
compile:
  argv: [/usr/bin/env, "{sources}", "{program}"]
  program: prog
  ` + limits + `
version: {argv: [/usr/bin/env, --version]}
self_test: {source: s, input: "48", output: "48"}
` + strings.ReplaceAll(more, "LIMITS", limits)
	if !strings.Contains(more, "\nrun:") && !strings.HasPrefix(more, "run:") {
		text += "\nrun: {argv: [\"{program}\"], processes: 1}\n"
	}
	return strings.ReplaceAll(text, "ID", id)
}

func tarOf(t *testing.T, entries ...tar.Header) sandbox.File {
	t.Helper()
	var b bytes.Buffer
	w := tar.NewWriter(&b)
	for _, h := range entries {
		h.Size = int64(len(h.Name))
		if h.Typeflag != tar.TypeReg {
			h.Size = 0
		}
		if err := w.WriteHeader(&h); err != nil {
			t.Fatal(err)
		}
		if h.Size > 0 {
			if _, err := io.WriteString(w, h.Name); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	f, err := fileOf(b.String())
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// preparing plays a compile box whose prepare step leaves a tar.
func preparing(t *testing.T, times *int, entries ...tar.Header) func(context.Context, *sandbox.Spec) (sandbox.Result, error) {
	return func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		if spec.Argv[0] != "/usr/bin/prepare" {
			return wellBehaved(spec)
		}
		*times++
		return sandbox.Result{Files: map[string]sandbox.File{language.PreparedTar: tarOf(t, entries...)}}, nil
	}
}

// seen are the box paths of a run's mounts, with what is mounted there.
func seen(t *testing.T, spec *sandbox.Spec) map[string]string {
	t.Helper()
	out := map[string]string{}
	for _, m := range spec.Mounts {
		fi, err := os.Stat(m.Host)
		switch {
		case err != nil: // gone with its task
			out[m.Box] = ""
		case fi.IsDir():
			names, err := os.ReadDir(m.Host)
			if err != nil {
				t.Fatal(err)
			}
			for _, n := range names {
				out[m.Box] += n.Name() + " "
			}
		default:
			b, err := os.ReadFile(m.Host)
			if err != nil {
				t.Fatal(err)
			}
			out[m.Box] = string(b)
		}
	}
	return out
}

const withPrepare = "helpers: {H.txt: help}\nprepare: {argv: [/usr/bin/prepare], LIMITS}\n"

func TestStepsSeeHelpersAndWhatWasPreparedAndRunsDoNot(t *testing.T) {
	t.Parallel()
	times := 0
	p := &fakeProvider{compile: preparing(t, &times, tar.Header{Name: "sub/", Typeflag: tar.TypeDir, Mode: 0o755}, tar.Header{Name: "sub/a", Typeflag: tar.TypeReg, Mode: 0o644})}
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 2, Languages: fakeLanguage(t, withPrepare)})
	for range 2 {
		task := newTask(newPackage(t, "1", "1"), "x", "source")
		if r, err := e.Judge(t.Context(), task, quiet); err != nil || r.Verdict != verdict.AC {
			t.Fatalf("%+v, %v", r, err)
		}
	}
	if times != 1 {
		t.Errorf("prepared %d times", times)
	}
	for _, spec := range p.specs {
		got := seen(t, spec)
		var want map[string]string
		switch {
		case len(spec.Argv) == 2 && spec.Argv[1] == "--version":
			want = map[string]string{}
		case spec.Argv[0] == "/usr/bin/prepare":
			want = map[string]string{"/box/H.txt": "help"}
		case spec.Profile == sandbox.ProfileCompile:
			want = map[string]string{"/src/main.x": "", "/box/H.txt": "help", "/box/prepared": "sub "}
		default:
			want = map[string]string{"/box/prog": ""}
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%q: %s", spec.Argv, diff)
		}
	}
}

func TestPreparedFilesOutliveTheEngineUntilTheToolchainChanges(t *testing.T) {
	t.Parallel()
	scratch := filepath.Join(t.TempDir(), "scratch")
	times := 0
	start := func(version, more string) {
		t.Helper()
		p := &fakeProvider{version: version, compile: preparing(t, &times, tar.Header{Name: "a", Typeflag: tar.TypeReg, Mode: 0o644})}
		e, err := judge.New(judge.Config{Provider: p, Slots: 1, Languages: fakeLanguage(t, withPrepare+more), ScratchDir: scratch})
		if err != nil {
			t.Fatal(err)
		}
		r, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "x", "source"), quiet)
		if err != nil || r.Verdict != verdict.AC {
			t.Fatalf("%+v, %v", r, err)
		}
		if err := e.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for i, step := range []struct {
		version, more string
		want          int
	}{{"one\n", "", 1}, {"one\n", "", 1}, {"two\n", "", 2}, {"two\n", "factors: {cpu_extra_ms: 1}", 2}} {
		if start(step.version, step.more); times != step.want {
			t.Errorf("start %d: prepared %d times, want %d", i, times, step.want)
		}
	}
	if left, _ := filepath.Glob(filepath.Join(scratch, "toolchains/x/prep*")); len(left) != 1 {
		t.Errorf("versions kept: %q", left)
	}
}

func TestFailedPreparationIsTheToolchainsFault(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, says string
		compile    func(context.Context, *sandbox.Spec) (sandbox.Result, error)
	}{
		{"its own words", "no such package", func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			_, err := io.WriteString(spec.Stderr, "no such package\n")
			return sandbox.Result{ExitCode: 1}, err
		}},
		{"a limit", "compiler memory limit", result(sandbox.Result{Fired: sandbox.LimitMemory, Signal: 9})},
		{"nothing left", "prepared.tar is missing", result(sandbox.Result{Files: map[string]sandbox.File{language.PreparedTar: {State: sandbox.FileMissing}}})},
		{"no program", "can not be started", failure(&sandbox.Fault{Op: "exec", Err: syscall.ENOENT})},
		{"a link", "can not be kept", preparing(t, new(int), tar.Header{Name: "l", Linkname: "/etc/passwd", Typeflag: tar.TypeSymlink})},
		{"a way out", "can not be kept", preparing(t, new(int), tar.Header{Name: "../x", Typeflag: tar.TypeReg})},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			scratch := filepath.Join(t.TempDir(), "scratch")
			e := newEngineWith(t, judge.Config{Provider: &fakeProvider{compile: tt.compile}, Slots: 1, ScratchDir: scratch, Languages: fakeLanguage(t, withPrepare)})
			_, err := e.Judge(t.Context(), newTask(newPackage(t, "1", "1"), "x", "source"), quiet)
			if f := wantFault(t, err, judge.BlameToolchain); !strings.Contains(f.Error(), tt.says) {
				t.Errorf("%q does not say %q", f, tt.says)
			}
			if left, _ := filepath.Glob(filepath.Join(scratch, "toolchains/x/prep*")); len(left) != 0 {
				t.Errorf("left: %q", left)
			}
		})
	}
}

func TestLanguageIsWithheldWithoutWhatItWantsShown(t *testing.T) {
	t.Parallel()
	for more, want := range map[string]string{
		"mounts: [{path: /etc/no-such-*}]":                 "x needs /etc/no-such-*, which this machine does not have",
		"mounts: [{path: /etc/no-such-*, optional: true}]": "",
		"mounts: [{path: /etc/ld.so.con*}]":                "",
	} {
		p := &fakeProvider{}
		e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Languages: fakeLanguage(t, more)})
		offers, err := e.SelfTest(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if o := offers[0]; o.OK != (want == "") || !strings.Contains(o.Reason, want) {
			t.Errorf("%s: %+v", more, o)
		}
		for _, spec := range p.specs {
			shown := slices.ContainsFunc(spec.Mounts, func(m sandbox.Mount) bool {
				return m.Host == "/etc/ld.so.conf" && m.Box == m.Host
			})
			if shown != strings.Contains(more, "ld.so") {
				t.Errorf("%s: %q sees %v", more, spec.Argv, spec.Mounts)
			}
		}
	}
}

func TestPassedSelfTestIsRememberedWhileNothingChanges(t *testing.T) {
	t.Parallel()
	scratch := filepath.Join(t.TempDir(), "scratch")
	start := func(version, more string, run func(context.Context, *sandbox.Spec) (sandbox.Result, error)) (o judge.Offer, runs int) {
		t.Helper()
		p := &fakeProvider{version: version, run: run}
		e, err := judge.New(judge.Config{Provider: p, Slots: 1, Languages: fakeLanguage(t, more), ScratchDir: scratch})
		if err != nil {
			t.Fatal(err)
		}
		offers, err := e.SelfTest(t.Context())
		if err := errors.Join(err, e.Close()); err != nil {
			t.Fatal(err)
		}
		for _, s := range p.specs {
			if s.Profile == sandbox.ProfileRun {
				runs++
			}
		}
		return offers[0], runs
	}
	dead := result(sandbox.Result{Signal: 11})
	for i, step := range []struct {
		version, more string
		run           func(context.Context, *sandbox.Spec) (sandbox.Result, error)
		ok            bool
		runs          int
	}{
		{"one\n", "", nil, true, 3},
		{"one\n", "", dead, true, 0}, // it is not run, so nobody sees it die
		{"two\n", "", nil, true, 3},
		{"two\n", "factors: {cpu_extra_ms: 1}", nil, true, 3},
		{"two\n", "factors: {cpu_extra_ms: 2}", dead, false, 1},
		{"two\n", "factors: {cpu_extra_ms: 2}", nil, true, 3}, // a failure is not remembered
	} {
		o, runs := start(step.version, step.more, step.run)
		if o.OK != step.ok || runs != step.runs || o.Version+"\n" != step.version {
			t.Errorf("start %d: %d runs, %+v", i, runs, o)
		}
	}
}

func TestRuntimesAreToldTheMemoryLimit(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{}
	e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, Languages: fakeLanguage(t,
		"run: {argv: [/usr/bin/env, \"-Xmx{heap_mib}m\", \"{program}\"], env: [\"LIMIT={memory_mib}MiB\"], processes: 1, open_files: 99}\nfactors: {memory_extra_bytes: 16777216}\n")})
	task := newTask(newPackage(t, "1", "1"), "x", "source")
	if _, err := e.Judge(t.Context(), task, quiet); err != nil {
		t.Fatal(err)
	}
	last := p.specs[len(p.specs)-1]
	if diff := cmp.Diff([]string{"/usr/bin/env", "-Xmx48m", "/box/prog"}, last.Argv); diff != "" {
		t.Error(diff)
	}
	if !slices.Contains(last.Env, "LIMIT=64MiB") || last.Limits.OpenFiles != 99 {
		t.Errorf("env %q, open files %d", last.Env, last.Limits.OpenFiles)
	}
}
