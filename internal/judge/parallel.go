package judge

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/verdict"
)

// errSuperfluous ends a test behind one that failed.
var errSuperfluous = errors.New("an earlier test failed")

// testRuns runs the tests of one evaluation, several at once when cores are
// idle, and comes to the result that running them one by one would have.
//
// Invariants:
//
//	T1  Tests are begun in the package's order.
//	T2  A test that ends the evaluation (it failed and the rule is to stop, or
//	    the system failed on it) is a barrier: no test behind it counts,
//	    whatever it got; every test before it is run to its end. So what is
//	    reported does not depend on which test finished first.
//	T3  The evaluation's own core always works on the first test that is
//	    left, so a package ends however often borrowed cores are called back.
type testRuns struct {
	v       *evaluation
	ctx     context.Context //nolint:containedctx // lives for one call of run
	stop    bool            // at the first failing test
	workers sync.WaitGroup  // on borrowed cores

	mu      sync.Mutex
	changed *sync.Cond
	next    int         // the first test never begun
	again   []int       // tests begun, but called back; sorted
	running map[int]job // by test
	barrier int         // the number of tests, or the index of the barrier (T2)
	tests   []Test
	errs    []error
	done    int
	runTime time.Duration // summed over tests, as are the next
	checked time.Duration
}

// run runs all tests and fills the report.
func (v *evaluation) runTests(ctx context.Context) error {
	tests := v.task.Package.Manifest.Tests
	r := &testRuns{
		v: v, ctx: ctx, stop: v.task.Stop != StopAll, running: make(map[int]job),
		barrier: len(tests), tests: make([]Test, len(tests)), errs: make([]error, len(tests)),
	}
	r.changed = sync.NewCond(&r.mu)
	from := v.e.clock.Now()
	r.progress()
	j, ok := r.claimOrWait() // the first test is for the own core
	v.e.cores.join(r)
	for ; ok; j, ok = r.claimOrWait() {
		r.do(j, v.core)
	}
	v.e.cores.leave(r)
	r.workers.Wait()
	r.stages(v.e.clock.Now().Sub(from))
	return r.report()
}

// claimOrWait is claim, but waits as long as a test that runs elsewhere may
// come back.
func (r *testRuns) claimOrWait() (job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for {
		if j, ok := r.claimLocked(); ok {
			return j, true
		}
		if len(r.running) == 0 {
			return job{}, false
		}
		r.changed.Wait()
	}
}

// claim implements borrower.
func (r *testRuns) claim() (job, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.claimLocked()
}

func (r *testRuns) claimLocked() (job, bool) {
	i := r.next
	if len(r.again) > 0 {
		i = r.again[0] // all of them were begun before next
	}
	if i >= r.barrier || r.ctx.Err() != nil {
		return job{}, false
	}
	if len(r.again) > 0 {
		r.again = r.again[1:]
	} else {
		r.next++
	}
	j := job{index: i}
	j.ctx, j.cancel = context.WithCancelCause(r.ctx)
	r.running[i] = j
	return j, true
}

// start implements borrower.
func (r *testRuns) start(j job, c *core, back func()) {
	r.workers.Go(func() {
		r.do(j, c)
		back()
	})
}

// do runs one test and takes its result in.
func (r *testRuns) do(j job, c *core) {
	a := attempt{evaluation: r.v, core: c}
	var out Test
	err := a.test(j.ctx, j.index, &out)
	cause := context.Cause(j.ctx)
	j.cancel(nil)

	r.mu.Lock()
	defer r.mu.Unlock()
	delete(r.running, j.index)
	r.runTime += a.runTime
	r.checked += a.checkTime
	switch {
	case err != nil && errors.Is(cause, errSuperfluous):
	case err != nil && errors.Is(cause, errGivenBack):
		at, _ := slices.BinarySearch(r.again, j.index)
		r.again = slices.Insert(r.again, at, j.index)
	default:
		r.settle(j.index, out, err)
	}
	r.changed.Broadcast()
}

// settle records a result. mu is held.
func (r *testRuns) settle(i int, out Test, err error) {
	r.tests[i], r.errs[i] = out, err
	if out.Wrote != nil {
		boundWrote(r.tests)
	}
	if i < r.barrier && (err != nil || r.stop && out.Verdict != verdict.AC) {
		r.barrier = i
		for other, j := range r.running {
			if other > i {
				j.cancel(errSuperfluous)
			}
		}
	}
	if err == nil {
		r.done++
		r.progress()
	}
}

// progress is called under mu, or before anything runs.
func (r *testRuns) progress() {
	r.v.progress(Progress{Phase: PhaseRunning, TestsDone: r.done, TestsTotal: len(r.tests)})
}

// report is what testing one by one would have found.
func (r *testRuns) report() error {
	if cause := context.Cause(r.ctx); cause != nil {
		return cause
	}
	tests := r.v.task.Package.Manifest.Tests
	for i, t := range tests {
		switch {
		case r.errs[i] != nil && i <= r.barrier:
			return onTest(r.errs[i], t.Name)
		case i > r.barrier:
			r.tests[i] = Test{Verdict: verdict.Skipped}
		}
		r.tests[i].Name, r.tests[i].Sample = t.Name, t.Sample
	}
	if r.done != len(tests) {
		r.done = len(tests)
		r.progress()
	}
	r.v.report.Tests = r.tests
	return nil
}

// stages divides the time that passed among what the cores did in it.
func (r *testRuns) stages(passed time.Duration) {
	if sum := r.runTime + r.checked; sum > 0 {
		share := float64(r.runTime) / float64(sum)
		r.v.report.Stages["run"] += time.Duration(float64(passed) * share)
		r.v.report.Stages["check"] += time.Duration(float64(passed) * (1 - share))
	}
}
