package arbiter

import (
	"context"
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// idempotencyKeysKept is how long a repeated Idempotency-Key is recognised.
const idempotencyKeysKept = 24 * time.Hour

// outputsKept is how long it can be read what was written in failed tests.
const outputsKept = 30 * 24 * time.Hour

// runsSweptEvery is how often runs past their time are deleted. Nobody sees
// them in between.
const runsSweptEvery = 10 * time.Second

// writeDownLoop writes what the calls of the last second said of workers and
// why work waits, away from the path of any answer, and deletes what is past its time: runs, and old
// idempotency keys once an hour.
func (l *leadership) writeDownLoop(ctx context.Context) error {
	ticker := l.a.clock.NewTicker(writeDownTick)
	defer ticker.Stop()
	cleaned, swept := time.Time{}, time.Time{}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		if err := l.writeDown(ctx); err != nil && ctx.Err() == nil {
			l.a.log.Warn("writing down signs of life failed", "error", err)
		}
		if err := l.writeHealth(ctx); err != nil && ctx.Err() == nil {
			l.a.log.Warn("writing down the health of workers failed", "error", err)
		}
		if err := l.writeReasons(ctx); err != nil && ctx.Err() == nil {
			l.a.log.Warn("writing down why work waits failed", "error", err)
		}
		if l.rejudged.Swap(false) {
			if err := l.finishRejudges(ctx); err != nil && ctx.Err() == nil {
				l.rejudged.Store(true) // again at the next tick
				l.a.log.Warn("closing finished rejudges failed", "error", err)
			}
		}
		if now := l.a.clock.Now(); now.Sub(swept) > runsSweptEvery {
			swept = now
			if _, err := l.a.q.DeleteExpiredRuns(ctx, l.a.db.Pool); err != nil && ctx.Err() == nil {
				l.a.log.Warn("deleting expired runs failed", "error", err)
			}
			lost := mustJSON(gavelapi.Fault{Blame: gavelapi.BlameHost, Message: "its worker was lost, and its job with it; run it again"})
			if _, err := l.a.q.EndOrphanedRuns(ctx, l.a.db.Pool, lost); err != nil && ctx.Err() == nil {
				l.a.log.Warn("ending orphaned runs failed", "error", err)
			}
			if err := l.a.settleAll(ctx); err != nil && ctx.Err() == nil {
				l.a.log.Warn("taking preparations on failed", "error", err)
			}
		}
		if now := l.a.clock.Now(); now.Sub(cleaned) > time.Hour {
			cleaned = now
			if _, err := l.a.q.DeleteOldIdempotencyKeys(ctx, l.a.db.Pool, idempotencyKeysKept); err != nil && ctx.Err() == nil {
				l.a.log.Warn("dropping old idempotency keys failed", "error", err)
			}
			if _, err := l.a.q.DropOldOutputs(ctx, l.a.db.Pool, outputsKept); err != nil && ctx.Err() == nil {
				l.a.log.Warn("dropping old outputs of tests failed", "error", err)
			}
			if _, err := l.a.q.DropOldAlarms(ctx, l.a.db.Pool, alarmsKept); err != nil && ctx.Err() == nil {
				l.a.log.Warn("dropping old alarms failed", "error", err)
			}
			if _, err := l.a.q.DropOldDeliveries(ctx, l.a.db.Pool, deliveriesKept); err != nil && ctx.Err() == nil {
				l.a.log.Warn("dropping old webhook deliveries failed", "error", err)
			}
			if _, err := l.a.q.DropOldSecrets(ctx, l.a.db.Pool); err != nil && ctx.Err() == nil {
				l.a.log.Warn("dropping old webhook secrets failed", "error", err)
			}
			if _, err := l.a.q.DropOldProbes(ctx, l.a.db.Pool, probesKept); err != nil && ctx.Err() == nil {
				l.a.log.Warn("dropping old probes failed", "error", err)
			}
		}
	}
}

func (l *leadership) writeDown(ctx context.Context) error {
	var see storedb.SeeWorkersParams
	var touch []int64
	l.mu.Lock()
	for id, p := range l.presence {
		switch {
		case p.changed:
			see.Ids = append(see.Ids, id)
			see.Sessions = append(see.Sessions, p.session)
			see.Slots = append(see.Slots, int32(p.slots))
			see.Capabilities = append(see.Capabilities, mustJSON(p.caps))
		case p.dirty || l.board.HasClaim(id):
			touch = append(touch, id)
		}
		p.dirty, p.changed = false, false
	}
	l.mu.Unlock()
	if len(see.Ids) > 0 {
		if _, err := l.a.q.SeeWorkers(ctx, l.a.db.Pool, &see); err != nil {
			return fmt.Errorf("write %d workers: %w", len(see.Ids), err)
		}
	}
	if len(touch) > 0 {
		if _, err := l.a.q.TouchWorkers(ctx, l.a.db.Pool, touch); err != nil {
			return fmt.Errorf("touch %d workers: %w", len(touch), err)
		}
	}
	return nil
}
