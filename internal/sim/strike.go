package sim

import (
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
)

// strike carries out one fault of the plan.
func (w *World) strike(s Strike) {
	if w.calm {
		return
	}
	w.trace("strike: %s %d for %v", s.Kind, s.Target, s.For)
	k, a := w.workers[s.Target%len(w.workers)], w.arbiters[s.Target%len(w.arbiters)]
	later := func(do func()) { w.at(w.now+s.For, nil, do) }
	switch s.Kind {
	case "crash worker", "wipe worker":
		if k.up {
			k.crash(s.Kind == "wipe worker")
			later(k.boot)
		}
	case "freeze worker":
		if k.up && !k.frozen {
			k.frozen = true
			epoch := k.epoch
			later(func() {
				if k.epoch == epoch {
					k.thaw()
				}
			})
		}
	case "cut worker":
		k.cutTill = w.now + s.For
	case "drain worker":
		if k.up && !k.frozen {
			k.drain(s.For)
		}
	case "thief":
		w.steal(k)
	case "crash arbiter":
		if a.up {
			a.crash()
			later(a.boot)
		}
	case "freeze arbiter":
		if a.up && !a.frozen {
			a.frozen = true
			epoch := a.epoch
			later(func() {
				if a.epoch == epoch {
					a.thaw()
				}
			})
		}
	case "cut arbiter": // from its workers
		a.cutTill = w.now + s.For
	case "stop arbiter":
		if a.up && !a.frozen {
			a.stop()
			later(a.boot)
		}
	case "database down":
		w.downTill = max(w.downTill, w.now+s.For)
		w.endSessions()
	case "sessions ended":
		w.endSessions()
	}
}

func (w *World) endSessions() {
	for _, a := range w.arbiters {
		w.endSession(a.conn)
	}
	w.endSession(w.lock)
}

// stop is an orderly end: it resigns first.
func (a *arbiter) stop() {
	if l := a.led; l != nil {
		ask(a.w, &a.process, l.conn, RenewLeadership{Term: l.term, Holder: l.holder}, func(any, error) {})
	}
	a.crash()
}

// steal lets a worker use the tokens of others, as a hostile one might.
func (w *World) steal(k *worker) {
	if !k.up || k.frozen {
		return
	}
	none := func(answer) {}
	for _, r := range w.db.Open {
		if r.State != lease.Leased || r.Worker == k.id {
			continue
		}
		t := r.Token
		k.call(5*time.Second, func(a *arbiter, reply func(answer)) { a.heartbeat(k.id, t, k.clock(), reply) }, none)
		k.call(5*time.Second, func(a *arbiter, reply func(answer)) { a.release(k.id, t, true, reply) }, none)
		k.call(5*time.Second, func(a *arbiter, reply func(answer)) {
			a.result(k.id, report{token: t, verdict: "AC"}, reply)
		}, none)
		k.call(5*time.Second, func(a *arbiter, reply func(answer)) { a.openPackage(k.id, r.Package, reply) }, none)
		return
	}
}
