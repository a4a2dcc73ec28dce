package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// asProgram makes the test binary the program.
const asProgram = "GAVEL_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	linuxbox.Init()
	if os.Getenv(asProgram) != "" {
		main()
	}
	os.Exit(m.Run())
}

// As timeout(1) does it: the signal comes twice, and the end is an orderly one
// all the same.
func TestASignalThatComesTwiceLeavesNothingBehind(t *testing.T) {
	provider, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	if err := provider.Close(); err != nil {
		t.Fatal(err)
	}
	source, temp := filepath.Join(t.TempDir(), "a.py"), t.TempDir()
	if err := os.WriteFile(source, []byte("while True: pass\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	var said bytes.Buffer
	cmd := exec.Command(os.Args[0], "judge", "../../examples/problems/two-baskets", source, "--limit-factor", "100")
	cmd.Env = append(os.Environ(), asProgram+"=1", "TMPDIR="+temp)
	cmd.Stdout, cmd.Stderr = &said, &said
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan error, 1)
	go func() { ended <- cmd.Wait() }()
	late := time.After(time.Minute)
	for left := []string{}; len(left) == 0; { // until there is what could be left behind
		left, _ = filepath.Glob(filepath.Join(temp, "gavel-judge-*", "package"))
		select {
		case err := <-ended:
			t.Fatalf("ended too soon: %v\n%s", err, &said)
		case <-late:
			t.Fatal("nothing is judged")
		case <-time.After(10 * time.Millisecond):
		}
	}
	for range 2 {
		if err := cmd.Process.Signal(syscall.SIGTERM); err != nil {
			t.Fatal(err)
		}
		select { // two that are pending at the same time are one to the kernel
		case err := <-ended:
			ended <- err
		case <-time.After(2 * time.Millisecond):
		}
	}
	select {
	case <-ended:
	case <-late:
		_ = cmd.Process.Kill()
		t.Fatal("still there after a minute")
	}
	left, err := os.ReadDir(temp)
	if code := cmd.ProcessState.ExitCode(); err != nil || len(left) != 0 || code != 130 {
		t.Errorf("exit code %d, left behind: %v, %v\n%s", code, left, err, &said)
	}
}
