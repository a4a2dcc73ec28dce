package arbiter

import (
	"context"
	"encoding/json"
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const (
	// grantBatch bounds what one statement may hold, so that overload bends
	// the curve instead of breaking it.
	grantBatch = 200
	// scanEvery is how often the loop looks for work that nobody told it of:
	// inserts of other arbiters and of sites' own transactions.
	scanEvery = 2 * time.Second
)

// dispatchLoop matches waiting work with waiting claims whenever either
// changes. It is the only place that grants.
func (l *leadership) dispatchLoop(ctx context.Context) error {
	scan := l.a.clock.NewTicker(scanEvery)
	defer scan.Stop()
	var again <-chan time.Time // when something that is kept for somebody is to be looked at
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-l.kick:
		case <-again:
		case <-scan.C:
			l.scanDue.Store(true)
		}
		if l.scanDue.Swap(false) {
			if err := l.scan(ctx); err != nil && ctx.Err() == nil {
				l.a.log.Warn("scanning for pending work failed", "error", err)
			}
		}
		if l.stale.Load() {
			if err := l.rebuild(ctx); err != nil {
				l.a.log.Warn("rebuilding memory failed; granting waits", "error", err)
				l.noteLoop()
				continue // the next scan tick tries again
			}
			l.stale.Store(false)
		}
		wake, err := l.grantAll(ctx)
		if err != nil {
			return err
		}
		again = nil
		if !wake.IsZero() {
			again = l.a.clock.After(wake.Sub(l.a.clock.Now()))
		}
		l.noteLoop()
	}
}

// noteLoop says that the loop comes round: the watchdog's only sign of life.
func (l *leadership) noteLoop() {
	now := l.a.clock.Now()
	l.loopedAt.Store(&now)
}

