package e2e

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/serve"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// snake is testdata/worker.py: a worker in another language, written from the
// description of the protocol.
type snake struct {
	cmd *exec.Cmd
	log *lockedBuffer
}

func startSnake(t *testing.T, python, url, invitation, dir string) *snake {
	t.Helper()
	s := &snake{cmd: exec.Command(python, "testdata/worker.py", url, invitation, "snake", dir), log: &lockedBuffer{}}
	s.cmd.Stdout, s.cmd.Stderr = s.log, s.log
	s.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	if err := s.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.cmd.Process.Kill() // it has ended already, if the test got so far
		_ = s.cmd.Wait()
		if t.Failed() {
			t.Log(s.log.String())
		}
	})
	return s
}

// The page on the worker protocol is enough to write a worker: this one passes
// known-answer probes, judges, hears of a cancelled job, hands its work back
// when it is stopped, and sends what was in its outbox when it was killed.
func TestAWorkerWrittenFromTheProtocolsDescription(t *testing.T) {
	python, err := exec.LookPath("python3")
	if err != nil {
		testkit.Missing(t, testkit.Lang, "python3: %v", err)
	}
	dir := t.TempDir()
	settings := health.Default
	settings.Faults = 1 // the first failure of its own shows
	arbiter, api := startArbiter(t, dir, serve.Config{Health: settings})
	b := &bench{api: api}
	b.publish(t)
	invitation, err := api.WorkerInvite(t.Context(), gavelapi.NewInvitation{})
	if err != nil {
		t.Fatal(err)
	}
	state := filepath.Join(dir, "snake")
	w := startSnake(t, python, arbiter.URL(), invitation.Code, state)
	submit := func(source string) int64 {
		t.Helper()
		sub, err := api.SubmissionCreate(t.Context(), gavelapi.NewSubmission{Problem: "echo", Language: "python3", Source: source}, "")
		if err != nil {
			t.Fatal(err)
		}
		return sub.ID
	}
	running := func(id int64) {
		t.Helper()
		until(t, 2*time.Minute, "the program runs", func() bool {
			sub, err := api.SubmissionGet(t.Context(), id, 0)
			return err == nil && sub.State == gavelapi.StateJudging && sub.Progress != nil
		})
	}
	for source, verdict := range map[string]string{
		"print(input())": "AC", "print(int(input()) + 1)": "WA", "raise SystemExit(3)": "RE", "print(": "CE",
	} {
		if sub := b.final(t, submit(source)); sub.Verdict != verdict || len(sub.Detail.Attempts) != 1 {
			t.Errorf("%q is %s after %d attempts, want %s", source, sub.Verdict, len(sub.Detail.Attempts), verdict)
		}
	}

	const sleeps = "import time\ntime.sleep(3600)"
	cancelled := submit(sleeps)
	running(cancelled)
	if _, err := api.SubmissionCancel(t.Context(), cancelled, ""); err != nil {
		t.Fatal(err)
	}
	if sub := b.final(t, submit("print(input())")); sub.Verdict != "AC" {
		t.Errorf("after a cancelled one the next is %s", sub.Verdict)
	}
	if !strings.Contains(w.log.String(), "lease lost: cancelled") {
		t.Error("it did not hear that its job was cancelled")
	}

	stopped := submit(sleeps)
	running(stopped)
	if err := w.cmd.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := w.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v", err)
	}
	sub, err := api.SubmissionGet(t.Context(), stopped, 0)
	if err != nil || sub.State != gavelapi.StatePending || sub.Detail.Attempts[0].Outcome != "released" {
		t.Errorf("what a stopped worker held is %+v, %v", sub, err)
	}

	// Killed with a result on its disk: the next process sends it first.
	w = startSnake(t, python, arbiter.URL(), "", state)
	running(stopped)
	var token string
	until(t, time.Minute, "its file is there", func() bool {
		found, err := filepath.Glob(filepath.Join(state, "*.py")) // it names its scratch files by their leases
		if err != nil || len(found) != 1 {
			return false
		}
		token = strings.TrimSuffix(filepath.Base(found[0]), ".py")
		return true
	})
	_ = w.cmd.Process.Kill() // a process that has ended shows below
	_ = w.cmd.Wait()
	if sub, err = api.SubmissionGet(t.Context(), stopped, 0); err != nil || len(sub.Detail.Attempts) != 2 {
		t.Fatalf("%+v, %v", sub, err)
	}
	result := `{"lease_token":"` + token + `","report":{"verdict":"AC","cpu_us":1000,"wall_us":1000,"tests":[{"name":"secret/1","verdict":"AC"}]}}`
	if err := os.WriteFile(filepath.Join(state, "outbox", token), []byte(result), 0o600); err != nil {
		t.Fatal(err)
	}
	startSnake(t, python, arbiter.URL(), "", state)
	if sub := b.final(t, stopped); sub.Verdict != "AC" || len(sub.Detail.Attempts) != 2 {
		t.Errorf("it is %s after %d attempts", sub.Verdict, len(sub.Detail.Attempts))
	}
	if sub := b.final(t, submit("print(input())")); sub.Verdict != "AC" {
		t.Errorf("after its restart it judges %s", sub.Verdict)
	}
	h, err := api.WorkerHealth(t.Context(), "snake")
	if err != nil || len(h.SetAside)+len(h.Faults) != 0 || len(h.Probes) == 0 || h.Probes[len(h.Probes)-1].Outcome != "passed" {
		t.Errorf("its health is %+v, %v", h, err)
	}
}
