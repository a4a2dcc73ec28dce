package drill

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

// Options of a run.
type Options struct {
	// Gavel and Worker are the programs.
	Gavel, Worker string
	// Self is this program, started again in its roles.
	Self string
	// Cluster is a data directory of PrepareCluster to copy; "" makes a new
	// one for each scenario, which takes some seconds.
	Cluster string
	// Dir is where the directories of scenarios are made; "" is the system's
	// temporary directory.
	Dir  string
	Keep bool // directories stay, with the logs of all processes
	Seed uint64
	// Rounds bounds scenarios that repeat themselves, in percent of their full
	// number: 100 is the whole drill.
	Rounds int
	// Sabotage switches protections off.
	Sabotage bool
	// Fleet is FleetArbiter, which "" means too, or FleetMixed.
	Fleet string
	Clock clock.Clock
	// Note hears what is being done.
	Note func(text string)
}

// Figure is something measured.
type Figure struct {
	Name  string  `json:"name"`
	Value float64 `json:"value"`
	Unit  string  `json:"unit"`
	Limit float64 `json:"limit,omitempty"` // 0 means that there is none
}

// Verdicts on a scenario.
const (
	OK          = "ok"
	Failed      = "failed"
	Skipped     = "skipped" // this machine lacks something
	Interrupted = "interrupted"
)

// Result is what became of a scenario.
type Result struct {
	Name       string   `json:"name"`
	Number     string   `json:"number"`
	What       string   `json:"what"`
	Fired      string   `json:"fired"`
	Sabotaged  bool     `json:"sabotaged,omitempty"`
	Verdict    string   `json:"verdict"`
	Why        []string `json:"why,omitempty"` // of failing, skipping
	Did        []string `json:"did"`
	HoldUpMS   float64  `json:"hold_up_ms"` // longest wait of a bystander for its grant
	Bystanders int      `json:"bystanders"`
	Jobs       int      `json:"jobs"`
	Lost       int      `json:"lost"`
	Duplicated int      `json:"duplicated"`
	Stale      int      `json:"stale"`
	Discarded  int      `json:"discarded"`
	Calls      int      `json:"calls"`     // of workers and operators, about …
	Histories  int      `json:"histories"` // … so many jobs, looked at for an order that explains the answers
	Unordered  int      `json:"unordered"` // jobs for which there is none
	Undecided  int      `json:"undecided"` // jobs for which none was found in time
	Figures    []Figure `json:"figures,omitempty"`
	TookMS     int64    `json:"took_ms"`
	Dir        string   `json:"dir,omitempty"` // kept
	Seed       uint64   `json:"seed"`
}

// T is a running scenario. Its methods may be used from the scenario's own
// goroutine; those that do not end it from any.
type T struct {
	Options
	scenario Scenario
	ctx      context.Context //nolint:containedctx // of the run, which T is
	rand     *rand.Rand
	dir      string

	beside   sync.WaitGroup // goroutines beside the script
	mu       sync.Mutex
	result   Result
	cleanups []func()
}

// errScenarioLimit is why a scenario that hangs ends.
var errScenarioLimit = errors.New("the scenario did not end in time")

// Run runs one scenario and cleans up after it. It returns when nothing of it
// is left, also when ctx ends first.
func Run(ctx context.Context, s Scenario, o Options) Result {
	if o.Clock == nil {
		o.Clock = clock.System{}
	}
	if o.Rounds <= 0 {
		o.Rounds = 100
	}
	if o.Note == nil {
		o.Note = func(string) {}
	}
	t := &T{Options: o, scenario: s, rand: rand.New(rand.NewPCG(o.Seed, 0x6a76))}
	t.result = Result{
		Name: s.Name, Number: s.Number(), What: s.What, Fired: s.Fires, Seed: o.Seed,
		Sabotaged: o.Sabotage, Verdict: OK, Did: []string{},
	}
	limit := s.limit
	if limit == 0 {
		limit = defaultLimit
	}
	parent := ctx
	ctx, cancel := context.WithTimeoutCause(ctx, limit, errScenarioLimit)
	defer cancel()
	t.ctx = ctx
	began := o.Clock.Now()
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := t.makeDir(); err != nil {
			t.Fatalf("%v", err)
		}
		s.script(t)
	}()
	<-done
	if ctx.Err() != nil {
		t.Errorf("%v", context.Cause(ctx))
	}
	if parent.Err() != nil {
		t.result.Verdict = Interrupted
	}
	// What the scenario does beside its script ends first: it must not start
	// anything after the clean-up.
	cancel()
	t.beside.Wait()
	for _, undo := range slices.Backward(t.cleanups) {
		undo()
	}
	if o.Keep || t.result.Verdict == Failed && !o.Sabotage {
		t.result.Dir = t.dir
	} else if err := os.RemoveAll(t.dir); err != nil {
		t.Errorf("clean up: %v", err)
	}
	t.result.TookMS = o.Clock.Now().Sub(began).Milliseconds()
	return t.result
}

