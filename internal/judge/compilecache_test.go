package judge

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"

	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/internal/language"
)

func newCache(t *testing.T, quota int64) *compileCache {
	t.Helper()
	return newCompileCache(t.TempDir(), quota, slog.New(slog.DiscardHandler))
}

// compiledAs is what a compile leaves that made this program.
func compiledAs(t *testing.T, program string) built {
	t.Helper()
	path := filepath.Join(t.TempDir(), "prog")
	if err := os.WriteFile(path, []byte(program), 0o555); err != nil {
		t.Fatal(err)
	}
	return built{compile: Compile{OK: true, Log: "warning"}, program: path}
}

func mustKeep(t *testing.T, c *compileCache, key, program string) {
	t.Helper()
	_, leave, err := c.enter(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if err := c.keep(key, compiledAs(t, program)); err != nil {
		t.Fatal(err)
	}
}

// lookup is the program kept under key, or nothing.
func lookup(t *testing.T, c *compileCache, key string) (string, error) {
	t.Helper()
	hit, leave, err := c.enter(t.Context(), key)
	if err != nil {
		t.Fatal(err)
	}
	defer leave()
	if hit == nil {
		return "", nil
	}
	path := filepath.Join(t.TempDir(), "prog")
	if err := c.restore(hit, path); err != nil {
		if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("a program that is not the right one was left: %v", err)
		}
		return "", err
	}
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm() != 0o555 {
		t.Errorf("program is %v, %v; it must be there to start and to read, no more", fi.Mode(), err)
	}
	text, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(text), nil
}

