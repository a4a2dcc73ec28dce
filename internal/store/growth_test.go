package store_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// history adds submissions that were judged long ago, and tells the planner of
// them.
func (f *fixture) history(rows int) {
	f.t.Helper()
	owner := f.owner()
	for _, sql := range []string{
		"set session_replication_role = replica", // foreign keys are not what is looked at
		fmt.Sprintf(`with s as (
		    insert into submissions (problem_id, language, source_bytes, stop_rule) select %d, 'c', 1, 'first' from generate_series(1, %d) returning id),
		  c as (insert into submission_sources (submission_id, source) select id, 'x' from s),
		  g as (insert into judgings (submission_id, kind, package_digest, limits, state, verdict, worker_id, lease_gen, tests, finished_at)
		    select id, 'judge', '%s', '{}', 'done', 'AC', %d, 1, '[]', now() from s returning id, submission_id)
		  insert into attempts (job_id, lease_gen, lease_token, judging_id, submission_id, worker_id, session, request_id, term, outcome, ended_at)
		    select -id, 1, gen_random_uuid(), id, submission_id, %d, gen_random_uuid(), gen_random_uuid(), 1, 'completed', now() from g`,
			f.problem, rows, f.digest, f.workerID, f.workerID),
		"vacuum analyze submissions, submission_sources, judgings, attempts, jobs",
	} {
		if _, err := owner.Exec(f.t.Context(), sql); err != nil {
			f.t.Fatalf("%s: %v", sql, err)
		}
	}
}

// explained runs a query under EXPLAIN instead and keeps what it did.
type explained struct {
	tx   pgx.Tx
	plan planNode
}

// planNode is what EXPLAIN says of a step and those below it.
type planNode struct {
	Type     string     `json:"Node Type"`
	Table    string     `json:"Relation Name"`
	Hit      int        `json:"Shared Hit Blocks"`
	Read     int        `json:"Shared Read Blocks"`
	Children []planNode `json:"Plans"`
}

// scanned are the tables that are read as a whole.
func (p planNode) scanned() (tables []string) {
	if p.Type == "Seq Scan" {
		tables = append(tables, p.Table)
	}
	for _, c := range p.Children {
		tables = append(tables, c.scanned()...)
	}
	return tables
}

// Exec implements storedb.DBTX.
func (e *explained) Exec(ctx context.Context, sql string, args ...any) (pgconn.CommandTag, error) {
	return e.tx.Exec(ctx, sql, args...)
}

// QueryRow implements storedb.DBTX.
func (e *explained) QueryRow(ctx context.Context, sql string, args ...any) pgx.Row {
	return e.tx.QueryRow(ctx, sql, args...)
}

// Query implements storedb.DBTX.
func (e *explained) Query(ctx context.Context, sql string, args ...any) (pgx.Rows, error) {
	var raw []byte
	if err := e.tx.QueryRow(ctx, "explain (analyze, buffers, format json) "+sql, args...).Scan(&raw); err != nil {
		return nil, err
	}
	var plans []struct {
		Plan planNode `json:"Plan"`
	}
	if err := json.Unmarshal(raw, &plans); err != nil {
		return nil, err
	}
	e.plan = plans[0].Plan
	return e.tx.Query(ctx, "select where false") // whose rows nobody is to read
}

