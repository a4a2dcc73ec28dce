package sim

import (
	"errors"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

const (
	scanEvery  = 2 * time.Second
	grantBatch = 200
)

// kick wakes the dispatch loop.
func (l *leadership) kick() {
	if l.looping {
		l.kicked = true
		return
	}
	l.turn()
}

func (l *leadership) scanTick() {
	if l.over {
		return
	}
	l.look()
	l.scanDue = true
	l.kick()
	l.a.after(scanEvery, l.scanTick)
}

// look is the product's alarm for work that waits beside a free worker.
func (l *leadership) look() {
	now := l.a.instant()
	if l.alarms == nil {
		l.alarms = alarm.New(alarm.Default, nil, now)
	}
	facts := alarm.Facts{LoopedAt: now, Board: &alarm.Board{Survey: l.board.Survey()}}
	for _, c := range l.alarms.Look(now, facts) {
		if c.What == alarm.Started && c.Alarm.Kind == alarm.Unmatched {
			l.w.checks.unmatched(l, c.Alarm.Summary)
		}
	}
}

// turn is once round the dispatch loop: scan if it is time, rebuild if memory
// is in doubt, then grant until nothing matches.
func (l *leadership) turn() {
	if l.over {
		return
	}
	l.looping = true
	if !l.scanDue {
		l.turnOn()
		return
	}
	l.scanDue = false
	ask(l.w, &l.a.process, nil, PendingJobs{}, func(out []Row, err error) {
		if err == nil {
			for _, r := range out {
				if h := l.byJob(r.ID); h != nil && h.Gen > r.Gen {
					continue
				}
				l.enqueue(r.ID, r.Gen, r.Language)
			}
		}
		l.turnOn()
	})
}

func (l *leadership) turnOn() {
	if l.over {
		return
	}
	if !l.stale {
		l.grantAll()
		return
	}
	l.rebuild(func(err error) {
		if l.over {
			return
		}
		if err != nil {
			l.turned()
			return
		}
		l.stale = false
		l.grantAll()
	})
}

func (l *leadership) turned() {
	l.looping = false
	if l.kicked && !l.over {
		l.kicked = false
		l.turn()
	}
}

type plannedGrant struct {
	job dispatch.Job
	to  *waiter
	in  GrantInput
}

func (l *leadership) grantAll() {
	plan := l.plan()
	if len(plan) == 0 {
		l.turned()
		return
	}
	s := &GrantLeases{Confirm: l.w.cfg.Lease.Confirm, Term: l.term}
	if l.w.cfg.Bugs.has(NoConfirmation) {
		s.Confirm = l.w.cfg.Lease.TTL
	}
	for _, g := range plan {
		s.Inputs = append(s.Inputs, g.in)
	}
	ask(l.w, &l.a.process, nil, s, func(out []Granted, err error) {
		switch {
		case l.over:
		case err != nil:
			l.failPlan(plan)
			if errors.Is(err, errUnknown) && !l.w.cfg.Bugs.has(RebuildInDoubt) {
				l.stepDown("whether a grant happened is not known")
				return
			}
			l.stale = true
			l.turned()
		default:
			l.settle(plan, out)
			l.grantAll()
		}
	})
}

func (l *leadership) plan() []plannedGrant {
	if len(l.waiters) == 0 || l.board.Waiting() == 0 {
		return nil
	}
	l.w.checks.memory(l)
	l.muster()
	if l.w.cfg.Bugs.has(PassOver) {
		for _, m := range l.waiters {
			if m.worker == 1 {
				l.board.RemoveClaim(m.id, l.a.instant())
				defer l.board.AddClaim(dispatch.Claim{ID: m.id, Worker: m.worker, Slots: m.slots}, l.a.instant())
			}
		}
	}
	grants, wake := l.board.Match(l.a.instant(), grantBatch)
	if !wake.IsZero() {
		panic("a job is kept for a preferred pool, and there is one pool only")
	}
	plan := make([]plannedGrant, len(grants))
	for i, g := range grants {
		m := l.claim(g.Claim)
		m.inFlight++
		l.w.tokens++
		plan[i] = plannedGrant{job: g.Job, to: m, in: GrantInput{
			Job: g.Job.ID, Gen: g.Job.Gen, Token: l.w.tokens,
			Worker: m.worker, Session: m.session, Request: m.request,
		}}
	}
	return plan
}

func (l *leadership) claim(id int64) *waiter {
	return l.waiters[slices.IndexFunc(l.waiters, func(m *waiter) bool { return m.id == id })]
}

func (l *leadership) failPlan(plan []plannedGrant) {
	for _, g := range plan {
		l.board.Release(g.job.ID, g.job.Gen, l.a.instant())
		g.to.inFlight = 0
		l.answer(g.to, answer{status: unavailable})
	}
}

func (l *leadership) settle(plan []plannedGrant, rows []Granted) {
	now := l.a.clock()
	got := make([][]Granted, len(plan))
	for i, g := range plan {
		g.to.inFlight--
		done := false
		for _, r := range rows {
			if r.Token != g.in.Token {
				continue
			}
			h := &heldLease{registered: now, due: now + l.w.cfg.Lease.Confirm}
			h.ID, h.Gen, h.Token, h.Language = r.Job, r.Gen, r.Token, g.job.Language
			h.Worker, h.Session, h.Request = g.in.Worker, g.in.Session, g.in.Request
			l.hold(h)
			got[i], done = append(got[i], r), true
		}
		if !done {
			l.board.Release(g.job.ID, g.job.Gen, l.a.instant())
		}
	}
	for i, g := range plan {
		var leases []Granted
		for j := i; j < len(plan); j++ {
			if plan[j].to == g.to {
				leases = append(leases, got[j]...)
				got[j] = nil
			}
		}
		if len(leases) > 0 {
			l.answer(g.to, answer{status: ok, leases: leases})
		}
	}
	for _, g := range plan {
		if g.to.callers == 0 && g.to.inFlight == 0 {
			l.answer(g.to, answer{status: ok})
		}
	}
}

// reclaimTick looks for leases whose time is over; now and then it sweeps
// without asking memory, and then compares memory with the table.
func (l *leadership) reclaimTick() {
	if l.over {
		return
	}
	now := l.a.clock()
	full := now-l.swept >= l.w.cfg.Lease.Sweep
	due := full
	for _, h := range l.held {
		due = due || now >= h.due
	}
	next := func() { l.a.after(l.w.cfg.ReclaimTick, l.reclaimTick) }
	if !due {
		next()
		return
	}
	l.reclaim(func(err error) {
		if err != nil || !full {
			next()
			return
		}
		l.swept = now
		l.reconcile(now, next)
	})
}

func (l *leadership) reclaim(then func(error)) {
	s := &Reclaim{Term: l.term, AttemptCap: l.w.cfg.Lease.AttemptCap}
	ask(l.w, &l.a.process, nil, s, func(out Reclaimed, err error) {
		if err != nil {
			then(err)
			return
		}
		got := out
		for _, r := range got.Requeued {
			h := l.byJob(r.Job)
			if h == nil || h.Gen != r.Gen && !l.w.cfg.Bugs.has(ReclaimForgetsNewer) {
				continue // memory did not know it, or knows its successor already
			}
			failedBy := h.Worker
			if !r.Confirmed {
				failedBy = 0
			}
			l.requeue(h.Token, r.Job, r.Gen, failedBy)
		}
		for _, job := range got.Ended {
			if h := l.byJob(job); h != nil {
				l.finish(h.Token, job)
			}
		}
		then(nil)
	})
}

func (l *leadership) reconcile(before time.Duration, then func()) {
	ask(l.w, &l.a.process, nil, LeasedJobs{}, func(out []Row, err error) {
		if err == nil {
			now, readAt := l.a.clock(), l.w.now
			live := map[Token]bool{}
			for _, r := range out {
				live[r.Token] = true
				if h := l.byToken(r.Token); h != nil {
					h.due = now + max(0, r.ExpiresAt-readAt)
				}
			}
			dropped := false
			for _, h := range slices.Clone(l.held) {
				if !live[h.Token] && h.registered < before {
					l.letGo(h.Token)
					dropped = true
				}
			}
			if dropped {
				l.kick()
			}
		}
		then()
	})
}
