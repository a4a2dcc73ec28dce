package arbiter

import (
	"time"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// ReasonKey is whose reason the leader stores for a row that waits, when these
// workers failed it.
func ReasonKey(r *storedb.Job, failedBy []int64) (shape, failed string) {
	j := jobOf(r)
	j.FailedBy = failedBy
	k := reasonKeyOf(&j)
	return k.shape, k.failedBy
}

// BreakMatching puts a matching into the leader that gives nobody anything.
func (a *Arbiter) BreakMatching() (mend func()) {
	set := func(m func(*dispatch.Board, time.Time, int) ([]dispatch.Grant, time.Time)) {
		l := a.current.Load()
		l.mu.Lock()
		a.match = m
		l.mu.Unlock()
		l.poke()
	}
	set(func(*dispatch.Board, time.Time, int) ([]dispatch.Grant, time.Time) { return nil, time.Time{} })
	return func() { set((*dispatch.Board).Match) }
}

// LooksWaiting is how many looks wait for the leader's memory.
func (a *Arbiter) LooksWaiting() int { return int(a.current.Load().looks.Load()) }

// Remembered is how many of n events are kept for the next look, and how many
// for the one after it.
func Remembered(n int) (next, after int) {
	l := &leadership{a: &Arbiter{count: newCounters()}}
	for range n {
		l.happened(alarm.LeaderChanged, "", nil)
	}
	return len(l.takeEvents()), len(l.takeEvents())
}

// StickLoop holds the lock of the leader's memory, as a loop that is stuck in
// the middle of a decision does. It returns once it holds it.
func (a *Arbiter) StickLoop() (unstick func()) {
	l := a.current.Load()
	l.mu.Lock()
	return l.mu.Unlock
}

// DeliverEach is how many attempts are made side by side to one endpoint.
const DeliverEach = deliverEach
