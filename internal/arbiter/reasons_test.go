package arbiter_test

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

// stays keeps a worker asking for work until stop, or the test's end. What it
// gets comes out of the channel.
func (f *fake) stays() (got <-chan gavelapi.Lease, stop func()) {
	leases := make(chan gavelapi.Lease, 100)
	ctx, cancel := context.WithCancel(f.s.t.Context())
	var done sync.WaitGroup
	done.Go(func() {
		for ctx.Err() == nil {
			res, err := f.s.Claim(ctx, f.p, f.request(uuid.NewString(), 5*time.Second))
			if err != nil {
				return // the arbiter stops, or the test does
			}
			for _, l := range res.Leases {
				leases <- l
			}
		}
	})
	stop = sync.OnceFunc(func() { cancel(); done.Wait() })
	f.s.t.Cleanup(stop)
	return leases, stop
}

func receive(t *testing.T, leases <-chan gavelapi.Lease) gavelapi.Lease {
	t.Helper()
	select {
	case l := <-leases:
		return l
	case <-time.After(30 * time.Second):
		t.Fatal("no lease came")
		panic("unreachable")
	}
}

// storedLate is how long after a job came a look of the leader must find it:
// much more than the scan and the tick that it takes, for a busy machine.
const storedLate = 10 * time.Second

// stored reads why a submission waits as anybody can, by SQL; "" when it does
// not wait, or nothing is said yet.
func (s *stand) stored(id int64) (cause, reason string) {
	s.t.Helper()
	var late float64
	err := s.db.Pool.QueryRow(s.t.Context(), `select coalesce(cause, ''), coalesce(reason, ''), coalesce(extract(epoch from looked_at - created_at), 0)::float8
		from waiting_work where submission_id = $1`, id).Scan(&cause, &reason, &late)
	switch {
	case err == pgx.ErrNoRows: //nolint:errorlint // as pgx gives it
		return "", ""
	case err != nil:
		s.t.Fatal(err)
	case cause == "" && late > storedLate.Seconds():
		s.t.Fatalf("submission %d has no reason though a leader looked %.0f s after it came", id, late)
	}
	return cause, reason
}

func (s *stand) awaitStored(id int64, cause dispatch.Cause, words string) {
	s.t.Helper()
	until(s.t, fmt.Sprintf("submission %d waits because of %s (%s)", id, cause, words), func() bool {
		c, reason := s.stored(id)
		return c == string(cause) && strings.Contains(reason, words)
	})
}

func (s *stand) since(id int64) (at time.Time) {
	s.t.Helper()
	if err := s.db.Pool.QueryRow(s.t.Context(), "select since from waiting_work where submission_id = $1", id).Scan(&at); err != nil {
		s.t.Fatal(err)
	}
	return at
}

// session is one of whom the database belongs to.
func (s *stand) session() *pgx.Conn {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) }) // the test has been told of every error
	return conn
}

// Every reason is written down, changes with what it tells of, and is gone with
// the waiting.
func TestWhyWorkWaitsIsStored(t *testing.T) {
	s := newStand(t, quick)
	s.publish("q")
	sub := s.submit("c")
	s.awaitStored(sub.ID, dispatch.NobodyOnline, "no worker is online")
	_, leave := s.worker("python", 1, "python3").stays()
	s.awaitStored(sub.ID, dispatch.NobodyAble, "none of the 1 online offers c")
	leave()

	w := s.worker("w", 1, "c")
	got, leave := w.stays()
	first := receive(t, got)
	if cause, reason := s.stored(sub.ID); cause != "" {
		t.Errorf("it was given away, and still waits because of %s: %s", cause, reason)
	}
	second, other := s.submit("c"), s.submitAs("", "q")
	for _, id := range []int64{second.ID, other.ID} {
		s.awaitStored(id, dispatch.Queued, "busy")
	}
	before := s.since(second.ID)
	if err := s.SetBrake(t.Context(), s.admin, gavelapi.Brake{Kind: "problem", Name: "p", Reason: "wrong tests"}); err != nil {
		t.Fatal(err)
	}
	s.awaitStored(second.ID, dispatch.Held, "wrong tests")
	if s.since(second.ID).Before(before) {
		t.Error("it is held since before it was handed in")
	}
	s.awaitStored(other.ID, dispatch.Queued, "busy") // another problem, of the same shape
	if err := s.ReleaseBrake(t.Context(), s.admin, "problem", "p", ""); err != nil {
		t.Fatal(err)
	}
	s.awaitStored(second.ID, dispatch.Queued, "busy")
	if _, err := s.CancelSubmission(t.Context(), s.admin, other.ID, ""); err != nil {
		t.Fatal(err)
	}
	if cause, _ := s.stored(other.ID); cause != "" {
		t.Errorf("cancelled, it still waits because of %s", cause)
	}
	w.report(first.LeaseToken, verdictReport("AC"))
	w.report(receive(t, got).LeaseToken, verdictReport("AC"))
	until(t, "nothing waits, and nothing is stored", func() bool { return s.number("select count(*) from waiting_reasons") == 0 })
	leave()
}

