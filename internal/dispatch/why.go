package dispatch

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
)

// Cause is the rule that keeps work waiting. Names are a contract: they are stored.
type Cause string

// The causes, in the order in which they are looked at.
const (
	Held         Cause = "held"              // by an operator
	NobodyOnline Cause = "no_worker"         // of any kind
	NobodyAble   Cause = "no_capable_worker" // of those online
	OverBudget   Cause = "rejudge_budget"    // its rejudge has as many at work as it may
	Queued       Cause = "queued"            // its turn comes
)

// Causes lists them all.
func Causes() []Cause { return []Cause{Held, NobodyOnline, NobodyAble, OverBudget, Queued} }

// Reason is why the jobs of one shape wait: the same holds for all of them,
// but for their place.
type Reason struct {
	// Like is what the jobs have in common: no id, class or submitter, and a
	// problem only where a brake holds just that problem's.
	Like  Job
	Jobs  int
	Cause Cause
	Text  string
}

// Reasons says why everything that waits does so, by the rules that Explain
// tells of one job. It asks them once a shape and profile of workers, and not
// once a job.
func (b *Board) Reasons(now time.Time) []Reason {
	reasons := make([]Reason, 0, len(b.shapes))
	for _, s := range b.shapes {
		if s.count == 0 {
			continue
		}
		cause, text := b.reason(s, b.census(s), func() posts { return b.posts(s, now) })
		reasons = append(reasons, Reason{
			Like: Job{
				Lane: s.lane, Language: s.language, Needs: s.needs, Problem: s.problem, Batch: s.batch, Budget: s.budget,
				Target: s.target, FailedBy: s.failedBy,
			},
			Jobs: s.count, Cause: cause, Text: text,
		})
	}
	return reasons
}

// census is how the workers online stand to a shape, whatever they do just now.
type census struct {
	online, able int
	refusals     map[string]int // of those that are not able, by reason
}

// posts is what those who are able to take a shape do just now. Who is in no
// count has no free slot, or is being answered.
type posts struct {
	free    int            // would be given one of its jobs
	quiet   int            // have a free slot and have not asked for a while
	lastAsk time.Time      // when the last of those did
	refused map[string]int // ask, and are kept from it, by reason
}

// asksAgain is how long a worker may be between two claims before it counts as
// one that does not ask: it reports, fetches a package, or its call was cut.
const asksAgain = 2 * time.Second

// toldByThen is how long after it was last heard of a worker that asks for nothing
// is not suspected yet: what was cancelled it learns with the answer to its next
// heartbeat, and has to end then.
const toldByThen = 10 * time.Second

// noteQuiet counts a worker with a free slot that has no claim.
func (p *posts) noteQuiet(w *worker, now time.Time) {
	if now.Sub(w.polledAt) < asksAgain {
		return // as good as busy: it will have asked by the time somebody reads this
	}
	if p.quiet++; w.polledAt.After(p.lastAsk) {
		p.lastAsk = w.polledAt
	}
}

func (p *posts) refuse(why string) {
	if p.refused == nil {
		p.refused = map[string]int{}
	}
	p.refused[why]++
}

