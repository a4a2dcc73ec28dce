package arbiter

import (
	"context"
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const (
	// reclaimTick is how often memory is asked whether a lease may have
	// expired. The question costs no statement.
	reclaimTick = 250 * time.Millisecond
	// writeDownTick is how often signs of life of workers are written.
	writeDownTick = time.Second
)

// reclaimLoop takes leases back when they expire: as soon as memory suspects
// one, and in a full sweep that does not trust memory.
func (l *leadership) reclaimLoop(ctx context.Context) error {
	ticker := l.a.clock.NewTicker(reclaimTick)
	defer ticker.Stop()
	swept := l.a.clock.Now()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		now := l.a.clock.Now()
		full := now.Sub(swept) >= l.a.cfg.Lease.Sweep
		if !full && !l.anyDue(now) {
			continue
		}
		if err := l.reclaim(ctx); err != nil {
			if ctx.Err() == nil {
				l.a.log.Warn("reclaiming failed", "error", err)
			}
			continue
		}
		if full {
			swept = now
			l.rejudged.Store(true) // a crash between a result and the look at its rejudge is made good here
			if err := l.reconcile(ctx, now); err != nil && ctx.Err() == nil {
				l.a.log.Warn("comparing memory with the leases failed", "error", err)
			}
		}
	}
}

func (l *leadership) anyDue(now time.Time) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, h := range l.held {
		if !now.Before(h.due) {
			return true
		}
	}
	return false
}

// reclaim ends every expired lease, by the database's clock and under the term.
func (l *leadership) reclaim(ctx context.Context) error {
	fault := gavelapi.Fault{
		Blame:   gavelapi.BlameHost,
		Message: fmt.Sprintf("the worker was lost while judging, %d times in a row; look at the attempts, then retry", l.a.cfg.Lease.AttemptCap),
	}
	requeued, ended, err := l.a.db.Reclaim(ctx, store.ReclaimParams{
		Shard: shard, Term: l.term, AttemptCap: l.a.cfg.Lease.AttemptCap, Fault: mustJSON(fault),
	})
	if err != nil {
		return err
	}
	l.a.count.expired.Add(int64(len(requeued) + len(ended)))
	for _, r := range requeued {
		l.takenBack(ctx, r)
		l.a.log.Info("lease expired", "job_id", r.JobID, "kind", r.Kind, "submission_id", r.SubmissionID, "work_id", r.WorkID, "lease_gen", r.LeaseGen, "confirmed", r.Confirmed)
		l.a.watch.changed(subjectOf(r.Kind, r.SubmissionID, r.WorkID))
	}
	for _, r := range ended {
		l.mu.Lock()
		h := l.byJob[r.JobID]
		l.mu.Unlock()
		if h != nil {
			l.finish(h.token, r.JobID)
			if h.isProbe() {
				l.probeLost(ctx, h)
			} else {
				l.failed(h, health.Lost, "", "the lease ran out without an answer")
			}
		}
		if r.Kind != kindProbe {
			l.happened(alarm.AttemptCap, fmt.Sprintf("%s is a system error: its worker was lost %d times", workOf(r.Kind, r.SubmissionID, r.WorkID), l.a.cfg.Lease.AttemptCap), map[string]any{
				"job_id": r.JobID, "kind": r.Kind, "submission_id": r.SubmissionID, "message": fault.Message, "blame": fault.Blame,
			})
		}
		l.a.log.Error("system error: attempts used up by lost leases", "job_id", r.JobID, "kind", r.Kind, "submission_id", r.SubmissionID, "work_id", r.WorkID)
		if r.Kind == kindPrepare {
			l.a.stepEnded(ctx, r.WorkID)
		}
		l.a.watch.changed(subjectOf(r.Kind, r.SubmissionID, r.WorkID))
	}
	return nil
}

// takenBack puts a reclaimed job back to the waiting ones, unless memory did
// not know its lease (the scan finds the job) or knows the next one already:
// the dispatch loop may have been quicker than the answer to the reclaim.
func (l *leadership) takenBack(ctx context.Context, r *storedb.RequeueExpiredRow) {
	l.mu.Lock()
	h := l.byJob[r.JobID]
	l.mu.Unlock()
	switch {
	case h == nil || h.gen != r.LeaseGen:
	case h.isProbe():
		l.probeLost(ctx, h)
	case r.Confirmed:
		l.failed(h, health.Lost, "", "the lease ran out without an answer")
		l.requeue(h.token, r.JobID, r.LeaseGen, h.workerID)
	default:
		l.failed(h, health.Lost, "", "the lease was never confirmed")
		l.requeue(h.token, r.JobID, r.LeaseGen, 0)
	}
}

// reconcile drops leases that memory still counts but the table does not have
// (a cancel through another arbiter, a row changed by hand), and corrects when
// to look at the others.
func (l *leadership) reconcile(ctx context.Context, before time.Time) error {
	rows, err := l.a.q.LeasedJobs(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read leased jobs: %w", err)
	}
	now := l.a.clock.Now()
	l.mu.Lock()
	live := make(map[string]bool, len(rows))
	for _, r := range rows {
		live[r.Job.LeaseToken.String()] = true
		if h := l.held[*r.Job.LeaseToken]; h != nil {
			h.due = now.Add(time.Duration(r.LeftS * float64(time.Second)))
		}
	}
	dropped := 0
	for token, h := range l.held {
		if !live[token.String()] && h.registered.Before(before) {
			l.letGo(token)
			dropped++
		}
	}
	l.mu.Unlock()
	if dropped > 0 {
		l.poke()
	}
	return nil
}
