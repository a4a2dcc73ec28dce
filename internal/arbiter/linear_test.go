package arbiter_test

import (
	"context"
	"errors"
	"flag"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/sim/history"
)

var (
	linearSeed = flag.Uint64("linear.seed", 0, "choices of the clients; 0 is a fresh one, which is printed")
	linearJobs = flag.Int("linear.jobs", 60, "submissions to judge")
)

// brief leases, so that many run out while the test watches.
var brief = lease.Settings{
	TTL: 1500 * time.Millisecond, Heartbeat: 500 * time.Millisecond, Confirm: 500 * time.Millisecond,
	AttemptCap: 3, Sweep: 200 * time.Millisecond, ClaimWait: 500 * time.Millisecond,
}

// What concurrent clients are told about leases, by a leader and its standby on
// one PostgreSQL whose sessions are killed all the time, could have happened
// one call at a time.
func TestAnswersAboutLeasesAreLinearizable(t *testing.T) {
	seed := *linearSeed
	if seed == 0 {
		seed = rand.Uint64() >> 16
	}
	t.Logf("go test ./internal/arbiter -run TestAnswersAboutLeases -linear.seed=%d -linear.jobs=%d", seed, *linearJobs)
	first := newStand(t, brief)
	both := []*stand{first, startOn(t, first.url, brief)}
	var rec history.Recorder
	for range *linearJobs {
		first.submit("c")
	}

	ctx, enough := context.WithCancel(t.Context())
	defer enough()
	var troubled, working sync.WaitGroup
	calm, settle := context.WithCancel(ctx)
	defer settle()
	var workers []*fake
	for i := range 4 {
		workers = append(workers, first.worker("w"+string(rune('a'+i)), 2, "c"))
	}
	facts, err := pgx.Connect(ctx, first.url) // under another name, so nobody kills it
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = facts.Close(context.WithoutCancel(ctx)) }()
	open := func() (n int) {
		if err := facts.QueryRow(t.Context(), "select count(*) from jobs").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n
	}
	troubled.Go(func() { killSessions(t, calm, first.url, rand.New(rand.NewPCG(seed, 1))) })
	for i, w := range workers {
		for n := range 2 { // two threads of one process
			c := &client{id: 2*i + n, fake: w, via: both, rec: &rec, rng: rand.New(rand.NewPCG(seed, uint64(10+2*i+n))), calm: calm}
			working.Go(func() { c.work(ctx) })
		}
	}
	troubled.Go(func() {
		c := &client{id: 9, fake: &fake{p: first.admin}, via: both, rec: &rec, rng: rand.New(rand.NewPCG(seed, 2))}
		for c.pause(calm, 400*time.Millisecond) {
			c.cancel(ctx, 1+c.rng.Int64N(int64(*linearJobs)))
		}
	})
	until(t, "most of it is judged", func() bool { return open() < *linearJobs/5 })
	settle()
	troubled.Wait()
	until(t, "all of it is judged", func() bool { return open() == 0 })
	enough()
	working.Wait()
	for id := range int64(*linearJobs) {
		audit(t, facts, &rec, id+1)
	}
	ops := rec.Ops()
	counts := map[string]int{}
	for _, o := range ops {
		counts[string(o.Kind)+" "+o.Answer]++
	}
	t.Logf("%d calls: %v", len(ops), counts)
	if err := history.Check(ops, brief.AttemptCap, time.Minute); err != nil {
		t.Error(err)
	}

	// The same history with one answer changed is not believed.
	for i, o := range ops {
		if o.Kind == history.Result && o.Answer == history.Dead {
			ops[i].Answer, ops[i].Reason = history.OK, ""
			if history.Check(ops, brief.AttemptCap, time.Minute) == nil {
				t.Error("a late result that was applied was believed")
			}
			return
		}
	}
	t.Error("no result came late: the clients are too well-behaved to prove anything")
}

// killSessions ends one of the database's sessions now and then.
func killSessions(t *testing.T, ctx context.Context, url string, rng *rand.Rand) {
	conn, err := pgx.Connect(context.WithoutCancel(ctx), url)
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = conn.Close(context.WithoutCancel(ctx)) }()
	for {
		select {
		case <-ctx.Done():
			return
		case <-time.After(time.Duration(100+rng.IntN(400)) * time.Millisecond):
		}
		name := "gavel"
		if rng.IntN(6) == 0 {
			name = "gavel-leader:0"
		}
		if _, err := conn.Exec(context.WithoutCancel(ctx), `select pg_terminate_backend(pid) from pg_stat_activity
			where datname = current_database() and application_name = $1 and pid <> pg_backend_pid() order by random() limit 1`, name); err != nil {
			t.Error(err)
			return
		}
	}
}

// client is a worker's thread that does anything but behave, until calm.
type client struct {
	id   int
	fake *fake
	via  []*stand
	rec  *history.Recorder
	rng  *rand.Rand
	calm context.Context
}

// pause waits up to d; false when ctx ended.
func (c *client) pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-ctx.Done():
		return false
	case <-time.After(time.Duration(c.rng.Int64N(int64(d)))):
		return true
	}
}

func (c *client) any() *stand { return c.via[c.rng.IntN(len(c.via))] }

