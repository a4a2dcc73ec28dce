package worker

import (
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/gavelapi"
)

var discard = slog.New(slog.DiscardHandler)

func list(t testing.TB, dir string) []string {
	t.Helper()
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

func testEntry(token string) entry {
	return entry{LeaseToken: token, JobID: 1, LeaseGen: 2, SubmissionID: 3, Report: gavelapi.Report{
		Verdict: "AC", Tests: []gavelapi.TestResult{},
	}}
}

func TestScanFindsWholeEntriesAndSetsTheRestAside(t *testing.T) {
	dir := t.TempDir()
	o, err := openOutbox(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range []entry{testEntry("tok-1"), testEntry("../../etc/passwd"), testEntry("tok-4")} {
		if err := o.put(e); err != nil {
			t.Fatal(err)
		}
	}
	whole, err := os.ReadFile(filepath.Join(dir, "tok-1.result"))
	if err != nil {
		t.Fatal(err)
	}
	write := func(name string, b []byte) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("torn.result", whole[:len(whole)-5])
	write("flipped.result", []byte(strings.Replace(string(whole), `"AC"`, `"WA"`, 1)))
	write("empty.result", nil)
	write("tok-1 (copy).result", whole)                                             // a person's copy
	write("tok-2.result", whole)                                                    // another lease's name
	write("README", []byte("hello"))                                                // foreign
	write("half.result.tmp", whole[:30])                                            // crash while writing
	write("none.result.tmp", nil)                                                   // crash before writing
	write("tok-1.result.tmp", whole)                                                // older write of the same lease
	write("both.result", []byte("gavel-outbox 1 00\n{}"))                           // wrong checksum
	if err := os.Rename(dir+"/tok-4.result", dir+"/tok-4.result.tmp"); err != nil { // crash before renaming
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "dir.result"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("tok-1.result", filepath.Join(dir, "link.result")); err != nil {
		t.Fatal(err)
	}
	// Something with that name was set aside before.
	if err := os.WriteFile(filepath.Join(dir, "bad", "torn.result"), nil, 0o600); err != nil {
		t.Fatal(err)
	}

	got, err := o.scan()
	if err != nil {
		t.Fatal(err)
	}
	var tokens []string
	for _, e := range got {
		tokens = append(tokens, e.LeaseToken)
		if d := cmp.Diff(testEntry(e.LeaseToken), e); d != "" {
			t.Error(d)
		}
	}
	if d := cmp.Diff([]string{"../../etc/passwd", "tok-1", "tok-4"}, tokens); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff([]string{"bad", entryName("../../etc/passwd"), "tok-1.result", "tok-4.result"}, list(t, dir)); d != "" {
		t.Errorf("left in the outbox: %s", d)
	}
	if d := cmp.Diff([]string{
		"README", "both.result", "dir.result", "empty.result", "flipped.result", "link.result",
		"tok-1 (copy).result", "tok-1.result.tmp", "tok-2.result", "torn.result", "torn.result.1",
	}, list(t, filepath.Join(dir, "bad"))); d != "" {
		t.Errorf("set aside: %s", d)
	}
	for _, token := range tokens {
		if err := o.remove(token); err != nil {
			t.Error(err)
		}
		if err := o.remove(token); err != nil {
			t.Errorf("removing twice: %v", err)
		}
	}
	if got, err = o.scan(); len(got) != 0 || err != nil {
		t.Errorf("after removal: %v, %v", got, err)
	}
}

// However a file was cut or changed, it is an entry as it was put, or none.
func TestNoDamagedEntryIsEverSent(t *testing.T) {
	dir := t.TempDir()
	o, err := openOutbox(dir, discard)
	if err != nil {
		t.Fatal(err)
	}
	if err := o.put(testEntry("tok")); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(filepath.Join(dir, "tok.result"))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(rt *rapid.T) {
		b := append([]byte(nil), whole...)
		if rapid.Bool().Draw(rt, "cut") {
			b = b[:rapid.IntRange(0, len(b)-1).Draw(rt, "length")]
		} else {
			b[rapid.IntRange(0, len(b)-1).Draw(rt, "at")] ^= byte(rapid.IntRange(1, 255).Draw(rt, "bits"))
		}
		if err := os.WriteFile(filepath.Join(dir, "tok.result"), b, 0o600); err != nil {
			rt.Fatal(err)
		}
		if e, err := o.read("tok.result"); err == nil {
			rt.Fatalf("accepted: %+v", e)
		}
	})
}

func TestEntryNamesStayInTheDirectory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		name := entryName(rapid.String().Draw(rt, "token"))
		if filepath.Base(name) != name || !strings.HasSuffix(name, outboxSuffix) || len(name) > 80 || name[0] == '.' {
			rt.Fatalf("%q", name)
		}
	})
}

func TestFailedWriteLeavesTheOldFileAndNoHalfOne(t *testing.T) {
	dir := t.TempDir()
	if err := writeFile(filepath.Join(dir, "f"), []byte("old")); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(dir, "g"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := writeFile(filepath.Join(dir, "g"), []byte("x")); err == nil {
		t.Error("a directory was replaced")
	}
	if d := cmp.Diff([]string{"f", "g"}, list(t, dir)); d != "" {
		t.Error(d)
	}
}
