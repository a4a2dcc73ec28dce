package boxtest

import (
	"context"
	"embed"
	"flag"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"testing"
)

//go:embed programs
var sources embed.FS

var programsFlag = flag.String("boxtest.programs", "", "directory that holds the compiled hostile programs; compiled with gcc when empty")

// Programs gives a directory, readable by everybody, with the binary "hostile".
func Programs(t *testing.T) string {
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

// Names are the programs of the binary, as their sources name them.
func Names() (names []string) {
	// Neither can fail: the pattern is good and the files are in this binary.
	files, _ := fs.Glob(sources, "programs/*.c")
	for _, file := range files {
		text, _ := fs.ReadFile(sources, file)
		for _, m := range programName.FindAllSubmatch(text, -1) {
			names = append(names, string(m[1]))
		}
	}
	return names
}

var programName = regexp.MustCompile(`(?m)^PROGRAM\((\w+)\)`)
