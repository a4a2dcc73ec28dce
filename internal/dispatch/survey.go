package dispatch

import (
	"cmp"
	"maps"
	"slices"
)

// Survey is what waits and who is there, in groups, for whoever watches over
// the matching. Probes are not counted.
type Survey struct {
	Groups  []Group
	Out     int // jobs that workers hold
	Online  int // workers online
	Working int // workers online that are not away
}

// Group is the waiting jobs of one shape: the same rules hold for all of them.
type Group struct {
	Lane     Lane
	Language string
	Jobs     int
	First    int64 // the job that goes first
	Held     bool  // by an operator, or by the budget of its rejudge
	// Able says that some worker online can do it, busy or not; else Refusal
	// is why not: of those that lack nothing but to be back, else of the profile
	// that most workers have.
	Able    bool
	Refusal string
	// Back are those online that lack nothing but to be back: drained, paused,
	// set aside, asleep.
	Back []WorkerReason
	// Free is a worker that could be given the first job now, 0 for none: the
	// one that has been idle for the longest.
	Free     int64
	FreeName string
}

// Ready says that nothing but workers is missing.
func (g Group) Ready() bool { return !g.Held }

// Survey counts. It asks the rules once a shape and profile of workers, as
// Match does, and not once a job.
func (b *Board) Survey() Survey {
	s := Survey{Out: len(b.out) - b.lanes[Probe].out}
	for _, p := range b.profiles {
		s.Online += p.workers
		if p.worker.Away == "" {
			s.Working += p.workers
		}
	}
	m := match{b: b}
	for lane := Run; lane < laneCount; lane++ {
		for _, shape := range b.lanes[lane].shapes {
			head := m.head(shape)
			if head == nil {
				continue
			}
			g := Group{
				Lane: lane, Language: shape.language, Jobs: shape.count, First: head.place.id,
				Held: shape.brake != "" || b.overBudget(shape),
			}
			b.whoCan(&g, shape)
			if g.Able && !g.Held {
				if w := b.longestIdle(shape); w != nil {
					g.Free, g.FreeName = w.ID, w.Name
				}
			}
			s.Groups = append(s.Groups, g)
		}
	}
	slices.SortFunc(s.Groups, func(x, y Group) int { return cmp.Or(cmp.Compare(x.Lane, y.Lane), cmp.Compare(x.First, y.First)) })
	return s
}

// whoCan fills in whether some worker online can do a shape, or why none can.
func (b *Board) whoCan(g *Group, s *shape) {
	if s.target != 0 {
		w := b.workers[s.target]
		switch {
		case w == nil || !w.online:
			g.Refusal = "the worker it is for is not online"
		default:
			g.Refusal = b.never(s, w)
			g.Able = g.Refusal == ""
		}
		return
	}
	most, near := 0, map[*profile]bool{}
	for _, p := range b.profiles {
		var why string
		comes := false // it could do it, were it not away
		if !p.takes(s) {
			comes = p.wouldTake(s)
			why = refusal(&p.worker, s)
		} else if largest := slices.Max(slices.Collect(maps.Keys(p.memory))); s.needs.MemoryBytes > largest {
			why = memoryRefusal(&Worker{MemoryBytes: largest}, s)
		} else {
			g.Able, g.Refusal = true, ""
			return
		}
		switch {
		case comes && len(near) == 0, comes == (len(near) > 0) && p.workers > most:
			most, g.Refusal = p.workers, why
		}
		if comes {
			near[p] = true
		}
	}
	if len(b.profiles) == 0 {
		g.Refusal = "no worker is online"
	}
	if len(near) > 0 {
		g.Back = b.keptAway(s, near)
	}
}

// wouldTake says whether only being away, or a language set aside, keeps the
// workers of a profile from a shape.
func (p *profile) wouldTake(s *shape) bool {
	w := p.worker
	w.Away, w.AsideLanguages = "", nil
	return refusal(&w, s) == "" && s.needs.MemoryBytes <= slices.Max(slices.Collect(maps.Keys(p.memory)))
}

// keptAway lists, by name, the workers of profiles that would take a shape. It
// goes through the workers, but only where nobody is able.
func (b *Board) keptAway(s *shape, near map[*profile]bool) (list []WorkerReason) {
	for _, w := range b.workers {
		if w.online && near[w.profile] && s.needs.MemoryBytes <= memoryOf(&w.Worker) {
			list = append(list, WorkerReason{w.ID, w.Name, refusal(&w.Worker, s)})
		}
	}
	slices.SortFunc(list, func(x, y WorkerReason) int { return cmp.Compare(x.Name, y.Name) })
	return list
}

// longestIdle is who would be given the first job of a shape, whatever its
// pool and what it holds of packages.
func (b *Board) longestIdle(s *shape) (best *worker) {
	for _, p := range b.profiles {
		if len(p.idle) == 0 || !p.takes(s) {
			continue
		}
		for _, w := range p.idle {
			if b.never(s, w) == "" && b.refusedNow(s, w) == "" {
				if best == nil || longestIdleFirst(w, best) < 0 {
					best = w
				}
				break
			}
		}
	}
	return best
}
