package store_test

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

const batchRows = 50

// movedClock is the system's, moved.
type movedClock struct {
	clock.System
	by atomic.Int64 // nanoseconds
}

func (c *movedClock) Now() time.Time { return c.System.Now().Add(time.Duration(c.by.Load())) }

// backlog is a database with much open work, none of which the planner has been
// told of: half of it is leased, the rest waits.
func backlog(t *testing.T, open int) (f *fixture, leased, waiting []int64) {
	later := &movedClock{}
	f = newFixtureWith(t, store.Options{Clock: later})
	s := f.submit()
	owner := f.owner()
	empty := func() { // a session of the hot path makes its plans now
		if _, err := owner.Exec(t.Context(), "vacuum analyze jobs"); err != nil {
			t.Fatal(err)
		}
		for _, event := range []lease.Event{lease.Grant, lease.Heartbeat, lease.Result} {
			if f.do(s, event, 0, uuid.New()) {
				t.Fatalf("%s did something to a job that is gone", event)
			}
		}
	}
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
		if strings.HasPrefix(sql, "analyze") {
			empty()
		}
	}
	later.by.Add(int64(2 * time.Second)) // its plans are old now
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
	for _, beliefs := range []struct {
		name, analyze, mode string
		begin               func(context.Context) (pgx.Tx, error)
	}{
		{"plans of the hot path from when all was empty", "", "", f.Hot.Begin},
		{"statistics from when all was empty", "", "force_custom_plan", f.owner().Begin},
		{"plans without a look at the batch", "", "force_generic_plan", f.owner().Begin},
		{"new statistics", "analyze jobs, judgings, attempts", "force_custom_plan", f.owner().Begin},
		{"plans of the hot path from new statistics", "", "", f.Hot.Begin},
	} {
		if _, err := f.owner().Exec(ctx, beliefs.analyze); err != nil {
			t.Fatal(err)
		}
		for _, s := range statements {
			t.Run(s.name+", "+beliefs.name, func(t *testing.T) {
				tx, err := beliefs.begin(ctx)
				if err != nil {
					t.Fatal(err)
				}
				defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }()
				if beliefs.mode != "" {
					if _, err := tx.Exec(ctx, "set local plan_cache_mode = "+beliefs.mode); err != nil {
						t.Fatal(err)
					}
				}
				before := f.touched(tx)
				n, err := s.run(tx)
				if err != nil {
					t.Fatal(err)
				}
				if n != batchRows {
					t.Errorf("%d rows matched, want %d", n, batchRows)
				}
				for table, after := range f.touched(tx) {
					looked, fetched, read := after.looked-before[table].looked, after.fetched-before[table].fetched, after.read-before[table].read
					// Twice to find a row and to change it, once for this test's own
					// look. Two looks at a whole small table instead are as good.
					whole := min(2*int64(open), 6000) + 1
					if looked > 4*batchRows || fetched > 4*batchRows || read > whole {
						t.Errorf("%s: %d look-ups by index that found %d rows, and %d rows read for a batch of %d", table, looked, fetched, read, batchRows)
					}
				}
			})
		}
	}
}

// touches is what a session has done to a table: look-ups by index, rows
// that those found, and rows read from one end to the other.
type touches struct{ looked, fetched, read int64 }

// touched is what the session of a transaction has done; it may include what
// it did before.
func (f *fixture) touched(tx pgx.Tx) map[string]touches {
	f.t.Helper()
	rows, err := tx.Query(f.t.Context(), `select relname, coalesce(idx_scan, 0), coalesce(idx_tup_fetch, 0), seq_tup_read from pg_stat_xact_user_tables
	  where relname in ('jobs', 'judgings', 'attempts', 'submissions', 'submission_sources')`)
	if err != nil {
		f.t.Fatal(err)
	}
	all := map[string]touches{}
	var table string
	var now touches
	if _, err := pgx.ForEachRow(rows, []any{&table, &now.looked, &now.fetched, &now.read}, func() error {
		all[table] = now
		return nil
	}); err != nil {
		f.t.Fatal(err)
	}
	return all
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

// A session of the hot path is bounded as any other, and has given up the same rights.
func TestSessionsOfTheHotPathHaveTheSameGuards(t *testing.T) {
	f := newFixture(t)
	const asked = `select concat_ws(' ', current_user, current_setting('statement_timeout'), current_setting('lock_timeout'),
		current_setting('idle_in_transaction_session_timeout'), current_setting('client_connection_check_interval'), current_setting('jit'))`
	var plain, hot string
	if err := f.Pool.QueryRow(t.Context(), asked).Scan(&plain); err != nil {
		t.Fatal(err)
	}
	if err := f.Hot.QueryRow(t.Context(), asked).Scan(&hot); err != nil {
		t.Fatal(err)
	}
	if plain != hot || !strings.HasPrefix(plain, "gavel_arbiter 10s 5s 6s") {
		t.Errorf("a session of the pool has %q, one of the hot path %q", plain, hot)
	}
}
