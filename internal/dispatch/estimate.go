package dispatch

import (
	"slices"
	"time"
)

// Outlook is what an estimate of a wait rests on: a place among jobs that
// compete for the same workers, and the slots of those workers.
type Outlook struct {
	Place int // 1 goes next
	Slots int // of workers that ask for work, or have their hands full; 0 is unknown
}

// Estimate is about how long it takes until the place has its turn, when a job
// occupies a slot for as long as it did of late: slots come free one after the
// other, a share of that apart. 0 is unknown.
func (o Outlook) Estimate(pace time.Duration) time.Duration {
	if o.Slots == 0 {
		return 0
	}
	return time.Duration(float64(pace) * float64(o.Place) / float64(o.Slots))
}

// worse is the one that waits longer.
func (o Outlook) worse(p Outlook) Outlook {
	if o.Place*p.Slots >= p.Place*o.Slots {
		return o
	}
	return p
}

// Outlook is that of a job that waits for its turn; nothing when it does not
// wait, or for something else.
func (b *Board) Outlook(id int64, now time.Time) Outlook {
	r := b.jobs[id]
	if r == nil || r.shape.brake != "" || b.overBudget(r.shape) {
		return Outlook{}
	}
	return b.outlook(r.shape, now, func(s *shape) int { return b.before(r, s) })
}

// OutlookOfNext is that of a job of a language that comes to a lane now and goes
// after all that wait there: the worst, when such jobs differ in what they need.
func (b *Board) OutlookOfNext(lane Lane, language string, now time.Time) (next Outlook) {
	for _, s := range b.lanes[lane].shapes {
		if s.language != language || s.brake != "" || b.overBudget(s) {
			continue
		}
		if o := b.outlook(s, now, func(other *shape) int { return other.count }); o.Slots > 0 {
			next = o.worse(next)
		}
	}
	return next
}

// outlook looks at two queues: that of all who compete with a shape, for the
// workers that take any of them, and that of the shape alone, for those that
// take it. The slower one counts, but it is no slower than the shape's own for
// the workers that none of the others can use.
func (b *Board) outlook(s *shape, now time.Time, ahead func(*shape) int) Outlook {
	own := Outlook{Place: 1 + ahead(s)}
	all, apart := own, own
	var rivals []*shape
	for _, other := range b.shapes {
		if other != s && other.count > 0 && other.lane <= s.lane && other.brake == "" && b.compete(other, s) {
			rivals = append(rivals, other)
			all.Place += ahead(other)
		}
	}
	for _, w := range b.workers {
		if !w.online || w.quiet && now.Sub(w.polledAt) >= asksAgain {
			continue // who has asked for no work for a while will not take it
		}
		able := b.never(s, w) == ""
		rival := slices.ContainsFunc(rivals, func(r *shape) bool { return b.never(r, w) == "" })
		if able {
			own.Slots += w.Slots
		}
		if able || rival {
			all.Slots += w.Slots
		}
		if able && !rival {
			apart.Slots += w.Slots
		}
	}
	if own.Slots == 0 {
		return Outlook{}
	}
	if o := own.worse(all); apart.Slots == 0 || apart.worse(o) == apart {
		return o
	}
	return apart
}

// before counts the jobs of a shape that go before a job, when both compete.
func (b *Board) before(r *record, s *shape) (n int) {
	switch {
	case s.lane > r.shape.lane:
	case s.lane < r.shape.lane:
		return s.count
	default:
		for _, e := range s.waiting {
			if e.compare(r.place) < 0 && b.current(s, e) {
				n++
			}
		}
	}
	return n
}
