package sim

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
)

// World is one history being made.
type World struct {
	cfg   Config
	rng   *rand.Rand
	now   Instant
	seq   uint64
	queue eventQueue

	db       *DB
	lock     *session // holder of the leader lock
	downTill Instant  // the database is away until then
	arbiters []*arbiter
	workers  []*worker
	checks   *checker

	calm   bool // no more faults, no more submissions
	steps  int
	tokens Token
	ids    int64 // sessions and requests
	trace  func(format string, args ...any)
	calls  *[]Call // statements are recorded here, if set
}

// Call is one statement of a history, with what it returned.
type Call struct {
	At  Instant
	Do  Statement
	Out any
}

func newWorld(cfg Config) *World {
	w := &World{cfg: cfg, rng: rand.New(rand.NewPCG(cfg.Seed, 1)), db: NewDB(cfg.Bugs), trace: func(string, ...any) {}}
	w.db.ValidTo = -1
	w.checks = newChecker(w)
	w.db.changed = w.checks.changed
	for i := range cfg.Arbiters {
		w.arbiters = append(w.arbiters, newArbiter(w, i))
	}
	for i := range cfg.Workers {
		w.workers = append(w.workers, newWorker(w, i))
	}
	for _, a := range w.arbiters {
		w.at(w.upTo(time.Second), nil, a.boot)
	}
	for _, k := range w.workers {
		w.at(w.upTo(5*time.Second), nil, k.boot)
	}
	for _, f := range cfg.Faults {
		w.at(f.At, nil, func() { w.strike(f) })
	}
	w.at(w.upTo(time.Second), nil, w.submitSome)
	return w
}

// step carries out the next event and checks everything; false when there is
// none.
func (w *World) step() bool {
	for {
		e, ok := w.queue.pop()
		if !ok {
			return false
		}
		w.now, w.db.Now = e.at, e.at
		if p := e.proc; p != nil {
			if p.epoch != e.epoch {
				continue // the process that this was for is gone
			}
			if p.frozen {
				p.backlog = append(p.backlog, e.do)
				continue
			}
		}
		w.steps++
		e.do()
		w.checks.step()
		return true
	}
}

// at makes an event; p nil means that it happens whatever the state of anybody.
func (w *World) at(when Instant, p *process, do func()) {
	w.seq++
	// The database counts microseconds.
	e := event{at: max(when.Truncate(time.Microsecond), w.now), seq: w.seq, proc: p, do: do}
	if p != nil {
		e.epoch = p.epoch
	}
	w.queue.push(e)
}

func (w *World) chance(p float64) bool { return p > 0 && w.rng.Float64() < p }

func (w *World) upTo(d time.Duration) time.Duration { return time.Duration(w.rng.Int64N(int64(d) + 1)) }

func (w *World) between(lo, hi time.Duration) time.Duration { return lo + w.upTo(hi-lo) }

func (w *World) newID() int64 { w.ids++; return w.ids }

// process is what can crash and freeze, and has a clock of its own.
type process struct {
	w       *World
	name    string
	up      bool
	frozen  bool
	epoch   int
	backlog []func()
	skew    time.Duration
	ppm     int64 // how much faster than the database's its clock runs
	cutTill Instant
}

// clock is the process's own idea of the time.
func (p *process) clock() time.Duration {
	return p.w.now + p.skew + time.Duration(int64(p.w.now)/1e6*p.ppm)
}

// after runs do when d has passed on the process's own clock.
func (p *process) after(d time.Duration, do func()) {
	p.w.at(p.w.now+d-time.Duration(int64(d)/1e6*p.ppm), p, do)
}

func (p *process) die() {
	p.up, p.frozen, p.backlog = false, false, nil
	p.epoch++
}

func (p *process) thaw() {
	if !p.frozen {
		return
	}
	p.frozen = false
	// Everything that waited is ready at once, in any order.
	for _, do := range p.backlog {
		p.w.at(p.w.now+p.w.upTo(20*time.Millisecond), p, do)
	}
	p.backlog = nil
}

// latency of one message, and whether it arrives at all.
func (w *World) latency(from, to *process) (time.Duration, bool) {
	if w.calm {
		return w.between(time.Millisecond, 20*time.Millisecond), true
	}
	if cut := max(from.cutTill, to.cutTill); cut > w.now {
		// Half of what is sent into a cut line arrives when it is mended.
		return cut - w.now + w.upTo(time.Second), w.chance(0.5)
	}
	switch {
	case w.chance(w.cfg.Loss):
		return 0, false
	case w.chance(w.cfg.Late):
		return w.between(time.Second, 3*w.cfg.Lease.TTL), true
	case w.chance(w.cfg.Slow):
		return w.between(100*time.Millisecond, 8*time.Second), true
	}
	return w.between(time.Millisecond, 20*time.Millisecond), true
}

// send delivers a message to a process, perhaps late, twice or never.
func (w *World) send(from, to *process, deliver func()) {
	for range 1 + w.doubled() {
		if d, ok := w.latency(from, to); ok {
			w.at(w.now+d, nil, func() {
				if to.up { // a connection to a process that is not there is refused
					w.at(w.now, to, deliver)
				}
			})
		}
	}
}

func (w *World) doubled() int {
	if !w.calm && w.chance(w.cfg.Double) {
		return 1
	}
	return 0
}

// session is a connection to the database on which a leader holds its lock.
type session struct {
	owner *process
	ended bool
	// lastUsed is when the server heard of it; a silent one is ended.
	lastUsed Instant
}

