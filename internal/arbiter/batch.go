package arbiter

import (
	"context"
	"sync"
)

// batcher gathers calls while the previous batch is being committed and does
// them in one statement: no timer, so at low load a batch is one call and
// costs nothing extra, and at high load one commit carries many.
type batcher[In, Out any] struct {
	// do carries out a batch and returns one answer for each input, in order.
	do  func(ctx context.Context, batch []In) ([]Out, error)
	max int

	mu      sync.Mutex
	waiting []*batched[In, Out]
	busy    bool
}

type batched[In, Out any] struct {
	in   In
	out  Out
	err  error
	done chan struct{}
}

// call waits for its turn and its answer. When ctx ends first the batch may
// still be carried out; callers must be able to repeat themselves.
func (b *batcher[In, Out]) call(ctx context.Context, in In) (Out, error) {
	item := &batched[In, Out]{in: in, done: make(chan struct{})}
	b.mu.Lock()
	b.waiting = append(b.waiting, item)
	lead := !b.busy
	b.busy = true
	b.mu.Unlock()
	if lead {
		// This caller carries batches out until none is waiting; its own
		// cancellation must not take the others with it.
		go b.drain(context.WithoutCancel(ctx))
	}
	select {
	case <-item.done:
		return item.out, item.err
	case <-ctx.Done():
		var zero Out
		return zero, context.Cause(ctx)
	}
}

func (b *batcher[In, Out]) drain(ctx context.Context) {
	for {
		b.mu.Lock()
		n := min(len(b.waiting), b.max)
		if n == 0 {
			b.busy = false
			b.mu.Unlock()
			return
		}
		batch := b.waiting[:n:n]
		b.waiting = b.waiting[n:]
		b.mu.Unlock()

		inputs := make([]In, n)
		for i, item := range batch {
			inputs[i] = item.in
		}
		outs, err := b.do(ctx, inputs)
		for i, item := range batch {
			if err != nil {
				item.err = err
			} else {
				item.out = outs[i]
			}
			close(item.done)
		}
	}
}
