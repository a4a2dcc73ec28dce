package history

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// Findings are what Examine has found out.
type Findings struct {
	Jobs, Calls int
	Wrong       []Counterexample
	Undecided   []int64 // jobs about which the search was not over in time
}

// Examine says of each job whether what was answered about it could have
// happened one call at a time. left is how long the search about the next job
// may take; jobs for which nothing is left are undecided.
func Examine(ops []Op, attemptCap int, left func() time.Duration) Findings {
	byJob := map[int64][]Op{}
	for _, o := range ops {
		byJob[o.Job] = append(byJob[o.Job], o)
	}
	found := Findings{Jobs: len(byJob), Calls: len(ops)}
	jobs := make([]int64, 0, len(byJob))
	for job := range byJob {
		jobs = append(jobs, job)
	}
	slices.Sort(jobs)
	model := jobModel(attemptCap)
	for _, job := range jobs {
		calls := byJob[job]
		slices.SortStableFunc(calls, func(a, b Op) int { return cmp.Compare(a.began, b.began) })
		calls = withoutRepeats(calls)
		switch search(model, calls, left()) {
		case porcupine.Ok:
		case porcupine.Illegal:
			c := Counterexample{Job: job, Calls: calls, model: model}
			c.Misfit, c.told = misfit(model, calls, left)
			found.Wrong = append(found.Wrong, c)
		default:
			found.Undecided = append(found.Undecided, job)
		}
	}
	return found
}

// Check is Examine of a history of which everything must be decided, with as
// much time for each job; the error tells the first that is not right.
func Check(ops []Op, attemptCap int, limit time.Duration) error {
	found := Examine(ops, attemptCap, func() time.Duration { return limit })
	switch {
	case len(found.Wrong) > 0:
		return fmt.Errorf("%v", found.Wrong[0])
	case len(found.Undecided) > 0:
		return fmt.Errorf("nothing was found out within %v about job %d", limit, found.Undecided[0])
	}
	return nil
}

func search(model porcupine.Model, calls []Op, limit time.Duration) porcupine.CheckResult {
	if limit <= 0 { // which would be no limit
		return porcupine.Unknown
	}
	return porcupine.CheckOperationsTimeout(model, operations(calls), limit)
}

// operations gives each call a row of its own as long as it lasts, for drawing.
func operations(calls []Op) []porcupine.Operation {
	var busyUntil []int64
	out := make([]porcupine.Operation, 0, len(calls))
	for _, o := range calls {
		row := slices.IndexFunc(busyUntil, func(until int64) bool { return until < o.began })
		if row < 0 {
			row, busyUntil = len(busyUntil), append(busyUntil, 0)
		}
		busyUntil[row] = o.ended
		out = append(out, porcupine.Operation{ClientId: row, Input: o, Call: o.began, Output: o.Answer, Return: o.ended})
	}
	return out
}

// withoutRepeats leaves out calls without an answer that repeat an earlier one
// of that kind: what one of them may have done, the earlier one may have done at
// the same time. A worker that nobody answers makes so many of them that trying
// all their orders would take for ever.
func withoutRepeats(calls []Op) []Op {
	type same struct {
		kind           Kind
		token, verdict string
	}
	seen := map[same]bool{}
	return slices.DeleteFunc(slices.Clone(calls), func(o Op) bool {
		k := same{o.Kind, o.Token, o.Verdict}
		repeats := o.Answer == Unknown && seen[k]
		seen[k] = seen[k] || o.Answer == Unknown
		return repeats
	})
}

// misfit is the first answer that follows from nothing that had happened, and
// whether there was time to find it: what was known by the answer before it
// could still have happened.
func misfit(model porcupine.Model, calls []Op, left func() time.Duration) (Op, bool) {
	ends := slices.Clone(calls)
	slices.SortStableFunc(ends, func(a, b Op) int { return cmp.Compare(a.ended, b.ended) })
	for _, last := range ends {
		if last.ended == notKnown {
			break
		}
		switch search(model, until(calls, last.ended), left()) {
		case porcupine.Ok:
		case porcupine.Illegal:
			return last, true
		default:
			return Op{}, false
		}
	}
	return Op{}, false
}

// until is what was known at a time.
func until(calls []Op, now int64) []Op {
	var out []Op
	for _, o := range calls {
		if o.began > now {
			continue
		}
		if o.ended > now {
			o.Answer, o.ended = Unknown, notKnown
		}
		out = append(out, o)
	}
	return out
}

// Counterexample is a history of one job that follows from no order of its calls.
type Counterexample struct {
	Job    int64
	Calls  []Op // in the order in which they began
	Misfit Op   // the first answer that cannot be; the zero Op when there was no time to find it

	told  bool
	model porcupine.Model
}

// String tells the calls, one a line with when they began and ended.
func (c Counterexample) String() string {
	var b strings.Builder
	fmt.Fprintf(&b, "the answers about job %d follow from no order of its calls", c.Job)
	if c.told {
		fmt.Fprintf(&b, "; up to this one they do: %v", c.Misfit)
	}
	start := c.Calls[0].began
	for _, o := range c.Calls {
		end := "…"
		if o.ended != notKnown {
			end = fmt.Sprint(o.ended - start)
		}
		mark := " "
		if c.told && o.began == c.Misfit.began && o.ended == c.Misfit.ended {
			mark = "!"
		}
		fmt.Fprintf(&b, "\n\t%s [%d, %s] %s", mark, o.began-start, end, o)
	}
	return b.String()
}

// Draw writes porcupine's page about it: HTML with the calls, and how far orders
// of them go.
func (c Counterexample) Draw(w io.Writer, limit time.Duration) error {
	_, info := porcupine.CheckOperationsVerbose(c.model, operations(c.Calls), limit)
	return porcupine.Visualize(c.model, info, w)
}
