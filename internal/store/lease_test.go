package store_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const attemptCap = 3

// fixture is a database with one worker, one problem and a term.
type fixture struct {
	*store.DB
	t        testing.TB
	workerID int64
	problem  int64
	token    int64
	digest   string
	term     int64
}

func newFixture(t testing.TB) *fixture { return newFixtureWith(t, store.Options{}) }

func newFixtureWith(t testing.TB, opts store.Options) *fixture {
	f := &fixture{DB: open(t, opts), t: t, digest: "sha256:" + fmt.Sprintf("%064d", 0)}
	ctx := t.Context()
	for sql, into := range map[string]*int64{
		"insert into workers (name) values ('w') returning id":                                           &f.workerID,
		"insert into tokens (kind, hash) values ('admin', decode(repeat('00', 32), 'hex')) returning id": &f.token,
		"update leadership set term = term + 1 where shard = 0 returning term":                           &f.term,
	} {
		if err := f.Pool.QueryRow(ctx, sql).Scan(into); err != nil {
			t.Fatal(err)
		}
	}
	_, err := f.Publish(ctx, storedb.InsertPackageParams{Digest: f.digest, Manifest: json.RawMessage("{}"), SizeBytes: 1}, "p", "P", nil)
	if err != nil {
		t.Fatal(err)
	}
	row, err := f.Q.ProblemByName(ctx, f.Pool, "p")
	if err != nil {
		t.Fatal(err)
	}
	f.problem = row.ID
	return f
}

// submission is something to hand in, by a user or by nobody.
func (f *fixture) submission(user string) store.NewSubmission {
	return store.NewSubmission{Submission: storedb.InsertSubmissionParams{
		ProblemID: f.problem, Language: "c", Submitter: user, SourceBytes: 1, StopRule: "first", Source: []byte("x"),
		PackageDigest: f.digest, Limits: json.RawMessage("{}"), Lane: "judge", TokenID: f.token,
	}}
}

func (f *fixture) submit() store.Submitted {
	f.t.Helper()
	s, err := f.Submit(f.t.Context(), f.submission(""))
	if err != nil {
		f.t.Fatal(err)
	}
	return s
}

func (f *fixture) exec(sql string, args ...any) {
	f.t.Helper()
	if _, err := f.Pool.Exec(f.t.Context(), sql, args...); err != nil {
		f.t.Fatal(err)
	}
}

// job reads a job the way the pure model sees it.
func (f *fixture) job(s store.Submitted) (j lease.Job, outcome lease.Outcome) {
	f.t.Helper()
	ctx := f.t.Context()
	err := f.Pool.QueryRow(ctx, "select state, lease_gen, attempts, confirmed from jobs where id = $1", s.JobID).
		Scan(&j.State, &j.Gen, &j.Attempts, &j.Confirmed)
	if store.IsNoRows(err) {
		err = f.Pool.QueryRow(ctx, "select state from judgings where submission_id = $1", s.SubmissionID).Scan(&j.State)
	}
	if err != nil {
		f.t.Fatal(err)
	}
	err = f.Pool.QueryRow(ctx, "select outcome from attempts where job_id = $1 order by lease_gen desc limit 1", s.JobID).Scan(&outcome)
	if err != nil && !store.IsNoRows(err) {
		f.t.Fatal(err)
	}
	return j, outcome
}

// do carries an event out in SQL and says whether a row matched.
func (f *fixture) do(s store.Submitted, event lease.Event, gen int64, token uuid.UUID) bool {
	f.t.Helper()
	ctx := f.t.Context()
	var n int
	var err error
	switch event {
	case lease.Grant:
		n, err = count(f.Q.GrantLeases(ctx, f.Hot, &storedb.GrantLeasesParams{
			JobIds: []int64{s.JobID}, LeaseGens: []int64{gen}, LeaseTokens: []uuid.UUID{token}, WorkerIds: []int64{f.workerID},
			Sessions: []uuid.UUID{uuid.New()}, RequestIds: []uuid.UUID{uuid.New()}, Confirm: time.Minute, Term: f.term,
		}))
	case lease.Heartbeat:
		n, err = count(f.Q.ExtendLeases(ctx, f.Hot, &storedb.ExtendLeasesParams{
			Ttl: time.Minute, JobIds: []int64{s.JobID}, LeaseTokens: []uuid.UUID{token}, WorkerIds: []int64{f.workerID},
		}))
	case lease.Result:
		n, err = count(f.Q.RecordResults(ctx, f.Hot, result(s.JobID, token, f.workerID, "WA")))
	case lease.Fault:
		if n, err = count(f.Q.ReturnFailed(ctx, f.Pool, &storedb.ReturnFailedParams{
			JobID: s.JobID, LeaseToken: token, WorkerID: f.workerID, AttemptCap: attemptCap,
		})); n == 0 && err == nil {
			n, err = count(f.Q.GiveUpFailed(ctx, f.Pool, &storedb.GiveUpFailedParams{
				JobID: s.JobID, LeaseToken: token, WorkerID: f.workerID, AttemptCap: attemptCap, Fault: json.RawMessage("{}"),
			}))
		}
	case lease.Release:
		n, err = count(f.Q.ReleaseLease(ctx, f.Pool, &storedb.ReleaseLeaseParams{
			JobID: s.JobID, LeaseToken: token, WorkerID: f.workerID,
		}))
	case lease.Expire:
		f.exec("update jobs set lease_expires_at = now() - interval '1 second' where id = $1 and state = 'leased'", s.JobID)
		requeued, ended, rerr := f.Reclaim(ctx, store.ReclaimParams{Term: f.term, AttemptCap: attemptCap, Fault: json.RawMessage("{}")})
		n, err = len(requeued)+len(ended), rerr
	case lease.Cancel:
		n, err = count(f.Q.CancelOpenJob(ctx, f.Pool, &storedb.CancelOpenJobParams{SubmissionID: s.SubmissionID, JobID: s.JobID}))
	}
	if err != nil {
		f.t.Fatalf("%s: %v", event, err)
	}
	return n == 1
}

