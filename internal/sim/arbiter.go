package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

// arbiter follows internal/arbiter: what is between two statements there is one
// event here.
type arbiter struct {
	process
	led *leadership // nil while standing by
	// conn is the session of the campaign or of the leadership.
	conn *session
}

// leadership is one term's memory, as internal/arbiter has it.
type leadership struct {
	a         *arbiter
	w         *World
	conn      *session
	term      int64
	holder    string
	renewedAt time.Duration // by the arbiter's clock
	over      bool

	looping, kicked, scanDue bool
	swept                    time.Duration
	stale                    bool

	board    *dispatch.Board
	failedBy map[int64][]int64
	held     []*heldLease
	presence []*presence // by worker
	waiters  []*waiter
	claims   int64 // numbers given to claims
	alarms   *alarm.Watch
}

type heldLease struct {
	Row
	due, registered time.Duration
}

type presence struct {
	worker  dispatch.Worker
	session Session
	seenAt  time.Duration
	on      bool // the board
}

func newArbiter(w *World, i int) *arbiter {
	a := &arbiter{process: process{w: w, name: fmt.Sprintf("arbiter %d", i+1)}}
	if w.cfg.Skew {
		a.skew, a.ppm = w.between(-time.Hour, time.Hour), w.rng.Int64N(2000)-1000
	}
	return a
}

func (a *arbiter) boot() {
	if a.up {
		return
	}
	a.up = true
	a.campaign()
}

// crash ends the process; the server notices the end of its session soon.
func (a *arbiter) crash() {
	conn := a.conn
	a.end()
	a.die()
	a.w.at(a.w.now+a.w.upTo(50*time.Millisecond), nil, func() { a.w.endSession(conn) })
}

// end drops the leadership, if there is one.
func (a *arbiter) end() {
	if a.led != nil {
		a.led.over = true
		a.led = nil
	}
	a.conn = nil
}

func (a *arbiter) again() { a.after(a.w.cfg.Poll, a.campaign) }

// campaign is one try to lead.
func (a *arbiter) campaign() {
	w := a.w
	if a.conn == nil || a.conn.ended {
		a.conn = &session{owner: &a.process, lastUsed: w.now}
	}
	conn := a.conn
	drop := func() { // the session is closed after an error
		w.endSession(conn)
		a.conn = nil
		a.again()
	}
	ask(w, &a.process, conn, tryLock{w, conn}, func(out bool, err error) {
		switch {
		case err != nil:
			drop()
		case !out:
			ask(w, &a.process, conn, ReadLeadership{}, func(expired bool, err error) {
				if err == nil && expired {
					ask(w, &a.process, conn, endLeader{w, conn}, func(any, error) {})
				}
				a.again()
			})
		default:
			sent := a.clock()
			holder := fmt.Sprintf("%s.%d", a.name, a.epoch)
			take := TakeOver{Holder: holder, Valid: w.cfg.Valid, TTL: w.cfg.Lease.TTL}
			ask(w, &a.process, conn, take, func(term int64, err error) {
				if err != nil {
					drop()
					return
				}
				l := &leadership{
					a: a, w: w, conn: conn, term: term, holder: holder, renewedAt: sent, swept: a.clock(),
					presence: make([]*presence, len(w.workers)),
				}
				l.forgetLeases()
				l.rebuild(func(err error) {
					if err != nil {
						drop()
						return
					}
					a.led = l
					w.trace("%s leads in term %d", a.name, l.term)
					l.start()
				})
			})
		}
	})
}

// tryLock is the advisory lock; a holder that has been silent is ended first,
// as the server's idle_session_timeout does.
type tryLock struct {
	w    *World
	conn *session
}

func (s tryLock) Do(*DB) any {
	if h := s.w.lock; h != nil && h != s.conn && s.w.now-h.lastUsed > idleSession {
		s.w.endSession(h)
	}
	if s.w.lock == nil {
		s.w.lock = s.conn
	}
	return s.w.lock == s.conn
}

// endLeader is EndLeaderSessions.
type endLeader struct {
	w    *World
	conn *session
}

func (s endLeader) Do(*DB) any {
	if s.w.lock != s.conn {
		s.w.endSession(s.w.lock)
	}
	return nil
}

func (l *leadership) start() {
	l.a.after(l.w.cfg.Renew, l.renew)
	l.a.after(scanEvery, l.scanTick)
	l.a.after(l.w.cfg.ReclaimTick, l.reclaimTick)
	l.kick()
}

func (l *leadership) renew() {
	if l.over {
		return
	}
	sent := l.a.clock()
	ask(l.w, &l.a.process, l.conn, RenewLeadership{Term: l.term, Holder: l.holder, Valid: l.w.cfg.Valid}, func(out bool, err error) {
		if l.over {
			return
		}
		if err != nil || !out || l.a.clock()-sent > l.w.cfg.Answer {
			l.stepDown("its renewal failed")
			return
		}
		l.renewedAt = sent
		l.a.after(l.w.cfg.Renew, l.renew)
	})
}

