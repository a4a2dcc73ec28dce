package judge_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
)

const bitsHello = "#include <bits/stdc++.h>\nint main(){std::cout<<\"Hello World!\\n\";}\n"

func TestHeaderIsCompiledAheadAndUsed(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "scratch")
	e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, ScratchDir: dir, CompileCacheBytes: -1})
	task := newTask(newPackage(t, "", "Hello World!\n"), "cpp20", bitsHello)
	without, err := e.Judge(t.Context(), task, quiet)
	if err != nil || without.Verdict != verdict.AC || without.Compile.Precompiled {
		t.Fatalf("before: %+v, %v", without, err)
	}
	from := time.Now()
	if err := e.Precompile(t.Context(), "cpp20"); err != nil {
		t.Fatal(err)
	}
	took := time.Since(from)
	with, err := e.Judge(t.Context(), task, quiet)
	if err != nil || with.Verdict != verdict.AC || !with.Compile.Precompiled {
		t.Fatalf("after: %+v, %v", with, err)
	}
	t.Logf("CPU of compiling: %v without, %v with; the header took %v", without.Compile.CPU, with.Compile.CPU, took)
	if fi, err := os.Stat(filepath.Join(dir, "headers/cpp20/include/bits/stdc++.h.gch")); err != nil || fi.Mode().Perm() != 0o444 {
		t.Errorf("%v, %v", fi, err)
	}
	if 2*with.Compile.CPU > without.Compile.CPU {
		t.Errorf("compiling takes %v of CPU with the header and %v without", with.Compile.CPU, without.Compile.CPU)
	}
}
