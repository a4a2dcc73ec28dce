package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

func open(t testing.TB, opts store.Options) *store.DB {
	t.Helper()
	db, err := store.Open(t.Context(), storetest.DB(t), opts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return db
}

func pgCode(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

func TestASessionThatStopsInATransactionIsEnded(t *testing.T) {
	db := open(t, store.Options{MaxConns: 2, Guards: store.Guards{Statement: 10 * time.Second, Lock: 10 * time.Second, IdleInTransaction: 200 * time.Millisecond}})
	ctx := t.Context()
	if _, err := db.Pool.Exec(ctx, "insert into workers (name) values ('w')"); err != nil {
		t.Fatal(err)
	}
	stopped, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stopped.Exec(ctx, "update workers set slots = 1 where name = 'w'"); err != nil {
		t.Fatal(err)
	}
	// The session says no more. Another one needs its row and gets it because
	// the guard ends the first: without the guard this waits for its own
	// lock_timeout of 10 s and fails.
	if _, err := db.Pool.Exec(ctx, "update workers set slots = 2 where name = 'w'"); err != nil {
		t.Fatalf("the row is still held: %v", err)
	}
	if err := stopped.Commit(ctx); err == nil {
		t.Error("the stopped session could still commit")
	}
}

func TestAWaitForALockEnds(t *testing.T) {
	db := open(t, store.Options{MaxConns: 2, Guards: store.Guards{Statement: 10 * time.Second, Lock: 100 * time.Millisecond, IdleInTransaction: 30 * time.Second}})
	ctx := t.Context()
	holder, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = holder.Rollback(context.WithoutCancel(ctx)) }()
	if _, err := holder.Exec(ctx, "select * from leadership for update"); err != nil {
		t.Fatal(err)
	}
	_, err = db.Pool.Exec(ctx, "update leadership set holder = 'x'")
	if pgCode(err) != "55P03" {
		t.Errorf("waiting for a lock ended with %v, want lock_not_available", err)
	}
	if !store.IsUnavailable(err) {
		t.Error("a lock time-out does not count as try again later")
	}
}

func TestALongStatementIsEnded(t *testing.T) {
	db := open(t, store.Options{MaxConns: 1, Guards: store.Guards{Statement: 100 * time.Millisecond, Lock: time.Second, IdleInTransaction: time.Second}})
	_, err := db.Pool.Exec(t.Context(), "select pg_sleep(30)")
	if pgCode(err) != "57014" {
		t.Errorf("a long statement ended with %v, want query_canceled", err)
	}
}

func TestTheArbiterMayChangeRowsButNotTheSchema(t *testing.T) {
	db := open(t, store.Options{})
	ctx := t.Context()
	var role string
	if err := db.Pool.QueryRow(ctx, "select current_user").Scan(&role); err != nil || role != store.ArbiterRole {
		t.Fatalf("pool connections are %q (%v), want %s", role, err, store.ArbiterRole)
	}
	for _, sql := range []string{"drop table jobs", "alter table jobs add column x int", "create table x (y int)", "truncate attempts"} {
		if _, err := db.Pool.Exec(ctx, sql); pgCode(err) != "42501" {
			t.Errorf("%s: %v, want insufficient_privilege", sql, err)
		}
	}
	// A forgotten grant once stopped a whole site: each table, each verb.
	rows, err := db.Pool.Query(ctx, `select tablename from pg_tables where schemaname = current_schema() and tablename <> 'goose_db_version'`)
	if err != nil {
		t.Fatal(err)
	}
	tables, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil || len(tables) < 12 {
		t.Fatalf("tables %v, error %v", tables, err)
	}
	for _, table := range tables {
		for _, verb := range []string{"select", "insert", "update", "delete"} {
			var may bool
			if err := db.Pool.QueryRow(ctx, "select has_table_privilege($1, $2)", table, verb).Scan(&may); err != nil || !may {
				t.Errorf("%s on %s: %v (%v)", verb, table, may, err)
			}
		}
	}
}

func TestReportsMayNotReadSourcesOrTokens(t *testing.T) {
	url := storetest.DB(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "set role gavel_read"); err != nil {
		t.Fatal(err)
	}
	for _, ok := range []string{"submissions", "judging_tests", "attempts", "jobs"} {
		if _, err := conn.Exec(t.Context(), "select * from "+ok); err != nil {
			t.Errorf("reading %s: %v", ok, err)
		}
	}
	for _, no := range []string{"tokens", "submission_sources", "idempotency_keys", "judging_outputs"} {
		if _, err := conn.Exec(t.Context(), "select * from "+no); pgCode(err) != "42501" {
			t.Errorf("reading %s: %v, want insufficient_privilege", no, err)
		}
	}
}

func TestMigratingTwiceAtOnceIsFine(t *testing.T) {
	url := storetest.Empty(t)
	errs := make(chan error, 3)
	for range 3 {
		go func() { errs <- store.Migrate(t.Context(), url) }()
	}
	for range 3 {
		if err := <-errs; err != nil {
			t.Error(err)
		}
	}
}

func TestANewerDatabaseIsRefused(t *testing.T) {
	url := storetest.DB(t)
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	if _, err := conn.Exec(t.Context(), "insert into goose_db_version (version_id, is_applied) values (99999, true)"); err != nil {
		t.Fatal(err)
	}
	err = store.Migrate(t.Context(), url)
	if apperr.CodeOf(err) != apperr.Conflict || !strings.Contains(err.Error(), "99999") {
		t.Errorf("migrating a newer database: %v", err)
	}
}

func TestOpenNamesWhatIsWrong(t *testing.T) {
	for _, c := range []struct{ name, url, want string }{
		{"not a URL", "postgres://%zz", "cannot be parsed"},
		{"nobody listens", "postgres://u:s3cret@127.0.0.1:1/x", "127.0.0.1:1"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := store.Open(t.Context(), c.url, store.Options{})
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v does not name %q", err, c.want)
			}
			if err != nil && strings.Contains(err.Error(), "s3cret") {
				t.Errorf("the error shows the password: %v", err)
			}
		})
	}
}

// The plan of a claim on tables that were never analyzed seems costly enough to
// be compiled, which took half a second each time.
func TestNoStatementOfOursIsCompiled(t *testing.T) {
	db := open(t, store.Options{})
	var jit string
	if err := db.Pool.QueryRow(t.Context(), "show jit").Scan(&jit); err != nil || jit != "off" {
		t.Errorf("jit is %q, %v", jit, err)
	}
}