// What a worker has failed is another shape: it waits for somebody else.
func TestWhyFailedWorkWaitsIsStored(t *testing.T) {
	s := newStand(t, quick)
	a, b := s.worker("a", 1, "c"), s.worker("b", 1, "c")
	s.submit("c")
	held := b.hold()
	_, leave := b.stays() // as long as it holds this, it gets nothing else
	sub := s.submit("c")
	l := a.hold()
	a.report(l.LeaseToken, faultReport(gavelapi.BlameHost))
	_, rest := a.stays()
	s.awaitStored(sub.ID, dispatch.Queued, "none of the 2 able workers can take it now; busy: 1; of 1: it failed this job before")
	if n := s.number("select count(*) from waiting_reasons where failed_by = $1", fmt.Sprint(a.p.WorkerID)); n != 1 {
		t.Errorf("%d reasons are stored for what a failed", n)
	}
	rest()
	leave()
	b.report(held.LeaseToken, verdictReport("AC"))
	if l := b.claim(); l.SubmissionID != sub.ID {
		t.Errorf("b got submission %d", l.SubmissionID)
	}
}

func TestWhyARejudgeWaitsIsStored(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 2, "c")
	for range 2 {
		s.submit("c")
		w.judge("WA")
	}
	s.rejudge(gavelapi.RejudgeFilter{Problem: "p"}, "later")
	w.claim() // three quarters of two slots
	_, leave := w.stays()
	until(t, "the other one waits for the rejudge's budget", func() bool {
		return s.number("select count(*) from waiting_work where cause = $1 and reason like 'its rejudge has 1 jobs%'", string(dispatch.OverBudget)) == 1
	})
	q, err := s.Queue(t.Context())
	if err != nil || len(q.Waiting) != 1 || q.Waiting[0].Lane != "rejudge" || len(q.Waiting[0].Reasons) != 1 || q.Waiting[0].Reasons[0].Cause != string(dispatch.OverBudget) {
		t.Errorf("the queue is %s, %v", asJSON(q), err)
	}
	leave()
}

// A standby, SQL, and everybody once the leader is gone: all read the same. The
// next leader goes on with it.
func TestWhyWorkWaitsIsReadWithoutTheLeader(t *testing.T) {
	s := newStand(t, quick)
	sub := s.submit("c")
	s.awaitStored(sub.ID, dispatch.NobodyOnline, "no worker is online")
	since, term := s.since(sub.ID), s.number("select term from waiting_looks")
	standby := startWith(t, s.url, quick, func(cfg *arbiter.Config) { cfg.Leader.Poll = time.Hour })
	owner := s.session()
	until(t, "the standby has seen that somebody leads", func() bool {
		var n int
		if err := owner.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and query like '%name: ReadLeadership %' and pid <> pg_backend_pid()").Scan(&n); err != nil {
			t.Fatal(err)
		}
		return n > 0
	})
	until(t, "a standby says why it waits", func() bool { // while the leader renews in time
		return strings.HasPrefix(standby.read(sub.ID).Waiting, "no worker is online (as of ")
	})
	e, err := standby.Explain(t.Context(), sub.ID)
	if err != nil || e.Cause != string(dispatch.NobodyOnline) || e.Lane != "judge" || e.Priority != "practice" || e.StoredAt == nil || e.CauseSince == nil || !e.CauseSince.Equal(since) {
		t.Errorf("a standby explains it by %s, %v", asJSON(e), err)
	}
	if e, err := s.Explain(t.Context(), sub.ID); err != nil || e.Cause != string(dispatch.NobodyOnline) || e.StoredAt != nil || e.CauseSince == nil || e.Summary != "no worker is online" {
		t.Errorf("the leader explains it by %s, %v", asJSON(e), err)
	}
	q, err := standby.Queue(t.Context())
	if err != nil || q.Leader || q.ReasonsAt == nil || len(q.Waiting) != 1 || q.Waiting[0].Jobs != 1 || q.Waiting[0].Lane != "judge" || q.Waiting[0].Language != "c" ||
		len(q.Waiting[0].Reasons) != 1 || q.Waiting[0].Reasons[0].Cause != string(dispatch.NobodyOnline) || q.Waiting[0].Reasons[0].Since == nil {
		t.Errorf("a standby's queue is %s, %v", asJSON(q), err)
	}
	s.stop()
	if got := standby.read(sub.ID).Waiting; !strings.HasPrefix(got, "no arbiter leads at the moment; ") || !strings.HasSuffix(got, " s ago: no worker is online") {
		t.Errorf("after the leader's end it waits because %q", got)
	}
	next := startOn(t, s.url, quick)
	next.awaitReady()
	until(t, "the next leader has looked", func() bool { return next.number("select term from waiting_looks") > term })
	if got := next.since(sub.ID); !got.Equal(since) {
		t.Errorf("since %v was %v under the leader before", got, since)
	}
}

