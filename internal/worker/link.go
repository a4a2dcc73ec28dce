package worker

import (
	"context"
	"errors"
	"math/rand/v2"
	"net/http"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/internal/clock"
)

// nagEvery is how often a lasting trouble is said again.
const nagEvery = time.Minute

// nag says a trouble when it starts and once a minute while it lasts.
type nag struct {
	clk clock.Clock

	mu    sync.Mutex
	since map[string]time.Time
	said  map[string]time.Time
}

func newNag(clk clock.Clock) *nag {
	return &nag{clk: clk, since: map[string]time.Time{}, said: map[string]time.Time{}}
}

// on notes that the trouble goes on. say is called when it is time to.
func (n *nag) on(trouble string, say func(lasting time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	now := n.clk.Now()
	if _, ok := n.since[trouble]; !ok {
		n.since[trouble] = now
	}
	if last, ok := n.said[trouble]; ok && now.Sub(last) < nagEvery {
		return
	}
	n.said[trouble] = now
	say(now.Sub(n.since[trouble]))
}

// off notes its end, and calls say when there was one.
func (n *nag) off(trouble string, say func(lasted time.Duration)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	since, ok := n.since[trouble]
	if !ok {
		return
	}
	delete(n.since, trouble)
	delete(n.said, trouble)
	say(n.clk.Now().Sub(since))
}

// ErrRefused is in the chain of Run's error when the arbiter knows this worker
// no more or does not want it (401, 403): asking again cannot help.
var ErrRefused = errors.New("the arbiter refuses this worker")

// ErrProtocol is in the chain of Run's error when the arbiter speaks another
// version of the protocol (426).
var ErrProtocol = errors.New("worker and arbiter are too far apart in version")

// returnSpread is over how long calls that waited for the arbiter are spread
// when it is back.
const returnSpread = time.Second

// answersAgain closes when an arbiter that was away answers any call. Take it
// before the call that may find it away.
func (w *Worker) answersAgain() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.answers
}

// rest is the pause before a call is repeated. It is cut short when the arbiter
// is back: a lease that waited for its result lives only for so long.
func (w *Worker) rest(ctx context.Context, d time.Duration, back <-chan struct{}) error {
	select {
	case <-w.clk.After(d):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-back:
		return client.Sleep(ctx, min(d, rand.N(returnSpread)))
	}
}

// heard looks at the outcome of a call: it notes whether the arbiter is there,
// and ends the agent when it is refused for good.
func (w *Worker) heard(op string, err error) {
	switch status := client.StatusOf(err); {
	case status == http.StatusUnauthorized || status == http.StatusForbidden:
		w.fail(errors.Join(ErrRefused, err))
	case status == http.StatusUpgradeRequired:
		w.fail(errors.Join(ErrProtocol, err))
	case err == nil || status != 0 && status < 500 && status != http.StatusTooManyRequests:
		away := false
		w.nag.off("arbiter", func(lasted time.Duration) {
			away = true
			w.log.Info("arbiter answers again", "away_ms", lasted.Milliseconds())
		})
		if away {
			w.mu.Lock()
			close(w.answers)
			w.answers = make(chan struct{})
			w.mu.Unlock()
		}
	default:
		if _, temporary := client.Temporary(err); temporary {
			w.nag.on("arbiter", func(lasting time.Duration) {
				w.log.Warn("arbiter does not answer; trying on, running work continues",
					"op", op, "error", err, "away_ms", lasting.Milliseconds())
			})
		}
	}
}
