package dirblob

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/blob"
	"github.com/gavel-oj/gavel/internal/blob/blobtest"
)

func open(t *testing.T, dir string) *Store {
	t.Helper()
	s, err := Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	return s
}

func TestConformance(t *testing.T) {
	blobtest.Run(t, func(t *testing.T) blob.Store {
		dir := filepath.Join(t.TempDir(), "new", "blobs")
		s := open(t, dir)
		t.Cleanup(func() {
			if left := list(t, filepath.Join(dir, tmpName)); len(left) > 0 {
				t.Errorf("unfinished files left: %v", left)
			}
		})
		return s
	})
}

// TestMain makes the test binary a writer that hangs in the middle of a Put,
// for the test that kills it.
func TestMain(m *testing.M) {
	dir, hang := os.LookupEnv("DIRBLOB_TEST_HANG")
	if !hang {
		os.Exit(m.Run())
	}
	s, err := Open(dir)
	if err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
	pr, pw := io.Pipe()
	go func() {
		_, _ = pw.Write(make([]byte, 1<<20))
		fmt.Println("half") // and never the rest
	}()
	fmt.Println(s.Put(context.Background(), "packages/x", pr))
	os.Exit(1)
}

func TestAWriterKilledInTheMiddleLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	cmd := exec.Command(os.Args[0])
	cmd.Env = append(os.Environ(), "DIRBLOB_TEST_HANG="+dir)
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	line := make([]byte, 5)
	if _, err := io.ReadFull(out, line); err != nil || string(line) != "half\n" {
		t.Fatalf("writer said %q, %v", line, err)
	}
	// While it lives, another process may open the store without harm to it.
	open(t, dir)
	if left := list(t, filepath.Join(dir, tmpName)); len(left) != 1 {
		t.Errorf("unfinished files %v, want the living writer's", left)
	}
	if err := cmd.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait() // it was killed: that is its error
	s := open(t, dir)
	if left := list(t, filepath.Join(dir, tmpName)); len(left) != 0 {
		t.Errorf("unfinished files %v, want none", left)
	}
	if _, err := s.Stat(t.Context(), "packages/x"); !errors.Is(err, blob.ErrNotFound) {
		t.Errorf("Stat: %v, want ErrNotFound", err)
	}
}

func TestBlobsAreReadOnlyFilesUnderTheirKeys(t *testing.T) {
	dir := t.TempDir()
	s := open(t, dir)
	if err := s.Put(t.Context(), "a/b.c", strings.NewReader("x")); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(filepath.Join(dir, "a", "b.c"))
	if err != nil {
		t.Fatal(err)
	}
	if info.Mode() != 0o440 {
		t.Errorf("mode %s", info.Mode())
	}
}

func TestLinksOutOfTheStoreAreNotFollowed(t *testing.T) {
	dir, outside := t.TempDir(), t.TempDir()
	s := open(t, dir)
	if err := os.Symlink(outside, filepath.Join(dir, "a")); err != nil {
		t.Fatal(err)
	}
	if err := s.Put(t.Context(), "a/x", strings.NewReader("x")); err == nil {
		t.Error("a blob was put outside")
	}
	if left := list(t, outside); len(left) != 0 {
		t.Errorf("outside holds %v", left)
	}
}

func TestADirectoryThatCannotBeUsedIsOneClearLine(t *testing.T) {
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, err := Open(file)
	clearLine(t, err, "blob directory "+file+" cannot be used: not a directory", "make it a directory that the user running gavel can write to, or set another data directory")
	_, err = Open(filepath.Join(file, "below"))
	clearLine(t, err, "not a directory", "make it a directory")
}

func TestCheckFindsAStoreThatWentAway(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "blobs")
	s := open(t, dir)
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	clearLine(t, s.Check(t.Context()), "blob directory "+dir+" cannot be used: no such file or directory", "write to")
}

// TestCheckFindsAReadOnlyStore needs a directory that even root cannot write:
// it uses /proc, which exists wherever the product runs.
func TestCheckFindsAReadOnlyStore(t *testing.T) {
	_, err := Open("/proc/self/task")
	clearLine(t, err, "blob directory /proc/self/task cannot be used", "write to")
}

func clearLine(t *testing.T, err error, message, hint string) {
	t.Helper()
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok {
		t.Fatalf("error %v, want an apperr.Error", err)
	}
	if e.Code != apperr.Unavailable || !strings.Contains(e.Error(), message) || strings.Contains(e.Error(), "\n") || !strings.Contains(e.Hint, hint) {
		t.Errorf("code %s, message %q, hint %q;\nwant %q with hint %q", e.Code, e.Error(), e.Hint, message, hint)
	}
}

func TestPutNeedsLittleMemory(t *testing.T) {
	s := open(t, t.TempDir())
	n := testing.AllocsPerRun(1, func() {
		if err := s.Put(t.Context(), "x", io.LimitReader(zeros{}, 32<<20)); err != nil {
			t.Fatal(err)
		}
	})
	if n > 200 {
		t.Errorf("%v allocations", n)
	}
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

func list(t *testing.T, dir string) []string {
	t.Helper()
	var names []string
	err := fs.WalkDir(os.DirFS(dir), ".", func(p string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			names = append(names, p)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}
