package dispatch

import (
	"slices"
	"time"
)

// lookAhead bounds how many idle workers are looked at for one that holds the
// package.
const lookAhead = 64

// passedEnough is how many jobs may pass one that only waits for memory
// before a worker is freed for it.
const passedEnough = 16

// match is one call of Match.
type match struct {
	b        *Board
	now      time.Time
	wake     time.Time
	reserved map[*worker]int // jobs kept for a worker in this call
	kept     []keptJob
	cramped  []*shape // whose first job waits for nothing but memory
}

type keptJob struct {
	shape *shape
	place entry
}

// Match gives waiting jobs to waiting claims, at most limit of them. What is
// granted is out at once; a grant that cannot be committed is released and
// added again. wake is when a job that is kept for a preferred worker is to be
// looked at again, zero when none is.
func (b *Board) Match(now time.Time, limit int) (grants []Grant, wake time.Time) {
	if b.idle == 0 || len(b.jobs) == 0 {
		return nil, time.Time{}
	}
	for w := range b.between {
		if now.Sub(w.polledAt) >= b.policy.Hold {
			delete(b.between, w)
		}
	}
	m := match{b: b, now: now}
	for len(grants) < limit && b.idle > 0 {
		r, w := m.next()
		if r == nil {
			break
		}
		grants = append(grants, m.give(r, w))
	}
	for _, k := range m.kept {
		k.shape.waiting.push(k.place)
	}
	return grants, m.wake
}

// next is the job that goes next and who gets it.
func (m *match) next() (*record, *worker) {
	m.cramped = m.cramped[:0]
	if r, w := m.first(Probe); r != nil {
		return r, w
	}
	runs := m.b.turns.runsMayGo(m.b)
	if runs {
		if r, w := m.first(Run); r != nil {
			return r, w
		}
	}
	var best *record
	var to *worker
	var turn int64
	for lane := Judge; lane <= Rejudge; lane++ {
		if m.b.lanes[lane].count == 0 {
			continue
		}
		if at := m.b.turns.at(lane); best == nil || at < turn {
			if r, w := m.first(lane); r != nil {
				best, to, turn = r, w, at
			}
		}
	}
	if best == nil && !runs {
		return m.first(Run) // nobody else can use the slot
	}
	return best, to
}

// first is the first job of a lane that somebody can take now.
func (m *match) first(lane Lane) (best *record, to *worker) {
	for _, s := range m.b.lanes[lane].shapes {
		if s.brake != "" || m.b.overBudget(s) {
			continue
		}
		for {
			r := m.head(s)
			if r == nil || best != nil && best.place.compare(r.place) < 0 {
				break
			}
			w := m.pick(s, r)
			if w == nil {
				m.noteCramped(s)
				break
			}
			if until := m.keepUntil(s, r, w); !until.IsZero() {
				if m.wake.IsZero() || until.Before(m.wake) {
					m.wake = until
				}
				m.kept = append(m.kept, keptJob{s, r.place})
				s.waiting.pop()
				continue // the next of the shape may go to whom this one did not
			}
			best, to = r, w
			break
		}
	}
	return best, to
}

// head is the first waiting job of a shape; stale places before it are dropped.
func (m *match) head(s *shape) *record {
	for len(s.waiting) > 0 {
		if m.b.current(s, s.waiting[0]) {
			return m.b.jobs[s.waiting[0].id]
		}
		s.waiting.pop()
	}
	return nil
}

// overBudget says whether a batch has as many jobs out as it may.
func (b *Board) overBudget(s *shape) bool {
	return s.batch != 0 && b.batch[s.batch] >= b.budget(s)
}

func (b *Board) budget(s *shape) int {
	if s.budget > 0 {
		return s.budget
	}
	return max(1, int(b.policy.BatchShare*float64(b.slots)))
}

// pick chooses who gets a job of a shape: the most preferred pool that has
// somebody free, there who holds the package, then who was idle longest.
func (m *match) pick(s *shape, r *record) *worker {
	if s.target != 0 {
		if w := m.b.workers[s.target]; w != nil && w.listed && w.profile.takes(s) && w.fits(s) {
			return w
		}
		return nil
	}
	var best *worker
	holder := false
	for _, p := range m.b.profiles {
		if best != nil && p.worker.Rank > best.Rank {
			break
		}
		if len(p.idle) == 0 || !p.takes(s) {
			continue
		}
		looked := 0
		for _, w := range p.idle {
			if m.b.refusedNow(s, w) != "" {
				continue
			}
			holds := r.pkg != 0 && w.has(r.pkg)
			if best == nil || holds && !holder || holds == holder && longestIdleFirst(w, best) < 0 {
				best, holder = w, holds
			}
			if looked++; holder || r.pkg == 0 || looked == lookAhead {
				break
			}
		}
	}
	return best
}