func TestACompiledProgramIsFoundAgain(t *testing.T) {
	t.Parallel()
	c := newCache(t, 1<<20)
	if got, err := lookup(t, c, "a"); got != "" || err != nil {
		t.Fatalf("%q, %v", got, err)
	}
	mustKeep(t, c, "a", "program a")
	mustKeep(t, c, "b", "program b")
	for key, want := range map[string]string{"a": "program a", "b": "program b", "c": ""} {
		if got, err := lookup(t, c, key); got != want || err != nil {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	files, err := os.ReadDir(c.dir)
	if err != nil || len(files) != 2 {
		t.Fatalf("%v, %v", files, err)
	}
	for _, f := range files {
		if fi, err := f.Info(); err != nil || fi.Mode().Perm() != 0o400 {
			t.Errorf("%s has mode %v: nobody but the worker needs it", f.Name(), fi.Mode())
		}
	}
}

func TestAnAlteredProgramIsDropped(t *testing.T) {
	t.Parallel()
	for name, alter := range map[string]func(path string) error{
		"other bytes": func(p string) error { return os.WriteFile(p, []byte("Program a"), 0o600) },
		"cut":         func(p string) error { return os.Truncate(p, 3) },
		"longer":      func(p string) error { return os.WriteFile(p, []byte("program a and more"), 0o600) },
		"gone":        os.Remove,
		"another's":   func(p string) error { return os.Rename(p[:len(p)-3]+"b.2", p) },
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c := newCache(t, 1<<20)
			mustKeep(t, c, "a", "program a")
			mustKeep(t, c, "b", "program b")
			path := filepath.Join(c.dir, "a.1")
			if name != "gone" {
				if err := os.Chmod(path, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if err := alter(path); err != nil {
				t.Fatal(err)
			}
			if got, err := lookup(t, c, "a"); err == nil || got != "" {
				t.Fatalf("%q was restored", got)
			}
			if got, err := lookup(t, c, "a"); got != "" || err != nil {
				t.Errorf("the entry is still there: %q, %v", got, err)
			}
			if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("the file is still there: %v", err)
			}
			mustKeep(t, c, "a", "program a, again")
			if got, err := lookup(t, c, "a"); got != "program a, again" || err != nil {
				t.Errorf("%q, %v", got, err)
			}
		})
	}
}

func TestWhatWasNotUsedForLongestMakesRoom(t *testing.T) {
	t.Parallel()
	size := int64(compiledOverheadBytes + len("warning") + len("program"))
	c := newCache(t, 3*size)
	for _, key := range []string{"a", "b", "c"} {
		mustKeep(t, c, key, "program")
	}
	if got, _ := lookup(t, c, "a"); got == "" { // now b is the oldest
		t.Fatal("a is gone")
	}
	mustKeep(t, c, "d", "program")
	for key, want := range map[string]string{"a": "program", "b": "", "c": "program", "d": "program"} {
		if got, err := lookup(t, c, key); got != want || err != nil {
			t.Errorf("%s: %q, %v", key, got, err)
		}
	}
	mustKeep(t, c, "huge", string(bytes.Repeat([]byte("x"), int(3*size))))
	if got, _ := lookup(t, c, "huge"); got != "" || c.used.Len() != 3 {
		t.Errorf("a program that can not fit made room for itself: %d entries left", c.used.Len())
	}
}

// TestTheQuotaHolds plays any sequence of programs kept, found and damaged.
func TestTheQuotaHolds(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(r *rapid.T) {
		quota := rapid.Int64Range(0, 6*compiledOverheadBytes).Draw(r, "quota")
		dir := filepath.Join(t.TempDir(), rapid.StringMatching(`[a-z]{16}`).Draw(r, "dir"))
		if err := os.MkdirAll(dir, 0o755); err != nil {
			r.Fatal(err)
		}
		c := newCompileCache(dir, quota, slog.New(slog.DiscardHandler))
		for range rapid.IntRange(1, 20).Draw(r, "steps") {
			key := rapid.SampledFrom([]string{"a", "b", "c", "d"}).Draw(r, "key")
			hit, leave, err := c.enter(t.Context(), key)
			if err != nil {
				r.Fatal(err)
			}
			if hit == nil {
				n := rapid.IntRange(0, 2*compiledOverheadBytes).Draw(r, "size")
				if err := c.keep(key, compiledAs(t, string(bytes.Repeat([]byte("x"), n)))); err != nil {
					r.Fatal(err)
				}
			} else if rapid.Bool().Draw(r, "damaged") {
				if err := errors.Join(os.Remove(hit.file), os.WriteFile(hit.file, []byte("y"), 0o600)); err != nil {
					r.Fatal(err)
				}
				if err := c.restore(hit, filepath.Join(t.TempDir(), "prog")); !errors.Is(err, errAltered) {
					r.Fatalf("a damaged program: %v", err)
				}
			}
			leave()
			var onDisk, counted int64
			files, err := os.ReadDir(dir)
			if err != nil {
				r.Fatal(err)
			}
			for _, f := range files {
				fi, err := f.Info()
				if err != nil {
					r.Fatal(err)
				}
				onDisk += fi.Size()
			}
			for at := c.used.Front(); at != nil; at = at.Next() {
				counted += entryAt(at).sizeBytes
			}
			if onDisk > quota || c.bytes > quota || c.bytes != counted || len(files) != c.used.Len() || len(c.byKey) != c.used.Len() {
				r.Fatalf("quota %d: %d bytes on disk, %d counted, %d by entry; %d files, %d entries, %d keys",
					quota, onDisk, c.bytes, counted, len(files), c.used.Len(), len(c.byKey))
			}
		}
	})
}

func TestOneCompilesWhileTheOthersWait(t *testing.T) {
	t.Parallel()
	program := compiledAs(t, "program")
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		c := newCompileCache(dir, 1<<20, slog.New(slog.DiscardHandler))
		_, leave, err := c.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *compiled, 2)
		for range 2 {
			go func() {
				hit, leave, err := c.enter(t.Context(), "a")
				if err != nil {
					t.Error(err)
				}
				got <- hit
				leave()
			}()
		}
		synctest.Wait()
		if len(got) != 0 {
			t.Error("another compiles the same")
		}
		// Who gives up waiting is not held.
		ctx, cancel := context.WithCancelCause(t.Context())
		lost := errors.New("lease lost")
		gaveUp := make(chan error, 1)
		go func() { _, _, err := c.enter(ctx, "a"); gaveUp <- err }()
		synctest.Wait()
		cancel(lost)
		if err := <-gaveUp; !errors.Is(err, lost) {
			t.Errorf("error %v", err)
		}
		if err := c.keep("a", program); err != nil {
			t.Error(err)
		}
		leave()
		for range 2 {
			if hit := <-got; hit == nil {
				t.Error("who waited has no program")
			}
		}
	})
}