func (t *T) makeDir() error {
	dir, err := os.MkdirTemp(t.Dir, "gavel-drill-")
	if err != nil {
		return fmt.Errorf("make a directory: %w", err)
	}
	t.dir = dir
	// The database's user, when we are root, must be able to walk through.
	return os.Chmod(dir, 0o711)
}

func (t *T) cleanup(f func()) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cleanups = append(t.cleanups, f)
}

// aside runs f beside the script; it ends soon when the scenario does.
func (t *T) aside(f func()) { t.beside.Go(f) }

// Errorf notes a failure and goes on.
func (t *T) Errorf(format string, args ...any) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.result.Verdict = Failed
	if len(t.result.Why) < 20 { // the first ones say it
		t.result.Why = append(t.result.Why, fmt.Sprintf(format, args...))
	}
}

// Fatalf notes a failure and ends the scenario.
func (t *T) Fatalf(format string, args ...any) {
	t.Errorf(format, args...)
	runtime.Goexit()
}

// Skipf ends the scenario because this machine cannot run it.
func (t *T) Skipf(format string, args ...any) {
	t.mu.Lock()
	if t.result.Verdict == OK {
		t.result.Verdict = Skipped
	}
	t.result.Why = append(t.result.Why, fmt.Sprintf(format, args...))
	t.mu.Unlock()
	runtime.Goexit()
}

// must ends the scenario on an error.
func (t *T) must(err error, doing string) {
	if err != nil {
		t.Fatalf("%s: %v", doing, err)
	}
}

// did notes a step for the report.
func (t *T) did(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	t.mu.Lock()
	t.result.Did = append(t.result.Did, text)
	t.mu.Unlock()
	t.Note(t.scenario.Name + ": " + text)
}

// figure notes a measurement; above limit (0: none) the scenario fails.
func (t *T) figure(name string, value float64, unit string, limit float64) {
	t.mu.Lock()
	t.result.Figures = append(t.result.Figures, Figure{Name: name, Value: value, Unit: unit, Limit: limit})
	t.mu.Unlock()
	if limit > 0 && value > limit {
		t.Errorf("%s: %.4g %s, at most %.4g are allowed", name, value, unit, limit)
	}
}

func (t *T) took(name string, d, limit time.Duration) {
	t.figure(name, float64(d.Microseconds())/1000, "ms", float64(limit.Microseconds())/1000)
}

// until repeats look until it says yes; in vain, it ends the scenario.
func (t *T) until(limit time.Duration, what string, look func() bool) {
	if !t.within(limit, look) {
		if t.ctx.Err() != nil {
			t.Fatalf("%v while waiting: %s", context.Cause(t.ctx), what)
		}
		t.Fatalf("waited %v in vain: %s", limit, what)
	}
}

// within repeats look until it says yes or the time is over.
func (t *T) within(limit time.Duration, look func() bool) bool {
	deadline := t.Clock.Now().Add(limit)
	for pause := time.Millisecond; ; pause = min(2*pause, 25*time.Millisecond) {
		if look() {
			return true
		}
		if t.ctx.Err() != nil || t.Clock.Now().After(deadline) {
			return false
		}
		t.wait(pause)
	}
}

// wait lets time pass, which is part of some situations.
func (t *T) wait(d time.Duration) {
	select {
	case <-t.Clock.After(d):
	case <-t.ctx.Done():
	}
}

// rounds is how many of full repetitions to do, at least one.
func (t *T) rounds(full int) int { return max(1, full*t.Rounds/100) }

func (t *T) path(parts ...string) string { return filepath.Join(append([]string{t.dir}, parts...)...) }
