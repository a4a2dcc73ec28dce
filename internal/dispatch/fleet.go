package dispatch

import (
	"cmp"
	"slices"
	"time"
)

// SetWorker says that a worker is online and what it can do.
func (b *Board) SetWorker(facts Worker, now time.Time) {
	w := b.workers[facts.ID]
	if w == nil {
		w = &worker{}
		b.workers[facts.ID] = w
	}
	if w.idleSince.IsZero() {
		b.idleFrom(w, now)
	}
	if w.polledAt.IsZero() { // it is known by its asking
		w.polledAt = now
	}
	b.unlist(w)
	b.count(w, -1)
	key := profileKey(&facts)
	if p := w.profile; p == nil || p.key != key {
		b.leaveProfile(w)
		w.profile = b.joinProfile(key, &facts)
	} else {
		p.countMemory(&w.Worker, -1)
		p.countMemory(&facts, +1)
	}
	cached := make([]uint32, 0, len(facts.Cached))
	for _, digest := range facts.Cached {
		cached = append(cached, b.packageNumber(digest))
	}
	slices.Sort(cached)
	w.Worker, w.cached, w.online = facts, cached, true
	w.Cached = nil // the numbers do
	// The lists are the profile's: one copy for all of its workers.
	p := &w.profile.worker
	w.Languages, w.Features, w.Tags, w.Lanes, w.AsideLanguages = p.Languages, p.Features, p.Tags, p.Lanes, p.AsideLanguages
	b.count(w, +1)
	b.list(w)
}

// RemoveWorker says that a worker is offline. Its claims go with it; what it
// holds stays out until released.
func (b *Board) RemoveWorker(id int64) {
	w := b.workers[id]
	if w == nil || !w.online {
		return
	}
	for cid, c := range b.claims {
		if c.worker == w {
			delete(b.claims, cid)
		}
	}
	b.unlist(w)
	b.count(w, -1)
	b.leaveProfile(w)
	delete(b.between, w)
	if b.making.room == w {
		b.making.by, b.making.room = nil, nil
	}
	w.claims, w.open, w.online, w.profile = nil, 0, false, nil
	b.forgetWorker(w)
}

// Online lists the workers that are online, by id.
func (b *Board) Online() []Worker {
	list := make([]Worker, 0, len(b.workers))
	for _, w := range b.workers {
		if w.online {
			list = append(list, w.Worker)
		}
	}
	slices.SortFunc(list, func(x, y Worker) int { return cmp.Compare(x.ID, y.ID) })
	return list
}

// Held is the number of jobs that a worker holds.
func (b *Board) Held(workerID int64) int {
	if w := b.workers[workerID]; w != nil {
		return w.held
	}
	return 0
}

func (b *Board) forgetWorker(w *worker) {
	if !w.online && w.held == 0 {
		delete(b.workers, w.ID)
	}
}

// count keeps the sum of slots of workers that work.
func (b *Board) count(w *worker, sign int) {
	if w.online && w.Away == "" {
		b.slots += sign * w.Slots
	}
}

func (b *Board) joinProfile(key string, facts *Worker) *profile {
	p := b.byKey[key]
	if p == nil {
		p = &profile{key: key, worker: *facts, able: map[*shape]bool{}, memory: map[int64]int{}, quiet: map[*worker]struct{}{}}
		p.worker.Cached = nil
		b.byKey[key] = p
		at, _ := slices.BinarySearchFunc(b.profiles, p, func(x, y *profile) int {
			return cmp.Or(cmp.Compare(x.worker.Rank, y.worker.Rank), cmp.Compare(x.key, y.key))
		})
		b.profiles = slices.Insert(b.profiles, at, p)
	}
	p.workers++
	p.countMemory(facts, +1)
	return p
}

func (b *Board) leaveProfile(w *worker) {
	p := w.profile
	if p == nil {
		return
	}
	p.countMemory(&w.Worker, -1)
	if p.workers--; p.workers == 0 {
		delete(b.byKey, p.key)
		b.profiles = slices.DeleteFunc(b.profiles, func(o *profile) bool { return o == p })
	}
}

// AddClaim makes a claim wait for work. Its worker must be online.
func (b *Board) AddClaim(c Claim, now time.Time) {
	w := b.workers[c.Worker]
	if w == nil || !w.online || b.claims[c.ID] != nil {
		return
	}
	b.unlist(w)
	delete(b.between, w)
	k := &claim{id: c.ID, worker: w, room: c.Slots}
	b.claims[c.ID] = k
	w.claims = append(w.claims, k)
	w.open++
	b.list(w)
}

// RemoveClaim ends a claim, whatever it got.
func (b *Board) RemoveClaim(id int64, now time.Time) {
	c := b.claims[id]
	if c == nil {
		return
	}
	delete(b.claims, id)
	w := c.worker
	b.unlist(w)
	w.claims = slices.DeleteFunc(w.claims, func(o *claim) bool { return o == c })
	w.polledAt = now
	if w.open--; w.open == 0 {
		b.between[w] = struct{}{}
	}
	b.list(w)
}

// HasClaim says whether a worker has a claim here.
func (b *Board) HasClaim(workerID int64) bool {
	w := b.workers[workerID]
	return w != nil && w.open > 0
}

// free says whether a worker could be given a job now.
func (w *worker) free() bool { return w.online && len(w.claims) > 0 && w.held < w.Slots }

// fits says whether the worker's memory budget has room for a shape now.
func (w *worker) fits(s *shape) bool {
	return w.MemoryBytes <= 0 || w.memory+s.needs.MemoryBytes <= w.MemoryBytes
}

func longestIdleFirst(x, y *worker) int {
	return cmp.Or(x.idleSince.Compare(y.idleSince), cmp.Compare(x.idleTurn, y.idleTurn))
}

func (b *Board) idleFrom(w *worker, now time.Time) {
	b.idleTurn++
	w.idleSince, w.idleTurn = now, b.idleTurn
}

// list puts a worker that is free into its profile's idle list, and one that
// would be if it asked among the quiet.
func (b *Board) list(w *worker) {
	if w.profile == nil {
		return
	}
	p := w.profile
	if w.online && w.open == 0 && w.held < w.Slots {
		p.quiet[w], w.quiet = struct{}{}, true
		return
	}
	if w.listed || !w.free() {
		return
	}
	at, _ := slices.BinarySearchFunc(p.idle, w, longestIdleFirst)
	p.idle = slices.Insert(p.idle, at, w)
	w.listed = true
	b.idle++
}

// unlist takes it out; it must come before what free or the order depend on changes.
func (b *Board) unlist(w *worker) {
	if w.quiet {
		delete(w.profile.quiet, w)
		w.quiet = false
	}
	if !w.listed {
		return
	}
	p := w.profile
	if at, found := slices.BinarySearchFunc(p.idle, w, longestIdleFirst); found {
		p.idle = slices.Delete(p.idle, at, at+1)
	}
	w.listed = false
	b.idle--
}
