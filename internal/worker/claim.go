package worker

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

const (
	claimWait = 25 * time.Second
	// drainRecheck is how often a drained worker asks whether it still is:
	// drain is a fact of the arbiter, and only its answers can end it.
	drainRecheck = 30 * time.Second
	// obstacleRecheck is how often a reason not to claim is looked at again.
	obstacleRecheck = 5 * time.Second
	maxCachedSent   = 256
)

// claimLoop asks for work whenever there is room for it, with one long-poll at
// a time for all free slots, until ctx ends.
func (w *Worker) claimLoop(ctx context.Context) {
	pause := client.NewPause(500*time.Millisecond, 10*time.Second) // a standby that becomes the leader has work at once
	var req *gavelapi.ClaimRequest
	known := false
	for {
		if req == nil {
			free, ok := w.waitForRoom(ctx)
			if !ok {
				return
			}
			select {
			case <-w.cfg.OfferChanged: // this claim says it already
			default:
			}
			req = &gavelapi.ClaimRequest{
				RequestID: uuid.NewString(), Session: w.state.session,
				Slots: free, TotalSlots: w.cfg.Slots, WaitMS: claimWait.Milliseconds(),
				Capabilities: w.cfg.Capabilities(), Cached: w.cache.digests(maxCachedSent),
			}
		}
		// A repeated claim keeps its id, so that an answer which was lost on
		// the way is given again instead of more leases.
		req.PreviousSession = w.state.previous()
		asked, back := w.clk.Now(), w.answersAgain()
		resp, outdated, err := w.claim(ctx, *req)
		if ctx.Err() != nil && err != nil {
			return
		}
		if outdated {
			// Asked once more under its id, without waiting: a grant that was
			// just being made for it is given again, and not lost for a while.
			req.WaitMS, req.Capabilities = 0, w.cfg.Capabilities()
			continue
		}
		w.heard("claim", err)
		if w.failed() {
			return
		}
		var wait time.Duration
		switch status := client.StatusOf(err); {
		case err == nil:
			if !known {
				known = true
				w.accepted()
			}
			w.accept(ctx, *req, resp)
			settled := req.WaitMS == 0
			req = nil
			if settled || len(resp.Leases) > 0 || w.clk.Now().Sub(asked) >= time.Second {
				pause.Reset()
				continue
			}
			wait = pause.Next(nil) // an arbiter that does not hold the claim must not be asked in a circle
		case status == http.StatusConflict:
			w.state.refused()
			wait = pause.Next(err)
			w.nag.on("conflict", func(lasting time.Duration) {
				w.log.Error("another live process works as this worker; claiming again until it is gone. "+
					"Each worker needs a name of its own, and a token of its own", "error", err, "lasting_ms", lasting.Milliseconds())
			})
		default:
			wait = pause.Next(err)
			if _, temporary := client.Temporary(err); !temporary {
				req = nil
				w.nag.on("claim", func(time.Duration) {
					w.log.Error("the arbiter does not understand this worker's claim", "error", err)
				})
			}
		}
		if w.rest(ctx, wait, back) != nil {
			return
		}
	}
}

// claim makes one call. It breaks off, outdated, when the worker can offer more
// than the call says: the arbiter would go by the old offer until it answers.
func (w *Worker) claim(ctx context.Context, req gavelapi.ClaimRequest) (resp *gavelapi.ClaimResponse, outdated bool, err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	watched := make(chan struct{})
	go func() {
		defer close(watched)
		select {
		case <-w.cfg.OfferChanged:
			cancel(errNewOffer)
		case <-ctx.Done():
		}
	}()
	resp, err = w.cfg.Client.Claim(ctx, req)
	cancel(nil)
	<-watched
	return resp, err != nil && errors.Is(context.Cause(ctx), errNewOffer), err
}

// errNewOffer ends the wait of a claim.
var errNewOffer = errors.New("the worker offers something new")

// accepted notes that the arbiter knows this session.
func (w *Worker) accepted() {
	w.nag.off("conflict", func(time.Duration) { w.log.Info("the other process is gone") })
	if err := w.state.accepted(); err != nil {
		w.log.Warn("the session cannot be remembered; the next start may have to wait for this one to expire", "error", err)
	}
}