func count[T any](rows []T, err error) (int, error) { return len(rows), err }

func result(job int64, token uuid.UUID, worker int64, verdict string) *storedb.RecordResultsParams {
	doc := []json.RawMessage{json.RawMessage(`{}`)}
	return &storedb.RecordResultsParams{
		JobIds: []int64{job}, LeaseTokens: []uuid.UUID{token}, WorkerIds: []int64{worker},
		Verdicts: []string{verdict}, CPUUs: []int64{1}, WallUs: []int64{2}, MemoryBytes: []int64{3},
		Compiles: doc, Tests: []json.RawMessage{json.RawMessage(`[]`)}, Provenances: doc,
	}
}

// Every event in every state that a job can be in: the statements and the pure
// model must do the same.
func TestTheStatementsAndThePureModelAgree(t *testing.T) {
	f := newFixture(t)
	grant, beat, fault, release := lease.Grant, lease.Heartbeat, lease.Fault, lease.Release
	histories := map[string][]lease.Event{
		"fresh":                       {},
		"granted":                     {grant},
		"confirmed":                   {grant, beat},
		"confirmed, second attempt":   {grant, beat, fault, grant, beat},
		"confirmed, last attempt":     {grant, beat, fault, grant, beat, fault, grant, beat},
		"granted, last attempt":       {grant, fault, grant, fault, grant},
		"pending after a fault":       {grant, beat, fault},
		"pending after a release":     {grant, beat, release},
		"granted again after release": {grant, release, grant},
		"done":                        {grant, lease.Result},
		"cancelled":                   {lease.Cancel},
		"given up":                    {grant, fault, grant, fault, grant, fault},
	}
	for name, history := range histories {
		for _, event := range []lease.Event{lease.Grant, lease.Heartbeat, lease.Result, lease.Fault, lease.Release, lease.Expire, lease.Cancel} {
			t.Run(name+"/"+string(event), func(t *testing.T) {
				s := f.submit()
				model := lease.Job{State: lease.Pending}
				token := uuid.New()
				var outcome lease.Outcome
				for i, e := range append(append([]lease.Event(nil), history...), event) {
					if e == lease.Grant {
						token = uuid.New()
					}
					next, out, ok := lease.Apply(model, e, attemptCap)
					if matched := f.do(s, e, model.Gen, token); matched != ok {
						t.Fatalf("step %d, %s on %+v: the statement matched: %v, the model: %v", i, e, model, matched, ok)
					}
					model = next
					if ok && (e != lease.Cancel || out != lease.Running) {
						outcome = out
					}
				}
				got, gotOutcome := f.job(s)
				if model.State.Final() { // the job row is gone; its state is the judging's
					model = lease.Job{State: model.State}
				}
				if got != model || gotOutcome != outcome {
					t.Errorf("the tables say %+v %q, the model %+v %q", got, gotOutcome, model, outcome)
				}
			})
		}
	}
}

// I2, I3, A2, A3: the name of the worker is not enough, an old token changes
// nothing, and the judging keeps what the live lease reported.
func TestAnOldTokenOfTheSameWorkerChangesNothing(t *testing.T) {
	f := newFixture(t)
	s := f.submit()
	old, live := uuid.New(), uuid.New()
	f.do(s, lease.Grant, 0, old)
	f.do(s, lease.Heartbeat, 0, old)
	f.do(s, lease.Expire, 0, old)
	if !f.do(s, lease.Grant, 1, live) {
		t.Fatal("the expired job was not granted again")
	}
	for _, e := range []lease.Event{lease.Heartbeat, lease.Result, lease.Fault, lease.Release} {
		if f.do(s, e, 1, old) {
			t.Errorf("%s with the old token took effect", e)
		}
	}
	if !f.do(s, lease.Result, 1, live) {
		t.Error("the live lease could not report")
	}
	if f.do(s, lease.Result, 1, old) {
		t.Error("the old token overwrote the result")
	}
}

