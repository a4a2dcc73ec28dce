package sim

import (
	"fmt"
	"slices"
	"time"
)

// worker follows internal/worker.
type worker struct {
	process
	id        int64
	total     int
	languages []string
	target    int // arbiter to call next

	// On its disk:
	outbox  []report
	earlier []Session

	// In its memory:
	session  Session
	runs     []*serving
	request  *claimRequest
	claiming bool // the claim loop is at work
	pausing  bool // it waits before it claims again
	draining bool
}

// serving is a lease being served.
type serving struct {
	Granted
	phase    phase
	end      time.Duration // by the worker's clock: then the lease is given up
	deadline int           // numbers the timers; an older one is void
	beating  *openCall
	dead     bool
}

type phase int

const (
	confirming phase = iota
	judging
	reporting
)

func newWorker(w *World, i int) *worker {
	k := &worker{process: process{w: w, name: fmt.Sprintf("worker %d", i+1)}, id: int64(i + 1), total: 1 + w.rng.IntN(w.cfg.Slots)}
	if w.cfg.Skew {
		k.skew, k.ppm = w.between(-time.Hour, time.Hour), w.rng.Int64N(2000)-1000
	}
	k.languages = languages[:w.cfg.Languages]
	if i > 0 && w.chance(0.3) { // the first one can do everything
		k.languages = k.languages[:1]
	}
	k.target = w.rng.IntN(len(w.arbiters))
	return k
}

func (k *worker) boot() {
	if k.up {
		return
	}
	k.up = true
	k.session, k.runs, k.request, k.claiming, k.pausing, k.draining = Session(k.w.newID()), nil, nil, false, false, false
	k.earlier = append([]Session{k.session}, k.earlier...)
	if len(k.earlier) > 8 {
		k.earlier = k.earlier[:8]
	}
	k.sendLeftovers(slices.Clone(k.outbox))
}

// crash ends the process; wipe loses its disk, too.
func (k *worker) crash(wipe bool) {
	k.die()
	k.runs, k.request = nil, nil
	if wipe {
		k.outbox, k.earlier = nil, nil
	}
}

// sendLeftovers reports what an earlier process finished, before the first claim.
func (k *worker) sendLeftovers(left []report) {
	if len(left) == 0 {
		k.claim()
		return
	}
	k.report(left[0], func() { k.sendLeftovers(left[1:]) })
}

// pause before trying again.
func (k *worker) pause() time.Duration { return k.w.between(500*time.Millisecond, 5*time.Second) }

// claim is once round the claim loop.
func (k *worker) claim() {
	if k.claiming || k.pausing {
		return
	}
	if k.request == nil {
		free := k.total - len(k.runs)
		if free <= 0 || k.draining {
			return // freed wakes it
		}
		k.request = &claimRequest{
			worker: k.id, session: k.session, request: Request(k.w.newID()), slots: free, total: k.total,
			wait: k.w.cfg.Lease.ClaimWait, languages: k.languages,
		}
	}
	k.claiming = true
	req := *k.request
	if len(k.earlier) > 1 {
		req.previous = k.earlier[1]
	}
	k.call(req.wait+5*time.Second, func(a *arbiter, reply func(answer)) { a.claim(req, reply) }, func(ans answer) {
		k.claiming = false
		switch ans.status {
		case ok:
			k.earlier = k.earlier[:1]
			k.request = nil
			room := req.slots
			for _, g := range ans.leases {
				switch {
				case k.running(g.Token) != nil:
				case room == 0 || k.draining:
					k.release(g.Token, k.draining)
				default:
					room--
					k.serve(g)
				}
			}
			if len(ans.leases) > 0 {
				k.claim()
				return
			}
		case conflict:
			if len(k.earlier) > 2 { // the next possible predecessor
				k.earlier = append(append(k.earlier[:1:1], k.earlier[2:]...), k.earlier[1])
			}
		}
		k.pausing = true
		k.after(k.pause(), func() {
			k.pausing = false
			k.claim()
		})
	})
}

func (k *worker) running(t Token) *serving {
	for _, r := range k.runs {
		if r.Token == t {
			return r
		}
	}
	return nil
}

func margin(ttl time.Duration) time.Duration { return min(ttl/10, 5*time.Second) }

func (k *worker) serve(g Granted) {
	r := &serving{Granted: g}
	k.runs = append(k.runs, r)
	k.extend(r, k.clock())
	k.beat(r)
}

// extend moves the moment of giving up: a TTL, less the margin, from a time of
// the worker's clock.
func (k *worker) extend(r *serving, from time.Duration) {
	ttl := k.w.cfg.Lease.TTL
	r.end = from + ttl - margin(ttl)
	r.deadline++
	n := r.deadline
	k.after(r.end-k.clock(), func() {
		if n == r.deadline {
			k.lost(r)
		}
	})
}

