package arbiter

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"golang.org/x/sync/errgroup"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// leadership is one term: the session with the lock and everything in memory.
// All of it is dropped when the term ends.
type leadership struct {
	a         *Arbiter
	conn      *pgx.Conn
	locked    bool // conn holds the leader lock; renew alone uses it
	term      int64
	renewedAt atomic.Pointer[time.Time] // when the last successful renewal was sent

	// kick wakes the dispatch loop; it holds at most one wake-up.
	kick chan struct{}
	// over is closed when the term ends; waiting claims are then answered.
	over chan struct{}
	// stale asks the loop to rebuild memory because a commit's answer was lost.
	stale atomic.Bool
	// scanDue asks the loop to look for work that memory was not told of.
	scanDue atomic.Bool
	// rejudged asks the write-down loop to look for rejudges that are done.
	rejudged atomic.Bool
	// loopedAt is when the dispatch loop last came round. Who watches over the
	// loop reads it without l.mu, which a loop that is stuck may hold.
	loopedAt atomic.Pointer[time.Time]
	lookedAt atomic.Pointer[time.Time] // when somebody last looked for alarms
	looks    atomic.Int32              // that wait for l.mu
	oldest   atomic.Pointer[[]alarm.Oldest]
	backlog  atomic.Int64                   // webhook messages that wait
	messages atomic.Bool                    // some may wait, or be due again
	diskFull atomic.Bool                    // the database's
	edge     atomic.Pointer[map[int64]bool] // workers straight on the database, whose work memory does not see
	eventsMu sync.Mutex
	events   []alarm.Event // since the last look of the watching loop

	// reasons is what waiting_reasons holds, nil before it was read. Only the
	// write-down loop uses it.
	reasons map[reasonKey]said

	mu         sync.Mutex
	board      *dispatch.Board
	brakes     dispatch.Brakes
	settings   map[int64]*storedb.FleetSettingsRow // of workers, by id
	failedBy   map[int64][]int64                   // open job → workers that failed or lost it
	held       map[uuid.UUID]*held                 // live leases by token
	byJob      map[int64]*held                     // the same by job
	holders    map[int64]map[int64]*held           // the same by worker and job
	presence   map[int64]*presence                 // workers seen in this term
	warnings   map[int64][]int64                   // worker → jobs of its leases that have ended, not told yet
	waiters    map[int64]*waiter                   // claims that wait, by their number
	waitersOf  map[int64][]*waiter                 // the same by worker
	claims     int64                               // numbers given to claims
	health     *health.Fleet
	healthNews []health.Change    // to be written down
	orphans    []int64            // probes of an earlier term that nobody waits for
	hours      map[int64]*sleeper // planned absence of workers
	// grants counts the leases granted in this term. A probe is none: it shows
	// that a worker asks, and not that anything is judged.
	grants int64
	// pace is about how long a job takes from its grant to its result.
	pace time.Duration
	// rolledAt is when dispatch was last told who is there.
	rolledAt time.Time
}

// held is a live lease as far as memory knows; the row decides.
type held struct {
	jobID, submissionID, gen int64
	kind                     string
	workID                   int64 // in the table of its kind, when that is no judging
	token, session, request  uuid.UUID
	workerID                 int64
	// job is what dispatch needs when the lease ends without a result; its
	// generation is the one before the lease.
	job dispatch.Job
	// due is when the row may have expired, by our monotonic clock. It only
	// schedules a look at the row.
	due        time.Time
	registered time.Time
	progress   *gavelapi.Progress
}

// presence is what a worker's calls in this term say about it.
type presence struct {
	name    string
	session uuid.UUID
	slots   int
	cached  []string // digests of packages it holds
	caps    gavelapi.Capabilities
	seenAt  time.Time
	dirty   bool // to be written down
	changed bool // session, slots or capabilities are to be written, too
}

