package e2e

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// refused runs gavel, which must end with a code and two lines, and leave
// nothing behind.
func (s *site) refused(code int, uid uint32, message, hint string, args ...string) {
	s.t.Helper()
	cmd := exec.CommandContext(s.t.Context(), filepath.Join(s.bin, "gavel"), args...)
	cmd.Env, cmd.Dir = append(os.Environ(), "NO_COLOR=1"), "/"
	if uid != 0 {
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	}
	out, err := cmd.CombinedOutput()
	got := 0
	if exit, ok := errors.AsType[*exec.ExitError](err); ok {
		got = exit.ExitCode()
	} else if err != nil {
		s.t.Fatal(err)
	}
	if got != code || !strings.Contains(string(out), message) || !strings.Contains(string(out), "hint: ") || !strings.Contains(string(out), hint) {
		s.t.Errorf("gavel %s: exit code %d, want %d, %q and %q:\n%s", strings.Join(args, " "), got, code, message, hint, out)
	}
	if left, err := os.ReadDir(filepath.Dir(s.dir)); err != nil || len(left) > 0 {
		s.t.Errorf("gavel %s left %v behind (%v)", strings.Join(args, " "), left, err)
	}
}

// Whatever can be refused is refused before there is a database or a directory.
func TestWhatCannotWorkIsRefusedBeforeAnythingIsMade(t *testing.T) {
	s := newSite(t)
	if err := os.Chmod(filepath.Dir(s.dir), 0o777); err != nil {
		t.Fatal(err)
	}
	const nobody = 65534
	s.refused(2, 0, "cannot listen on", "host:port", "up", "--data-dir", s.dir, "--listen", "nonsense")
	s.refused(1, nobody, "this machine cannot make boxes", "root", "up", "--data-dir", s.dir, "--listen", "127.0.0.1:0")
	s.refused(2, 0, "database URL", "postgres://", "serve", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--database-url", "nonsense")
	s.refused(1, 0, "cannot connect to", "check that PostgreSQL runs", "serve", "--data-dir", s.dir, "--listen", "127.0.0.1:0",
		"--database-url", "postgres://nobody@127.0.0.1:1/nothing?connect_timeout=5")
	s.refused(2, 0, "--slots cannot be negative", "gavel up --help", "up", "--data-dir", s.dir, "--slots", "-1")
}

// What --once says with nothing to judge, and what a start without it repeats.
func TestOnceWithoutExamplesSaysWhatItDid(t *testing.T) {
	s := newSite(t)
	out := s.gavel(0, "up", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--slots", "1", "--once", "--no-samples")
	if !strings.Contains(out, "no example is to be judged") {
		t.Errorf("it says:\n%s", out)
	}
}
