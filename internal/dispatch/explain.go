package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"
)

// Explanation is why a job waits.
type Explanation struct {
	Lane  Lane
	Class int
	// Position counts the jobs that compete for the same workers: 1 goes next.
	Position int
	Able     int // workers online that can do it, busy or not
	Cause    Cause
	Reason   string
	// Workers says for each worker online what keeps it from taking the job
	// now, by name; "" when nothing does but the order.
	Workers []WorkerReason
}

// WorkerReason is the rule that keeps one worker from taking a job.
type WorkerReason struct {
	ID     int64
	Name   string
	Reason string
}

const keptForAMoment = "kept for a moment for a preferred worker that was just here"

// Explain says why a job waits; false when it does not. It asks each worker.
func (b *Board) Explain(id int64, now time.Time) (Explanation, bool) {
	r := b.jobs[id]
	if r == nil {
		return Explanation{}, false
	}
	c, at := census{refusals: map[string]int{}}, posts{}
	var workers []WorkerReason
	for _, w := range b.workers {
		if !w.online {
			continue
		}
		c.online++
		why := b.never(r.shape, w)
		if why != "" {
			c.refusals[why]++
		} else {
			c.able++
			why = b.notNow(r.shape, w, now, &at)
		}
		workers = append(workers, WorkerReason{w.ID, w.Name, why})
	}
	slices.SortFunc(workers, func(x, y WorkerReason) int {
		return cmp.Or(cmp.Compare(x.Name, y.Name), cmp.Compare(x.ID, y.ID))
	})
	e := b.tell(r, c, func() posts { return at }, now)
	e.Workers = workers
	return e, true
}

// Why is Explain without what each worker says: it asks their profiles, of
// which there are few however many workers there are.
func (b *Board) Why(id int64, now time.Time) (Explanation, bool) {
	r := b.jobs[id]
	if r == nil {
		return Explanation{}, false
	}
	return b.tell(r, b.census(r.shape), func() posts { return b.posts(r.shape, now) }, now), true
}

func (b *Board) tell(r *record, c census, where func() posts, now time.Time) Explanation {
	at := sync.OnceValue(where)
	e := Explanation{Lane: r.shape.lane, Class: r.place.class, Able: c.able, Position: b.position(r)}
	e.Cause, e.Reason = b.reason(r.shape, c, at)
	if e.Cause != Queued {
		return e
	}
	if since, kept := b.kept[r.place.id]; kept && now.Sub(since) < b.policy.Hold && at().free > 0 {
		e.Reason = keptForAMoment
	} else {
		e.Reason = fmt.Sprintf("position %d in the queue; %s", e.Position, e.Reason)
	}
	return e
}

// never says what keeps a worker from a shape whatever it does just now.
func (b *Board) never(s *shape, w *worker) string {
	if s.target != 0 && s.target != w.ID {
		return notForIt
	}
	if !w.profile.takes(s) {
		return refusal(&w.Worker, s)
	}
	if w.MemoryBytes > 0 && s.needs.MemoryBytes > w.MemoryBytes {
		return memoryRefusal(&w.Worker, s)
	}
	return ""
}

// notNow says what keeps an able worker from a shape at the moment, and counts
// it where it belongs.
func (b *Board) notNow(s *shape, w *worker, now time.Time, at *posts) string {
	switch why := b.refusedNow(s, w); {
	case w.held >= w.Slots:
		return "all of its slots are busy"
	case w.open == 0:
		if at.noteQuiet(w, now); now.Sub(w.polledAt) < asksAgain {
			return "it is between two claims"
		}
		if now.Sub(w.HeardAt) < toldByThen {
			return fmt.Sprintf("it has asked for no work since %s; last heard of at %s: it may still be stopping work that was cancelled", instant(w.polledAt), instant(w.HeardAt))
		}
		return fmt.Sprintf("it has asked for no work since %s; last heard of at %s: its machine sleeps or is cut off, or its process is stopped or stuck, as its log says",
			instant(w.polledAt), instant(w.HeardAt))
	case !w.free():
		return "its claim is being answered"
	case why != "":
		at.refuse(why)
		return why
	}
	at.free++
	return ""
}

// position is the place of a job among those that compete with it.
func (b *Board) position(r *record) int {
	position := 1
	for _, s := range b.shapes {
		if s.lane > r.shape.lane || s.brake != "" || s != r.shape && !b.compete(s, r.shape) {
			continue
		}
		position += b.before(r, s)
	}
	return position
}

// compete says whether some worker online can take both shapes.
func (b *Board) compete(x, y *shape) bool {
	for _, p := range b.profiles {
		if p.takes(x) && p.takes(y) {
			return true
		}
	}
	return false
}

// Count is a number of waiting jobs of one lane and language.
type Count struct {
	Lane     Lane
	Language string
	Jobs     int
}

// Counts lists the waiting jobs by lane and language.
func (b *Board) Counts() []Count {
	type key struct {
		lane     Lane
		language string
	}
	jobs := map[key]int{}
	for _, s := range b.shapes {
		jobs[key{s.lane, s.language}] += s.count
	}
	counts := make([]Count, 0, len(jobs))
	for k, n := range jobs {
		counts = append(counts, Count{k.lane, k.language, n})
	}
	slices.SortFunc(counts, func(x, y Count) int {
		return cmp.Or(cmp.Compare(x.Lane, y.Lane), strings.Compare(x.Language, y.Language))
	})
	return counts
}
