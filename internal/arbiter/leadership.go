package arbiter

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

// leadership is one term: the session with the lock and everything in memory.
// All of it is dropped when the term ends.
type leadership struct {
	a         *Arbiter
	conn      *pgx.Conn
	term      int64
	renewedAt atomic.Pointer[time.Time] // when the last successful renewal was sent

	// kick wakes the dispatch loop; it holds at most one wake-up.
	kick chan struct{}
	// over is closed when the term ends; waiting claims are then answered.
	over chan struct{}
	// stale asks the loop to rebuild memory because a commit's answer was lost.
	stale atomic.Bool
	// rejudged asks the write-down loop to look for rejudges that are done.
	rejudged atomic.Bool

	mu       sync.Mutex
	queue    dispatch.Queue
	failedBy map[int64][]int64         // open job → workers that failed or lost it
	granting map[int64]struct{}        // jobs out of the queue whose grant is being committed
	held     map[uuid.UUID]*held       // live leases by token
	byJob    map[int64]*held           // the same by job
	holders  map[int64]map[int64]*held // the same by worker and job
	presence map[int64]*presence       // workers seen in this term
	waiters  []*waiter                 // in order of arrival
	// loopedAt is when the dispatch loop last came round; readiness looks at it.
	loopedAt time.Time
}

// Lanes that jobs are in today.
const (
	laneJudge   = "judge"
	laneRejudge = "rejudge"
)

// held is a live lease as far as memory knows; the row decides.
type held struct {
	jobID, submissionID, gen int64
	token, session, request  uuid.UUID
	workerID                 int64
	lane, language           string
	// due is when the row may have expired, by our monotonic clock. It only
	// schedules a look at the row.
	due        time.Time
	registered time.Time
	progress   *gavelapi.Progress
}

// presence is what a worker's calls in this term say about it.
type presence struct {
	worker  dispatch.Worker
	session uuid.UUID
	slots   int
	caps    gavelapi.Capabilities
	seenAt  time.Time
	dirty   bool // to be written down
	changed bool // session, slots or capabilities are to be written, too
}

func newLeadership(a *Arbiter, conn *pgx.Conn, term int64, renewedAt time.Time) *leadership {
	l := &leadership{
		a: a, conn: conn, term: term, kick: make(chan struct{}, 1), over: make(chan struct{}),
		granting: map[int64]struct{}{}, presence: map[int64]*presence{}, loopedAt: renewedAt,
	}
	l.renewedAt.Store(&renewedAt)
	l.forgetLeases()
	return l
}

// mayAnswer says whether answers from memory are still allowed: a leader that
// has not renewed for a while must assume that it was replaced.
func (l *leadership) mayAnswer() bool {
	return l.a.clock.Now().Sub(*l.renewedAt.Load()) < l.a.cfg.Leader.Answer
}

// run leads until ctx ends (nil) or leadership is lost (why).
func (l *leadership) run(ctx context.Context) error {
	group, gctx := errgroup.WithContext(ctx)
	group.Go(func() error { return l.keepLeading(gctx) })
	group.Go(func() error { return l.dispatchLoop(gctx) })
	group.Go(func() error { return l.reclaimLoop(gctx) })
	group.Go(func() error { return l.writeDownLoop(gctx) })
	l.poke()
	err := group.Wait()
	if err == nil {
		l.resign(ctx)
	}
	return err
}

// end answers every waiting claim and closes the session, which frees the lock.
func (l *leadership) end(ctx context.Context) {
	close(l.over)
	closeSoon(ctx, l.conn)
}

// poke wakes the dispatch loop.
func (l *leadership) poke() {
	select {
	case l.kick <- struct{}{}:
	default: // a wake-up is pending already
	}
}

func (l *leadership) forgetLeases() {
	l.queue = dispatch.Queue{}
	l.failedBy = map[int64][]int64{}
	l.held = map[uuid.UUID]*held{}
	l.byJob = map[int64]*held{}
	l.holders = map[int64]map[int64]*held{}
}

// rebuild reads memory anew. Waiting claims and presence stay.
func (l *leadership) rebuild(ctx context.Context) error {
	failed, err := l.a.q.FailedAttemptsOfOpenJobs(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read failed attempts: %w", err)
	}
	leased, err := l.a.q.LeasedJobs(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read leased jobs: %w", err)
	}
	pending, err := l.a.q.PendingJobs(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read pending jobs: %w", err)
	}
	now := l.a.clock.Now()
	l.mu.Lock()
	defer l.mu.Unlock()
	l.forgetLeases()
	for _, f := range failed {
		l.failedBy[f.JobID] = append(l.failedBy[f.JobID], f.WorkerID)
	}
	for _, j := range leased {
		l.hold(&held{
			jobID: j.ID, submissionID: j.SubmissionID, gen: j.LeaseGen, token: *j.LeaseToken,
			session: *j.Session, request: *j.RequestID, workerID: *j.WorkerID,
			lane: j.Lane, language: j.Language, registered: now,
			due: now.Add(time.Duration(j.LeftS * float64(time.Second))),
		})
	}
	for _, j := range pending {
		l.enqueue(j.ID, j.LeaseGen, j.Lane, j.Language)
	}
	return nil
}

// The following need l.mu.

func (l *leadership) enqueue(jobID, gen int64, lane, language string) {
	if _, busy := l.granting[jobID]; busy {
		return
	}
	rank := dispatch.RankLive
	if lane == laneRejudge {
		rank = dispatch.RankRejudge
	}
	l.queue.Add(dispatch.Job{ID: jobID, Gen: gen, Rank: rank, Language: language, FailedBy: l.failedBy[jobID]})
}

func (l *leadership) hold(h *held) {
	l.held[h.token] = h
	l.byJob[h.jobID] = h
	if l.holders[h.workerID] == nil {
		l.holders[h.workerID] = map[int64]*held{}
	}
	l.holders[h.workerID][h.jobID] = h
}

// letGo forgets a lease; nil when memory did not know it.
func (l *leadership) letGo(token uuid.UUID) *held {
	h := l.held[token]
	if h == nil {
		return nil
	}
	delete(l.held, token)
	if l.byJob[h.jobID] == h {
		delete(l.byJob, h.jobID)
	}
	if l.holders[h.workerID][h.jobID] == h { // else the worker holds the job again, by a later lease
		delete(l.holders[h.workerID], h.jobID)
	}
	if len(l.holders[h.workerID]) == 0 {
		delete(l.holders, h.workerID)
	}
	return h
}

// onlineFor is how long after its last call a worker counts as online. An idle
// worker's claim is always waiting here, a busy one heartbeats.
const onlineFor = 15 * time.Second

// online lists workers that are waiting now or were seen a moment ago.
func (l *leadership) online(now time.Time) []dispatch.Worker {
	workers := make([]dispatch.Worker, 0, len(l.presence))
	for id, p := range l.presence {
		if now.Sub(p.seenAt) < onlineFor || l.waitingClaim(id) {
			workers = append(workers, p.worker)
		}
	}
	return workers
}

func (l *leadership) waitingClaim(workerID int64) bool {
	for _, w := range l.waiters {
		if w.worker.ID == workerID {
			return true
		}
	}
	return false
}
