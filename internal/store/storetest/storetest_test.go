package storetest

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestMain(m *testing.M) { Main(m) }

// recorder is a test that may fail without failing the real one.
type recorder struct {
	testing.TB
	errors   []string
	cleanups []func()
}

func (r *recorder) Helper()                   {}
func (r *recorder) Cleanup(f func())          { r.cleanups = append(r.cleanups, f) }
func (r *recorder) Errorf(f string, a ...any) { r.errors = append(r.errors, fmt.Sprintf(f, a...)) }
func (r *recorder) end() {
	for _, f := range slices.Backward(r.cleanups) {
		f()
	}
}

func connect(t *testing.T, url string) *pgx.Conn {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close(context.Background()) })
	return conn
}

func count(t *testing.T, conn *pgx.Conn, sql string, args ...any) int {
	t.Helper()
	var n int
	if err := conn.QueryRow(t.Context(), sql, args...).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestDatabasesAreMigratedAndSeparate(t *testing.T) {
	a, b := connect(t, DB(t)), connect(t, DB(t))
	if n := count(t, a, "select count(*) from pg_tables where tablename = 'goose_db_version'"); n != 1 {
		t.Error("not migrated")
	}
	if _, err := a.Exec(t.Context(), "create table mine (n int)"); err != nil {
		t.Fatal(err)
	}
	if n := count(t, b, "select count(*) from pg_tables where tablename = 'mine'"); n != 0 {
		t.Error("two tests share a database")
	}
}

func TestEmptyHasNoTables(t *testing.T) {
	conn := connect(t, Empty(t))
	if n := count(t, conn, "select count(*) from pg_tables where schemaname = 'public'"); n != 0 {
		t.Errorf("%d tables", n)
	}
}

func TestDatabaseIsDroppedAtTheEnd(t *testing.T) {
	r := &recorder{TB: t}
	u := DB(r)
	name := connectedName(t, u)
	r.end()
	if len(r.errors) > 0 {
		t.Errorf("errors %v", r.errors)
	}
	if n := count(t, connect(t, shared.admin), "select count(*) from pg_database where datname = $1", name); n != 0 {
		t.Error("the database is still there")
	}
}

func connectedName(t *testing.T, url string) string {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(t.Context())
	return conn.Config().Database
}

func TestLeakedConnectionFailsTheTest(t *testing.T) {
	r := &recorder{TB: t}
	conn := connect(t, DB(r))
	if n := count(t, conn, "select 4321"); n != 4321 {
		t.Fatal(n)
	}
	r.end()
	if len(r.errors) != 1 || !strings.Contains(r.errors[0], "left 1 connections open") || !strings.Contains(r.errors[0], "select 4321") {
		t.Errorf("errors %q", r.errors)
	}
}

func TestSweepRemovesOnlyWhatHasNoOwner(t *testing.T) {
	tmp := t.TempDir()
	for _, d := range []string{"dead", "alive", "new"} {
		dir := filepath.Join(tmp, dirPrefix+d)
		if err := os.Mkdir(dir, 0o700); err != nil {
			t.Fatal(err)
		}
		if d == "new" {
			continue
		}
		f, err := os.Create(filepath.Join(dir, "owner.lock"))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		if d == "alive" {
			if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
				t.Fatal(err)
			}
		}
	}
	sweep(tmp)
	for d, want := range map[string]bool{"dead": false, "alive": true, "new": true} {
		if _, err := os.Stat(filepath.Join(tmp, dirPrefix+d)); (err == nil) != want {
			t.Errorf("%s: still there %v, want %v", d, err == nil, want)
		}
	}
}

func BenchmarkDB(b *testing.B) {
	for b.Loop() {
		r := &recorder{TB: b}
		DB(r)
		r.end()
	}
}

func TestGivenServerIsUsedAndLeftClean(t *testing.T) {
	DB(t) // the shared server is up
	t.Setenv(EnvURL, shared.admin)
	var c cluster
	r := &recorder{TB: t}
	conn := connect(t, c.database(r, true))
	if n := count(t, conn, "select count(*) from pg_tables where tablename = 'goose_db_version'"); n != 1 {
		t.Error("not migrated")
	}
	if c.server != nil {
		t.Error("a private server was started all the same")
	}
	if err := conn.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.end()
	if err := c.close(); err != nil || len(r.errors) > 0 {
		t.Errorf("close: %v, errors %v", err, r.errors)
	}
	left := count(t, connect(t, shared.admin), "select count(*) from pg_database where datname = $1", c.template)
	if left != 0 {
		t.Error("the template is still there")
	}
}

func TestURLThatIsNoneIsExplained(t *testing.T) {
	t.Setenv(EnvURL, "host=somewhere dbname=x")
	var c cluster
	if err := c.start(t.Context()); err == nil || !strings.Contains(err.Error(), EnvURL) {
		t.Errorf("error %v", err)
	}
}

func (r *recorder) Skipf(f string, a ...any) {
	r.errors = append(r.errors, "skip: "+fmt.Sprintf(f, a...))
	runtime.Goexit()
}

func TestMissingServerSkipsLoudly(t *testing.T) {
	t.Setenv(testkit.EnvRequire, "")
	c := &cluster{startErr: errNoServer}
	c.startOnce.Do(func() {})
	r := &recorder{TB: t}
	done := make(chan struct{})
	go func() {
		defer close(done)
		c.database(r, true)
		t.Error("a database without a server")
	}()
	<-done
	if len(r.errors) != 1 || !strings.HasPrefix(r.errors[0], "skip: SKIPPED need=pg") {
		t.Errorf("said %q", r.errors)
	}
}
