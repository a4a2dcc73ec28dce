package whatif

import (
	"slices"
	"time"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

// The older design, as its operator described it: each worker is one loop that
// polls the database twice a second, with a round trip for the lock, one for
// the rotation row and five for the savepoints over the queues. Under the lock
// of the first version nobody else can claim meanwhile, and when the holder
// falls asleep the server notices after twice 300 s and some. The second
// version takes no lock, but less preferred workers yield to preferred ones
// whose heartbeat is fresh.
const (
	pollEvery      = 500 * time.Millisecond
	claimTrips     = 7
	noticedAfter   = 12 * time.Minute
	heartbeatFresh = time.Minute
)

type pull struct {
	lock    bool
	freeAt  time.Duration   // when the lock is free again
	polls   []time.Duration // next poll of each worker
	queues  map[dispatch.Lane][]int
	turn    dispatch.Lane
	napping []time.Duration // since when each worker sleeps, -1 when awake
}

func newPull(r *run, lock bool) *pull {
	p := &pull{lock: lock, queues: map[dispatch.Lane][]int{}, turn: dispatch.Judge}
	for w := range r.fleet {
		p.polls = append(p.polls, time.Duration(w)*pollEvery/time.Duration(len(r.fleet)))
		p.napping = append(p.napping, -1)
	}
	return p
}

func (p *pull) arrive(r *run, job int) {
	lane := r.jobs[job].Lane
	p.queues[lane] = append(p.queues[lane], job)
}
func (p *pull) ended(*run, int, int) {}

// slept: what it did up to this moment counts; it may have taken the lock.
func (p *pull) slept(r *run, w int) {
	for p.polls[w] < r.now {
		p.poll(r, w)
	}
	p.napping[w] = r.now
}

func (p *pull) woke(r *run, w int) { p.napping[w], p.polls[w] = -1, r.now }
func (p *pull) again() time.Duration {
	if p.empty() {
		return 0 // polls that find nothing change nothing; the next arrival asks again
	}
	return slices.Min(p.polls)
}

func (p *pull) empty() bool {
	for _, q := range p.queues {
		if len(q) > 0 {
			return false
		}
	}
	return true
}

func (p *pull) ask(r *run) {
	for w := range r.fleet {
		for p.polls[w] <= r.now {
			p.poll(r, w)
		}
	}
}

// poll is one round of worker w's loop.
func (p *pull) poll(r *run, w int) {
	at := p.polls[w]
	if p.napping[w] >= 0 {
		until, _ := r.fleet[w].awayAt(p.napping[w])
		p.polls[w] = max(until, at+pollEvery)
		return
	}
	if len(r.running[w]) >= r.fleet[w].Slots {
		p.polls[w] = at + pollEvery
		return
	}
	trip := claimTrips * r.fleet[w].RoundTrip
	if p.lock {
		if at < p.freeAt { // it waits inside its claim, and polls no more meanwhile
			p.polls[w] = p.freeAt
			return
		}
		p.freeAt = at + trip
		for _, a := range r.fleet[w].Away {
			if at < a.From && a.From <= at+trip {
				p.freeAt = a.From + noticedAfter // it fell asleep with the lock in its hands
			}
		}
	}
	p.polls[w] = at + max(pollEvery, trip)
	if at < r.now-pollEvery || !p.lock && p.yields(r, w) {
		return // a poll of the past, when nothing waited
	}
	if job, ok := p.take(r, w); ok {
		r.start(job, w)
		p.polls[w] = at + trip
	}
}

// yields says whether a more preferred worker looks alive and free, by its
// heartbeat and its slots; whether it can do the work is not asked.
func (p *pull) yields(r *run, w int) bool {
	for o := range r.fleet {
		fresh := p.napping[o] < 0 || r.now-p.napping[o] < heartbeatFresh
		if r.fleet[o].Rank < r.fleet[w].Rank && fresh && len(r.running[o]) < r.fleet[o].Slots {
			return true
		}
	}
	return false
}

// take is the rotation: runs first, then the lanes in turn, oldest first.
func (p *pull) take(r *run, w int) (int, bool) {
	order := []dispatch.Lane{dispatch.Run, p.turn, next(p.turn), next(next(p.turn))}
	for _, lane := range order {
		for i, job := range p.queues[lane] {
			if r.able(w, job) {
				p.queues[lane] = slices.Delete(p.queues[lane], i, i+1)
				if lane != dispatch.Run {
					p.turn = next(lane)
				}
				return job, true
			}
		}
	}
	return 0, false
}

func next(l dispatch.Lane) dispatch.Lane {
	if l == dispatch.Rejudge {
		return dispatch.Judge
	}
	return l + 1
}