// instant is a moment in words that stay the same from one look to the next.
func instant(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 MST") }

// reason puts the first rule that holds a shape into words. where tells what
// those that are able do just now.
func (b *Board) reason(s *shape, c census, where func() posts) (Cause, string) {
	switch {
	case s.brake != "":
		return Held, "held by an operator: " + s.brake
	case c.online == 0:
		return NobodyOnline, "no worker is online"
	case c.able == 0:
		return NobodyAble, "no capable worker: " + summary(c.refusals, c.online, s)
	case b.overBudget(s):
		return OverBudget, fmt.Sprintf("its rejudge has %d jobs at work, as many as it may at once", b.batch[s.batch])
	}
	p := where()
	return Queued, p.words(c.able)
}

// words says what those that are able do.
func (p *posts) words(able int) string {
	busy := able - p.free - p.quiet
	for _, n := range p.refused {
		busy -= n
	}
	switch {
	case p.free > 0 && able == 1:
		return "one able worker is online and free"
	case p.free > 0:
		return fmt.Sprintf("%d able workers are online, %d of them free", able, p.free)
	case able == 1 && p.quiet == 1:
		return "the one able worker has asked for no work since " + instant(p.lastAsk)
	case able == 1 && busy == 0:
		return "the one able worker does not get it now: " + slices.Collect(maps.Keys(p.refused))[0]
	case able == 1:
		return "the one able worker is busy"
	case busy == able:
		return fmt.Sprintf("all %d able workers are busy", able)
	}
	texts := []string{fmt.Sprintf("none of the %d able workers can take it now", able)}
	if busy > 0 {
		texts = append(texts, fmt.Sprintf("busy: %d", busy))
	}
	if p.quiet > 0 {
		texts = append(texts, fmt.Sprintf("asking for no work: %d, the last since %s", p.quiet, instant(p.lastAsk)))
	}
	for _, why := range slices.Sorted(maps.Keys(p.refused)) {
		texts = append(texts, fmt.Sprintf("of %d: %s", p.refused[why], why))
	}
	return strings.Join(texts, "; ")
}

// census counts by profile, for Reasons and Why; Explain counts by worker, and a
// property test holds the two together.
func (b *Board) census(s *shape) census {
	c := census{refusals: map[string]int{}}
	for _, p := range b.profiles {
		c.online += p.workers
		switch {
		case s.target != 0:
		case !p.takes(s):
			c.refusals[refusal(&p.worker, s)] += p.workers
		default:
			for has, n := range p.memory {
				if has >= s.needs.MemoryBytes {
					c.able += n
				} else {
					c.refusals[memoryRefusal(&Worker{MemoryBytes: has}, s)] += n
				}
			}
		}
	}
	if s.target == 0 {
		return c
	}
	others := c.online
	if w := b.workers[s.target]; w != nil && w.online {
		others--
		if why := b.never(s, w); why != "" {
			c.refusals[why]++
		} else {
			c.able = 1
		}
	}
	if others > 0 {
		c.refusals[notForIt] += others
	}
	return c
}

// posts counts by profile what Explain counts by worker.
func (b *Board) posts(s *shape, now time.Time) (at posts) {
	for _, p := range b.profiles {
		if len(p.idle)+len(p.quiet) == 0 || !p.takes(s) {
			continue
		}
		for _, w := range p.idle {
			if b.never(s, w) != "" {
				continue
			}
			if why := b.refusedNow(s, w); why != "" {
				at.refuse(why)
			} else {
				at.free++
			}
		}
		for w := range p.quiet {
			if b.never(s, w) == "" {
				at.noteQuiet(w, now)
			}
		}
	}
	return at
}

// notForIt is what a job says to everybody but its target.
const notForIt = "it is for another worker"

// summary puts the refusals of all workers into one line, the most frequent first.
func summary(refusals map[string]int, online int, s *shape) string {
	if s.language != "" && refusals["it does not offer "+s.language] == online {
		return fmt.Sprintf("none of the %d online offers %s", online, s.language)
	}
	type count struct {
		why string
		n   int
	}
	var counts []count
	for why, n := range refusals {
		counts = append(counts, count{why, n})
	}
	slices.SortFunc(counts, func(x, y count) int { return cmp.Or(cmp.Compare(y.n, x.n), cmp.Compare(x.why, y.why)) })
	const shown = 4
	texts := []string{fmt.Sprintf("%d online", online)}
	for _, c := range counts[:min(shown, len(counts))] {
		texts = append(texts, fmt.Sprintf("of %d: %s", c.n, c.why))
	}
	if len(counts) > shown {
		texts = append(texts, fmt.Sprintf("and %d more reasons", len(counts)-shown))
	}
	return strings.Join(texts, "; ")
}
