package sim

import (
	"errors"
	"slices"

	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/lease"
)

// waiter is a claim that waits for work.
type waiter struct {
	id       int64 // number of the claim
	worker   int64
	session  Session
	request  Request
	slots    int
	inFlight int
	callers  int
	done     bool
	replies  []func(answer)
}

func (l *leadership) answer(m *waiter, ans answer) {
	if m.done {
		return
	}
	m.done = true
	l.board.RemoveClaim(m.id, l.a.instant())
	for i := range l.waiters {
		if l.waiters[i] == m {
			l.waiters = append(l.waiters[:i:i], l.waiters[i+1:]...)
			break
		}
	}
	for _, reply := range m.replies {
		reply(ans)
	}
}

func (a *arbiter) claim(req claimRequest, reply func(answer)) {
	l := a.leading()
	if l == nil {
		reply(answer{status: unavailable})
		return
	}
	dead, ok := l.admit(req)
	if !ok {
		reply(answer{status: conflict})
		return
	}
	if dead == 0 {
		l.claimOn(req, reply)
		return
	}
	ask(a.w, &a.process, nil, &ExpireSession{Worker: req.worker, Session: dead, Term: l.term}, func(out int, err error) {
		switch {
		case err != nil:
			reply(answer{status: unavailable})
		case out == 0:
			l.claimOn(req, reply)
		default:
			l.reclaim(func(err error) {
				if err != nil {
					reply(answer{status: unavailable})
					return
				}
				l.claimOn(req, reply)
			})
		}
	})
}

// admit decides about sessions; dead is one whose leases are void now.
func (l *leadership) admit(req claimRequest) (dead Session, ok bool) {
	now := l.a.clock()
	known := l.presence[req.worker-1]
	if known == nil && req.previous != req.session {
		dead = req.previous
	}
	if known != nil && known.session != req.session {
		succeeds := known.session != 0 && req.previous == known.session
		if !succeeds && l.isOnline(req.worker) {
			return 0, false
		}
		if succeeds {
			dead = known.session
		}
		for _, m := range slices.Clone(l.waiters) {
			if m.worker == req.worker {
				l.answer(m, answer{status: conflict})
			}
		}
	}
	l.presence[req.worker-1] = &presence{
		session: req.session, seenAt: now, on: true,
		worker: dispatch.Worker{ID: req.worker, Slots: req.total, Languages: req.languages},
	}
	if l.w.cfg.Bugs.has(SlotsPerClaim) {
		l.presence[req.worker-1].worker.Slots = 1000
	}
	l.board.SetWorker(l.presence[req.worker-1].worker, l.a.instant())
	return dead, true
}

// claimOn repeats the leases of a repeated request, or makes the claim wait.
func (l *leadership) claimOn(req claimRequest, reply func(answer)) {
	var jobs []int64
	for _, h := range l.held {
		if h.Worker == req.worker && h.Request == req.request {
			jobs = append(jobs, h.ID)
		}
	}
	if jobs == nil {
		l.join(req, reply)
		return
	}
	s := &HeldLeases{Jobs: jobs, Worker: req.worker, Request: req.request, Confirm: l.w.cfg.Lease.Confirm, Term: l.term}
	ask(l.w, &l.a.process, nil, s, func(out []Granted, err error) {
		if err != nil {
			reply(answer{status: unavailable})
			return
		}
		reply(answer{status: ok, leases: out})
	})
}

func (l *leadership) join(req claimRequest, reply func(answer)) {
	if l.over {
		reply(answer{status: unavailable})
		return
	}
	var m *waiter
	for _, o := range l.waiters {
		if o.worker == req.worker && o.request == req.request {
			m = o
		}
	}
	if m == nil {
		l.claims++
		m = &waiter{id: l.claims, worker: req.worker, session: req.session, request: req.request, slots: req.slots}
		l.waiters = append(l.waiters, m)
		l.board.AddClaim(dispatch.Claim{ID: m.id, Worker: m.worker, Slots: m.slots}, l.a.instant())
		l.kick()
	}
	m.callers++
	m.replies = append(m.replies, reply)
	l.a.after(min(req.wait, l.w.cfg.Lease.ClaimWait), func() { l.leave(m) })
}

