package whatif

import (
	"slices"
	"time"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

// Policies are the names that Run knows, the product's own first.
func Policies() []string { return []string{"gavel", "first-come", "pull-lock", "pull-yield"} }

func newPolicy(name string, r *run) (policy, bool) {
	switch name {
	case "gavel":
		return newGavel(r), true
	case "first-come":
		return &firstCome{}, true
	case "pull-lock":
		return newPull(r, true), true
	case "pull-yield":
		return newPull(r, false), true
	}
	return nil, false
}

// gavel is the product: dispatch.Board, and workers that ask for all that they
// have room for, again after each answer: a round trip later.
type gavel struct {
	board  *dispatch.Board
	match  func(now time.Time, limit int) ([]dispatch.Grant, time.Time)
	claims map[int64]int // claim → worker
	asking map[int]int64 // worker → its claim, 0 for none
	visits []int         // how often each worker has come
	next   int64
	wake   time.Duration
	tries  []int64
	leases map[int]bool // jobs out, by number
}

func instant(d time.Duration) time.Time { return time.Unix(0, int64(d)) }

func newGavel(r *run) *gavel {
	g := &gavel{
		board: dispatch.New(dispatch.DefaultPolicy), claims: map[int64]int{}, asking: map[int]int64{}, visits: make([]int, len(r.fleet)),
		tries: make([]int64, len(r.jobs)), leases: map[int]bool{},
	}
	g.match = g.board.Match
	for w := range r.fleet {
		if _, away := r.fleet[w].awayAt(0); !away {
			g.woke(r, w)
		}
	}
	return g
}

func (g *gavel) woke(r *run, w int) {
	f := &r.fleet[w]
	g.board.SetWorker(dispatch.Worker{
		ID: int64(w) + 1, Name: f.Name, Pool: f.Pool, Rank: f.Rank, Slots: f.Slots, Languages: f.Languages, MemoryBytes: f.Memory,
	}, instant(r.now))
	g.visits[w]++
	g.claim(r, w)
}

// claim asks for all that a worker has room for, in place of what it asked for
// before.
func (g *gavel) claim(r *run, w int) {
	g.unclaim(r, w)
	free := r.fleet[w].Slots - len(r.running[w])
	if free <= 0 {
		return
	}
	g.next++
	g.claims[g.next], g.asking[w] = w, g.next
	g.board.AddClaim(dispatch.Claim{ID: g.next, Worker: int64(w) + 1, Slots: free}, instant(r.now))
}

func (g *gavel) unclaim(r *run, w int) {
	if id := g.asking[w]; id != 0 {
		delete(g.claims, id)
		delete(g.asking, w)
		g.board.RemoveClaim(id, instant(r.now))
	}
}

// claimSoon asks when the worker has got its answer.
func (g *gavel) claimSoon(r *run, w int) {
	visit := g.visits[w]
	r.at(r.now+r.fleet[w].RoundTrip, func() {
		if _, away := r.fleet[w].awayAt(r.now); !away && g.visits[w] == visit {
			g.claim(r, w)
		}
	})
}

// slept: the claim that waits is noticed as gone at once when its connection
// breaks; the leases are not.
func (g *gavel) slept(_ *run, w int) {
	g.board.RemoveWorker(int64(w) + 1)
	delete(g.claims, g.asking[w])
	delete(g.asking, w)
}

func (g *gavel) arrive(r *run, job int) {
	j := &r.jobs[job]
	if g.leases[job] { // a lease that ended with nobody there
		delete(g.leases, job)
		g.board.Release(int64(job)+1, g.tries[job], instant(r.now))
		g.tries[job]++
	}
	g.board.AddJob(dispatch.Job{
		ID: int64(job) + 1, Gen: g.tries[job], Lane: j.Lane, Class: j.Class, Submitter: j.User, Retried: g.tries[job] > 0,
		Language: j.Language, Package: j.Package, Needs: dispatch.Needs{MemoryBytes: j.Memory}, Batch: batch(j),
	})
}

func batch(j *Job) int64 {
	if j.Lane == dispatch.Rejudge {
		return 1
	}
	return 0
}

func (g *gavel) ask(r *run) {
	grants, wake := g.match(instant(r.now), 1000)
	for _, grant := range grants {
		job, w := int(grant.Job.ID-1), g.claims[grant.Claim]
		g.leases[job] = true
		r.start(job, w)
	}
	for _, grant := range grants { // what got something is answered, and asks again for the rest
		if w, open := g.claims[grant.Claim]; open {
			g.unclaim(r, w)
			g.claimSoon(r, w)
		}
	}
	g.wake = 0
	if !wake.IsZero() {
		g.wake = time.Duration(wake.UnixNano())
	}
}

func (g *gavel) ended(r *run, job, w int) {
	delete(g.leases, job)
	g.board.Release(int64(job)+1, g.tries[job], instant(r.now))
	g.claimSoon(r, w)
}

func (g *gavel) again() time.Duration { return g.wake }

// firstCome gives the oldest to whoever is free: no lanes, no turns, no
// preference, no delay.
type firstCome struct{ waiting []int }

func (f *firstCome) arrive(_ *run, job int) { f.waiting = append(f.waiting, job) }
func (f *firstCome) ended(*run, int, int)   {}
func (f *firstCome) slept(*run, int)        {}
func (f *firstCome) woke(*run, int)         {}
func (f *firstCome) again() time.Duration   { return 0 }

func (f *firstCome) ask(r *run) {
	f.waiting = slices.DeleteFunc(f.waiting, func(job int) bool {
		for w := range r.fleet {
			if r.free(w) && r.able(w, job) {
				r.start(job, w)
				return true
			}
		}
		return false
	})
}

func (r *run) free(w int) bool {
	_, away := r.fleet[w].awayAt(r.now)
	return !away && len(r.running[w]) < r.fleet[w].Slots
}

func (r *run) able(w, job int) bool {
	memory := r.jobs[job].Memory
	for other := range r.running[w] {
		memory += r.jobs[other].Memory
	}
	return r.fleet[w].offers(r.jobs[job].Language) && (r.fleet[w].Memory == 0 || memory <= r.fleet[w].Memory)
}
