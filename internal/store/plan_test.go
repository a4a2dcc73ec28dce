package store_test

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const batchRows = 50

// backlog is a database with much open work, none of which the planner has been
// told of: half of it is leased, the rest waits.
func backlog(t *testing.T, open int) (f *fixture, leased, waiting []int64) {
	f = newFixture(t)
	s := f.submit()
	owner := f.owner()
	for _, sql := range []string{
		// Nothing but this test says when statistics are made, and they are as
		// old as can be.
		"alter table jobs set (autovacuum_enabled = off)",
		"alter table judgings set (autovacuum_enabled = off)",
		"alter table attempts set (autovacuum_enabled = off)",
		"delete from jobs",
		"analyze jobs, judgings, attempts",
		"set session_replication_role = replica", // foreign keys are not what is looked at
		fmt.Sprintf(`insert into judgings (submission_id, kind, package_digest, limits)
		             select %d, 'judge', '%s', '{}' from generate_series(1, %d)`, s.SubmissionID, f.digest, open),
		fmt.Sprintf(`insert into jobs (judging_id, submission_id, kind, lane, language, lease_gen)
		             select (select max(id) from judgings) - n, -n, 'judge', 'judge', 'c', 0 from generate_series(0, %d - 1) n`, open),
		fmt.Sprintf(`update jobs set state = 'leased', lease_gen = 1, attempts = 1, lease_token = gen_random_uuid(),
		             lease_expires_at = now() + interval '1 hour', confirmed = true, worker_id = %d where id %% 2 = 0`, f.workerID),
		`insert into attempts (job_id, lease_gen, lease_token, judging_id, submission_id, worker_id, session, request_id, term)
		 select id, 1, lease_token, judging_id, submission_id, worker_id, gen_random_uuid(), gen_random_uuid(), 1 from jobs where state = 'leased'`,
	} {
		if _, err := owner.Exec(t.Context(), sql); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	for i := range int64(2 * batchRows) {
		if id := s.JobID + 1 + i; id%2 == 0 {
			leased = append(leased, id)
		} else {
			waiting = append(waiting, id)
		}
	}
	return f, leased, waiting
}

// A batch looks each of its jobs up by its key, however much other work is
// open, whatever the planner believes of the tables, and also where it plans
// without looking at the batch. Joining the batch with open jobs by anything
// but the id compares each with each: a rejudge of 1,500 slowed 50 grants to a
// second, and everybody with them.
func TestABatchTouchesItsOwnJobsOnly(t *testing.T) {
	for _, open := range []int{1500, 6000, 100_000} {
		t.Run(fmt.Sprintf("of %d open", open), func(t *testing.T) { batchesTouchTheirOwn(t, open) })
	}
}

func batchesTouchTheirOwn(t *testing.T, open int) {
	f, leased, waiting := backlog(t, open)
	ctx := t.Context()
	statements := []struct {
		name string
		run  func(tx pgx.Tx) (int, error)
	}{
		{"grants", func(tx pgx.Tx) (int, error) {
			p := storedb.GrantLeasesParams{Confirm: time.Minute, Shard: 0, Term: f.term, JobIds: waiting}
			for range waiting {
				p.LeaseGens = append(p.LeaseGens, 0)
				p.LeaseTokens = append(p.LeaseTokens, uuid.New())
				p.WorkerIds = append(p.WorkerIds, f.workerID)
				p.Sessions = append(p.Sessions, uuid.New())
				p.RequestIds = append(p.RequestIds, uuid.New())
			}
			_, err := f.Q.GrantLeases(ctx, tx, &p)
			if err != nil {
				return 0, err
			}
			// Without a source and a submission a grant returns no row; the job has it.
			return f.count(tx, "select count(*) from jobs where id = any($1) and state = 'leased'", waiting), nil
		}},
		{"heartbeats", func(tx pgx.Tx) (int, error) {
			p := storedb.ExtendLeasesParams{Ttl: time.Minute, JobIds: leased, LeaseTokens: f.tokens(tx, leased)}
			for range leased {
				p.WorkerIds = append(p.WorkerIds, f.workerID)
			}
			return count(f.Q.ExtendLeases(ctx, tx, &p))
		}},
		{"results", func(tx pgx.Tx) (int, error) {
			p := result(0, uuid.Nil, 0, "AC")
			tokens := f.tokens(tx, leased)
			all := storedb.RecordResultsParams{JobIds: leased, LeaseTokens: tokens}
			for range leased {
				all.WorkerIds = append(all.WorkerIds, f.workerID)
				all.Verdicts = append(all.Verdicts, p.Verdicts...)
				all.CPUUs = append(all.CPUUs, p.CPUUs...)
				all.WallUs = append(all.WallUs, p.WallUs...)
				all.MemoryBytes = append(all.MemoryBytes, p.MemoryBytes...)
				all.Compiles = append(all.Compiles, p.Compiles...)
				all.Tests = append(all.Tests, p.Tests...)
				all.Provenances = append(all.Provenances, p.Provenances...)
			}
			rows, err := f.Q.RecordResults(ctx, tx, &all)
			if err == nil && len(rows) > 0 && (rows[0].Judgings != batchRows || rows[0].Attempts != batchRows) {
				err = fmt.Errorf("%d judgings and %d attempts were closed", rows[0].Judgings, rows[0].Attempts)
			}
			return len(rows), err
		}},
	}
	for _, beliefs := range []struct{ name, analyze, mode string }{
		{"statistics from when all was empty", "", "force_custom_plan"},
		{"plans without a look at the batch", "", "force_generic_plan"},
		{"new statistics", "analyze jobs, judgings, attempts", "force_custom_plan"},
	} {
		if _, err := f.owner().Exec(ctx, beliefs.analyze); err != nil {
			t.Fatal(err)
		}
		for _, s := range statements {
			t.Run(s.name+", "+beliefs.name, func(t *testing.T) {
				tx, err := f.owner().Begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
				if _, err := tx.Exec(ctx, "set local plan_cache_mode = "+beliefs.mode); err != nil {
					t.Fatal(err)
				}
				n, err := s.run(tx)
				if err != nil {
					t.Fatal(err)
				}
				if n != batchRows {
					t.Errorf("%d rows matched, want %d", n, batchRows)
				}
				rows, err := tx.Query(ctx, `select relname, coalesce(idx_scan, 0), seq_tup_read from pg_stat_xact_user_tables
				  where relname in ('jobs', 'judgings', 'attempts', 'submissions', 'submission_sources') order by relname`)
				if err != nil {
					t.Fatal(err)
				}
				var table string
				var looked, read int64
				_, err = pgx.ForEachRow(rows, []any{&table, &looked, &read}, func() error {
					// Twice to find a row and to change it, once for this test's own
					// look. One look at a whole small table instead is as good.
					if looked > 4*batchRows || read > min(int64(open), 6000)+1 {
						t.Errorf("%s: %d look-ups by index and %d rows read for a batch of %d", table, looked, read, batchRows)
					}
					return nil
				})
				if err != nil {
					t.Fatal(err)
				}
			})
		}
	}
}

// owner is a session with the powers that the arbiter's gives up.
func (f *fixture) owner() *pgx.Conn {
	f.t.Helper()
	conn, err := pgx.ConnectConfig(f.t.Context(), f.Pool.Config().ConnConfig)
	if err != nil {
		f.t.Fatal(err)
	}
	f.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(f.t.Context())) }) // the test has been told of every error
	return conn
}

func (f *fixture) count(tx pgx.Tx, sql string, args ...any) (n int) {
	f.t.Helper()
	if err := tx.QueryRow(f.t.Context(), sql, args...).Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}

// tokens are those of leased jobs, in the order of ids.
func (f *fixture) tokens(tx pgx.Tx, ids []int64) []uuid.UUID {
	f.t.Helper()
	rows, err := tx.Query(f.t.Context(), "select lease_token from jobs where id = any($1) order by id", ids)
	if err != nil {
		f.t.Fatal(err)
	}
	tokens, err := pgx.CollectRows(rows, pgx.RowTo[uuid.UUID])
	if err != nil {
		f.t.Fatal(err)
	}
	return tokens
}