// scan adds pending work that memory does not know, and takes over what was
// said of workers.
func (l *leadership) scan(ctx context.Context) error {
	if err := l.muster(ctx); err != nil {
		return err
	}
	keys, err := l.a.q.PendingJobKeys(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("look for pending jobs: %w", err)
	}
	unknown := l.unknown(keys)
	if len(unknown) == 0 {
		return nil
	}
	pending, err := l.a.q.PendingJobsOf(ctx, l.a.db.Pool, unknown)
	if err != nil {
		return fmt.Errorf("read pending jobs: %w", err)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, j := range pending {
		if h := l.byJob[j.ID]; h != nil && h.gen > j.LeaseGen {
			continue // granted since the scan read it
		}
		l.enqueue(jobOf(j))
	}
	return nil
}

// unknown lists the waiting jobs that memory does not know as they are.
func (l *leadership) unknown(keys []*storedb.PendingJobKeysRow) (ids []int64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, k := range keys {
		lane, _ := dispatch.ParseLane(k.Lane)
		if !l.board.Knows(k.ID, k.LeaseGen, lane, int(k.Priority)) {
			ids = append(ids, k.ID)
		}
	}
	return ids
}

// plannedGrant is one row of a grant batch.
type plannedGrant struct {
	job    dispatch.Job
	waiter *waiter
	token  uuid.UUID
}

// grantAll grants until nothing matches any more. wake is when to look again
// at what is kept for a preferred worker.
func (l *leadership) grantAll(ctx context.Context) (wake time.Time, err error) {
	for again := true; again; {
		if again, wake, err = l.grantOnce(ctx); err != nil {
			return wake, err
		}
		l.noteLoop() // under load this takes long, and is no standstill
	}
	return wake, nil
}

// grantOnce matches once and commits what was matched. It says whether there
// may be more to do at once. An error means that this leadership must end.
func (l *leadership) grantOnce(ctx context.Context) (again bool, wake time.Time, err error) {
	plan, wake := l.plan()
	if len(plan) == 0 {
		return false, wake, nil
	}
	params := storedb.GrantLeasesParams{Confirm: l.a.cfg.Lease.Confirm, Shard: shard, Term: l.term}
	for _, g := range plan {
		params.JobIds = append(params.JobIds, g.job.ID)
		params.LeaseGens = append(params.LeaseGens, g.job.Gen)
		params.LeaseTokens = append(params.LeaseTokens, g.token)
		params.WorkerIds = append(params.WorkerIds, g.waiter.workerID)
		params.Sessions = append(params.Sessions, g.waiter.session)
		params.RequestIds = append(params.RequestIds, g.waiter.request)
	}
	rows, err := l.a.q.GrantLeases(ctx, l.a.db.Hot, &params)
	if err != nil {
		// The waiters are sent away; their retry carries the same request id.
		l.a.log.Warn("granting failed", "jobs", len(plan), "error", err)
		l.failPlan(plan, unavailable(err, "grant a lease"))
		if store.InDoubt(err) && ctx.Err() == nil {
			// It may have happened, and, what no reading can tell, may yet
			// happen. A new term fences it or waits for it (I4, I8).
			return false, wake, fmt.Errorf("the outcome of a grant is not known: %w", err)
		}
		return false, wake, nil // and memory is read anew
	}
	l.settle(plan, rows, l.payloads(ctx, rows))
	return true, wake, nil
}

// plan matches under the lock. What it returns is out of the queue and in its
// workers' hands as far as dispatch is concerned.
func (l *leadership) plan() (plan []plannedGrant, wake time.Time) {
	l.mu.Lock()
	defer l.mu.Unlock()
	grants, wake := l.a.match(l.board, l.a.clock.Now(), grantBatch)
	for _, g := range grants {
		w := l.waiters[g.Claim]
		w.inFlight++
		plan = append(plan, plannedGrant{job: g.Job, waiter: w, token: uuid.New()})
	}
	return plan, wake
}

func (l *leadership) failPlan(plan []plannedGrant, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, g := range plan {
		l.board.Release(g.job.ID, g.job.Gen, l.a.clock.Now())
		g.waiter.inFlight = 0
		l.answer(g.waiter, nil, err)
	}
	l.stale.Store(true)
}

// settle registers what was granted and answers the waiters that got something.
func (l *leadership) settle(plan []plannedGrant, rows []*storedb.GrantLeasesRow, more payloads) {
	granted := make(map[int64]*storedb.GrantLeasesRow, len(rows))
	for _, r := range rows {
		granted[r.JobID] = r
	}
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	leases := map[*waiter][]gavelapi.Lease{}
	sizes := map[*waiter]int{}
	for _, g := range plan {
		g.waiter.inFlight--
		r := granted[g.job.ID]
		if r == nil {
			l.board.Release(g.job.ID, g.job.Gen, now)
			continue // cancelled, or taken otherwise: the scan knows better
		}
		if g.job.Lane != dispatch.Probe {
			l.grants++
		}
		l.hold(&held{
			jobID: r.JobID, submissionID: r.SubmissionID, kind: r.Kind, workID: r.WorkID, gen: r.LeaseGen, token: g.token,
			session: g.waiter.session, request: g.waiter.request, workerID: g.waiter.workerID,
			job: g.job, registered: now, due: now.Add(l.a.cfg.Lease.Confirm),
		})
		l.a.watch.changed(subjectOf(r.Kind, r.SubmissionID, r.WorkID))
		lease, ok := l.a.leaseFor(r, g.token, more)
		if sizes[g.waiter] += payloadBytes(lease); !ok || sizes[g.waiter] > maxClaimPayload {
			continue // not told of, it is not confirmed, and comes back at no cost
		}
		leases[g.waiter] = append(leases[g.waiter], lease)
	}
	l.a.count.granted.Add(int64(len(rows)))
	for w, got := range leases {
		l.answer(w, got, nil)
	}
	for _, g := range plan {
		switch w := g.waiter; {
		case leases[w] != nil:
		case w.callers == 0 && w.inFlight == 0:
			l.answer(w, nil, nil) // it gave up meanwhile and got nothing
		case granted[g.job.ID] == nil && w.inFlight == 0:
			// What it was to get was another's already: it waits on, for all it asked.
			l.board.RemoveClaim(w.id, now)
			l.board.AddClaim(dispatch.Claim{ID: w.id, Worker: w.workerID, Slots: w.slots}, now)
		}
	}
}

// leaseFor puts a granted row into the words of the API; false when what it
// needs beside the row is not there.
func (a *Arbiter) leaseFor(r *storedb.GrantLeasesRow, token uuid.UUID, more payloads) (gavelapi.Lease, bool) {
	lease := gavelapi.Lease{
		JobID: r.JobID, Kind: r.Kind, Attempt: int(r.Attempts), LeaseToken: token.String(), LeaseGen: r.LeaseGen,
		TTLMS:        a.cfg.Lease.TTL.Milliseconds(),
		ConfirmMS:    a.cfg.Lease.Confirm.Milliseconds(),
		HeartbeatMS:  a.cfg.Lease.Heartbeat.Milliseconds(),
		SubmissionID: r.SubmissionID, Language: r.Language, SourceName: r.SourceName, Source: r.Source,
		Problem: r.Problem, PackageDigest: r.PackageDigest, StopRule: r.StopRule,
	}
	if r.Kind == kindRun {
		ok := a.addRun(&lease, more.runs[r.WorkID])
		return lease, ok
	}
	if r.Kind == kindPrepare {
		ok := a.addPrepare(&lease, more.steps[r.WorkID])
		return lease, ok
	}
	for i, name := range r.FileNames {
		lease.Files = append(lease.Files, gavelapi.LeaseFile{Name: name, Content: r.FileContents[i]})
	}
	if err := json.Unmarshal(r.Limits, &lease.Limits); err != nil {
		a.log.Error("stored limits cannot be read", "submission_id", r.SubmissionID, "error", err)
	}
	return lease, true
}
