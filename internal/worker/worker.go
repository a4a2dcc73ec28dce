package worker

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"path/filepath"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

// How long an orderly stop waits for what depends on others.
const (
	// lastWords is for results and releases on their way when a stop begins.
	lastWords = 5 * time.Second
	// stopLimit is for engines to let go, on top.
	stopLimit = killLimit + lastWords
)

// ErrSlotsStuck ends an agent in which no slot works any more.
var ErrSlotsStuck = errors.New("every slot hangs in an engine that does not return")

// Worker is one agent. Make it with New, run it once.
type Worker struct {
	cfg Config
	log *slog.Logger
	clk clock.Clock
	nag *nag

	state  *State
	outbox *outbox
	cache  *cache

	// work ends when running jobs must stop, send when even reports must.
	work     context.Context //nolint:containedctx // the lifetime of the agent's own goroutines
	stopWork context.CancelCauseFunc
	send     context.Context //nolint:containedctx // as above
	stopSend context.CancelCauseFunc
	handBack chan struct{}
	handOnce sync.Once
	fatal    chan struct{}
	failOnce sync.Once
	fatalErr error

	slots sync.WaitGroup // serve
	posts sync.WaitGroup // reports on their way
	room  chan struct{}  // signalled when a slot frees

	mu         sync.Mutex
	answers    chan struct{}   // closed and replaced when an arbiter that was away answers
	runs       map[string]*run // by lease token; each holds a slot
	dead       int             // slots lost to an engine that does not return
	pending    int             // results not yet answered
	unsaved    map[string]entry
	diskErr    error
	draining   bool
	drainUntil time.Time
}

// New checks the configuration. Nothing is touched before Run.
func New(cfg Config) (*Worker, error) {
	cfg, err := cfg.withDefaults()
	if err != nil {
		return nil, err
	}
	return &Worker{
		cfg: cfg, log: cfg.Logger, clk: cfg.Clock, nag: newNag(cfg.Clock),
		handBack: make(chan struct{}), fatal: make(chan struct{}), room: make(chan struct{}, 1),
		answers: make(chan struct{}), runs: map[string]*run{}, unsaved: map[string]entry{},
	}, nil
}

// HandBack ends the grace period of a stop: running work is killed and its
// leases are released now. It may be called at any time, more than once.
func (w *Worker) HandBack() { w.handOnce.Do(func() { close(w.handBack) }) }

// fail ends the agent for a reason that no retry can cure.
func (w *Worker) fail(err error) {
	w.failOnce.Do(func() {
		w.fatalErr = err
		close(w.fatal)
		w.stopWork(err)
		w.stopSend(err)
	})
}

func (w *Worker) failed() bool {
	select {
	case <-w.fatal:
		return true
	default:
		return false
	}
}

// Run works until ctx ends, and then stops in order: it claims no more, gives
// running work the grace period, kills and releases the rest, sends what is
// finished, and returns nil. It returns an error when it cannot start or when
// the arbiter refuses this worker for good (ErrRefused, ErrProtocol).
func (w *Worker) Run(ctx context.Context) (err error) {
	if w.state = w.cfg.State; w.state == nil {
		if w.state, err = OpenState(w.cfg.StateDir); err != nil {
			return err
		}
		defer func() { err = errors.Join(err, w.state.Close()) }()
	}
	if err := w.state.begin(); err != nil {
		w.log.Warn("the session cannot be remembered; the next start may have to wait for this one to expire", "error", err)
	}
	// What runs must outlive ctx: its end only begins the stop.
	base := context.WithoutCancel(ctx)
	w.work, w.stopWork = context.WithCancelCause(base)
	w.send, w.stopSend = context.WithCancelCause(base)
	defer w.stopSend(nil)
	defer w.stopWork(nil)

	if w.outbox, err = openOutbox(filepath.Join(w.cfg.StateDir, "outbox"), w.log); err != nil {
		return err
	}
	w.cache, err = openCache(w.work, filepath.Join(w.cfg.StateDir, "packages"), w.cfg.CacheQuotaBytes,
		w.cfg.FetchLimit, w.cfg.Client.FetchPackage, w.clk, w.log)
	if err != nil {
		return err
	}
	defer w.cache.wg.Wait()
	left, err := w.outbox.scan()
	if err != nil {
		return err
	}
	w.log.Info("worker starts", "session", w.state.session, "slots", w.cfg.Slots, "outbox", len(left))

	claiming, stopClaiming := context.WithCancel(ctx)
	defer stopClaiming()
	go func() {
		select {
		case <-w.fatal:
			stopClaiming()
		case <-claiming.Done():
		}
	}()
	w.sendLeftovers(claiming, left)
	w.claimLoop(claiming)
	return w.stop()
}

// stop is the orderly end.
func (w *Worker) stop() error {
	idle := make(chan struct{})
	go func() { w.slots.Wait(); close(idle) }()
	w.mu.Lock()
	busy, grace := len(w.runs), w.cfg.Grace
	w.mu.Unlock()
	if w.failed() {
		grace = 0
	} else {
		w.log.Info("worker stops", "busy", busy, "grace_ms", grace.Milliseconds())
	}
	if grace > 0 {
		select {
		case <-idle:
		case <-w.handBack:
		case <-w.fatal:
		case <-w.clk.After(grace):
		}
	}
	w.stopWork(errHandBack)
	if !w.within(stopLimit, idle) {
		w.log.Error("some slots did not stop; their leases expire by themselves")
	}
	sent := make(chan struct{})
	go func() { w.posts.Wait(); close(sent) }()
	if !w.within(lastWords, sent) {
		w.log.Warn("some results could not be reported; they wait in the outbox for the next start")
	}
	w.stopSend(errHandBack)
	w.within(lastWords, sent)
	if w.failed() {
		return fmt.Errorf("worker: %w", w.fatalErr)
	}
	w.log.Info("worker stopped")
	return nil
}

// within waits for done, but not for longer than limit.
func (w *Worker) within(limit time.Duration, done <-chan struct{}) bool {
	select {
	case <-done:
		return true
	case <-w.clk.After(limit):
		return false
	}
}

// started and freed are the two ends of a slot's use.
func (w *Worker) started(r *run) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[r.lease.LeaseToken] = r
}

func (w *Worker) freed(r *run) {
	w.mu.Lock()
	delete(w.runs, r.lease.LeaseToken)
	w.mu.Unlock()
	select {
	case w.room <- struct{}{}:
	default:
	}
}

func (w *Worker) slotDied() {
	w.mu.Lock()
	w.dead++
	all := w.dead == w.cfg.Slots
	w.mu.Unlock()
	if all {
		w.fail(ErrSlotsStuck)
	}
}

func (w *Worker) slotRevived() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.dead--
}
