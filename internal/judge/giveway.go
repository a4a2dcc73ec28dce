package judge

import (
	"context"
	"errors"
	"sync"
	"time"
)

// errGaveWay ends work of the engine's own (a self-test, a header, a step of
// preparing a toolchain) whose place a submission needs. It is begun again, and
// goes on after the last step that was whole.
var errGaveWay = errors.New("a submission needs the place")

// place says how work holds its place among the evaluations.
type place int

const (
	// placeKept is a submission's: to the end.
	placeKept place = iota
	// placeGiven is given to a submission that needs it, at once.
	placeGiven
	// placeUntilStep is given to a submission when a step is whole.
	placeUntilStep
)

// How long the engine's own work gives way at once. After that it may do one
// step to its end, and then gives way at once for as long again: a machine that
// is never idle proves its languages, too, and no submission waits for more
// than one step in all that time.
const (
	// A language that is not proved cannot be judged at all: its submissions
	// wait, while the others could spare a second or two in thirty.
	selfTestPatience = 30 * time.Second
	// Without a header submissions are only slower to compile, and a step is
	// ten seconds.
	headerPatience = 10 * time.Minute
)

// ownWork is the engine's own work that holds a place among the evaluations.
//
// Invariant: for each submission that waits for a place, one such work is told
// to give way, and none that begins meanwhile keeps its place.
type ownWork struct {
	mu      sync.Mutex
	waiting int // submissions without a place
	serial  int
	holding map[int]context.CancelCauseFunc
}

// wait notes a submission without a place, until done.
func (o *ownWork) wait() (done func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.waiting++
	for id, cancel := range o.holding {
		delete(o.holding, id) // told once
		cancel(errGaveWay)
		break
	}
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.waiting--
	}
}

// hold notes work that may be told to give way, until dropped.
func (o *ownWork) hold(cancel context.CancelCauseFunc) (drop func()) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.waiting > 0 {
		cancel(errGaveWay)
		return func() {}
	}
	if o.holding == nil {
		o.holding = map[int]context.CancelCauseFunc{}
	}
	o.serial++
	id := o.serial
	o.holding[id] = cancel
	return func() {
		o.mu.Lock()
		defer o.mu.Unlock()
		delete(o.holding, id)
	}
}

// needed reports whether a submission waits for a place.
func (o *ownWork) needed() bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.waiting > 0
}

// between is called between two steps of work with such a place.
func (e *Engine) between(p place) error {
	if p != placeKept && e.own.needed() {
		return errGaveWay
	}
	return nil
}

// givingWay does work that gives way to submissions, and begins it again when
// it had to, or after patience goes on. work is told how it holds its place.
func (e *Engine) givingWay(ctx context.Context, patience time.Duration, work func(place) error) error {
	since := e.clock.Now()
	for {
		p := placeGiven
		if e.clock.Now().Sub(since) >= patience {
			p = placeUntilStep
		}
		err := work(p)
		if !errors.Is(err, errGaveWay) || ctx.Err() != nil {
			return err
		}
		if p == placeUntilStep {
			since = e.clock.Now()
		}
	}
}
