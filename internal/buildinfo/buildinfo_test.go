package buildinfo

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// The variables' paths are written in the Makefile, where a renamed package
// would be noticed by nobody: the linker ignores a name it does not know.
func TestLinkerWritesVersionAndCommit(t *testing.T) {
	makefile, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"Version", "Commit"} {
		if !strings.Contains(string(makefile), "-X $(MODULE)/internal/buildinfo."+name+"=") {
			t.Errorf("the Makefile does not set %s", name)
		}
	}

	dir, err := os.MkdirTemp(".", "_program") // inside the module, to be allowed the import; patterns pass over "_"
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	program := `package main
import "github.com/gavel-oj/gavel/internal/buildinfo"
func main() { print(buildinfo.String("gavel")) }`
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600); err != nil {
		t.Fatal(err)
	}
	const at = "-X github.com/gavel-oj/gavel/internal/buildinfo."
	out, err := exec.CommandContext(t.Context(), "go", "run", "-ldflags", at+"Version=v1.2.3 "+at+"Commit=0123456789abcdef", "./"+dir).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	if want := "gavel v1.2.3 (commit 0123456789ab, go"; !strings.HasPrefix(string(out), want) {
		t.Errorf("printed %q, want it to start with %q", out, want)
	}
}
