package linuxbox

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

// sleepEvery is how often it is looked whether all of a run's threads sleep.
const sleepEvery = 200 * time.Millisecond

// watchSleep ends a run whose threads were all asleep at every look for as long
// as its limit says, and notes in r.asleep for how long they were in all. stop
// returns when no kill can come any more: it could meet the next run.
//
// A thread that is ready to run and gets no CPU, however busy the machine, is
// not asleep, and neither is one that waits for a disk. So this tells a program
// that waits for what never comes from one that the machine starves.
func (r *hostRun) watchSleep() (stop func()) {
	limit := r.spec.Limits.Asleep
	if limit == 0 {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		ticks := (clock.System{}).NewTicker(sleepEvery)
		defer ticks.Stop()
		var streak time.Duration
		last := monotonic()
		for {
			select {
			case <-quit:
				return
			case <-ticks.C:
			}
			now := monotonic()
			// Of a gap in which nobody looked, because this process got no CPU
			// either, little counts.
			since := min(now-last, 2*sleepEvery)
			last = now
			if !allAsleep(r.slot.proc.Pid) {
				streak = 0
				continue
			}
			streak += since
			r.asleep += since
			if streak >= limit {
				r.askKill(causeAsleep)
				return
			}
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// allAsleep reports whether there are processes below the init, and every
// thread of theirs is stopped or waits in a sleep that a signal would end. What
// cannot be read counts as awake.
func allAsleep(init int) bool {
	found := false
	for todo := childrenOf(init); len(todo) > 0; todo = todo[1:] {
		pid := todo[0]
		states, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
		if err != nil || len(states) == 0 {
			return false // it has just ended
		}
		for _, path := range states {
			b, err := os.ReadFile(path)
			if err != nil {
				return false
			}
			switch state := bytes.TrimSpace(b[bytes.LastIndexByte(b, ')')+1:]); {
			case len(state) == 0:
				return false
			case state[0] == 'Z':
				// Its parent may well sleep for ever.
			case state[0] == 'S', state[0] == 'T': // nobody but the run itself stops it
				found = true
			default:
				return false
			}
		}
		todo = append(todo, childrenOf(pid)...)
	}
	return found
}

// childrenOf are those of all threads of a process.
func childrenOf(pid int) (pids []int) {
	lists, err := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	if err != nil {
		return nil
	}
	for _, path := range lists {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // the thread has ended, and its children have another parent
		}
		for word := range bytes.FieldsSeq(b) {
			var child int
			if _, err := fmt.Sscan(string(word), &child); err == nil {
				pids = append(pids, child)
			}
		}
	}
	return pids
}