func newLeadership(a *Arbiter, conn *pgx.Conn, term int64, renewedAt time.Time) *leadership {
	l := &leadership{
		a: a, conn: conn, term: term, kick: make(chan struct{}, 1), over: make(chan struct{}),
		presence: map[int64]*presence{}, warnings: map[int64][]int64{}, waiters: map[int64]*waiter{}, waitersOf: map[int64][]*waiter{},
		health: health.New(a.cfg.Health),
	}
	l.renewedAt.Store(&renewedAt)
	l.loopedAt.Store(&renewedAt)
	l.messages.Store(true)
	l.lookedAt.Store(&renewedAt)
	l.edge.Store(&map[int64]bool{})
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
	group.Go(func() error { return l.probeLoop(gctx) })
	group.Go(func() error { return l.listenLoop(gctx) })
	group.Go(func() error { return l.deliverLoop(gctx) })
	l.poke()
	err := group.Wait()
	if err == nil {
		l.lastHealth(ctx)
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

// forgetLeases empties memory but for who is there: workers and their claims.
func (l *leadership) forgetLeases() {
	l.board = dispatch.New(l.a.cfg.Dispatch)
	l.board.SetBrakes(l.brakes)
	l.failedBy = map[int64][]int64{}
	l.held = map[uuid.UUID]*held{}
	l.byJob = map[int64]*held{}
	l.holders = map[int64]map[int64]*held{}
	now := l.a.clock.Now()
	for id := range l.presence {
		l.enlist(id, now)
	}
	for _, id := range slices.Sorted(maps.Keys(l.waiters)) { // numbered in the order of arrival
		w := l.waiters[id]
		l.board.AddClaim(dispatch.Claim{ID: id, Worker: w.workerID, Slots: w.slots}, now)
	}
}

// rebuild reads memory anew. Waiting claims and presence stay.
func (l *leadership) rebuild(ctx context.Context) error {
	failed, err := l.a.q.FailedAttemptsOfOpenJobs(ctx, l.a.db.Pool)
	if err != nil {
		return fmt.Errorf("read failed attempts: %w", err)
	}
	orders, err := l.a.readOrders(ctx)
	if err != nil {
		return err
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
	l.follow(orders)
	l.forgetLeases()
	for _, f := range failed {
		l.failedBy[f.JobID] = append(l.failedBy[f.JobID], f.WorkerID)
	}
	for _, r := range leased {
		j := &r.Job
		job := jobOf(j)
		job.Gen = j.LeaseGen - 1
		l.hold(&held{
			jobID: j.ID, submissionID: or0(j.SubmissionID), kind: j.Kind, workID: or0(j.WorkID), gen: j.LeaseGen, token: *j.LeaseToken,
			session: *j.Session, request: *j.RequestID, workerID: *j.WorkerID, job: job, registered: now,
			due: now.Add(time.Duration(r.LeftS * float64(time.Second))),
		})
		l.board.Hold(job, *j.WorkerID, now)
	}
	for _, j := range pending {
		l.enqueue(jobOf(&storedb.Job{
			ID: j.ID, LeaseGen: j.LeaseGen, Lane: j.Lane, Language: j.Language, Submitter: j.Submitter, Priority: j.Priority,
			ProblemID: j.ProblemID, PackageDigest: j.PackageDigest, Features: j.Features, Tags: j.Tags,
			MemoryBytes: j.MemoryBytes, CPUUs: j.CPUUs, BatchID: j.BatchID, BatchBudget: j.BatchBudget, TargetWorkerID: j.TargetWorkerID,
		}))
	}
	return nil
}

// The following need l.mu.

// enqueue makes a job wait, unless memory knows that it is out.
func (l *leadership) enqueue(j dispatch.Job) {
	j.FailedBy = l.failedBy[j.ID]
	l.board.AddJob(j)
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
	l.board.Release(h.jobID, h.job.Gen, l.a.clock.Now())
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

// writtenLate is how much later than a worker was seen, at most, that is read in
// the database.
const writtenLate = 5 * time.Second

// isOnline says whether a worker waits here or was seen a moment ago.
func (l *leadership) isOnline(id int64, now time.Time) bool {
	p := l.presence[id]
	return p != nil && (now.Sub(p.seenAt) < onlineFor || l.board.HasClaim(id))
}
