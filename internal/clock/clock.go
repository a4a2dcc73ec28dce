// Package clock is the one home of time.Now. Shells take a Clock so that tests
// can run them on another time (most use testing/synctest, where the system
// clock itself is virtual); the pure core takes instants as parameters and
// never a Clock.
package clock

import "time"

// Clock reads the time and makes timers.
type Clock interface {
	// Now is the wall clock with Go's monotonic reading: differences are
	// monotonic, the wall part is for people. Lease times never come from
	// here; they are the database's.
	Now() time.Time
	// After behaves as time.After.
	After(d time.Duration) <-chan time.Time
	// NewTicker behaves as time.NewTicker.
	NewTicker(d time.Duration) *time.Ticker
}

// System is the machine's clock.
type System struct{}

// Now implements Clock.
func (System) Now() time.Time { return time.Now() }

// After implements Clock.
func (System) After(d time.Duration) <-chan time.Time { return time.After(d) }

// NewTicker implements Clock.
func (System) NewTicker(d time.Duration) *time.Ticker { return time.NewTicker(d) }
