package judge

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// lazyBox is a box that is opened when it is first used and replaced after a
// fault (E3). Each run waits for its share of the memory budget. It is used by
// one goroutine at a time.
type lazyBox struct {
	open   func(context.Context) (sandbox.Box, error)
	memory *memoryBudget
	log    *slog.Logger
	kind   sandbox.Profile
	box    sandbox.Box
}

// Run runs spec as sandbox.Box does.
func (b *lazyBox) Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	release, err := b.memory.acquire(ctx, spec.Limits.MemoryBytes)
	if err != nil {
		return sandbox.Result{}, err
	}
	defer release()
	return b.runGranted(ctx, spec)
}

// granted is a box whose memory is the caller's business: two that run together
// ask for theirs at once, before either begins (M3 of memoryBudget).
type granted struct{ *lazyBox }

func (b granted) Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	return b.runGranted(ctx, spec)
}

func (b *lazyBox) runGranted(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	if b.box == nil {
		box, err := b.open(ctx)
		if err != nil {
			return sandbox.Result{}, err
		}
		b.box = box
	}
	res, err := b.box.Run(ctx, spec)
	if _, ok := errors.AsType[*sandbox.Fault](err); ok {
		b.log.Warn("box replaced after a fault", "box", string(b.kind), "err", err)
		if err := b.Close(); err != nil {
			b.log.Warn("close faulty box", "box", string(b.kind), "err", err)
		}
	}
	return res, err
}

// Close closes the box if there is one.
func (b *lazyBox) Close() error {
	if b.box == nil {
		return nil
	}
	box := b.box
	b.box = nil
	return box.Close()
}
