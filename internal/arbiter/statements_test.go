package arbiter_test

import (
	"bytes"
	"context"
	"fmt"
	"maps"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// periodic are the statements that time makes the arbiter send, whatever is
// handed in or judged.
var periodic = map[string]bool{
	"begin": true, "commit": true,
	"FleetSettings": true, "AllPlannedHours": true, "ListBrakes": true, "PendingJobKeys": true, // the scan
	"LeasedJobs": true, "RequeueExpired": true, "GiveUpExpired": true, // the sweep
	"SeeWorkers": true, "TouchWorkers": true, "WriteHealth": true, "FinishRejudges": true, "StoredReasons": true, "WriteReasons": true,
	"DeleteExpiredRuns": true, "EndOrphanedRuns": true, "DeleteOldIdempotencyKeys": true, "DropOldProbes": true,
	"PreparationsAtWork": true, "OldestPending": true, "EdgeWorkersPresent": true, "OpenAlarms": true, "StartAlarm": true, "ContinueAlarm": true, "EndAlarm": true, "DropOldAlarms": true, // alarms
	"EnqueueAlarm": true, "WebhookBacklog": true, "BeginAttempts": true, "EndAttempt": true, "DropOldDeliveries": true, "DropOldSecrets": true, "DropOldOutputs": true,
}

// statements counts what an arbiter asks of its database, by the statements'
// names. It is the tracer of a pool.
type statements struct {
	mu    sync.Mutex
	count map[string]int
	args  map[string][][]any // of each, in order
	timed map[string]int     // the periodic ones, ever
}

// ofACall marks the context of a call of the API.
type ofACall struct{}

// TraceQueryStart implements pgx.QueryTracer. What a call sends counts in any
// case; what the arbiter sends by itself counts unless it is periodic.
func (s *statements) TraceQueryStart(ctx context.Context, _ *pgx.Conn, q pgx.TraceQueryStartData) context.Context {
	name, named := strings.CutPrefix(q.SQL, "-- name: ")
	if !named && (strings.HasPrefix(name, "set ") || strings.Contains(name, "pg_has_role") || name == "discard plans") {
		return ctx // a session is set up, or is to plan anew
	}
	name, _, _ = strings.Cut(strings.TrimSpace(name), " ")
	s.mu.Lock()
	defer s.mu.Unlock()
	if ctx.Value(ofACall{}) == nil && periodic[name] {
		s.timed[name]++
		return ctx
	}
	s.count[name]++
	s.args[name] = append(s.args[name], q.Args)
	return ctx
}

// TraceQueryEnd implements pgx.QueryTracer.
func (s *statements) TraceQueryEnd(context.Context, *pgx.Conn, pgx.TraceQueryEndData) {}

// since is what was counted since the last look.
func (s *statements) since() map[string]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	count := maps.Clone(s.count)
	clear(s.count)
	clear(s.args)
	return count
}

// countedStand is a stand whose statements are counted, and the context that
// its calls have.
func countedStand(t *testing.T) (*stand, *statements, context.Context) {
	t.Helper()
	counted := &statements{count: map[string]int{}, args: map[string][][]any{}, timed: map[string]int{}}
	s := newStandWith(t, quick, func(cfg *arbiter.Config) {
		for _, of := range []**pgxpool.Pool{&cfg.DB.Pool, &cfg.DB.Hot} {
			traced := (*of).Config()
			traced.ConnConfig.Tracer = counted
			guarded := traced.AfterConnect
			traced.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
				if err := guarded(ctx, conn); err != nil {
					return err
				}
				_, err := conn.Exec(ctx, "set lock_timeout = 0; set statement_timeout = 0") // a test holds locks for as long as it takes
				return err
			}
			pool, err := pgxpool.NewWithConfig(t.Context(), traced)
			if err != nil {
				t.Fatal(err)
			}
			(*of).Close()
			*of = pool
		}
	})
	return s, counted, context.WithValue(t.Context(), ofACall{}, true)
}

