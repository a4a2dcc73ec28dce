package cli_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/gavel-oj/gavel/internal/cli"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// TestJudgeScripts judges in real boxes.
func TestJudgeScripts(t *testing.T) {
	p, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	testscript.Run(t, testscript.Params{
		Dir: "testdata/judge",
		Setup: func(env *testscript.Env) error {
			env.Setenv("COLUMNS", "160")
			return os.Chmod(env.Getenv("TMPDIR"), 0o700) // nobody else may look into it
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){"exit": exit},
	})
}

// TestWithoutRootJudgeSaysWhatToDo runs this program as nobody, from a copy
// that nobody can read.
func TestWithoutRootJudgeSaysWhatToDo(t *testing.T) {
	dir, err := os.MkdirTemp("", "gavel-nobody-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	for name, text := range map[string]string{
		"sum/problem.yaml":      "problem_format_version: 2025-09\nname: Sum\nuuid: 0d0f3b52-1c0e-4a7b-9a55-3c1f6f0a7e09\n",
		"sum/data/sample/1.in":  "1\n",
		"sum/data/sample/1.ans": "1\n",
		"sum/data/secret/1.in":  "1\n",
		"sum/data/secret/1.ans": "1\n",
		"a.py":                  "print(input())\n",
	} {
		file := filepath.Join(dir, name)
		if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o755), os.WriteFile(file, []byte(text), 0o644)); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "gavel"), "judge", "sum", "a.py")
	cmd.Dir, cmd.Env = dir, []string{"TMPDIR=/tmp"}
	if os.Geteuid() == 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	}
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(os.WriteFile(cmd.Path, self, 0o755), os.Chmod(dir, 0o755)); err != nil {
		t.Fatal(err)
	}
	out, err := cmd.CombinedOutput()
	exit, ok := errors.AsType[*exec.ExitError](err)
	if !ok || exit.ExitCode() != cli.ExitFailed ||
		!strings.Contains(string(out), "gavel: this machine cannot make boxes (privilege): ") ||
		!strings.Contains(string(out), "hint: run it with sudo: ") {
		t.Errorf("%v:\n%s", err, out)
	}
}
