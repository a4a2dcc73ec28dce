package sim

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
)

// calmLimit is how much virtual time everything may take to come to its end
// when the faults have stopped: open jobs one after the other, each with all
// the attempts it may have, and leases of before that must run out.
const calmLimit = 2 * time.Hour

// Report is what came of a history.
type Report struct {
	Steps       int
	VirtualTime time.Duration
	Jobs        int
	Attempts    int
	Terms       int64
	Violation   *Violation // nil when every promise was kept
}

// Run makes one history: steps events with faults, then without until all is
// settled. It stops at the first violation.
func Run(cfg Config, steps int) Report { return run(newWorld(cfg), steps) }

// Record is Run that also returns the statements of the history.
func Record(cfg Config, steps int) (Report, []Call, *DB) {
	w := newWorld(cfg)
	var calls []Call
	w.calls = &calls
	r := run(w, steps)
	return r, calls, w.db
}

// Trace is Run that tells what happens, line by line.
func Trace(cfg Config, steps int, line func(string)) Report {
	w := newWorld(cfg)
	w.trace = func(format string, args ...any) {
		line(fmt.Sprintf("%6d %12v  ", w.steps, w.now.Round(time.Microsecond)) + fmt.Sprintf(format, args...))
	}
	return run(w, steps)
}

func run(w *World, steps int) Report {
	c := w.checks
	for w.steps < steps && c.found == nil && w.step() {
	}
	if c.found == nil {
		w.becomeCalm()
		for end := w.now + calmLimit; c.found == nil && !w.settled(); {
			if w.now > end || !w.step() {
				c.fail("progress", "%v after the faults stopped, %s", calmLimit, w.unsettled())
			}
		}
	}
	if c.found == nil {
		c.end()
	}
	return Report{Steps: w.steps, VirtualTime: w.now, Jobs: len(w.db.Judgings), Attempts: len(w.db.Attempts), Terms: w.db.Term, Violation: c.found}
}

// Shrink looks for a smaller history that breaks the same rule: it takes parts
// of the mixture away while the rule still breaks, and cuts the history at the
// step at which it does. It runs at most budget histories.
func Shrink(cfg Config, steps int, rule string, budget int) (without string, least int) {
	gone := map[string]bool{}
	try := func(names []string) (int, bool) {
		if budget == 0 {
			return 0, false
		}
		budget--
		less, err := cfg.Without(strings.Join(names, ","))
		if err != nil {
			panic("sim: own names: " + err.Error())
		}
		r := Run(less, steps)
		if r.Violation == nil || r.Violation.Rule != rule {
			return 0, false
		}
		return min(steps, r.Violation.Step), true
	}
	all := cfg.parts()
	for size := max(1, len(all)/2); size >= 1; size /= 2 {
		for lo := 0; lo < len(all); lo += size {
			var names []string
			for i, name := range all {
				if gone[name] || i >= lo && i < lo+size {
					names = append(names, name)
				}
			}
			if s, ok := try(names); ok {
				steps = s
				for _, name := range names {
					gone[name] = true
				}
			}
		}
	}
	return joinParts(all, gone), steps
}

// joinParts writes names with runs of numbers as ranges.
func joinParts(all []string, gone map[string]bool) string {
	var out []string
	for i := 0; i < len(all); i++ {
		if !gone[all[i]] {
			continue
		}
		first, err := strconv.Atoi(all[i])
		if err != nil {
			out = append(out, all[i])
			continue
		}
		j := i
		for j+1 < len(all) && gone[all[j+1]] {
			if _, err := strconv.Atoi(all[j+1]); err != nil {
				break
			}
			j++
		}
		if j > i {
			out = append(out, fmt.Sprintf("%d-%s", first, all[j]))
		} else {
			out = append(out, all[i])
		}
		i = j
	}
	return strings.Join(slices.Clip(out), ",")
}
