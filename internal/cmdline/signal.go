package cmdline

import (
	"context"
	"os"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

// sameSignal is how soon after a signal to stop another of the same kind is
// still the same wish: timeout(1) signals its child and then the whole group,
// shells and service managers do likewise, and no person presses ^C so fast.
const sameSignal = 500 * time.Millisecond

// Wishes passes signals on, but one that comes again within half a second only
// once, unless it is none to stop. It ends when in is closed or ctx ends.
func Wishes(ctx context.Context, in <-chan os.Signal, clk clock.Clock, stops ...os.Signal) <-chan os.Signal {
	out := make(chan os.Signal, 8)
	go func() {
		defer close(out)
		last := map[os.Signal]time.Time{}
		for {
			select {
			case sig, ok := <-in:
				if !ok {
					return
				}
				now := clk.Now()
				before, again := last[sig]
				if again && now.Sub(before) < sameSignal {
					continue
				}
				for _, stop := range stops {
					if sig == stop {
						last[sig] = now
					}
				}
				select {
				case out <- sig:
				case <-ctx.Done():
					return
				}
			case <-ctx.Done():
				return
			}
		}
	}()
	return out
}

// UntilWish ends a context with the first signal, and calls atOnce with the
// second: whoever asks twice does not want to wait for an orderly end.
func UntilWish(parent context.Context, wishes <-chan os.Signal, atOnce func(os.Signal)) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(parent)
	quit, stop := context.WithCancel(parent)
	next := func() (os.Signal, bool) {
		select {
		case sig, ok := <-wishes:
			return sig, ok
		case <-quit.Done():
			return nil, false
		}
	}
	go func() {
		if _, ok := next(); !ok {
			return
		}
		cancel()
		if sig, ok := next(); ok {
			atOnce(sig)
		}
	}()
	return ctx, func() { stop(); cancel() }
}
