package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net/http/httptest"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// The variables that make the test binary a worker process.
const (
	envURL   = "GAVEL_TEST_WORKER_URL"
	envState = "GAVEL_TEST_WORKER_STATE"
	envGrace = "GAVEL_TEST_WORKER_GRACE"
)

// runAsWorker is the worker process of these tests: a real agent over real
// TCP, with an engine that does what the source's name says.
func runAsWorker() bool {
	url := os.Getenv(envURL)
	if url == "" {
		return false
	}
	die := func(err error) {
		os.Stderr.WriteString(err.Error() + "\n")
		os.Exit(1)
	}
	c, err := client.New(url, arbitertest.Token, client.Options{})
	if err != nil {
		die(err)
	}
	grace, err := time.ParseDuration(os.Getenv(envGrace))
	if err != nil {
		die(err)
	}
	e := &engine{do: func(ctx context.Context, t judge.Task, progress func(judge.Progress)) (*judge.Report, error) {
		switch t.SourceName {
		case "block":
			progress(judge.Progress{Phase: judge.PhaseRunning})
			<-ctx.Done()
			return nil, context.Cause(ctx)
		case "deaf":
			progress(judge.Progress{Phase: judge.PhaseRunning})
			select {}
		}
		return accepts(t), nil
	}}
	w, err := New(Config{
		Client: c, Judge: e, StateDir: os.Getenv(envState), Slots: 2, Grace: grace, Capabilities: func() gavelapi.Capabilities { return testCapabilities },
		Logger: slog.New(slog.NewTextHandler(os.Stderr, nil)),
	})
	if err != nil {
		die(err)
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT, unix.SIGHUP)
	if err := w.RunSignalled(context.Background(), signals, os.Exit); err != nil {
		die(err)
	}
	return true
}

// process is one worker process.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stderr bytes.Buffer
	done   chan struct{}
}

func startProcess(t *testing.T, url, state string, grace time.Duration) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(os.Args[0]), done: make(chan struct{})}
	p.cmd.Env = append(os.Environ(), envURL+"="+url, envState+"="+state, envGrace+"="+grace.String())
	p.cmd.Stderr = &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() { _ = p.cmd.Wait(); close(p.done) }()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.done
		if t.Failed() {
			t.Logf("worker process:\n%s", p.stderr.String())
		}
	})
	return p
}

func (p *process) signal(s unix.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(s); err != nil {
		p.t.Fatal(err)
	}
}

// exit waits for the end and returns the exit code, -1 for a signal.
func (p *process) exit(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.done:
		return p.cmd.ProcessState.ExitCode()
	case <-time.After(limit):
		p.t.Fatalf("the process is still there after %v", limit)
		return 0
	}
}

func serveTCP(t *testing.T) (*arbitertest.Arbiter, string) {
	t.Helper()
	arb := arbitertest.New()
	s := httptest.NewServer(arb)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
		arb.Check(t)
	})
	return arb, s.URL
}

func awaitRunning(t *testing.T, arb *arbitertest.Arbiter, id int64) {
	t.Helper()
	arb.Await(t, 20*time.Second, "the job runs", func() bool {
		return strings.HasSuffix(strings.Join(arb.Phases(id), " "), "running")
	})
}

// A13 with a real process and a real signal.
func TestSIGTERMHandsBackAndExitsZero(t *testing.T) {
	for _, sig := range []unix.Signal{unix.SIGTERM, unix.SIGINT} {
		t.Run(sig.String(), func(t *testing.T) {
			arb, url := serveTCP(t)
			arb.Heartbeat = 50 * time.Millisecond
			digest := arb.AddPackage(t, "a", 1, 1)
			p := startProcess(t, url, t.TempDir(), 0)
			ids := []int64{arb.Submit(digest, gavelapi.Lease{SourceName: "block"}), arb.Submit(digest, gavelapi.Lease{SourceName: "block"})}
			for _, id := range ids {
				awaitRunning(t, arb, id)
			}
			p.signal(unix.SIGHUP) // changes nothing
			p.signal(sig)
			if code := p.exit(5 * time.Second); code != 0 {
				t.Errorf("exit code %d", code)
			}
			for _, id := range ids {
				if job := arb.Job(id); job.State != "pending" || job.Attempts[0].Outcome != "released" || job.Report != nil {
					t.Errorf("job %+v", job)
				}
			}
		})
	}
}

func TestSecondSignalHandsBackWithinTheGrace(t *testing.T) {
	arb, url := serveTCP(t)
	arb.Heartbeat = 50 * time.Millisecond
	digest := arb.AddPackage(t, "a", 1, 1)
	p := startProcess(t, url, t.TempDir(), 10*time.Minute)
	id := arb.Submit(digest, gavelapi.Lease{SourceName: "block"})
	awaitRunning(t, arb, id)
	p.signal(unix.SIGTERM)
	beats := arb.Count("heartbeat")
	arb.Await(t, 10*time.Second, "heartbeats go on in the grace period", func() bool { return arb.Count("heartbeat") > beats+5 })
	p.signal(unix.SIGTERM)
	if code := p.exit(5 * time.Second); code != 0 {
		t.Errorf("exit code %d", code)
	}
	if job := arb.Job(id); job.Attempts[0].Outcome != "released" {
		t.Errorf("job %+v", job)
	}
}

func TestSecondSignalWithoutGraceLeavesAtOnce(t *testing.T) {
	arb, url := serveTCP(t)
	arb.Heartbeat = 50 * time.Millisecond
	digest := arb.AddPackage(t, "a", 1, 1)
	p := startProcess(t, url, t.TempDir(), 0)
	id := arb.Submit(digest, gavelapi.Lease{SourceName: "deaf"}) // it would hold the stop up
	awaitRunning(t, arb, id)
	p.signal(unix.SIGTERM)
	beats := arb.Count("heartbeat")
	arb.Await(t, 10*time.Second, "the stop waits for the engine", func() bool { return arb.Count("heartbeat") > beats+3 })
	p.signal(unix.SIGTERM)
	if code := p.exit(2 * time.Second); code != ExitInterrupted {
		t.Errorf("exit code %d", code)
	}
}

