package e2e

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

func TestTheWorkerIsKilledInTheMiddleOfAJudging(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	s.publish("echo")
	id := s.submit(slowEcho)
	s.awaitRunning(id)
	killOne(t, s.cmd.Process.Pid, "gavel-worker")
	got := s.final(id)
	wantOnce(t, got, "AC")
	if n := len(got.Detail.Attempts); n != 2 || got.Detail.Attempts[0].Outcome != "expired" {
		t.Errorf("%d attempts, the first %q: the killed worker's lease should have ended as expired", n, got.Detail.Attempts[0].Outcome)
	}
}

func TestTheArbiterIsKilledInTheMiddleOfAJudging(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	s.publish("echo")
	id := s.submit(slowEcho)
	s.awaitRunning(id)
	// Everything of this gavel dies at once: the arbiter itself, with it its
	// database and worker. The next start must find the submission.
	if err := s.cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = s.cmd.Wait() // killed, as intended
	s.start("--no-samples")
	wantOnce(t, s.final(id), "AC")
}

func TestPostgresIsKilledInTheMiddleOfAJudging(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	s.publish("echo")
	id := s.submit(slowEcho)
	s.awaitRunning(id)
	killOne(t, s.cmd.Process.Pid, "postgres")
	got := s.final(id)
	wantOnce(t, got, "AC")
	if n := len(got.Detail.Attempts); n != 1 {
		t.Errorf("%d attempts: the judging went on without the database and should have been recorded by its first holder", n)
	}
	if err := s.cmd.Process.Signal(syscall.Signal(0)); err != nil {
		t.Errorf("gavel up did not survive its database: %v\n%s", err, s.stderr)
	}
}

func TestStoppingIsOrderlyAndLosesNothing(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	s.publish("echo")
	id := s.submit(slowEcho)
	s.awaitRunning(id)
	if err := s.stop(); err != nil {
		t.Errorf("Ctrl-C ended gavel up with %v\n%s", err, s.stderr)
	}
	if left := children(1, "gavel-worker"); len(left) != 0 {
		t.Errorf("processes left behind: %v", left)
	}
	if _, err := os.Stat(filepath.Join(s.dir, "postgres", "cluster", "postmaster.pid")); err == nil {
		t.Error("PostgreSQL was not shut down")
	}
	s.start("--no-samples")
	got := s.final(id)
	wantOnce(t, got, "AC")
	for _, a := range got.Detail.Attempts {
		if a.Outcome != "completed" && a.Outcome != "released" {
			t.Errorf("an attempt ended as %q: the worker should have handed its work back", a.Outcome)
		}
	}
}

func TestASecondGavelOnTheSameDirectoryIsRefused(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	out := s.gavel(5, "up", "--data-dir", s.dir, "--listen", "127.0.0.1:0", "--no-samples")
	if !strings.Contains(out, s.dir) || !strings.Contains(out, "hint:") {
		t.Errorf("the refusal does not name the directory and the cure:\n%s", out)
	}
	if list := s.gavel(0, "worker", "list"); !strings.Contains(list, "local") {
		t.Errorf("the first one no longer works:\n%s", list)
	}
}
