package testkit

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
)

// Programs builds gavel and gavel-worker once for all tests of a process, as a
// release is built, in a folder that every user may walk to.
var Programs = sync.OnceValues(func() (dir string, err error) {
	defer func() { built = dir }()
	if dir, err = os.MkdirTemp("", "gavel-test-bin-"); err != nil {
		return "", err
	}
	root, err := moduleRoot()
	if err != nil {
		return dir, err
	}
	cmd := exec.Command("go", "build", "-o", dir+"/", "./cmd/gavel", "./cmd/gavel-worker")
	cmd.Dir = root
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		return dir, fmt.Errorf("build: %w\n%s", err, out)
	}
	return dir, os.Chmod(dir, 0o755)
})

// built is where they are, "" when no test wanted them.
var built string

// RemovePrograms removes what Programs has built; a TestMain does so at its
// end, when no test runs any more.
func RemovePrograms() {
	if built != "" {
		_ = os.RemoveAll(built)
	}
}

// PromtoolPath finds promtool: on PATH, or where scripts/deps unpacks it. It ends
// the test when there is none.
func PromtoolPath(t testing.TB) string {
	t.Helper()
	if at, err := exec.LookPath("promtool"); err == nil {
		return at
	}
	root, err := moduleRoot()
	if err != nil {
		t.Fatal(err)
	}
	at := filepath.Join(root, ".cache", "promtool")
	if _, err := os.Stat(at); err != nil {
		Missing(t, Promtool, "promtool is neither on PATH nor in .cache; scripts/deps test fetches it")
	}
	return at
}

// moduleRoot is the folder of go.mod: tests run in their package's own.
func moduleRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod above the working directory")
		}
		dir = up
	}
}