// A1: killed in the middle of a judging; the next process under the same state
// is accepted at once, and the job is judged again when its lease expires.
func TestSIGKILLWhileJudgingLosesOneAttempt(t *testing.T) {
	arb, url := serveTCP(t)
	arb.TTL, arb.Heartbeat = 3*time.Second, 100*time.Millisecond
	digest := arb.AddPackage(t, "a", 1, 1)
	state := t.TempDir()
	p := startProcess(t, url, state, 0)
	id := arb.Submit(digest, gavelapi.Lease{SourceName: "block"})
	awaitRunning(t, arb, id)
	p.signal(unix.SIGKILL)
	p.exit(5 * time.Second)
	arb.Rename(id, "quick")

	claims := arb.Count("claim")
	startProcess(t, url, state, 0)
	arb.Await(t, 10*time.Second, "a claim", func() bool { return arb.Count("claim") > claims })
	other := arb.Submit(digest, gavelapi.Lease{})
	arb.AwaitState(t, 10*time.Second, other, "done")
	if n := arb.Count("claim") - claims; n > 3 {
		t.Errorf("%d claims until the successor was accepted", n)
	}
	job := arb.AwaitState(t, 10*time.Second, id, "done")
	if len(job.Attempts) != 2 || job.Attempts[0].Outcome != "expired" || job.Attempts[1].Outcome != "completed" {
		t.Errorf("attempts %+v", job.Attempts)
	}
}

// A9: killed between the outbox and the report.
func TestSIGKILLBeforeTheReportLosesNothing(t *testing.T) {
	arb, url := serveTCP(t)
	digest := arb.AddPackage(t, "a", 1, 1)
	hold := true
	arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
		if c.Op == "result" && hold {
			return arbitertest.Hang
		}
		return arbitertest.None
	}
	state := t.TempDir()
	p := startProcess(t, url, state, 0)
	id := arb.Submit(digest, gavelapi.Lease{})
	arb.Await(t, 20*time.Second, "a report", func() bool { return arb.Count("result") == 1 })
	p.signal(unix.SIGKILL)
	p.exit(5 * time.Second)
	if names := list(t, filepath.Join(state, "outbox")); len(names) != 2 {
		t.Fatalf("outbox: %v", names)
	}
	calls := len(arb.Calls(""))
	arb.Locked(func() { hold = false })
	startProcess(t, url, state, 0)
	job := arb.AwaitState(t, 20*time.Second, id, "done")
	if len(job.Attempts) != 1 || job.Attempts[0].Outcome != "completed" {
		t.Errorf("attempts %+v", job.Attempts)
	}
	if op := arb.Calls("")[calls].Op; op != "result" {
		t.Errorf("the first call is a %s", op)
	}
	// A claim shows that the answer was dealt with.
	arb.Await(t, 20*time.Second, "a claim", func() bool { c := arb.Calls(""); return c[len(c)-1].Op == "claim" })
	if names := list(t, filepath.Join(state, "outbox")); len(names) != 1 {
		t.Errorf("outbox: %v", names)
	}
}

// The agent of a machine that slept finds its lease dead and drops the work.
func TestFrozenWorkerDropsItsWorkWhenItWakes(t *testing.T) {
	arb, url := serveTCP(t)
	arb.TTL, arb.Heartbeat = 2*time.Second, 100*time.Millisecond
	digest := arb.AddPackage(t, "a", 1, 1)
	p := startProcess(t, url, t.TempDir(), 0)
	id := arb.Submit(digest, gavelapi.Lease{SourceName: "block"})
	other := arb.Submit(digest, gavelapi.Lease{SourceName: "block"}) // no free slot, no parked claim
	awaitRunning(t, arb, id)
	awaitRunning(t, arb, other)
	p.signal(unix.SIGSTOP)
	arb.AwaitExpiry(t, 10*time.Second, id)
	arb.AwaitExpiry(t, 10*time.Second, other)
	arb.Rename(id, "quick")
	arb.Rename(other, "quick")
	p.signal(unix.SIGCONT)
	job := arb.AwaitState(t, 10*time.Second, id, "done")
	if len(job.Attempts) != 2 || job.Attempts[0].Late != 0 {
		t.Errorf("attempts %+v", job.Attempts)
	}
}

func TestSecondProcessOnTheSameStateExitsWithAReason(t *testing.T) {
	arb, url := serveTCP(t)
	state := t.TempDir()
	startProcess(t, url, state, 0)
	arb.Await(t, 20*time.Second, "a claim", func() bool { return arb.Count("claim") == 1 })
	second := startProcess(t, url, state, 0)
	if code := second.exit(10 * time.Second); code != 1 || !strings.Contains(second.stderr.String(), "already runs with state directory") {
		t.Errorf("exit code %d: %s", code, second.stderr.String())
	}
	if n := arb.Count("claim"); n != 1 {
		t.Errorf("%d claims", n)
	}
}

func TestWorkerWithoutALanguageIsRefused(t *testing.T) {
	_, err := New(Config{Client: &client.Client{}, Judge: takes(0), StateDir: t.TempDir(), Slots: 1, Logger: discard})
	if err == nil || !strings.Contains(err.Error(), "no language passed its self-test") {
		t.Errorf("got %v", err)
	}
	if errors.Is(err, ErrRefused) {
		t.Error("the arbiter was asked")
	}
}