// What is written does not grow with what waits.
func TestManyOfOneShapeAreOneRow(t *testing.T) {
	s := newStand(t, quick)
	owner := s.session()
	const many, limits = 100_000, 4
	if _, err := owner.Exec(t.Context(), `insert into jobs (judging_id, submission_id, kind, lane, language, submitter, memory_bytes)
		select -n, -n, 'judge', 'judge', 'c', 'user ' || n % 100, n % $2 from generate_series(1, $1::int) n`, many, limits); err != nil {
		t.Fatal(err)
	}
	until(t, "everything has a reason", func() bool { return s.number("select count(*) from waiting_reasons") == limits })
	state := func() (rows, changed string) {
		err := owner.QueryRow(t.Context(), "select string_agg(shape || ' ' || xmin::text, ';' order by shape), (select looked_at::text from waiting_looks) from waiting_reasons").Scan(&rows, &changed)
		if err != nil {
			t.Fatal(err)
		}
		return rows, changed
	}
	rows, looked := state()
	for range 3 {
		until(t, "the leader looks again", func() bool {
			now, at := state()
			if now != rows {
				t.Fatalf("rows were written though nothing has changed:\n%s\n%s", rows, now)
			}
			later := at != looked
			looked = at
			return later
		})
	}
	var silent int
	if err := owner.QueryRow(t.Context(), "select count(*) from waiting_work where reason is null").Scan(&silent); err != nil || silent != 0 {
		t.Errorf("%d of %d have no reason, %v", silent, many, err)
	}
	standby := startWith(t, s.url, quick, func(cfg *arbiter.Config) { cfg.Leader.Poll = time.Hour })
	q, err := standby.Queue(t.Context())
	if err != nil || len(q.Waiting) != 1 || q.Waiting[0].Jobs != many || len(q.Waiting[0].Reasons) != 1 || q.Waiting[0].Reasons[0].Jobs != many {
		t.Errorf("a standby's queue is %s, %v", asJSON(q), err)
	}
}

