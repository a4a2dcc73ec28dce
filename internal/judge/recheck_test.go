package judge_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// halfBroken plays a compiler that refuses sources with the word "wrong", and
// while it is broken all.
type halfBroken struct {
	broken atomic.Bool
	checks atomic.Int64 // of the self-test program
}

func (c *halfBroken) compile(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	if isSelfTest(spec) {
		c.checks.Add(1)
	}
	text, _ := os.ReadFile(spec.Mounts[0].Host) // a checker's is a directory
	if c.broken.Load() || strings.Contains(string(text), "wrong") {
		_, err := spec.Stderr.Write([]byte("cannot execute 'as'"))
		return sandbox.Result{ExitCode: 1}, err
	}
	return wellBehaved(spec)
}

func TestACompileErrorOfAHalfBrokenToolchainIsAFault(t *testing.T) {
	t.Parallel()
	c := &halfBroken{}
	e := newEngineWith(t, judge.Config{Provider: &fakeProvider{compile: c.compile}, Slots: 4})
	pkg := newPackage(t, "1", "1")
	judged := func(source string) (*judge.Report, error) {
		return e.Judge(t.Context(), newTask(pkg, "c", source), quiet)
	}
	wrong := func() {
		t.Helper()
		if r, err := judged("wrong"); err != nil || r.Verdict != verdict.CE {
			t.Errorf("%+v, %v", r, err)
		}
	}
	if r, err := judged("right"); err != nil || r.Verdict != verdict.AC || c.checks.Load() != 0 {
		t.Errorf("%+v, %v, %d checks", r, err, c.checks.Load())
	}
	for range 2 {
		wrong()
	}
	if n := c.checks.Load(); n != 2 {
		t.Errorf("%d checks for two compile errors one after the other, want 2", n)
	}
	// At once after a check that passed: it told nothing of now.
	c.broken.Store(true)
	for _, source := range []string{"another right", "wrong"} {
		_, err := judged(source)
		if f := wantFault(t, err, judge.BlameToolchain); !strings.Contains(f.Error(), "cannot execute 'as'") {
			t.Errorf("fault %v does not say what the compiler said", f)
		}
	}
	_, err := e.Judge(t.Context(), newTask(customPackage(t, "c", nil, files{"checker/check.c": "right as well"}), "c", "right"), quiet)
	wantFault(t, err, judge.BlameToolchain) // and not of the package's checker
	c.broken.Store(false)
	wrong()
}

// TestCompileErrorsThatComeTogetherShareACheck holds the first check until all
// the others have failed: one more check has to do for them.
func TestCompileErrorsThatComeTogetherShareACheck(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const others = 3
		var c halfBroken
		var all sync.WaitGroup
		goOn := make(chan struct{})
		compile := func(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
			if isSelfTest(spec) && c.checks.Load() == 0 {
				<-goOn
			}
			return c.compile(ctx, spec)
		}
		e := newEngineWith(t, judge.Config{Provider: &fakeProvider{compile: compile}, Slots: 1 + others})
		pkg := newPackage(t, "1", "1")
		wrong := func() {
			if r, err := e.Judge(t.Context(), newTask(pkg, "c", "wrong"), quiet); err != nil || r.Verdict != verdict.CE {
				t.Errorf("%+v, %v", r, err)
			}
		}
		all.Go(wrong)
		synctest.Wait() // until it is being checked
		for range others {
			all.Go(wrong)
		}
		synctest.Wait() // until they wait for that
		close(goOn)
		all.Wait()
		if n := c.checks.Load(); n != 2 {
			t.Errorf("%d checks, want 2", n)
		}
	})
}