func TestWhoWaitedForAFailureCompilesItself(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		c := newCompileCache("/nowhere", 1<<20, slog.New(slog.DiscardHandler))
		_, leave, err := c.enter(t.Context(), "a")
		if err != nil {
			t.Fatal(err)
		}
		inside := make(chan struct{})
		for range 3 {
			go func() {
				hit, leave, err := c.enter(t.Context(), "a")
				if hit != nil || err != nil {
					t.Errorf("%v, %v", hit, err)
				}
				inside <- struct{}{} // only together
				inside <- struct{}{}
				leave()
			}()
		}
		synctest.Wait()
		leave()
		for range 6 {
			<-inside
		}
		synctest.Wait()
		if len(c.busy) != 0 {
			t.Errorf("left: %v", c.busy)
		}
	})
}

func TestAProgramThatCannotBeKeptIsNotCounted(t *testing.T) {
	t.Parallel()
	c := newCompileCache(filepath.Join(t.TempDir(), "gone"), 1<<20, slog.New(slog.DiscardHandler))
	if err := c.keep("a", compiledAs(t, "program")); err == nil {
		t.Error("no error")
	}
	if c.bytes != 0 || len(c.byKey) != 0 {
		t.Errorf("%d bytes, %d entries", c.bytes, len(c.byKey))
	}
}

func TestEverythingThatACompileDependsOnIsInItsKey(t *testing.T) {
	t.Parallel()
	r, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	cpp, _ := r.Get("cpp20")
	older, _ := r.Get("cpp17")
	flags, env, helper := *cpp, *cpp, *cpp
	flags.Compile.Argv = append([]string{"/usr/bin/g++", "-O3"}, cpp.Compile.Argv[1:]...)
	env.Compile.Env = []string{"X=1"}
	helper.Helpers = map[string]string{"x": "y"}
	limits := cpp.Compile.Limits
	less := limits
	less.MemoryBytes--
	file := func(pairs ...string) (files []sourceFile) {
		for i := 0; i < len(pairs); i += 2 {
			files = append(files, sourceFile{pairs[i], []byte(pairs[i+1])})
		}
		return files
	}
	main := file("main.cpp", "int main(){}")
	seen := map[string]string{}
	for _, tt := range []struct {
		name      string
		lang      *language.Language
		toolchain string
		limits    language.CompileLimits
		files     []sourceFile
	}{
		{"base", cpp, "g++ 12", limits, main},
		{"language", older, "g++ 12", limits, main},
		{"flags", &flags, "g++ 12", limits, main},
		{"environment", &env, "g++ 12", limits, main},
		{"helper", &helper, "g++ 12", limits, main},
		{"toolchain", cpp, "g++ 13", limits, main},
		{"limits", cpp, "g++ 12", less, main},
		{"source", cpp, "g++ 12", limits, file("main.cpp", "int main(){} ")},
		{"name", cpp, "g++ 12", limits, file("main.cc", "int main(){}")},
		{"files", cpp, "g++ 12", limits, file("main.cpp", "int main(){}", "a.h", "")},
		{"joined", cpp, "g++ 12", limits, file("main.cpp", "int main(){}a.h")},
		{"moved", cpp, "g++ 12", limits, file("main.cppi", "nt main(){}")},
		{"order", cpp, "g++ 12", limits, file("a.h", "", "main.cpp", "int main(){}")},
	} {
		key, err := compileKey(tt.lang, tt.toolchain, tt.limits, tt.files)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[key]; ok {
			t.Errorf("%s has the key of %s", tt.name, other)
		}
		seen[key] = tt.name
		if again, err := compileKey(tt.lang, tt.toolchain, tt.limits, tt.files); err != nil || again != key {
			t.Errorf("%s: two keys: %v", tt.name, err)
		}
	}
}
