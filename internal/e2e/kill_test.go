package e2e

import (
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
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
	// The worker died as well, and its successor names its session: nobody waits
	// for the minute of grace that leases get from a new arbiter.
	until(t, 20*time.Second, "the submission goes on", func() bool {
		sub, err := s.api.SubmissionGet(t.Context(), id, 0)
		return err == nil && (len(sub.Detail.Attempts) > 1 || gavelapi.Final(sub.State))
	})
	got := s.final(id)
	wantOnce(t, got, "AC")
	if first := got.Detail.Attempts[0]; first.Outcome != "expired" && first.Outcome != "released" {
		t.Errorf("the attempt of the dead worker ended as %q", first.Outcome)
	}
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
	workers := children(s.cmd.Process.Pid, "gavel-worker")
	if err := s.stop(); err != nil {
		t.Errorf("Ctrl-C ended gavel up with %v\n%s", err, s.stderr)
	}
	orphans := children(1, "gavel-worker") // others of this machine among them
	if len(workers) == 0 || slices.ContainsFunc(workers, func(pid int) bool { return slices.Contains(orphans, pid) }) {
		t.Errorf("its workers were %v; without a parent on this machine: %v", workers, orphans)
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

// Who waits for a verdict is answered when gavel stops, and asks elsewhere.
func TestAStopAnswersThoseWhoWait(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	s.publish("echo")
	// No worker takes it before the stop: the program runs for three seconds, and there is one slot.
	s.submit(slowEcho)
	id := s.submit(slowEcho + "// another")
	ended := make(chan error, 1)
	go func() {
		for {
			sub, err := s.api.SubmissionGet(t.Context(), id, 25*time.Second)
			if err != nil || gavelapi.Final(sub.State) {
				ended <- err
				return
			}
		}
	}()
	if err := s.stop(); err != nil {
		t.Errorf("Ctrl-C ended gavel up with %v", err)
	}
	if err := <-ended; client.StatusOf(err) != http.StatusServiceUnavailable {
		t.Errorf("the reader who waited got %v, want 503", err)
	}
	for _, want := range []string{"Ctrl-C again stops at once", "stopping the worker", "stopping the arbiter", "stopping PostgreSQL"} {
		if !strings.Contains(s.stderr.String(), want) {
			t.Errorf("the stop does not say %q:\n%s", want, s.stderr)
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