// leave gives up waiting; a grant that is being committed is still taken.
func (l *leadership) leave(m *waiter) {
	m.callers--
	if m.callers == 0 && m.inFlight == 0 {
		l.answer(m, answer{status: ok})
	}
}

// find looks a token up: in memory, else among the attempts.
func (a *arbiter) find(l *leadership, k int64, t Token, then func(job int64, outcome lease.Outcome, st status)) {
	if h := l.byToken(t); h != nil && h.Worker == k {
		then(h.ID, lease.Running, ok)
		return
	}
	a.findAttempt(k, t, then)
}

func (a *arbiter) findAttempt(k int64, t Token, then func(job int64, outcome lease.Outcome, st status)) {
	ask(a.w, &a.process, nil, AttemptByToken{t}, func(out Attempt, err error) {
		if err != nil {
			then(0, "", unavailable)
			return
		}
		switch at := out; {
		case at.Job == 0:
			then(0, "", gone)
		case at.Worker != k:
			then(0, "", forbidden)
		default:
			then(at.Job, at.Outcome, ok)
		}
	})
}

func (a *arbiter) heartbeat(k int64, t Token, workerNow Instant, reply func(answer)) {
	l := a.leading()
	if l == nil {
		reply(answer{status: unavailable})
		return
	}
	a.find(l, k, t, func(job int64, outcome lease.Outcome, st status) {
		if st == ok && outcome != lease.Running {
			st = gone
		}
		if st != ok {
			reply(answer{status: st})
			return
		}
		sent := a.clock()
		s := &ExtendLeases{Inputs: []Holder{{job, t, k}}, TTL: a.w.cfg.Lease.TTL, workerNow: workerNow}
		ask(a.w, &a.process, nil, s, func(out []Holder, err error) {
			switch {
			case err != nil:
				reply(answer{status: unavailable})
			case len(out) == 0:
				l.forget(t)
				a.findAttempt(k, t, func(_ int64, _ lease.Outcome, st status) {
					if st == ok {
						st = gone
					}
					reply(answer{status: st})
				})
			default:
				if h := l.byToken(t); h != nil {
					h.due = sent + a.w.cfg.Lease.TTL
				}
				l.seen(k)
				reply(answer{status: ok})
			}
		})
	})
}

func (a *arbiter) result(k int64, rep report, reply func(answer)) {
	l := a.leading()
	if l == nil {
		reply(answer{status: unavailable})
		return
	}
	a.find(l, k, rep.token, func(job int64, outcome lease.Outcome, st status) {
		switch {
		case st == gone:
			reply(answer{status: ok, outcome: discarded})
			return
		case st != ok:
			reply(answer{status: st})
			return
		}
		l.seen(k)
		if outcome != lease.Running && !a.w.cfg.Bugs.has(ResultWithoutToken|ReportByWorkerName) {
			a.answerDead(job, rep, outcome, reply)
			return
		}
		a.record(l, Holder{job, rep.token, k}, rep, func(done bool, err error) {
			switch {
			case errors.Is(err, errUnknown) && a.w.cfg.Bugs.has(AnswerBeforeCommit):
				reply(answer{status: ok, outcome: recorded})
			case err != nil:
				reply(answer{status: unavailable})
			case done:
				reply(answer{status: ok, outcome: recorded})
			default:
				l.forget(rep.token)
				a.findAttempt(k, rep.token, func(job int64, outcome lease.Outcome, st status) {
					if st != ok {
						reply(answer{status: st})
						return
					}
					a.answerDead(job, rep, outcome, reply)
				})
			}
		})
	})
}