// stepDown ends the term and stands again.
func (l *leadership) stepDown(why string) {
	l.w.trace("%s steps down from term %d: %s", l.a.name, l.term, why)
	l.over = true
	for _, m := range slices.Clone(l.waiters) {
		l.answer(m, answer{status: unavailable})
	}
	if l.a.led == l {
		l.a.led = nil
	}
	l.w.endSession(l.conn)
	l.a.conn = nil
	l.a.again()
}

func (l *leadership) mayAnswer() bool { return l.a.clock()-l.renewedAt < l.w.cfg.Answer }

// leading returns the leadership under which a worker may be answered.
func (a *arbiter) leading() *leadership {
	if a.led == nil || !a.led.mayAnswer() {
		return nil
	}
	return a.led
}

func (l *leadership) forgetLeases() {
	l.board = dispatch.New(dispatch.DefaultPolicy)
	l.failedBy = map[int64][]int64{}
	l.held = nil
	now := l.a.instant()
	for _, p := range l.presence {
		if p != nil {
			l.board.SetWorker(p.worker, now)
			p.on = true
		}
	}
	for _, m := range l.waiters {
		l.board.AddClaim(dispatch.Claim{ID: m.id, Worker: m.worker, Slots: m.slots}, now)
	}
}

// rebuild reads memory anew.
func (l *leadership) rebuild(then func(error)) {
	p := &l.a.process
	ask(l.w, p, nil, FailedAttemptsOfOpenJobs{}, func(failed []Failure, err error) {
		if err != nil {
			then(err)
			return
		}
		ask(l.w, p, nil, LeasedJobs{}, func(leased []Row, err error) {
			if err != nil {
				then(err)
				return
			}
			readAt := l.w.now
			ask(l.w, p, nil, PendingJobs{}, func(pending []Row, err error) {
				if err != nil {
					then(err)
					return
				}
				l.forgetLeases()
				for _, f := range failed {
					l.failedBy[f.Job] = append(l.failedBy[f.Job], f.Worker)
				}
				now := l.a.clock()
				for _, r := range leased {
					if l.w.cfg.Bugs.has(ForgetRequest) {
						r.Request = 0
					}
					h := &heldLease{Row: r, registered: now, due: now + max(0, r.ExpiresAt-readAt)}
					l.hold(h)
					l.board.Hold(dispatch.Job{ID: r.ID, Gen: r.Gen - 1, Lane: dispatch.Judge, Language: r.Language}, r.Worker, l.a.instant())
				}
				for _, r := range pending {
					l.enqueue(r.ID, r.Gen, r.Language)
				}
				then(nil)
			})
		})
	})
}

func (l *leadership) enqueue(job, gen int64, language string) {
	l.board.AddJob(dispatch.Job{ID: job, Gen: gen, Lane: dispatch.Judge, Language: language, Retried: gen > 0, FailedBy: l.failedBy[job]})
}

// instant is the arbiter's clock as dispatch wants it.
func (a *arbiter) instant() time.Time { return time.Unix(0, int64(a.clock())) }

func (l *leadership) hold(h *heldLease) { l.held = append(l.held, h) }

func (l *leadership) byToken(t Token) *heldLease {
	for _, h := range l.held {
		if h.Token == t {
			return h
		}
	}
	return nil
}

// byJob returns the newest lease of a job.
func (l *leadership) byJob(job int64) *heldLease {
	for _, h := range slices.Backward(l.held) {
		if h.ID == job {
			return h
		}
	}
	return nil
}

func (l *leadership) letGo(t Token) *heldLease {
	for i, h := range l.held {
		if h.Token != t {
			continue
		}
		l.held = append(l.held[:i:i], l.held[i+1:]...)
		l.board.Release(h.ID, h.Gen-1, l.a.instant())
		if l.w.cfg.Bugs.has(LetGoByJob) {
			for j, o := range l.held {
				if o.ID == h.ID && o.Worker == h.Worker {
					l.held = append(l.held[:j:j], l.held[j+1:]...)
					l.board.Release(o.ID, o.Gen-1, l.a.instant())
					break
				}
			}
		}
		return h
	}
	return nil
}

const onlineFor = 15 * time.Second

// muster takes workers off the board that have not been seen for a while, and
// puts on those that were.
func (l *leadership) muster() {
	for i, p := range l.presence {
		if p == nil {
			continue
		}
		switch on := l.isOnline(int64(i + 1)); {
		case on && !p.on:
			l.board.SetWorker(p.worker, l.a.instant())
		case !on && p.on:
			l.board.RemoveWorker(int64(i + 1))
		default:
			continue
		}
		p.on = !p.on
	}
}

func (l *leadership) isOnline(worker int64) bool {
	p := l.presence[worker-1]
	return p != nil && (l.a.clock()-p.seenAt < onlineFor || l.board.HasClaim(worker))
}

func (l *leadership) seen(worker int64) {
	if p := l.presence[worker-1]; p != nil {
		p.seenAt = l.a.clock()
	}
}