func (c *client) work(ctx context.Context) {
	for ctx.Err() == nil {
		req := c.fake.request(uuid.NewString(), 300*time.Millisecond)
		began := c.rec.Begin()
		var leases []gavelapi.Lease
		for range 5 { // the same request, until it is answered or given up
			callCtx, hangUp := ctx, context.CancelFunc(func() {})
			if c.calm.Err() == nil && c.rng.IntN(4) == 0 {
				callCtx, hangUp = context.WithTimeout(ctx, time.Duration(c.rng.IntN(20))*time.Millisecond)
			}
			got, err := c.any().Claim(callCtx, c.fake.p, req)
			hangUp()
			if err == nil {
				leases = got.Leases
				break
			}
			if !c.pause(ctx, 20*time.Millisecond) {
				return
			}
		}
		var each sync.WaitGroup
		for _, l := range leases {
			c.rec.End(began, history.Op{Client: c.id, Job: l.SubmissionID, Kind: history.Grant, Token: l.LeaseToken, Gen: l.LeaseGen, Attempt: l.Attempt, Answer: history.OK})
			mine := *c
			mine.rng = rand.New(rand.NewPCG(c.rng.Uint64(), 0))
			each.Go(func() { mine.serve(ctx, l) })
		}
		each.Wait()
		if len(leases) == 0 && !c.pause(ctx, 20*time.Millisecond) {
			return
		}
	}
}

// serve does something with a lease.
func (c *client) serve(ctx context.Context, l gavelapi.Lease) {
	if c.calm.Err() != nil {
		c.beat(ctx, l)
		c.report(ctx, l, history.Result)
		return
	}
	if c.rng.IntN(6) == 0 {
		return // as if the answer to the claim had been lost
	}
	for range c.rng.IntN(3) {
		c.beat(ctx, l)
		c.pause(ctx, 100*time.Millisecond)
	}
	switch c.rng.IntN(8) {
	case 0:
		c.release(ctx, l)
	case 1:
		c.report(ctx, l, history.Fault)
	case 2, 3: // it falls asleep and wakes up too late, perhaps
		c.pause(ctx, 3*brief.TTL)
		c.report(ctx, l, history.Result)
	default:
		var both sync.WaitGroup
		for range 1 + c.rng.IntN(2) { // a message that arrives twice
			both.Go(func() { c.report(ctx, l, history.Result) })
		}
		both.Wait()
	}
	if c.rng.IntN(3) == 0 {
		c.report(ctx, l, history.Result)
	}
	if c.rng.IntN(3) == 0 {
		c.beat(ctx, l)
	}
}

func (c *client) end(began int64, o history.Op, err error) {
	o.Client = c.id
	e, known := errors.AsType[*apperr.Error](err)
	switch {
	case err == nil:
	case known && e.Code == apperr.Gone:
		o.Answer, o.Reason = history.Dead, e.Field
	case known && e.Code == apperr.Conflict:
		o.Answer = history.Refused
	default:
		o.Answer = history.Unknown
	}
	c.rec.End(began, o)
}

func (c *client) beat(ctx context.Context, l gavelapi.Lease) {
	began := c.rec.Begin()
	_, err := c.via[0].either(c.via[1]).Heartbeat(ctx, c.fake.p, gavelapi.HeartbeatRequest{LeaseToken: l.LeaseToken})
	c.end(began, history.Op{Job: l.SubmissionID, Kind: history.Heartbeat, Token: l.LeaseToken, Answer: history.OK}, err)
}

func (c *client) report(ctx context.Context, l gavelapi.Lease, k history.Kind) {
	rep, verdict := verdictReport("AC"), "AC"
	if l.LeaseGen%2 == 0 {
		rep, verdict = verdictReport("WA"), "WA"
	}
	if k == history.Fault {
		rep, verdict = faultReport(gavelapi.BlameHost), ""
	}
	began := c.rec.Begin()
	got, err := c.via[0].either(c.via[1]).Result(ctx, c.fake.p, gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: rep})
	o := history.Op{Job: l.SubmissionID, Kind: k, Token: l.LeaseToken, Verdict: verdict, Answer: history.OK}
	switch got.Outcome {
	case gavelapi.OutcomeAlreadyRecorded:
		o.Answer = history.Already
	case gavelapi.OutcomeDiscarded:
		o.Answer, o.Reason = history.Dead, got.Reason
	}
	c.end(began, o, err)
}

func (c *client) release(ctx context.Context, l gavelapi.Lease) {
	began := c.rec.Begin()
	got, err := c.via[0].either(c.via[1]).Release(ctx, c.fake.p, gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: "drain"})
	o := history.Op{Job: l.SubmissionID, Kind: history.Release, Token: l.LeaseToken, Answer: history.OK}
	if !got.Released {
		o.Answer, o.Reason = history.Dead, got.Reason
	}
	c.end(began, o, err)
}

func (c *client) cancel(ctx context.Context, submission int64) {
	began := c.rec.Begin()
	_, err := c.any().CancelSubmission(ctx, c.fake.p, submission, "")
	c.end(began, history.Op{Job: submission, Kind: history.Cancel, Answer: history.OK}, err)
}

// either is the one of two that leads, as far as it says.
func (s *stand) either(other *stand) *stand {
	if _, leads := s.Ready(s.t.Context()); leads {
		return s
	}
	return other
}

// audit records what the tables say about a submission.
func audit(t *testing.T, db *pgx.Conn, rec *history.Recorder, submission int64) {
	t.Helper()
	began := rec.Begin()
	o := history.Op{Client: 10, Job: submission, Kind: history.Audit, Answer: history.OK}
	rows, err := db.Query(t.Context(), "select lease_gen, lease_token::text, outcome from attempts where submission_id = $1 order by lease_gen", submission)
	if err != nil {
		t.Fatal(err)
	}
	if o.Attempts, err = pgx.CollectRows(rows, pgx.RowToStructByPos[history.Attempt]); err != nil {
		t.Fatal(err)
	}
	if err := db.QueryRow(t.Context(), "select state, coalesce(verdict, '') from judgings where submission_id = $1", submission).Scan(&o.State, &o.Verdict); err != nil {
		t.Fatal(err)
	}
	rec.End(began, o)
}
