package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// Whatever ends a job that is just being granted waits for the grant, and ends
// its attempt too. An attempt that is left at work for ever keeps its worker
// reporting for ever.
func TestWhatEndsAJobEndsTheAttemptThatItIsJustGivenTo(t *testing.T) {
	rejudge := func(f *fixture, id int64) store.Planned {
		f.t.Helper()
		made, err := f.Rejudge(f.t.Context(), store.NewRejudge{
			Filter: storedb.LockRejudgeCandidatesParams{Ids: []int64{id}}, Described: json.RawMessage("{}"), Reason: "test",
			Limits: func(string, string) (json.RawMessage, error) { return json.RawMessage("{}"), nil },
		})
		if err != nil || len(made.Jobs) != 1 {
			f.t.Errorf("%d jobs, %v", len(made.Jobs), err)
		}
		return made
	}
	prepare := func(f *fixture, digest string) store.Imported {
		f.t.Helper()
		out, err := f.Import(f.t.Context(), store.NewImport{
			Package: storedb.InsertPackageParams{Digest: digest, Manifest: json.RawMessage("{}"), SizeBytes: 1},
			Name:    "new", Title: "New", Verify: "all", TokenID: f.token,
			Steps: []store.PrepareStep{{Kind: "checker", Path: "output_validators/v.c", Language: "c"}},
		})
		if err != nil || len(out.Jobs) != 1 {
			f.t.Fatalf("%d jobs, %v", len(out.Jobs), err)
		}
		return out
	}
	for name, c := range map[string]func(f *fixture) (job int64, end func() error){
		"a submission is cancelled": func(f *fixture) (int64, func() error) {
			s := f.submit()
			return s.JobID, func() error { _, err := f.CancelJob(f.t.Context(), s.SubmissionID, s.JobID, nil); return err }
		},
		"a run is cancelled": func(f *fixture) (int64, func() error) {
			id, s := f.submitRun(nil)
			return s.JobID, func() error { _, err := f.CancelRun(f.t.Context(), id); return err }
		},
		"a submission is rejudged": func(f *fixture) (int64, func() error) {
			s := f.submit()
			return s.JobID, func() error { rejudge(f, s.SubmissionID); return nil }
		},
		"a rejudge is cancelled": func(f *fixture) (int64, func() error) {
			s, token := f.submit(), uuid.New() // judged: a first judging would go on
			if !f.do(s, lease.Grant, 0, token) || !f.do(s, lease.Result, 0, token) {
				f.t.Fatal("not judged")
			}
			made := rejudge(f, s.SubmissionID)
			return made.Jobs[0].ID, func() error { _, err := f.CancelRejudge(f.t.Context(), made.RejudgeID, nil); return err }
		},
		"a newer package is imported": func(f *fixture) (int64, func() error) {
			out := prepare(f, "sha256:"+fmt.Sprintf("%064d", 1))
			return out.Jobs[0].ID, func() error { prepare(f, "sha256:"+fmt.Sprintf("%064d", 2)); return nil }
		},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFixture(t)
			job, end := c(f)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			tx, err := f.Hot.Begin(ctx)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // committed below
			_, err = f.Q.GrantLeases(ctx, tx, &storedb.GrantLeasesParams{
				JobIds: []int64{job}, LeaseGens: []int64{0}, LeaseTokens: newTokens(1), WorkerIds: []int64{f.workerID},
				Sessions: newTokens(1), RequestIds: []uuid.UUID{uuid.New()}, Confirm: time.Minute, Term: f.term,
			})
			if err != nil {
				t.Fatal(err)
			}
			ended := make(chan error, 1)
			go func() { ended <- end() }()
			owner := f.owner() // the arbiter's role does not see what sessions wait for
			for waits := false; !waits; {
				err := owner.QueryRow(ctx, "select exists (select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock')").Scan(&waits)
				if err != nil {
					t.Fatal(err)
				}
			}
			if err := tx.Commit(ctx); err != nil {
				t.Fatal(err)
			}
			if err := <-ended; err != nil {
				t.Fatal(err)
			}
			var outcome string
			if err := f.Pool.QueryRow(ctx, "select outcome from attempts where job_id = $1", job).Scan(&outcome); err != nil || outcome != "cancelled" {
				t.Errorf("the attempt is %s (%v), and its job was ended", outcome, err)
			}
			var left bool
			if err := f.Pool.QueryRow(ctx, "select exists (select from jobs where id = $1)", job).Scan(&left); err != nil || left {
				t.Errorf("the job is still there (%v)", err)
			}
		})
	}
}
