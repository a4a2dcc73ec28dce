package worker

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/verdict"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

func TestMain(m *testing.M) {
	if runAsWorker() {
		return
	}
	goleak.VerifyTestMain(m)
}

// engine is a judge.Judge made of a function. It notes how many ran at once.
type engine struct {
	do func(ctx context.Context, t judge.Task, progress func(judge.Progress)) (*judge.Report, error)

	mu      sync.Mutex
	running int
	most    int
	tasks   []judge.Task
}

func (e *engine) Judge(ctx context.Context, t judge.Task, progress func(judge.Progress)) (*judge.Report, error) {
	e.mu.Lock()
	e.running++
	e.most = max(e.most, e.running)
	e.tasks = append(e.tasks, t)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		e.running--
	}()
	return e.do(ctx, t, progress)
}

func (e *engine) calls() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return len(e.tasks)
}

// accepts is a report of AC for every test.
func accepts(t judge.Task) *judge.Report {
	r := &judge.Report{Verdict: verdict.AC, Toolchain: "g++ 12", Compile: judge.Compile{OK: true}}
	for _, test := range t.Package.Manifest.Tests {
		r.Tests = append(r.Tests, judge.Test{Name: test.Name, Verdict: verdict.AC, CPU: time.Millisecond})
	}
	return r
}

// takes makes an engine whose runs last for d and end with AC.
func takes(d time.Duration) *engine {
	return &engine{do: func(ctx context.Context, t judge.Task, _ func(judge.Progress)) (*judge.Report, error) {
		if err := client.Sleep(ctx, d); err != nil {
			return nil, err
		}
		return accepts(t), nil
	}}
}

// logs is a log that tests read.
type logs struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *logs) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *logs) count(text string) int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Count(l.b.String(), text)
}

// rig is an arbiter and a worker on it.
type rig struct {
	t    *testing.T
	arb  *arbitertest.Arbiter
	w    *Worker
	logs *logs
	end  context.CancelFunc
	done chan error
}

var testCapabilities = gavelapi.Capabilities{
	Languages: []gavelapi.LanguageOffer{{ID: "cpp17", Version: "g++ 12"}},
	Build:     "test", Kernel: "6.1", MemoryMeter: "cgroup2", MemoryBytes: 1 << 30, Cores: 2, Arch: "amd64",
}

// newRig prepares one; change may alter the configuration.
func newRig(t *testing.T, arb *arbitertest.Arbiter, e judge.Judge, change func(*Config)) *rig {
	t.Helper()
	r := &rig{t: t, arb: arb, logs: &logs{}, done: make(chan error, 1)}
	cfg := Config{
		Client: arb.Client(t, client.Options{}), Judge: e, StateDir: t.TempDir(), Slots: 1,
		Capabilities: func() gavelapi.Capabilities { return testCapabilities }, CPUMeter: "cgroup2",
		Logger: slog.New(slog.NewTextHandler(r.logs, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	if change != nil {
		change(&cfg)
	}
	w, err := New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	r.w = w
	t.Cleanup(func() {
		if t.Failed() {
			r.logs.mu.Lock()
			defer r.logs.mu.Unlock()
			t.Log(r.logs.b.String())
		}
	})
	return r
}

// start runs the worker until the test ends or stop is called.
func (r *rig) start() *rig {
	ctx, cancel := context.WithCancel(context.WithoutCancel(r.t.Context()))
	r.end = cancel
	go func() { r.done <- r.w.Run(ctx) }()
	r.t.Cleanup(func() { r.stop() })
	return r
}

// stop ends the worker as a first signal does, and returns Run's error and how
// long stopping took.
func (r *rig) stop() (time.Duration, error) {
	if r.done == nil {
		return 0, nil
	}
	began := r.w.clk.Now()
	r.end()
	err := <-r.done
	r.done = nil
	r.arb.Check(r.t)
	return r.w.clk.Now().Sub(began), err
}

// exit waits for a worker that ends by itself.
func (r *rig) exit() error {
	err := <-r.done
	r.done = nil
	return err
}

// fault sets the arbiter's faults while it runs.
func faults(f func(c arbitertest.Call) arbitertest.Fault) func(arbitertest.Call) arbitertest.Fault {
	return f
}

// sleep passes virtual time.
func sleep(t *testing.T, d time.Duration) {
	t.Helper()
	if err := client.Sleep(t.Context(), d); err != nil && !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
}
