package linuxbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

var errClosed = errors.New("the box is closed")

// box is one sandbox.Box: an index, and a slot that is replaced now and then.
type box struct {
	p     *Provider
	index int
	cpu   int // that it is pinned to, or -1

	// busy is held during a run: Close kills first and then waits for the run
	// to notice, so that no descriptor is closed under it.
	busy sync.Mutex

	mu     sync.Mutex // guards the fields below against Close
	slot   *slot
	closed bool
}

// ensure returns a living slot.
func (b *box) ensure(ctx context.Context) (*slot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.slot == nil {
		s, err := b.p.startSlot(ctx, b.index, b.cpu)
		if err != nil {
			return nil, err
		}
		b.slot = s
	}
	return b.slot, nil
}

// retire ends the slot; the next run starts another.
func (b *box) retire(s *slot, why string) {
	b.p.log.Debug("box slot replaced", "slot", b.index, "reason", why, "runs", s.runs)
	b.mu.Lock()
	if b.slot == s {
		b.slot = nil
	}
	b.mu.Unlock()
	if err := s.end(); err != nil {
		b.p.log.Warn("box slot not fully released", "slot", b.index, "err", err)
	}
}

// Close implements sandbox.Box. It may be called during a run, but not by one
// of the run's writers.
func (b *box) Close() error {
	b.mu.Lock()
	if b.closed {
		b.mu.Unlock()
		return nil
	}
	b.closed = true
	s := b.slot
	b.slot = nil
	b.mu.Unlock()
	var err error
	if s != nil {
		s.kill() // wakes a Run that is in progress
		b.busy.Lock()
		defer b.busy.Unlock()
		err = s.end()
	}
	b.p.forget(b)
	return err
}

// Run implements sandbox.Box.
func (b *box) Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	mounts, err := checkSpec(spec)
	if err != nil {
		return sandbox.Result{}, err
	}
	if ctx.Err() != nil {
		return sandbox.Result{}, context.Cause(ctx)
	}
	b.busy.Lock()
	defer b.busy.Unlock()
	s, err := b.readySlot(ctx)
	if err != nil {
		return sandbox.Result{}, err
	}
	s.runs++
	r := &hostRun{slot: s, spec: spec, mounts: mounts}
	res, err := r.run(ctx)
	switch {
	case r.broken != "":
		b.retire(s, r.broken)
	case s.runs >= b.p.cfg.MaxRuns:
		b.retire(s, "number of runs")
	}
	return res, err
}

// readySlot returns a slot that is clean. A slot that could not be cleaned is
// replaced once: that is the cure for it.
func (b *box) readySlot(ctx context.Context) (*slot, error) {
	s, err := b.ensure(ctx)
	if err != nil {
		return nil, err
	}
	if err = s.awaitClean(); err == nil {
		return s, nil
	}
	b.p.log.Warn("box slot unusable after a run", "slot", b.index, "err", err)
	b.retire(s, "not clean")
	if s, err = b.ensure(ctx); err != nil {
		return nil, err
	}
	return s, s.awaitClean()
}

// hostRun is one run, seen from the host.
type hostRun struct {
	slot   *slot
	spec   *sandbox.Spec
	mounts []mountID // of spec

	group          *runGroup
	copies         []int      // of the caller's descriptors
	stdout, stderr *collector // stdout is nil when it is the caller's descriptor
	broken         string     // not empty: why the slot must be replaced
	asleep         time.Duration
}

func (r *hostRun) run(ctx context.Context) (sandbox.Result, error) {
	defer r.closeOutput()
	req, stdio, files, err := r.request()
	if err != nil {
		r.closeCopies()
		r.broken = "not prepared"
		return sandbox.Result{}, err
	}
	r.slot.clean = false
	err = sendPacket(r.slot.rx.sock, req.pack(), append(stdio, fdsOf(files)...)...)
	r.closeCopies()
	closeAll(files)
	if err != nil {
		r.broken = "run not sent"
		return sandbox.Result{}, r.slot.lost(err)
	}
	if r.spec.Started != nil {
		r.spec.Started()
	}
	defer r.listen()()
	wake := r.watchSleep()
	asked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(asked)
		r.askKill(causeCancel)
	})
	out, got, err := r.await((1+maxCredit)*req.wall + 2*endGrace)
	wake()
	if !stop() {
		<-asked // or it could meet the next run
	}
	if err != nil {
		closeAll(got)
		r.broken = "lost"
		err = r.slot.lost(err)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return sandbox.Result{}, err
	}
	return r.result(ctx, out, got)
}

// closeOutput leaves the pipes to be closed while the next program runs, unless
// there will be none in this slot.
func (r *hostRun) closeOutput() {
	for _, c := range r.collectors() {
		if r.broken != "" {
			c.close()
		} else if c.read >= 0 {
			r.slot.pipes.last = append(r.slot.pipes.last, c.read, c.write)
		}
	}
}

func (r *hostRun) collectors() (list []*collector) {
	for _, c := range []*collector{r.stdout, r.stderr} {
		if c != nil {
			list = append(list, c)
		}
	}
	return list
}

// callersLimits are the causes of limits that the caller enforces.
var callersLimits = map[sandbox.Limit]cause{
	sandbox.LimitCPU: causeCPU, sandbox.LimitWall: causeWall, sandbox.LimitMemory: causeMemory, sandbox.LimitOutput: causeOutput,
}

// listen ends the run with a limit that the caller enforces, until stop has
// returned: after that it could meet the next run.
func (r *hostRun) listen() (stop func()) {
	if r.spec.Enforce == nil {
		return func() {}
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		select {
		case limit := <-r.spec.Enforce:
			r.askKill(callersLimits[limit])
		case <-quit:
		}
	}()
	return func() {
		close(quit)
		<-done
	}
}

// askKill tells the init to end the run. The run may just have ended; the init
// ignores it then.
func (r *hostRun) askKill(c cause) {
	_ = sendPacket(r.slot.rx.sock, []byte{msgKill, byte(c)})
}
