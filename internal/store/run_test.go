package store_test

import (
	"encoding/json"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

func (f *fixture) submitRun(change func(*store.NewRun)) (runID int64, s store.Submitted) {
	f.t.Helper()
	n := store.NewRun{
		Language: "c", Source: []byte("x"), Inputs: [][]byte{{}, {0, 255}}, Limits: json.RawMessage("{}"),
		Features: []string{"run"}, Keep: time.Hour, TokenID: f.token,
	}
	if change != nil {
		change(&n)
	}
	run, err := f.SubmitRun(f.t.Context(), n)
	if err != nil {
		f.t.Fatal(err)
	}
	return run.RunID, store.Submitted{JobID: run.JobID}
}

func (f *fixture) run(id int64) *storedb.RunByIDRow {
	f.t.Helper()
	r, err := f.Q.RunByID(f.t.Context(), f.Pool, id)
	if err != nil {
		f.t.Fatal(err)
	}
	return r
}

func (f *fixture) recordRun(job int64, token uuid.UUID) int {
	f.t.Helper()
	rows, err := f.Q.RecordRun(f.t.Context(), f.Pool, &storedb.RecordRunParams{
		JobID: job, LeaseToken: token, WorkerID: f.workerID, Compiled: true, Compile: json.RawMessage("{}"),
		Results: json.RawMessage("[{},{}]"), Outputs: [][]byte{{}, {0, 1}}, Errors: [][]byte{{}, {}}, Provenance: json.RawMessage("{}"),
	})
	if err != nil {
		f.t.Fatal(err)
	}
	for _, r := range rows {
		if r.Runs != 1 || r.Attempts != 1 {
			f.t.Errorf("recorded %d runs and %d attempts", r.Runs, r.Attempts)
		}
	}
	return len(rows)
}

// I2, I3: the token decides, once, and only of the kind that it is for.
func TestARunIsRecordedOnceAndByItsHolderOnly(t *testing.T) {
	f := newFixture(t)
	id, s := f.submitRun(nil)
	if got := f.run(id); got.State != "pending" || got.Inputs != 2 || got.ExpiresAt != nil {
		t.Fatalf("%+v", got)
	}
	token := uuid.New()
	if !f.do(s, lease.Grant, 0, token) {
		t.Fatal("not granted")
	}
	if f.run(id).State != "running" {
		t.Error("not running")
	}
	if n := f.recordRun(s.JobID, uuid.New()); n != 0 {
		t.Error("recorded with another token")
	}
	rows, err := f.Q.RecordResults(t.Context(), f.Pool, result(s.JobID, token, f.workerID, "AC"))
	if err != nil || len(rows) != 0 {
		t.Errorf("a verdict was taken for a run: %d rows, %v", len(rows), err)
	}
	if n := f.recordRun(s.JobID, token); n != 1 {
		t.Fatal("not recorded")
	}
	if n := f.recordRun(s.JobID, token); n != 0 {
		t.Error("recorded twice")
	}
	got := f.run(id)
	if got.State != "done" || len(got.Outputs) != 2 || string(got.Outputs[1]) != "\x00\x01" || got.Outputs[0] == nil || got.ExpiresAt == nil ||
		got.ExpiresAt.Sub(*got.FinishedAt) != time.Hour {
		t.Errorf("%+v", got)
	}
	// And a run's result is none for a judging.
	sub := f.submit()
	token = uuid.New()
	f.do(sub, lease.Grant, 0, token)
	if n := f.recordRun(sub.JobID, token); n != 0 {
		t.Error("a judging was ended by the result of a run")
	}
}

func TestRunsThatFailAtTheCapAreSystemErrors(t *testing.T) {
	f := newFixture(t)
	for _, how := range []string{"failed", "expired"} {
		id, s := f.submitRun(nil)
		for gen := range int64(attemptCap) {
			token := uuid.New()
			if !f.do(s, lease.Grant, gen, token) {
				t.Fatalf("%s: grant %d", how, gen)
			}
			last := gen == attemptCap-1
			if how == "expired" {
				f.exec("update jobs set confirmed = true, lease_expires_at = now() - interval '1 s' where id = $1", s.JobID)
				requeued, ended, err := f.Reclaim(t.Context(), store.ReclaimParams{Term: f.term, AttemptCap: attemptCap, Fault: json.RawMessage(`{"blame":"host"}`)})
				if err != nil || len(ended) == 1 != last || len(requeued) == 1 == last {
					t.Fatalf("reclaim %d: %d, %d, %v", gen, len(requeued), len(ended), err)
				}
				for _, r := range requeued {
					if r.Kind != "run" || r.WorkID != id {
						t.Errorf("%+v", r)
					}
				}
				for _, r := range ended {
					if r.Kind != "run" || r.WorkID != id || r.Runs != 1 || r.Judgings != 0 {
						t.Errorf("%+v", r)
					}
				}
				continue
			}
			returned, err := f.Q.ReturnFailed(t.Context(), f.Pool, &storedb.ReturnFailedParams{JobID: s.JobID, LeaseToken: token, WorkerID: f.workerID, AttemptCap: attemptCap})
			if err != nil || len(returned) == 1 == last {
				t.Fatalf("return %d: %d, %v", gen, len(returned), err)
			}
			if last {
				ended, err := f.Q.GiveUpFailed(t.Context(), f.Pool, &storedb.GiveUpFailedParams{
					JobID: s.JobID, LeaseToken: token, WorkerID: f.workerID, AttemptCap: attemptCap, Fault: json.RawMessage(`{"blame":"host"}`),
				})
				if err != nil || len(ended) != 1 || ended[0].Runs != 1 {
					t.Fatalf("give up: %v, %v", ended, err)
				}
			}
		}
		if got := f.run(id); got.State != "system_error" || got.Fault == nil || got.ExpiresAt == nil {
			t.Errorf("%s: %+v", how, got)
		}
	}
}

func TestACancelledRunFencesItsLease(t *testing.T) {
	f := newFixture(t)
	id, s := f.submitRun(nil)
	token := uuid.New()
	f.do(s, lease.Grant, 0, token)
	rows, err := f.Q.CancelOpenRun(t.Context(), f.Pool, id)
	if err != nil || len(rows) != 1 || rows[0].Runs != 1 || rows[0].Attempts != 1 {
		t.Fatalf("%+v %v", rows, err)
	}
	if n := f.recordRun(s.JobID, token); n != 0 || f.run(id).State != "cancelled" {
		t.Error("a cancelled run got a result")
	}
}

func TestExpiredRunsAreGone(t *testing.T) {
	f := newFixture(t)
	open, _ := f.submitRun(nil)
	old, _ := f.submitRun(nil)
	fresh, _ := f.submitRun(nil)
	for _, id := range []int64{old, fresh} {
		if _, err := f.Q.CancelOpenRun(t.Context(), f.Pool, id); err != nil {
			t.Fatal(err)
		}
	}
	f.exec("update runs set expires_at = now() where id = $1", old)
	if _, err := f.Q.RunByID(t.Context(), f.Pool, old); !store.IsNoRows(err) {
		t.Errorf("an expired run is still there: %v", err)
	}
	if n, err := f.Q.DeleteExpiredRuns(t.Context(), f.Pool); n != 1 || err != nil {
		t.Errorf("deleted %d, %v", n, err)
	}
	f.run(open)
	f.run(fresh)
}

// Requests of one user at the same time are counted one after the other.
func TestAUserMayHaveOnlySoMuchWaiting(t *testing.T) {
	f := newFixture(t)
	const limit, asked = 4, 12
	var wg sync.WaitGroup
	var mu sync.Mutex
	stored, refused := 0, 0
	for i := range asked {
		wg.Go(func() {
			var err error
			if i%2 == 0 {
				_, err = f.SubmitRun(t.Context(), store.NewRun{
					Language: "c", Submitter: "ann", Source: []byte("x"), Inputs: [][]byte{{}}, Limits: json.RawMessage("{}"), Keep: time.Hour, TokenID: f.token, MaxWaiting: limit,
				})
			} else {
				one := f.submission("ann")
				one.MaxWaiting = limit
				_, err = f.Submit(t.Context(), one)
			}
			mu.Lock()
			defer mu.Unlock()
			switch {
			case err == nil:
				stored++
			case apperr.CodeOf(err) == apperr.TooMany:
				refused++
			default:
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if stored != limit || refused != asked-limit {
		t.Errorf("%d stored and %d refused, want %d and %d", stored, refused, limit, asked-limit)
	}
	var rows int
	if err := f.Pool.QueryRow(t.Context(), "select count(*) from jobs").Scan(&rows); err != nil || rows != limit {
		t.Errorf("%d jobs, %v", rows, err)
	}
	// What is being done does not wait, others are not counted, and a site
	// without users is not bounded.
	var job int64
	if err := f.Pool.QueryRow(t.Context(), "select min(id) from jobs").Scan(&job); err != nil {
		t.Fatal(err)
	}
	f.do(store.Submitted{JobID: job}, lease.Grant, 0, uuid.New())
	for i, user := range []string{"ann", "bob", "", "", "", "", ""} {
		f.submitRun(func(n *store.NewRun) { n.Submitter, n.MaxWaiting = user, limit; n.SourceName = fmt.Sprint(i) })
	}
}

// What is asked again is not counted again: not even by a user who may have no
// more waiting.
func TestARepeatedSubmissionIsNotOneTooMany(t *testing.T) {
	f := newFixture(t)
	keyed := func(key string) store.NewSubmission {
		n := f.submission("ann")
		n.Key, n.MaxWaiting = store.IdempotencyKey{Text: key, BodyHash: []byte("hash")}, 1
		return n
	}
	first, err := f.Submit(t.Context(), keyed("k"))
	if err != nil {
		t.Fatal(err)
	}
	if again, err := f.Submit(t.Context(), keyed("k")); err != nil || !again.Replayed || again.SubmissionID != first.SubmissionID {
		t.Errorf("the same again: %+v, %v, want submission %d", again, err, first.SubmissionID)
	}
	for _, key := range []string{"", "l"} {
		if _, err := f.Submit(t.Context(), keyed(key)); apperr.CodeOf(err) != apperr.TooMany {
			t.Errorf("another with key %q: %v", key, err)
		}
	}
	other := keyed("k")
	other.Key.BodyHash = []byte("another")
	if _, err := f.Submit(t.Context(), other); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("the key with another body: %v", err)
	}
}
