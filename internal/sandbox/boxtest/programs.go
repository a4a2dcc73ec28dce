package boxtest

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

//go:embed programs
var sources embed.FS

var programsFlag = flag.String("boxtest.programs", "", "directory that holds the compiled hostile programs; compiled with gcc when empty")

// buildPrograms gives a directory, readable by everybody, with the binary.
func buildPrograms(t *testing.T) string {
	t.Helper()
	if *programsFlag != "" {
		return *programsFlag
	}
	dir := sharedDir(t)
	if err := Compile(t.Context(), dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// sharedDir is a temporary directory that the box's user may read.
func sharedDir(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// readOnlyFile makes a file that everybody may read.
func readOnlyFile(t *testing.T, content []byte) string {
	t.Helper()
	path := filepath.Join(sharedDir(t), "file")
	if err := os.WriteFile(path, content, 0o444); err != nil {
		t.Fatal(err)
	}
	return path
}

// Compile builds the binary into dir, as "hostile".
func Compile(ctx context.Context, dir string) error {
	src, err := os.MkdirTemp("", "boxtest-src-*")
	if err != nil {
		return err
	}
	defer os.RemoveAll(src)
	if err := os.CopyFS(src, sources); err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(src, "programs", "*.c"))
	if err != nil {
		return err
	}
	args := append([]string{"-O1", "-std=gnu17", "-w", "-static", "-pthread", "-o", filepath.Join(dir, "hostile")}, files...)
	if out, err := exec.CommandContext(ctx, "gcc", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("gcc: %w\n%s", err, out)
	}
	return nil
}