const idleSession = 15 * time.Second

func (w *World) endSession(s *session) {
	if s == nil {
		return
	}
	s.ended = true
	if w.lock == s {
		w.lock = nil
	}
}

var (
	errRefused = errors.New("the database refused")           // it did not happen
	errUnknown = errors.New("the database's answer was lost") // it may have happened, or yet happen
)

// query sends a statement of p's to the database. then gets its rows, or an
// error from which the outcome cannot be told. on is nil for the pool.
func (w *World) query(p *process, on *session, s Statement, then func(out any, err error)) {
	toDB, back := w.between(200*time.Microsecond, 3*time.Millisecond), w.between(200*time.Microsecond, 3*time.Millisecond)
	lost, early := false, false
	if !w.calm {
		if w.chance(w.cfg.SlowDB[classOf(s)]) {
			toDB += w.upTo(9 * time.Second)
		}
		if w.chance(w.cfg.SlowDB[classOf(s)]) {
			back += w.upTo(9 * time.Second)
		}
		lost = w.chance(w.cfg.Doubt[classOf(s)])
		early = lost && w.chance(0.5) // the caller hears of the lost connection before the statement is through
		if lost && w.chance(0.5) {
			toDB += w.upTo(9 * time.Second)
		}
	}
	asker := p.epoch
	answer := func(out any, err error) {
		if p.epoch == asker { // else nobody is left to hear it
			w.at(w.now+back, p, func() { then(out, err) })
		}
	}
	if early {
		answer(nil, errUnknown)
	}
	w.at(w.now+toDB, nil, func() {
		switch {
		case w.downTill > w.now || on != nil && on.ended:
			if !early {
				answer(nil, errRefused)
			}
			return
		case on != nil:
			on.lastUsed = w.now
		}
		out := w.do(s)
		switch {
		case early:
		case lost:
			answer(nil, errUnknown)
		default:
			answer(out, nil)
		}
	})
}

// ask is query for a statement that returns a T.
func ask[T any](w *World, p *process, on *session, s Statement, then func(out T, err error)) {
	w.query(p, on, s, func(out any, err error) {
		rows, fits := out.(T)
		if out != nil && !fits {
			panic(fmt.Sprintf("sim: %T returned %T", s, out))
		}
		then(rows, err)
	})
}

// Classes of statements. Each has its own rates of trouble: some histories are
// about one of them alone.
const (
	ofWorkers = iota
	ofGrants
	ofReclaim
	ofReads
	ofLeadership
	classes
)

func classOf(s Statement) int {
	switch s.(type) {
	case *GrantLeases, *HeldLeases:
		return ofGrants
	case *Reclaim, *ExpireSession:
		return ofReclaim
	case PendingJobs, LeasedJobs, FailedAttemptsOfOpenJobs, AttemptByToken:
		return ofReads
	case TakeOver, RenewLeadership, ReadLeadership, tryLock, endLeader:
		return ofLeadership
	}
	return ofWorkers
}

// private says whether s is none of internal/store's.
func private(s Statement) bool {
	switch s.(type) {
	case tryLock, endLeader, complete:
		return true
	}
	return false
}

func (w *World) do(s Statement) any {
	out := s.Do(w.db)
	if w.calls != nil && !private(s) {
		*w.calls = append(*w.calls, Call{w.now, s, out})
	}
	w.checks.did(s, out)
	return out
}

// submitSome plays the sites: submissions come in, some are cancelled.
func (w *World) submitSome() {
	if w.calm {
		return
	}
	a := w.arbiters[w.rng.IntN(len(w.arbiters))]
	if a.up && !a.frozen {
		if n := len(w.db.Judgings); n > 0 && w.chance(w.cfg.Cancel) {
			a.cancel(int64(1 + max(0, n-1-w.rng.IntN(8))))
		} else if len(w.db.Open) < w.cfg.MaxOpen {
			a.submit(Submit{Language: languages[w.rng.IntN(w.cfg.Languages)]})
		}
	}
	w.at(w.now+w.upTo(2*w.cfg.SubmitEvery), nil, w.submitSome)
}

var languages = []string{"c", "python3"}

// becomeCalm ends all faults: from here on everything must come to its end.
func (w *World) becomeCalm() {
	w.calm = true
	w.downTill = 0
	for _, a := range w.arbiters {
		a.cutTill = 0
		a.thaw()
		if !a.up {
			a.boot()
		}
	}
	for _, k := range w.workers {
		k.cutTill = 0
		k.thaw()
		if !k.up {
			k.boot()
		}
	}
}

// settled says whether nothing is left to do.
func (w *World) settled() bool {
	if len(w.db.Open) > 0 {
		return false
	}
	for _, k := range w.workers {
		if len(k.outbox) > 0 || len(k.runs) > 0 {
			return false
		}
	}
	return true
}

func (w *World) unsettled() string {
	var text strings.Builder
	fmt.Fprintf(&text, "%d jobs are open", len(w.db.Open))
	for _, r := range w.db.Open {
		fmt.Fprintf(&text, "; job %d %s gen %d attempts %d", r.ID, r.State, r.Gen, r.Attempts)
		if r.State == lease.Leased {
			fmt.Fprintf(&text, " by worker %d for %v", r.Worker, r.ExpiresAt-w.now)
		}
	}
	for _, k := range w.workers {
		fmt.Fprintf(&text, "; worker %d: %d runs, %d in its outbox", k.id, len(k.runs), len(k.outbox))
	}
	return text.String()
}
