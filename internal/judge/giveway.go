package judge

import (
	"context"
	"errors"
	"sync"
)

// errGaveWay ends work of the engine's own (a self-test, a header) whose place
// a submission needs. It is begun again.
var errGaveWay = errors.New("a submission needs the place")

// giveWayTimes is how often such work is begun again before it holds its place
// to the end, so that a machine that is never idle proves its languages, too.
const giveWayTimes = 3

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

// givingWay does work that gives way to submissions, and begins it again when
// it had to. work is told whether it still must.
func givingWay(ctx context.Context, work func(gives bool) error) error {
	for try := 0; ; try++ {
		err := work(try < giveWayTimes)
		if !errors.Is(err, errGaveWay) || ctx.Err() != nil {
			return err
		}
	}
}