// beat sends one heartbeat and arranges the next.
func (k *worker) beat(r *serving) {
	if r.dead || r.beating != nil {
		return
	}
	sent := k.clock()
	limit := min(10*time.Second, k.w.cfg.Lease.TTL/4)
	r.beating = k.call(limit, func(a *arbiter, reply func(answer)) { a.heartbeat(k.id, r.Token, sent, reply) }, func(ans answer) {
		r.beating = nil
		if r.dead {
			return
		}
		next := sent + k.w.cfg.Lease.Heartbeat - k.clock()
		switch {
		case ans.status == ok:
			from := sent
			if k.w.cfg.Bugs.has(WorkerTrustsTTL) {
				from = k.clock()
			}
			k.extend(r, from)
			if r.phase == confirming {
				r.phase = judging
				k.fetch(r)
				k.judge(r)
			}
		case ans.status == gone || ans.status == forbidden:
			k.lost(r)
			return
		case r.phase == confirming:
			next = k.w.between(100*time.Millisecond, time.Second)
		}
		k.after(max(next, 0), func() { k.beat(r) })
	})
}

// fetch asks for the package of a job, without waiting: only who may is of
// interest here.
func (k *worker) fetch(r *serving) {
	pkg := k.w.packageOf(r.Job)
	k.call(5*time.Second, func(a *arbiter, reply func(answer)) { a.openPackage(k.id, pkg, reply) }, func(answer) {})
}

// judge takes its time and comes to an end of some kind.
func (k *worker) judge(r *serving) {
	w := k.w
	d := w.between(200*time.Millisecond, w.cfg.JudgeTime)
	if w.chance(w.cfg.SlowJudge) {
		d += w.upTo(2 * w.cfg.Lease.TTL)
	}
	if w.poison(r.Job) {
		k.after(min(d, 2*time.Second), func() {
			if r.dead {
				return
			}
			k.crash(false)
			w.at(w.now+w.between(time.Second, 20*time.Second), nil, k.boot)
		})
		return
	}
	k.after(d, func() {
		if r.dead || r.phase != judging {
			return
		}
		rep := report{job: r.Job, token: r.Token, verdict: "AC"}
		switch {
		case !w.calm && w.chance(w.cfg.Fault):
			rep.verdict = ""
		case w.chance(0.5):
			rep.verdict = "WA"
		}
		r.phase = reporting
		k.outbox = append(k.outbox, rep)
		k.report(rep, func() { k.freed(r) })
	})
}

// poison says whether a job kills every worker that judges it.
func (w *World) poison(job int64) bool {
	return w.cfg.Poison > 0 && float64((uint64(job)*0x9E3779B97F4A7C15^w.cfg.Seed)%1000) < 1000*w.cfg.Poison
}

// report sends a result until it is answered, then forgets it.
func (k *worker) report(rep report, answered func()) {
	k.call(15*time.Second, func(a *arbiter, reply func(answer)) { a.result(k.id, rep, reply) }, func(ans answer) {
		switch ans.status {
		case ok:
			k.w.checks.answered(k, rep, ans)
		case forbidden:
			k.w.checks.fail("I9", "worker %d may not report for its own lease of job %d", k.id, rep.job)
		default:
			k.after(k.pause(), func() { k.report(rep, answered) })
			return
		}
		k.outbox = slices.DeleteFunc(k.outbox, func(o report) bool { return o.token == rep.token })
		answered()
	})
}

// lost ends a run whose lease is dead. A result that is on its way stays in
// the outbox and is sent on.
func (k *worker) lost(r *serving) {
	if !r.dead {
		k.freed(r)
	}
}

func (k *worker) freed(r *serving) {
	if r.dead {
		return
	}
	r.dead = true
	if i := slices.Index(k.runs, r); i >= 0 {
		k.runs = slices.Delete(k.runs, i, i+1)
	}
	k.claim()
}

// release hands a lease back, trying for a while.
func (k *worker) release(t Token, stopping bool) {
	tries := 0
	var try func()
	try = func() {
		tries++
		k.call(5*time.Second, func(a *arbiter, reply func(answer)) { a.release(k.id, t, stopping, reply) }, func(ans answer) {
			if ans.status != ok && tries < 4 {
				k.after(k.w.between(100*time.Millisecond, time.Second), try)
			}
		})
	}
	try()
}

// drain hands everything back and claims nothing for a while, as a stop does.
func (k *worker) drain(d time.Duration) {
	k.draining = true
	for _, r := range slices.Clone(k.runs) {
		if r.phase != reporting {
			r.dead = true
			k.runs = slices.Delete(k.runs, slices.Index(k.runs, r), slices.Index(k.runs, r)+1)
			k.release(r.Token, true)
		}
	}
	k.after(d, func() {
		k.draining = false
		k.claim()
	})
}