// accept starts the leases of an answer.
func (w *Worker) accept(ctx context.Context, req gavelapi.ClaimRequest, resp *gavelapi.ClaimResponse) {
	received := w.clk.Now()
	w.nag.off("claim", func(time.Duration) {})
	w.obeyClaim(resp.Directives)
	room := req.Slots
	for _, l := range resp.Leases {
		w.mu.Lock()
		_, twice := w.runs[l.LeaseToken]
		w.mu.Unlock()
		switch {
		case twice:
			w.log.Error("the arbiter granted a lease twice in one process", "job", l.JobID)
		case ctx.Err() != nil:
			w.slots.Go(func() { w.release(l, "shutdown") })
		case room == 0 || l.LeaseToken == "" || l.TTLMS <= 0 || l.HeartbeatMS <= 0:
			w.log.Error("the arbiter granted a lease that this worker cannot take", "job", l.JobID, "free_slots", room, "ttl_ms", l.TTLMS)
			w.slots.Go(func() { w.release(l, "cannot") })
		default:
			room--
			w.log.Info("lease taken", "job", l.JobID, "gen", l.LeaseGen, "submission", l.SubmissionID, "problem", l.Problem, "language", l.Language)
			// Entered here and not in serve: the next claim counts it.
			w.reserve(l.LeaseToken)
			w.slots.Go(func() { w.serve(l, received) })
		}
	}
}

// reserve holds a slot for a lease that is about to be served (I4).
func (w *Worker) reserve(token string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.runs[token] = nil
}

// waitForRoom waits until a slot is free and nothing speaks against claiming,
// and returns how many are free; false when ctx ended.
func (w *Worker) waitForRoom(ctx context.Context) (int, bool) {
	for ctx.Err() == nil {
		w.mu.Lock()
		free, drained := w.cfg.Slots-len(w.runs), w.drainUntil.Sub(w.clk.Now())
		w.mu.Unlock()
		var again <-chan time.Time
		switch {
		case free <= 0:
		case drained > 0:
			again = w.clk.After(drained)
		default:
			why := w.obstacle()
			if why == "" {
				w.nag.off("obstacle", func(lasted time.Duration) {
					w.log.Info("claiming again", "paused_ms", lasted.Milliseconds())
				})
				return free, true
			}
			w.nag.on("obstacle", func(lasting time.Duration) {
				w.log.Error("not claiming", "reason", why, "lasting_ms", lasting.Milliseconds())
			})
			again = w.clk.After(obstacleRecheck)
		}
		select {
		case <-ctx.Done():
		case <-w.room:
		case <-again:
		}
	}
	return 0, false
}

// obeyClaim is obey for the answer to a claim, whose silence about drain means
// that there is none.
func (w *Worker) obeyClaim(d gavelapi.Directives) {
	w.mu.Lock()
	over := w.draining && !d.Drain
	if over {
		w.draining, w.drainUntil = false, time.Time{}
	}
	w.mu.Unlock()
	if over {
		w.log.Info("drain is over, claiming again")
	}
	w.obey(d)
}

// obey follows what the arbiter asks for in any answer. A cancelled job is
// not killed on the word of a directive, which names jobs and not leases and
// may be late: its lease is asked about at once, and a dead one answers 410.
func (w *Worker) obey(d gavelapi.Directives) {
	w.mu.Lock()
	news := d.Drain && !w.draining
	if d.Drain {
		w.draining, w.drainUntil = true, w.clk.Now().Add(drainRecheck)
	}
	var asked []*run
	for _, id := range d.Cancel {
		for _, r := range w.runs {
			if r != nil && r.lease.JobID == id {
				asked = append(asked, r)
			}
		}
	}
	busy := len(w.runs)
	w.mu.Unlock()
	if news {
		w.log.Info("the arbiter drains this worker: it finishes what runs and claims nothing", "busy", busy)
	}
	for _, r := range asked {
		r.keeper.poke()
	}
}