// The view finds a job's reason by what SQL makes of its row, the leader stores
// it by what dispatch does: both are the same for every kind of row.
func TestSQLAndTheLeaderAgreeOnShapes(t *testing.T) {
	s := newStand(t, quick)
	s.stop() // nobody is to take the rows for work
	owner := s.session()
	next := startWith(t, s.url, quick, func(cfg *arbiter.Config) {
		cfg.Leader.Poll = time.Hour
		cfg.DatabaseURL = "postgres://nowhere.invalid/"
	})
	rows := 0
	lists := []string{"null", "'{}'", "'{interactive}'", "'{prepare,interactive}'"}
	languages := []string{"", "c"}
	for _, lane := range []string{"probe", "run", "judge", "prepare", "rejudge"} {
		kind := cmp.Or(map[string]string{"probe": "probe", "run": "run", "prepare": "prepare"}[lane], "judge")
		for i, cpu := range []string{"0", "1", "999999", "1000000", "1000001"} {
			for j, batch := range []string{"null", "7"} {
				rows++
				subject := fmt.Sprintf("null, null, %d", rows)
				if kind == "judge" {
					subject = fmt.Sprintf("%d, %d, null", -rows, -rows)
				}
				sql := fmt.Sprintf(`insert into jobs (kind, lane, judging_id, submission_id, work_id, language, memory_bytes, cpu_us, features, tags, batch_id, batch_budget, target_worker_id)
					values ('%s', '%s', %s, '%s', %d, %s, %s, %s, %s, %d, %s)`, kind, lane, subject, languages[(i+j)%2], i*(256<<20), cpu, lists[i%4], lists[(i+2*j)%4], batch, i, []string{"null", "3"}[j])
				if _, err := owner.Exec(t.Context(), sql); err != nil {
					t.Fatalf("%s: %v", sql, err)
				}
			}
		}
	}
	var ids []int64
	if err := owner.QueryRow(t.Context(), "select array_agg(id) from jobs").Scan(&ids); err != nil {
		t.Fatal(err)
	}
	pending, err := next.db.Q.PendingJobsOf(t.Context(), next.db.Pool, ids)
	if err != nil || len(pending) != rows {
		t.Fatalf("%d rows, %v", len(pending), err)
	}
	shapes := map[string]bool{}
	for n, r := range pending {
		failedBy := []int64{}
		if n%2 == 0 {
			for gen, outcome := range []string{"failed", "expired", "failed", "undelivered", "released"} {
				worker := []int64{12, 3, 12, 40, 41}[gen]
				if worker < 40 && !slices.Contains(failedBy, worker) {
					failedBy = append(failedBy, worker)
				}
				if _, err := owner.Exec(t.Context(), "set session_replication_role = replica"); err != nil { // the workers are not there
					t.Fatal(err)
				}
				if _, err := owner.Exec(t.Context(), `insert into attempts (job_id, lease_gen, lease_token, worker_id, session, request_id, term, outcome, ended_at)
					values ($1, $2, gen_random_uuid(), $3, gen_random_uuid(), gen_random_uuid(), 1, $4, now())`, r.ID, gen+1, worker, outcome); err != nil {
					t.Fatal(err)
				}
			}
			slices.Sort(failedBy)
		}
		var shape, failed string
		if err := owner.QueryRow(t.Context(), `select job_shape(lane, language, memory_bytes, cpu_us, features, tags, batch_id, batch_budget, target_worker_id), job_failed_by(id)
			from jobs where id = $1`, r.ID).Scan(&shape, &failed); err != nil {
			t.Fatal(err)
		}
		if ours, by := arbiter.ReasonKey(r, failedBy); shape != ours || failed != by {
			t.Errorf("SQL makes %q failed by %q of job %d, the leader %q failed by %q", shape, failed, r.ID, ours, by)
		}
		shapes[shape] = true
	}
	if len(shapes) < 40 {
		t.Errorf("only %d shapes were tried", len(shapes))
	}
}

// One submission that somebody has judged again does not wait for a batch.
func TestARejudgeOfOneGoesBeforeTheRestOfALargeOne(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	var ids []int64
	for range 4 {
		ids = append(ids, s.submit("c").ID)
		w.judge("WA")
	}
	s.rejudge(gavelapi.RejudgeFilter{Submissions: ids[:3]}, "later")
	w.judge("AC")
	if _, err := s.RejudgeSubmission(t.Context(), s.admin, ids[3], "a doubt"); err != nil {
		t.Fatal(err)
	}
	if l := w.judge("AC"); l.SubmissionID != ids[3] {
		t.Errorf("submission %d of the batch went before number %d, which is rejudged alone", l.SubmissionID, ids[3])
	}
}

// How long it will take is told of each place, and of whoever comes now.
func TestTheWaitIsEstimated(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	s.submit("c")
	l := w.hold()
	until(t, "some time has passed", func() bool {
		return s.number("select count(*) from attempts where granted_at < now() - interval '200 milliseconds'") == 1
	})
	w.report(l.LeaseToken, verdictReport("AC"))
	first, second := s.submit("c"), s.submit("c")
	_, leave := w.stays()
	defer leave()
	until(t, "the first one is at work", func() bool { return s.read(first.ID).State == gavelapi.StateJudging })
	third := s.submit("c")
	e2, err2 := s.Explain(t.Context(), second.ID)
	e3, err3 := s.Explain(t.Context(), third.ID)
	if err2 != nil || err3 != nil || e2.Position != 1 || e3.Position != 2 || e2.EstimateMS < 100 || e3.EstimateMS != 2*e2.EstimateMS && e3.EstimateMS != 2*e2.EstimateMS+1 {
		t.Errorf("explained by %s and %s, %v, %v", asJSON(e2), asJSON(e3), err2, err3)
	}
	q, err := s.Queue(t.Context())
	if err != nil || len(q.Waiting) != 1 || q.Waiting[0].EstimateMS <= e3.EstimateMS {
		t.Errorf("who comes now is told %s, %v", asJSON(q), err)
	}
}
