package linuxbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

var errClosed = errors.New("the box is closed")

// box is one sandbox.Box: an index, and a slot that is replaced now and then.
type box struct {
	p     *Provider
	index int

	mu     sync.Mutex // guards the fields below against Close
	slot   *slot
	closed bool
}

// ensure returns a living slot.
func (b *box) ensure() (*slot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.closed {
		return nil, errClosed
	}
	if b.slot == nil {
		s, err := b.p.startSlot(b.index)
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

// Close implements sandbox.Box.
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
		err = s.end()
	}
	b.p.forget(b)
	return err
}

// Run implements sandbox.Box.
func (b *box) Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	if err := checkSpec(spec); err != nil {
		return sandbox.Result{}, err
	}
	if ctx.Err() != nil {
		return sandbox.Result{}, context.Cause(ctx)
	}
	s, err := b.readySlot()
	if err != nil {
		return sandbox.Result{}, err
	}
	s.runs++
	r := &hostRun{slot: s, spec: spec}
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
func (b *box) readySlot() (*slot, error) {
	s, err := b.ensure()
	if err != nil {
		return nil, err
	}
	if err = s.awaitClean(); err == nil {
		return s, nil
	}
	b.p.log.Warn("box slot unusable after a run", "slot", b.index, "err", err)
	b.retire(s, "not clean")
	if s, err = b.ensure(); err != nil {
		return nil, err
	}
	return s, s.awaitClean()
}

// hostRun is one run, seen from the host.
type hostRun struct {
	slot *slot
	spec *sandbox.Spec

	group          *runGroup
	stdout, stderr *collector
	readers        sync.WaitGroup
	broken         string // not empty: why the slot must be replaced
}

func (r *hostRun) run(ctx context.Context) (sandbox.Result, error) {
	req, fds, err := r.request()
	if err != nil {
		r.broken = "not prepared"
		return sandbox.Result{}, err
	}
	r.slot.clean = false
	err = sendPacket(r.slot.rx.sock, req.pack(), fdsOf(fds)...)
	closeAll(fds)
	if err != nil {
		r.broken = "run not sent"
		r.abandonOutput()
		return sandbox.Result{}, &sandbox.Fault{Op: "supervise", Err: fmt.Errorf("send run: %w", err)}
	}
	r.startReaders()
	out, files, err := r.await(ctx, req.wall)
	if err != nil {
		r.slot.kill() // no process may hold the pipes that the readers read
		r.broken = "lost"
		err = r.slot.lost(err)
	}
	r.readers.Wait()
	if err != nil {
		closeAll(files)
		if ctx.Err() != nil {
			err = context.Cause(ctx)
		}
		return sandbox.Result{}, err
	}
	return r.result(ctx, out, files)
}

// abandonOutput closes pipes that no reader will close.
func (r *hostRun) abandonOutput() {
	for _, c := range []*collector{r.stdout, r.stderr} {
		if c != nil {
			c.abandon()
		}
	}
}

func (r *hostRun) startReaders() {
	for _, c := range []*collector{r.stdout, r.stderr} {
		if c != nil {
			r.readers.Go(c.run)
		}
	}
}

// await waits for the outcome. Meanwhile it passes a cancelled context on, and
// ends a slot whose init does not answer.
func (r *hostRun) await(ctx context.Context, wall time.Duration) (*outcome, []*os.File, error) {
	done := make(chan struct{})
	var watcher sync.WaitGroup
	watcher.Go(func() {
		cancelled := ctx.Done()
		late := r.slot.p.clock.After(wall + 2*endGrace)
		for {
			select {
			case <-done:
				return
			case <-cancelled:
				cancelled = nil
				r.askKill(causeCancel)
			case <-late:
				r.slot.kill()
				return
			}
		}
	})
	defer watcher.Wait()
	defer close(done)

	kind, body, fds, err := r.slot.rx.next()
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "box file")
	}
	if err != nil {
		return nil, files, err
	}
	if kind != msgResult {
		return nil, files, fmt.Errorf("message %d from the box's init, want a result", kind)
	}
	out, err := unpackOutcome(body)
	return out, files, err
}

// askKill tells the init to end the run. The run may just have ended; the init
// ignores it then.
func (r *hostRun) askKill(c cause) {
	_ = sendPacket(r.slot.rx.sock, []byte{msgKill, byte(c)})
}
