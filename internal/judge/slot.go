package judge

import (
	"context"
	"errors"
	"log/slog"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// slot is what one evaluation at a time works with.
type slot struct {
	run, compile, check *lazyBox
}

// lazyBox is a box that is opened when it is first used and replaced after a
// fault (E3). It is used by one goroutine at a time.
type lazyBox struct {
	provider sandbox.Provider
	log      *slog.Logger
	kind     sandbox.Profile
	box      sandbox.Box
}

// Run runs spec as sandbox.Box does.
func (b *lazyBox) Run(ctx context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
	if b.box == nil {
		box, err := b.provider.Open(ctx)
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