// A claim, a heartbeat, a result and the scan for waiting work cost the same
// on a site's first day and after years: they touch as many pages beside a
// hundred times as many finished submissions, but for the indexes' greater
// depth, and read none of the tables of finished work as a whole.
func TestFinishedWorkCostsOpenWorkNothing(t *testing.T) {
	const few, batch = 300, 20
	f := newFixture(t)
	ctx := t.Context()
	tests := json.RawMessage(`[{"name":"1","verdict":"AC"},{"name":"2","verdict":"AC"},{"name":"3","verdict":"AC"},{"name":"4","verdict":"AC"},{"name":"5","verdict":"AC"},` +
		`{"name":"6","verdict":"AC"},{"name":"7","verdict":"AC"},{"name":"8","verdict":"AC"},{"name":"9","verdict":"AC"},{"name":"10","verdict":"AC"}]`)
	measure := func() (pages map[string]int, whole map[string][]string) {
		pages, whole = map[string]int{}, map[string][]string{}
		grants := storedb.GrantLeasesParams{Confirm: time.Minute, Shard: 0, Term: f.term}
		beats := storedb.ExtendLeasesParams{Ttl: time.Minute}
		var results storedb.RecordResultsParams
		for range batch {
			s, token := f.submit(), uuid.New()
			grants.JobIds, grants.LeaseGens = append(grants.JobIds, s.JobID), append(grants.LeaseGens, 0)
			grants.LeaseTokens, grants.WorkerIds = append(grants.LeaseTokens, token), append(grants.WorkerIds, f.workerID)
			grants.Sessions, grants.RequestIds = append(grants.Sessions, uuid.New()), append(grants.RequestIds, uuid.New())
			r := result(s.JobID, token, f.workerID, "AC")
			results.Verdicts, results.CPUUs, results.WallUs = append(results.Verdicts, "AC"), append(results.CPUUs, 1), append(results.WallUs, 1)
			results.MemoryBytes, results.Tests = append(results.MemoryBytes, 1), append(results.Tests, tests)
			results.Compiles, results.Provenances = append(results.Compiles, r.Compiles...), append(results.Provenances, r.Provenances...)
		}
		beats.JobIds, beats.LeaseTokens, beats.WorkerIds = grants.JobIds, grants.LeaseTokens, grants.WorkerIds
		results.JobIds, results.LeaseTokens, results.WorkerIds = grants.JobIds, grants.LeaseTokens, grants.WorkerIds
		for _, s := range []struct {
			name string
			run  func(db storedb.DBTX) error
		}{
			{"scan", func(db storedb.DBTX) error { _, err := f.Q.PendingJobKeys(ctx, db); return err }},
			{"claim", func(db storedb.DBTX) error { _, err := f.Q.GrantLeases(ctx, db, &grants); return err }},
			{"heartbeat", func(db storedb.DBTX) error { _, err := f.Q.ExtendLeases(ctx, db, &beats); return err }},
			{"result", func(db storedb.DBTX) error { _, err := f.Q.RecordResults(ctx, db, &results); return err }},
		} {
			pool := f.Hot
			if s.name == "scan" {
				pool = f.Pool
			}
			err := pgx.BeginFunc(ctx, pool, func(tx pgx.Tx) error {
				e := &explained{tx: tx}
				err := s.run(e)
				pages[s.name] = e.plan.Hit + e.plan.Read
				whole[s.name] = e.plan.scanned()
				return err
			})
			if err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		if left := f.waiting(); left != 0 {
			t.Fatalf("%d jobs were not carried to their end", left)
		}
		return pages, whole
	}
	f.history(few)
	before, _ := measure() // of tables of a few pages it may well read all
	f.history(99 * few)
	after, whole := measure()
	for name, n := range before {
		t.Logf("%s of %d: %d pages beside %d finished submissions, %d beside %d", name, batch, n, few, after[name], 100*few)
		// An index of a hundred times as many rows is a level deeper, and each
		// row of the batch looks at most six of them up.
		if after[name] > n+6*batch {
			t.Errorf("a %s of %d touches %d pages beside %d finished submissions and %d beside %d", name, batch, n, few, after[name], 100*few)
		}
		for _, table := range whole[name] {
			if table != "jobs" { // which holds open work only
				t.Errorf("a %s reads all of %s", name, table)
			}
		}
	}
}

func (f *fixture) waiting() (n int) {
	f.t.Helper()
	if err := f.Pool.QueryRow(f.t.Context(), "select count(*) from jobs").Scan(&n); err != nil {
		f.t.Fatal(err)
	}
	return n
}