// cycle are the calls from a submission to its verdict.
type cycle struct {
	s   *stand
	f   *fake
	ctx context.Context //nolint:containedctx // of its calls, by which their statements are known
}

// principal looks the worker up, as every call does.
func (c cycle) principal(t *testing.T) {
	if _, err := c.s.Authenticate(c.ctx, c.f.token); err != nil {
		t.Error(err)
	}
}

func (c cycle) submit(t *testing.T) {
	if _, _, err := c.s.CreateSubmission(c.ctx, c.s.admin, "", nil, gavelapi.NewSubmission{Problem: "p", Language: "c", Source: "x"}); err != nil {
		t.Error(err)
	}
}

func (c cycle) claim(t *testing.T) (token string) {
	c.principal(t)
	got, err := c.s.Claim(c.ctx, c.f.p, c.f.request(uuid.NewString(), 10*time.Second))
	if err != nil || len(got.Leases) != 1 {
		t.Errorf("%d leases, %v", len(got.Leases), err)
		return ""
	}
	return got.Leases[0].LeaseToken
}

func (c cycle) beat(t *testing.T, token string) {
	c.principal(t)
	if _, err := c.s.Heartbeat(c.ctx, c.f.p, gavelapi.HeartbeatRequest{LeaseToken: token, Progress: &gavelapi.Progress{Phase: "running", TestsTotal: 1}}); err != nil {
		t.Error(err)
	}
}

func (c cycle) report(t *testing.T, token string) {
	c.principal(t)
	got, err := c.s.Result(c.ctx, c.f.p, gavelapi.ResultRequest{LeaseToken: token, Report: verdictReport("AC")})
	if err != nil || got.Outcome != gavelapi.OutcomeRecorded {
		t.Errorf("%+v, %v", got, err)
	}
}

// What a submission costs the database from its arrival to its verdict when
// nothing else happens. A statement that is added to this path is paid for by
// every submission: these tables are where that is decided.
func TestACycleCostsSoManyStatements(t *testing.T) {
	s, counted, ctx := countedStand(t)
	c := cycle{s, s.worker("w", 1, "c"), ctx}
	c.submit(t)
	c.report(t, c.claim(t)) // the first one fills caches
	want := map[string]map[string]int{
		"submit": perSubmit,
		"claim":  {"GrantLeases": 1},
		"beat":   {"ExtendLeases": 1},
		"report": {"RecordResults": 1},
	}
	// A token is looked up anew after some seconds, which is time's doing.
	for try := 1; ; try++ {
		got, began := map[string]map[string]int{}, time.Now()
		c.principal(t)
		counted.since()
		c.submit(t)
		got["submit"] = counted.since()
		token := c.claim(t)
		got["claim"] = counted.since()
		c.beat(t, token)
		got["beat"] = counted.since()
		c.report(t, token)
		got["report"] = counted.since()
		if time.Since(began) > 3*time.Second && try < 20 {
			continue
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("a cycle costs other statements than it should (-want +got):\n%s", diff)
		}
		return
	}
}

// Nobody listens to webhooks nearly always: the leader does not look for
// messages once a second, unless some wait by the count that it reads.
func TestNoMessagesAreLookedForWhereNoneWait(t *testing.T) {
	_, counted, _ := countedStand(t)
	ever := func(name string) int {
		counted.mu.Lock()
		defer counted.mu.Unlock()
		return counted.timed[name]
	}
	await := func(counts int) (looks int) {
		until(t, "the messages are counted", func() bool { return ever("WebhookBacklog") >= counts })
		return ever("BeginAttempts")
	}
	if before, after := await(1), await(3); after > before+1 { // one may have been on its way
		t.Errorf("%d looks for messages, %d of them where none wait", after, after-before)
	}
}

// perSubmit is what handing in costs: a look at the problem, and one statement
// that is its own transaction. The answer is put together from the two.
var perSubmit = map[string]int{"PublishedProblem": 1, "InsertSubmission": 1}

