package dispatch

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
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
func (b *Board) Reasons() []Reason {
	reasons := make([]Reason, 0, len(b.shapes))
	for _, s := range b.shapes {
		if s.count == 0 {
			continue
		}
		cause, text := b.reason(s, b.census(s), func() int { return b.freeFor(s) })
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

// reason puts the first rule that holds a shape into words. free counts the
// workers that would be given one of its jobs now.
func (b *Board) reason(s *shape, c census, free func() int) (Cause, string) {
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
	switch n := free(); {
	case n == 0 && c.able == 1:
		return Queued, "the one able worker is busy"
	case n == 0:
		return Queued, fmt.Sprintf("all %d able workers are busy", c.able)
	case c.able == 1:
		return Queued, "one able worker is online and free"
	default:
		return Queued, fmt.Sprintf("%d able workers are online, %d of them free", c.able, n)
	}
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

// freeFor counts the workers that would be given a job of a shape now.
func (b *Board) freeFor(s *shape) (n int) {
	for _, p := range b.profiles {
		if len(p.idle) == 0 || !p.takes(s) {
			continue
		}
		for _, w := range p.idle {
			if b.never(s, w) == "" && b.refusedNow(s, w) == "" {
				n++
			}
		}
	}
	return n
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