// TestACompilerThatBreaksAfterItsSelfTestIsTheToolchainsFault gives a real
// compiler an assembler that does not work, in a small file system that covers
// a directory of the system.
func TestACompilerThatBreaksAfterItsSelfTestIsTheToolchainsFault(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	const dir = "/usr/share/doc" // boxes show all below /usr
	if err := unix.Mount("compiler", dir, "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	compiler, as := filepath.Join(dir, "cc"), filepath.Join(dir, "as")
	if err := os.WriteFile(compiler, []byte("#!/bin/sh\nexec /usr/bin/gcc -B"+dir+"/ \"$@\"\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	c := strings.ReplaceAll(readFile(t, "../language/data/c.yaml"), "/usr/bin/gcc", compiler)
	languages, err := language.Load(fstest.MapFS{"c.yaml": {Data: []byte(c)}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, Languages: languages})
	judged := func(source string) (*judge.Report, error) {
		return e.Judge(t.Context(), newTask(newPackage(t, "1 2", "3"), "c", source), quiet)
	}
	if r, err := judged(cSum); err != nil || r.Verdict != verdict.AC {
		t.Fatalf("before: %+v, %v", r, err)
	}
	if err := os.WriteFile(as, []byte("#!/bin/sh\necho no assembler >&2\nexit 1\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := judged(cSum + "// without")
	if r != nil {
		t.Fatalf("a report: %+v", r)
	}
	if f := wantFault(t, err, judge.BlameToolchain); !strings.Contains(f.Error(), "no assembler") {
		t.Errorf("fault %v does not say what the compiler said", f)
	}
	if err := os.Remove(as); err != nil {
		t.Fatal(err)
	}
	if r, err := judged(cSum + "// again"); err != nil || r.Verdict != verdict.AC {
		t.Errorf("when it is back: %+v, %v", r, err)
	}
	if r, err := judged("int main(void) { return x; }"); err != nil || r.Verdict != verdict.CE {
		t.Errorf("a wrong source: %+v, %v", r, err)
	}
}

// TestAToolchainWithAMissingPartIsTheToolchainsFault takes the parts away one at
// a time, each just after a wrong source was one. It does so in an overlay of
// this process's own mounts: nothing happens to the machine's files.
func TestAToolchainWithAMissingPartIsTheToolchainsFault(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	const layer = "/mnt"
	if err := unix.Mount("layer", layer, "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	for _, dir := range []string{"upper", "work"} {
		if err := os.Mkdir(filepath.Join(layer, dir), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := unix.Mount("overlay", "/usr", "overlay", 0, "lowerdir=/usr,upperdir="+layer+"/upper,workdir="+layer+"/work"); err != nil {
		t.Fatal(err)
	}
	e := newEngine(t, realProvider(t), 1)
	judged := func(lang *language.Language, source string) (*judge.Report, error) {
		return e.Judge(t.Context(), newTask(newPackage(t, lang.SelfTest.Input, lang.SelfTest.Output), lang.ID, source), quiet)
	}
	tests := []struct{ name, lang, pattern string }{
		{"cc1", "c", "/usr/lib*/gcc/*/*/cc1"},
		{"cc1plus", "cpp17", "/usr/lib*/gcc/*/*/cc1plus"},
		{"as", "c", "/usr/bin/as"},
		{"ld", "c", "/usr/bin/ld"},
		{"libc", "c", "/usr/lib*/{,*/}libc.a"},
		{"stdio.h", "c", "/usr/include/stdio.h"},
		{"crt1.o", "c", "/usr/lib*/{,*/}crt1.o"},
		{"linker of fpc", "pascal", "/usr/bin/ld"},
		{"units of fpc", "pascal", "/usr/lib*/{,*/}fpc/*/units/*/rtl/system.ppu"},
		{"library of rustc", "rust", "/usr/lib*/rustlib/*/lib/libcore-*.rlib"},
		{"library of ghc", "haskell", "/usr/lib/ghc/base-*/libHSbase-*.a"},
		{"interfaces of ghc", "haskell", "/usr/lib/ghc/base-*/Prelude.hi"},
		{"code generator of ghc", "haskell", "/usr/bin/as"},
		{"modules of java", "java", "/usr/lib/jvm/*/lib/modules"},
		{"server's library of java", "java", "/usr/lib/jvm/*/lib/server/libjvm.so"},
		{"virtual machine of kotlin", "kotlin", "/usr/lib/jvm/*/lib/modules"},
		{"compiler of mono", "csharp", "/usr/lib/mono/4.5/mcs.exe"},
		{"library of mono", "csharp", "/usr/lib/mono/4.5/mscorlib.dll"},
		{"reference of mono", "csharp", "/usr/lib/mono/4.5/System.Numerics.dll"},
		{"compiler of go", "go", "/usr/{lib,local}/go*/pkg/tool/*/compile"},
		{"linker of go", "go", "/usr/{lib,local}/go*/pkg/tool/*/link"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			lang, _ := builtin(t).Get(tt.lang)
			if _, err := os.Stat(lang.Compile.Argv[0]); err != nil {
				testkit.Missing(t, testkit.Lang, "%v", err)
			}
			if r, err := judged(lang, "wrong as can be ("); err != nil || r.Verdict != verdict.CE {
				t.Fatalf("before: %+v, %v", r, err)
			}
			var parts []string
			for _, dir := range []struct{ part, above string }{{"", "lib"}, {"*/", "local"}} {
				pattern := strings.NewReplacer("{,*/}", dir.part, "{lib,local}", dir.above).Replace(tt.pattern)
				found, err := filepath.Glob(pattern)
				if err != nil {
					t.Fatal(err)
				}
				for _, part := range found {
					part, err := filepath.EvalSymlinks(part) // a directory may have several names
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Contains(parts, part) {
						parts = append(parts, part)
					}
				}
			}
			if len(parts) == 0 {
				t.Fatalf("nothing is at %s", tt.pattern)
			}
			for _, part := range parts {
				if err := os.Rename(part, part+".away"); err != nil {
					t.Fatal(err)
				}
				defer func() {
					if err := os.Rename(part+".away", part); err != nil {
						t.Error(err)
					}
				}()
			}
			r, err := judged(lang, lang.SelfTest.Source+"\n")
			if r != nil {
				t.Fatalf("a report: %s, %+v", r.Verdict, r.Compile)
			}
			t.Log(wantFault(t, err, judge.BlameToolchain))
		})
	}
	for _, id := range []string{"c", "cpp17"} {
		lang, _ := builtin(t).Get(id)
		if r, err := judged(lang, lang.SelfTest.Source+"\n"); err != nil || r.Verdict != verdict.AC {
			t.Errorf("%s when all is back: %+v, %v", id, r, err)
		}
	}
}

// TestASourceThatMakesTheCompilerWaitIsACompileError holds on a machine that is
// busy, too: the compiler is asleep there as well.
func TestASourceThatMakesTheCompilerWaitIsACompileError(t *testing.T) {
	// Shorter limits, so that they do not take half a minute.
	c := strings.ReplaceAll(readFile(t, "../language/data/c.yaml"), "wall_ms: 30000", "wall_ms: 10000")
	data := fstest.MapFS{"c.yaml": {Data: []byte(c)}}
	for _, id := range []string{"cpp17", "pascal", "rust", "haskell"} {
		data[id+".yaml"] = &fstest.MapFile{Data: []byte(readFile(t, "../language/data/"+id+".yaml"))}
	}
	languages, err := language.Load(data)
	if err != nil {
		t.Fatal(err)
	}
	sources := []struct{ lang, text string }{
		{"c", "#include \"/proc/self/fd/2\"\nint main(void) {}\n"},
		{"c", "asm(\".include \\\"/proc/self/fd/2\\\"\");\nint main(void) {}\n"},
		{"cpp17", "#include \"/proc/self/fd/1\"\nint main() {}\n"},
		{"pascal", "{$I /proc/self/fd/2}\nbegin end.\n"},
		{"rust", "const X: &str = include_str!(\"/proc/self/fd/2\");\nfn main() { println!(\"{}\", X); }\n"},
		{"haskell", "{-# LANGUAGE CPP #-}\n#include \"/proc/self/fd/2\"\nmain = return ()\n"},
	}
	e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: len(sources), Languages: languages})
	for _, source := range sources {
		t.Run(source.lang, func(t *testing.T) {
			t.Parallel() // they only wait
			lang, _ := languages.Get(source.lang)
			if _, err := os.Stat(lang.Compile.Argv[0]); err != nil {
				testkit.Missing(t, testkit.Lang, "%v", err)
			}
			r, err := e.Judge(t.Context(), newTask(newPackage(t, "1 2", "3"), source.lang, source.text), quiet)
			if err != nil {
				t.Fatalf("%q: %v", source.text, err)
			}
			if r.Verdict != verdict.CE || r.Compile.Fired != sandbox.LimitAsleep || !strings.Contains(r.Compile.Log, "waited for") {
				t.Errorf("%q: %s, %+v", source.text, r.Verdict, r.Compile)
			}
		})
	}
}