// There may be a hundred thousand jobs that wait, and a scan every two seconds:
// it reads only those that memory does not know.
func TestAScanReadsOnlyWhatMemoryDoesNotKnow(t *testing.T) {
	s, counted, ctx := countedStand(t)
	c := cycle{s, s.worker("w", 1, "c"), ctx}
	var judged []gavelapi.Submission
	for range 2 {
		judged = append(judged, s.submit("c"))
		c.report(t, c.claim(t))
	}
	for range 3 {
		c.submit(t)
	}
	counted.since()
	var behind []int64
	for _, sub := range judged { // the second one when the first is known
		s.exec(`with g as (insert into judgings (submission_id, kind, package_digest, limits)
		                   select submission_id, 'rejudge', package_digest, limits from judgings where submission_id = $1 returning id)
		        insert into jobs (judging_id, submission_id, kind, lane, language) select id, $1, 'rejudge', 'rejudge', 'c' from g`, sub.ID)
		behind = append(behind, int64(s.number("select max(id) from jobs")))
		until(t, "the scan has read what is new", func() bool {
			counted.mu.Lock()
			defer counted.mu.Unlock()
			return len(counted.args["PendingJobsOf"]) >= len(behind)
		})
	}
	var read []int64
	for _, args := range counted.args["PendingJobsOf"] {
		read = append(read, args[0].([]int64)...)
	}
	if diff := cmp.Diff(behind, read); diff != "" {
		t.Errorf("jobs that scans read (-want +got):\n%s", diff)
	}
}

// While one statement is being committed, what comes meanwhile gathers, and is
// one statement: grants, heartbeats and results of a hundred workers are two
// of each.
func TestAHundredCyclesAtOnceShareTheirStatements(t *testing.T) {
	const many = 100
	s, counted, ctx := countedStand(t)
	cycles := make([]cycle, many)
	for i := range cycles {
		cycles[i] = cycle{s, s.worker(fmt.Sprintf("w%d", i), 1, "c"), ctx}
	}
	cycles[0].submit(t)
	cycles[0].report(t, cycles[0].claim(t)) // the first one fills caches
	for _, c := range cycles {
		c.submit(t)
	}
	tokens := make([]string, many)
	for _, step := range []struct {
		name, statement string
		do              func(i int)
		gathered        func() bool
	}{
		{"claims", "GrantLeases", func(i int) { tokens[i] = cycles[i].claim(t) }, func() bool { return s.claimsWaiting() == many }},
		{"heartbeats", "ExtendLeases", func(i int) { cycles[i].beat(t, tokens[i]) }, func() bool { return inBatches() == many }},
		{"results", "RecordResults", func(i int) { cycles[i].report(t, tokens[i]) }, func() bool { return inBatches() == many }},
	} {
		for _, c := range cycles {
			c.principal(t)
		}
		counted.since()
		unlock := s.lockJobs()
		var calls sync.WaitGroup
		for i := range many {
			calls.Go(func() { step.do(i) })
		}
		until(t, "all "+step.name+" have come", step.gathered)
		unlock()
		calls.Wait()
		got := counted.since()
		delete(got, "TokenByHash") // after some seconds, which is time's doing
		if n := got[step.statement]; n < 1 || n > 2 || len(got) != 1 {
			t.Errorf("%d %s at once cost %v, want two %s at most", many, step.name, got, step.statement)
		}
	}
}

// lockJobs keeps every statement that changes jobs waiting.
func (s *stand) lockJobs() (unlock func()) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }) // the test has been told of every error
	tx, err := conn.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := tx.Exec(s.t.Context(), "lock table jobs in share mode"); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
}

// inBatches is how many calls are in a batch, or wait for the next one.
func inBatches() int {
	stacks := make([]byte, 16<<20)
	return bytes.Count(stacks[:runtime.Stack(stacks, true)], []byte("arbiter.(*batcher[...]).call("))
}
