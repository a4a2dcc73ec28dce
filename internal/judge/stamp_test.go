package judge

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/gavel-oj/gavel/internal/language"
)

func TestAStampChangesWithItsFiles(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path, link, missing := filepath.Join(dir, "cc"), filepath.Join(dir, "link"), filepath.Join(dir, "missing")
	if err := errors.Join(os.WriteFile(path, []byte("12"), 0o755), os.Symlink(path, link)); err != nil {
		t.Fatal(err)
	}
	last := stampOf(link, missing)
	if again := stampOf(link, missing); again != last {
		t.Errorf("%q, then %q", last, again)
	}
	for _, change := range []struct {
		name string
		do   func() error
	}{
		{"written", func() error { return os.WriteFile(path, []byte("123"), 0o755) }},
		{"mode", func() error { return os.Chmod(path, 0o700) }},
		{"replaced by a copy", func() error {
			other := filepath.Join(dir, "new")
			return errors.Join(os.WriteFile(other, []byte("123"), 0o700), os.Rename(other, path))
		}},
		{"link turned", func() error {
			other := filepath.Join(dir, "cc-13")
			return errors.Join(os.WriteFile(other, []byte("123"), 0o700), os.Remove(link), os.Symlink(other, link))
		}},
		{"appeared", func() error { return os.WriteFile(missing, nil, 0o600) }},
		{"gone", func() error { return os.Remove(link) }},
	} {
		if err := change.do(); err != nil {
			t.Fatal(err)
		}
		if now := stampOf(link, missing); now == last {
			t.Errorf("%s: the stamp is the same", change.name)
		} else {
			last = now
		}
	}
}

func TestAnIncompleteToolchainHasNoStamp(t *testing.T) {
	t.Parallel()
	gone := filepath.Join(t.TempDir(), "gone")
	present := filepath.Join(t.TempDir(), "present")
	if err := os.WriteFile(present, nil, 0o755); err != nil {
		t.Fatal(err)
	}
	of := func(compiler string) *language.Language {
		return &language.Language{
			ID: "x", Version: language.Version{Argv: []string{present}}, Compile: language.Compile{Argv: []string{compiler}},
			Run: language.Run{Argv: []string{language.ArgProgram}},
		}
	}
	e := &Engine{}
	if _, ok := e.toolchainStamp(of(present)); ok {
		t.Error("a stamp without a version")
	}
	e.versions.put("x", "1.0")
	first, ok := e.toolchainStamp(of(present))
	if !ok {
		t.Error("no stamp")
	}
	if _, ok := e.toolchainStamp(of(gone)); ok {
		t.Error("a stamp without a compiler")
	}
	e.versions.put("x", "2.0")
	if second, _ := e.toolchainStamp(of(present)); second == first {
		t.Error("the version is no part of it")
	}
}

func TestMakeRulesAreReadWithoutDoubt(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		rule string
		want []string
		bad  bool
	}{
		{"null.o: /dev/null /usr/include/b.h \\\n /usr/include/a.h\n", []string{"/usr/include/a.h", "/usr/include/b.h"}, false},
		{"x: /usr/lib/gcc/../a.h /usr/lib/a.h\n", []string{"/usr/lib/a.h"}, false},
		{"x:\n", nil, true},
		{"no rule", nil, true},
		{"x: /usr/a\\ b.h\n", nil, true},
		{"x: /usr/$$a.h\n", nil, true},
		{"x: relative.h\n", nil, true},
		{"x: /etc/shadow\n", nil, true},
		{"x: /usr/../etc/shadow\n", nil, true},
	} {
		got, err := partsOfRule(tt.rule)
		if (err != nil) != tt.bad || len(got) != len(tt.want) {
			t.Errorf("%q: %q, %v", tt.rule, got, err)
			continue
		}
		for i := range got {
			if got[i] != tt.want[i] {
				t.Errorf("%q: %q", tt.rule, got)
			}
		}
	}
}
