package worker

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// errLost is in the cause of a run whose lease is dead: nothing of it may be
// reported as if it were alive.
var errLost = errors.New("lease lost")

// maxHeartbeatWait bounds one heartbeat call; a shorter TTL shortens it.
const maxHeartbeatWait = 10 * time.Second

// keeper keeps one lease alive. It runs beside everything else that happens
// for the lease, waits for nothing of it, and decides alone whether the lease
// is still ours:
//
//	unconfirmed ──200──▶ confirmed ──410, or TTL−margin unanswered──▶ lost
//	     └────────410, or TTL−margin after the claim──────────────────▶ lost
//
// The time of the last answered heartbeat is the time it was sent: whatever
// happened on the way there and back, the arbiter extended the lease later
// than that.
type keeper struct {
	w         *Worker
	lease     gavelapi.Lease
	received  time.Time // of the claim's answer
	confirmed chan struct{}
	poked     chan struct{}
	silenced  chan struct{}
	silence   func()                  // stop heartbeating, the lease may expire
	gone      chan struct{}           // closed when the lease is lost
	kill      context.CancelCauseFunc // ends the run
	progress  func() *gavelapi.Progress
}

func newKeeper(w *Worker, l gavelapi.Lease, received time.Time, kill context.CancelCauseFunc, progress func() *gavelapi.Progress) *keeper {
	k := &keeper{
		w: w, lease: l, received: received, kill: kill, progress: progress, gone: make(chan struct{}),
		confirmed: make(chan struct{}), poked: make(chan struct{}, 1), silenced: make(chan struct{}),
	}
	k.silence = sync.OnceFunc(func() { close(k.silenced) })
	return k
}

// poke asks for a heartbeat now.
func (k *keeper) poke() {
	select {
	case k.poked <- struct{}{}:
	default:
	}
}

// margin is how long before the arbiter's expiry the agent stops by itself.
func margin(ttl time.Duration) time.Duration { return min(ttl/10, 5*time.Second) }

func (k *keeper) lost(reason string) {
	k.kill(fmt.Errorf("%w: %s", errLost, reason))
	close(k.gone)
}

type beat struct {
	resp *gavelapi.HeartbeatResponse
	err  error
}

// keep runs until ctx ends or the lease is lost.
func (k *keeper) keep(ctx context.Context) {
	clk := k.w.clk
	ttl := time.Duration(k.lease.TTLMS) * time.Millisecond
	period := time.Duration(k.lease.HeartbeatMS) * time.Millisecond
	callLimit := min(maxHeartbeatWait, ttl/4)
	soon := client.NewPause(period/20, period)

	// The call is made by a goroutine of its own, so that neither a slow
	// answer nor a dead connection delays the moment of giving up.
	answers := make(chan beat, 1)
	var calls sync.WaitGroup
	defer calls.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()

	end := k.received.Add(ttl - margin(ttl))
	next := clk.Now()
	var sent time.Time // of the last heartbeat
	confirmed, inFlight, again, silent := false, false, false, false
	for {
		var due <-chan time.Time
		if !inFlight && !silent {
			due = clk.After(next.Sub(clk.Now()))
		}
		silenced := k.silenced
		if silent {
			silenced = nil
		}
		select {
		case <-ctx.Done():
			return
		case <-clk.After(end.Sub(clk.Now())):
			k.lost("no heartbeat was answered in time")
			return
		case <-silenced:
			silent = true
		case <-k.poked:
			// Not at any rate: an arbiter may repeat itself in each answer.
			next, again = later(clk.Now(), sent.Add(period/5)), inFlight
		case <-due:
			inFlight, sent = true, clk.Now()
			req := gavelapi.HeartbeatRequest{LeaseToken: k.lease.LeaseToken, Progress: k.progress()}
			calls.Go(func() {
				callCtx, cancelCall := context.WithTimeout(ctx, callLimit)
				defer cancelCall()
				resp, err := k.w.cfg.Client.Heartbeat(callCtx, req)
				if err != nil && callCtx.Err() != nil && ctx.Err() == nil {
					// To the client the end of our time is our own doing.
					err = &client.Unreachable{Op: "heartbeat", Err: fmt.Errorf("nothing came within %v", callLimit)}
				}
				answers <- beat{resp: resp, err: err}
			})
		case b := <-answers:
			inFlight = false
			next = sent.Add(period)
			if ctx.Err() != nil {
				return
			}
			k.w.heard("heartbeat", b.err)
			switch {
			case b.err == nil:
				left := ttl
				if b.resp.TTLMS > 0 {
					left = time.Duration(b.resp.TTLMS) * time.Millisecond
				}
				end = sent.Add(left - margin(ttl))
				if !confirmed {
					confirmed = true
					close(k.confirmed)
				}
				k.w.obey(b.resp.Directives)
			case client.StatusOf(b.err) == http.StatusGone:
				k.lost(goneReason(b.err))
				return
			case !confirmed:
				// The arbiter gives an unconfirmed lease back soon.
				next = clk.Now().Add(soon.Next(nil))
			}
			if again {
				next, again = later(clk.Now(), sent.Add(period/5)), false
			}
		}
	}
}

func later(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

func goneReason(err error) string {
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok && p.Reason != "" {
		return p.Reason
	}
	return gavelapi.LeaseUnknown
}