func (w *worker) has(pkg uint32) bool {
	_, found := slices.BinarySearch(w.cached, pkg)
	return found
}

// keepUntil says until when a job is kept from w for a worker of a more
// preferred pool that was here a moment ago and has room; zero when not. All
// keeping of one job together never lasts longer than the policy's hold.
func (m *match) keepUntil(s *shape, r *record, w *worker) time.Time {
	b := m.b
	if len(b.between) == 0 || s.target != 0 {
		return time.Time{}
	}
	last := m.now.Add(b.policy.Hold)
	if since, ok := b.kept[r.place.id]; ok {
		if last = since.Add(b.policy.Hold); !m.now.Before(last) {
			return time.Time{}
		}
	}
	for o := range b.between {
		if o.Rank >= w.Rank || o.held+m.reserved[o] >= o.Slots || !o.profile.takes(s) || b.refusedNow(s, o) != "" {
			continue
		}
		until := o.polledAt.Add(b.policy.Hold)
		if until.After(last) {
			until = last
		}
		if !m.now.Before(until) {
			continue
		}
		if m.reserved == nil {
			m.reserved = map[*worker]int{}
		}
		m.reserved[o]++
		if _, ok := b.kept[r.place.id]; !ok {
			b.kept[r.place.id] = m.now
		}
		return until
	}
	return time.Time{}
}

const beingFreed = "it is being freed for a job that needs more memory"

// refusedNow says why a worker whose profile takes a shape does not get it at
// the moment; "" when it would.
func (b *Board) refusedNow(s *shape, w *worker) string {
	switch {
	case s.target != 0 && s.target != w.ID:
		return notForIt
	case !w.fits(s):
		return "its memory is taken by other jobs"
	case b.making.room == w && b.making.by != s && s.lane != Probe:
		return beingFreed
	case w.failed(s) && b.anyone(s, func(o *worker) bool { return !o.failed(s) }):
		return "it failed this job before and others can take it"
	case s.needs.Tight && w.Slow != "" && b.anyone(s, func(o *worker) bool { return o.Slow == "" && !o.failed(s) }):
		return w.Slow
	}
	return ""
}

func (w *worker) failed(s *shape) bool { return slices.Contains(s.failedBy, w.ID) }

// anyone says whether somebody online for whom better holds could take a
// shape, busy or not.
func (b *Board) anyone(s *shape, better func(*worker) bool) bool {
	for _, o := range b.workers {
		if o.online && better(o) && b.never(s, o) == "" {
			return true
		}
	}
	return false
}

// noteCramped remembers a shape whose first job nobody takes just now although
// somebody idle would have the memory if it ran nothing else.
func (m *match) noteCramped(s *shape) {
	if s.needs.MemoryBytes == 0 || m.b.making.by != nil {
		return
	}
	for _, p := range m.b.profiles {
		if len(p.idle) > 0 && p.takes(s) && slices.ContainsFunc(p.idle, func(w *worker) bool { return m.b.never(s, w) == "" && !w.fits(s) }) {
			m.cramped = append(m.cramped, s)
			return
		}
	}
}

// passBy counts the cramped shapes that a job goes past, and begins to free
// the worker that is nearest to having the memory.
func (m *match) passBy(r *record) {
	b := m.b
	for _, s := range m.cramped {
		if head := m.head(s); s.lane != r.shape.lane || head == nil || r.place.compare(head.place) < 0 {
			continue
		}
		if s.passed++; s.passed < passedEnough || b.making.by != nil {
			continue
		}
		var room *worker
		for _, w := range b.workers {
			if w.online && b.never(s, w) == "" && (room == nil || w.MemoryBytes-w.memory > room.MemoryBytes-room.memory ||
				w.MemoryBytes-w.memory == room.MemoryBytes-room.memory && w.ID < room.ID) {
				room = w
			}
		}
		b.making.by, b.making.room = s, room
	}
}

// give takes a job off the board and into a worker's hands.
func (m *match) give(r *record, w *worker) Grant {
	b := m.b
	m.passBy(r)
	r.shape.passed = 0
	if b.making.by == r.shape {
		b.making.by, b.making.room = nil, nil
	}
	id := r.place.id
	job := b.job(id, r)
	q := b.lanes[job.Lane].queues[job.Class]
	q.now = max(q.now, r.place.turn)
	b.turns.went(b, job.Lane)
	c := w.claims[0]
	b.unlist(w)
	if c.room--; c.room == 0 {
		w.claims = slices.Delete(w.claims, 0, 1)
	}
	b.Hold(job, w.ID, m.now)
	return Grant{Job: job, Claim: c.id}
}