func (a *arbiter) answerDead(job int64, rep report, outcome lease.Outcome, reply func(answer)) {
	switch outcome {
	case lease.Completed, lease.Failed:
		if a.w.cfg.Bugs.has(CompletionTwice) && outcome == lease.Completed {
			ask(a.w, &a.process, nil, complete{job}, func(any, error) {})
		}
		reply(answer{status: ok, outcome: alreadyRecorded})
	case lease.Running:
		reply(answer{status: unavailable})
	default:
		verdict := rep.verdict
		if verdict == "" {
			verdict = "fault"
		}
		ask(a.w, &a.process, nil, KeepLateReport{rep.token, verdict}, func(_ any, err error) {
			if err != nil {
				reply(answer{status: unavailable})
				return
			}
			reply(answer{status: ok, outcome: discarded})
		})
	}
}

// record writes a report under a live lease.
func (a *arbiter) record(l *leadership, h Holder, rep report, then func(done bool, err error)) {
	if rep.verdict != "" {
		s := &RecordResults{Inputs: []ResultInput{{h, rep.verdict}}}
		ask(a.w, &a.process, nil, s, func(out []Holder, err error) {
			done := err == nil && len(out) == 1
			if done {
				l.finish(h.Token, h.Job)
			}
			then(done, err)
		})
		return
	}
	attemptCap := a.w.cfg.Lease.AttemptCap
	ask(a.w, &a.process, nil, &ReturnFailed{h, attemptCap}, func(out []Returned, err error) {
		if err != nil {
			then(false, err)
			return
		}
		if back := out; len(back) == 1 {
			l.requeue(h.Token, h.Job, back[0].Gen, h.Worker)
			then(true, nil)
			return
		}
		ask(a.w, &a.process, nil, &GiveUpFailed{h, attemptCap}, func(out []int64, err error) {
			done := err == nil && len(out) == 1
			if done {
				l.finish(h.Token, h.Job)
			}
			then(done, err)
		})
	})
}

// dismiss sends away the waiting claims of a worker that is stopping.
func (l *leadership) dismiss(k int64) {
	for _, m := range slices.Clone(l.waiters) {
		if m.worker == k && m.inFlight == 0 {
			l.answer(m, answer{status: ok})
		}
	}
}

func (a *arbiter) release(k int64, t Token, stopping bool, reply func(answer)) {
	l := a.leading()
	if l == nil {
		reply(answer{status: unavailable})
		return
	}
	a.find(l, k, t, func(job int64, outcome lease.Outcome, st status) {
		if st == ok && stopping {
			l.dismiss(k)
		}
		if st != ok || outcome != lease.Running {
			if st == gone {
				st = ok
			}
			reply(answer{status: st, released: outcome == lease.Released})
			return
		}
		ask(a.w, &a.process, nil, &ReleaseLease{Holder{job, t, k}}, func(out []Returned, err error) {
			if err != nil {
				reply(answer{status: unavailable})
				return
			}
			back := out
			if len(back) == 1 {
				l.requeue(t, job, back[0].Gen, 0)
				reply(answer{status: ok, released: true})
				return
			}
			l.forget(t)
			a.findAttempt(k, t, func(_ int64, outcome lease.Outcome, st status) {
				reply(answer{status: st, released: outcome == lease.Released})
			})
		})
	})
}

func (l *leadership) finish(t Token, job int64) {
	l.letGo(t)
	delete(l.failedBy, job)
	l.board.RemoveJob(job)
	l.kick()
}

func (l *leadership) requeue(t Token, job, gen, failedBy int64) {
	h := l.letGo(t)
	if failedBy != 0 {
		l.failedBy[job] = append(l.failedBy[job], failedBy)
	}
	if h != nil {
		l.enqueue(job, gen, h.Language)
	}
	l.kick()
}

func (l *leadership) forget(t Token) {
	l.letGo(t)
	l.kick()
}
