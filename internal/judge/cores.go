package judge

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// core is one CPU's worth of work: the boxes that are pinned to it. It has
// three, so that nothing of one kind ever ran where another kind runs. It
// belongs to one goroutine at a time.
type core struct {
	cpu int // -1: not pinned
	// own says that nothing else runs on the CPU, so what is measured there
	// is not the machine's doing.
	own                 bool
	run, compile, check *lazyBox
}

// errGivenBack ends a test on a borrowed core that somebody with a right to it
// needs. The test is run again.
var errGivenBack = errors.New("the core is needed for another submission")

// cores deals out the engine's cores. Each evaluation takes one, which is its
// own to the end; cores that are idle are lent, for one test at a time, to
// evaluations with tests left to run.
//
// Invariants:
//
//	C1  A core is idle, somebody's own, or lent; never two of these.
//	C2  Nobody borrows while somebody waits for a core of his own, and for
//	    each who waits one loan is called back: its run is killed, not
//	    waited for.
//	C3  There are at least as many cores as evaluations at once, so who waits
//	    is served by what is called back.
type cores struct {
	mu        sync.Mutex
	idle      []*core
	waiting   []chan *core // in order; each has room for one
	loans     []*loan      // newest last
	borrowers []borrower
}

// loan is a core on its way back.
type loan struct {
	core   *core
	to     borrower
	cancel context.CancelCauseFunc
	called bool // back
}

// borrower is an evaluation that can use more cores.
type borrower interface {
	// claim picks a test to run, or none. It must not call cores.
	claim() (job, bool)
	// start runs the job on the core in the background, and then calls back.
	start(j job, c *core, back func())
}

// job is one test on its way.
type job struct {
	index  int
	ctx    context.Context
	cancel context.CancelCauseFunc
}

// take returns a core for the caller's own use, to be put back.
func (c *cores) take(ctx context.Context) (*core, error) {
	c.mu.Lock()
	if n := len(c.idle); n > 0 {
		got := c.idle[0]
		c.idle = c.idle[1:]
		c.mu.Unlock()
		return got, nil
	}
	w := make(chan *core, 1)
	c.waiting = append(c.waiting, w)
	c.callBack()
	c.mu.Unlock()
	select {
	case got := <-w:
		return got, nil
	case <-ctx.Done():
	}
	c.mu.Lock()
	if i := slices.Index(c.waiting, w); i >= 0 {
		c.waiting = slices.Delete(c.waiting, i, i+1)
	}
	c.mu.Unlock()
	select {
	case got := <-w: // it came at the same moment
		c.put(got)
	default:
	}
	return nil, context.Cause(ctx)
}

// callBack ends the loan that loses least: the newest. mu is held.
func (c *cores) callBack() {
	for _, l := range slices.Backward(c.loans) {
		if !l.called {
			l.called = true
			l.cancel(errGivenBack)
			return
		}
	}
}

// put gives a core back.
func (c *cores) put(got *core) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.waiting) > 0 {
		c.waiting[0] <- got
		c.waiting = c.waiting[1:]
		return
	}
	c.idle = append(c.idle, got)
	c.lend()
}

// join makes b a borrower, until leave.
func (c *cores) join(b borrower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.borrowers = append(c.borrowers, b)
	c.lend()
}

func (c *cores) leave(b borrower) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.borrowers = slices.DeleteFunc(c.borrowers, func(other borrower) bool { return other == b })
}

// lend gives idle cores to those who have borrowed least. mu is held, and
// nobody waits.
func (c *cores) lend() {
	for len(c.idle) > 0 && len(c.waiting) == 0 {
		order := slices.Clone(c.borrowers)
		slices.SortStableFunc(order, func(a, b borrower) int { return c.lentTo(a) - c.lentTo(b) })
		if !slices.ContainsFunc(order, c.lendTo) {
			return
		}
	}
}

func (c *cores) lentTo(b borrower) (n int) {
	for _, l := range c.loans {
		if l.to == b {
			n++
		}
	}
	return n
}

func (c *cores) lendTo(b borrower) bool {
	j, ok := b.claim()
	if !ok {
		return false
	}
	l := &loan{core: c.idle[0], to: b, cancel: j.cancel}
	c.idle = c.idle[1:]
	c.loans = append(c.loans, l)
	b.start(j, l.core, func() {
		c.mu.Lock()
		c.loans = slices.DeleteFunc(c.loans, func(other *loan) bool { return other == l })
		c.mu.Unlock()
		c.put(l.core)
	})
	return true
}

// makeCores makes a core for each slot and, with CPUs, for each physical core
// beyond that.
func (e *Engine) makeCores() {
	cpus := slices.Clone(e.cfg.CPUs)
	slices.SortStableFunc(cpus, func(a, b sandbox.CPU) int { return bit(a.Sibling) - bit(b.Sibling) })
	physical := 0
	for _, cpu := range cpus {
		physical += 1 - bit(cpu.Sibling)
	}
	pinner, canPin := e.cfg.Provider.(sandbox.Pinner)
	n := max(e.cfg.Slots, physical)
	if len(cpus) > 0 && n > len(cpus) {
		e.log.Warn("more slots than CPUs: they share them, and measured times suffer", "slots", n, "cpus", len(cpus))
	}
	for i := range n {
		c := &core{cpu: -1}
		open := e.cfg.Provider.Open
		if len(cpus) > 0 && canPin {
			cpu := cpus[i%len(cpus)]
			c.cpu, c.own = cpu.ID, cpu.Isolated && n <= len(cpus)
			open = func(ctx context.Context) (sandbox.Box, error) { return pinner.OpenOn(ctx, cpu.ID) }
		}
		box := func(kind sandbox.Profile) *lazyBox {
			return &lazyBox{open: open, memory: &e.memory, log: e.log, kind: kind}
		}
		c.run, c.compile, c.check = box(sandbox.ProfileRun), box(sandbox.ProfileCompile), box(sandbox.ProfileChecker)
		e.all = append(e.all, c)
	}
	e.cores.idle = slices.Clone(e.all)
}

func bit(b bool) int {
	if b {
		return 1
	}
	return 0
}