// I8: a leader of an earlier term neither grants nor reclaims.
func TestAnEarlierTermNeitherGrantsNorReclaims(t *testing.T) {
	f := newFixture(t)
	s, leased := f.submit(), f.submit()
	token := uuid.New()
	f.do(leased, lease.Grant, 0, token)
	f.do(leased, lease.Heartbeat, 0, token)
	f.exec("update leadership set term = term + 1") // somebody else leads now
	if f.do(s, lease.Grant, 0, uuid.New()) {
		t.Error("the earlier term granted")
	}
	if f.do(leased, lease.Expire, 0, token) {
		t.Error("the earlier term reclaimed")
	}
	f.term++
	if !f.do(s, lease.Grant, 0, uuid.New()) || !f.do(leased, lease.Expire, 0, token) {
		t.Error("the live term could not work")
	}
}

// A grant that has read the old term while a takeover is committing must not
// slip through: the fence waits for the takeover and then sees the new term.
func TestAGrantInFlightDuringATakeoverIsFenced(t *testing.T) {
	f := newFixture(t)
	s := f.submit()
	ctx := t.Context()
	takeover, err := f.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = takeover.Rollback(ctx) }()
	if _, err := f.Q.LockLeadership(ctx, takeover, 0); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Q.TakeLeadership(ctx, takeover, &storedb.TakeLeadershipParams{Holder: "new", Valid: time.Second}); err != nil {
		t.Fatal(err)
	}
	granted := make(chan bool)
	go func() { granted <- f.do(s, lease.Grant, 0, uuid.New()) }()
	waitForBlockedBackend(t, f)
	if err := takeover.Commit(ctx); err != nil {
		t.Fatal(err)
	}
	if <-granted {
		t.Error("a grant of the old term took effect after the takeover")
	}
}

func waitForBlockedBackend(t *testing.T, f *fixture) {
	t.Helper()
	deadline := time.Now().Add(10 * time.Second)
	for time.Now().Before(deadline) {
		var n int
		err := f.Pool.QueryRow(t.Context(), `select count(*) from pg_locks where not granted`).Scan(&n)
		if err != nil {
			t.Fatal(err)
		}
		if n > 0 {
			return
		}
	}
	t.Fatal("nothing waits for a lock: the write is not fenced by the leadership row")
}

// Beside many finished rows the hot statements must find jobs by primary key:
// a plan that scans is the trap that once cost two orders of magnitude.
func TestHotStatementsUseThePrimaryKey(t *testing.T) {
	f := newFixture(t)
	s := f.submit()
	f.exec(`insert into jobs (judging_id, submission_id, kind, lane, language)
	        select judging_id, -n, kind, lane, language from jobs, generate_series(1, 20000) n where id = $1`, s.JobID)
	for _, stale := range []bool{true, false} {
		if !stale {
			owner, err := pgx.Connect(t.Context(), f.Pool.Config().ConnString())
			if err != nil {
				t.Fatal(err)
			}
			_, err = owner.Exec(t.Context(), "analyze jobs")
			_ = owner.Close(t.Context())
			if err != nil {
				t.Fatal(err)
			}
		}
		rows, err := f.Pool.Query(t.Context(), `explain with input as (
			  select unnest(array[1,2,3]::bigint[]) as job_id, unnest(array[0,0,0]::bigint[]) as lease_gen
			), located as (
			  select i.*, x.id from input i
			   cross join lateral (select j.id from jobs j where j.id = i.job_id offset 0) x
			)
			update jobs j set attempts = 1 from located l where j.id = l.id and j.state = 'pending' and j.lease_gen = l.lease_gen`)
		if err != nil {
			t.Fatal(err)
		}
		plan, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range plan {
			if strings.Contains(line, "Seq Scan on jobs") {
				t.Errorf("stale statistics: %v: a scan of jobs in the plan:\n%s", stale, strings.Join(plan, "\n"))
				break
			}
		}
	}
}

func TestFilesOfASourceAreStoredAsTheyAre(t *testing.T) {
	f := newFixture(t)
	one := f.submit()
	with := f.submission("")
	with.Files = []store.SourceFile{{Name: "a.h", Content: []byte("\xff,\"{}")}, {Name: "b.h"}}
	several, err := f.Submit(t.Context(), with)
	if err != nil {
		t.Fatal(err)
	}
	row, err := f.Q.SourceOfSubmission(t.Context(), f.Pool, several.SubmissionID)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"a.h", "b.h"}, row.FileNames); diff != "" {
		t.Error(diff)
	}
	if diff := cmp.Diff([][]byte{[]byte("\xff,\"{}"), {}}, row.FileContents); diff != "" {
		t.Error(diff)
	}
	row, err = f.Q.SourceOfSubmission(t.Context(), f.Pool, one.SubmissionID)
	if err != nil || row.FileNames != nil || row.FileContents != nil {
		t.Errorf("one file: %+v, %v", row, err)
	}
	for _, bad := range []string{
		"file_names = '{a}'", "file_contents = '{\"x\"}'", "file_names = '{}', file_contents = '{}'",
		"file_names = '{a,b}', file_contents = '{\"x\"}'",
	} {
		if _, err := f.Pool.Exec(t.Context(), "update submission_sources set "+bad+" where submission_id = $1", one.SubmissionID); err == nil {
			t.Errorf("%s was stored", bad)
		}
	}
}
