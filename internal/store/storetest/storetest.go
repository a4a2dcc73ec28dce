// Package storetest gives each test a fresh, migrated PostgreSQL database.
//
// One private server per test binary is started by the first test that asks,
// without fsync, and stopped by Main. The schema is migrated once, into a
// template; a test's database is a copy of it, which takes some tens of
// milliseconds. With GAVEL_TEST_DATABASE_URL (the URL of a superuser on a
// server that holds nothing dear) that server is used instead.
//
//	func TestMain(m *testing.M) { storetest.Main(m) }
//
//	func TestSomething(t *testing.T) {
//		db, err := store.Open(t.Context(), storetest.DB(t), store.Options{})
//		...
//		t.Cleanup(db.Close)
//	}
//
// A test that ends with connections still open fails: what it left running
// would disturb the tests after it. Package store's own tests use this package
// from package store_test.
package storetest

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/internal/pgserver"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// EnvURL names the variable with the URL of a server to use instead of a
// private one.
const EnvURL = "GAVEL_TEST_DATABASE_URL"

const (
	dirPrefix = "gavel-storetest-"
	stepLimit = time.Minute     // for anything that is done to the server
	leakGrace = 2 * time.Second // a closed connection's backend needs a moment to go
	leakPoll  = 5 * time.Millisecond

	memoryDir    = "/dev/shm"
	memoryWanted = 2 << 30 // bytes free; a container's default of 64 MB is too small

	abandoned = time.Hour // a directory without a lock, that old, has no owner
)

// Main runs the tests, stops the server and exits. The test binary also fails
// when goroutines are left at its end; opts are for the known harmless ones.
func Main(m *testing.M, opts ...goleak.Option) { os.Exit(Run(m, opts...)) }

// Run is Main for a test binary that has more to tidy up: it returns the exit
// code.
func Run(m *testing.M, opts ...goleak.Option) int {
	code := m.Run()
	if err := shared.close(); err != nil {
		fmt.Fprintf(os.Stderr, "storetest: stop the database: %v\n", err)
		code = max(code, 1)
	}
	if code == 0 {
		if err := goleak.Find(opts...); err != nil {
			fmt.Fprintf(os.Stderr, "storetest: goroutines left at the end of the tests: %v\n", err)
			code = 1
		}
	}
	return code
}

// DB makes a migrated database for this test and returns its connection URL,
// as a superuser. It is dropped when the test ends.
func DB(t testing.TB) string {
	t.Helper()
	return shared.database(t, true)
}

// Empty is DB without the schema.
func Empty(t testing.TB) string {
	t.Helper()
	return shared.database(t, false)
}

// A cluster is the server behind the databases of one test binary.
type cluster struct {
	startOnce    sync.Once
	startErr     error
	templateOnce sync.Once
	templateErr  error

	admin    string // URL of a database to send commands to
	template string // name, "" until made
	server   *pgserver.Server
	dir      string
}

var shared cluster

func (c *cluster) database(t testing.TB, migrated bool) string {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	c.startOnce.Do(func() { c.startErr = c.start(ctx) })
	if errors.Is(c.startErr, errNoServer) {
		testkit.Missing(t, testkit.PG, "%v", c.startErr)
	}
	if c.startErr != nil {
		t.Fatalf("storetest: %v", c.startErr)
	}
	from := ""
	if migrated {
		c.templateOnce.Do(func() { c.templateErr = c.makeTemplate(ctx) })
		if c.templateErr != nil {
			t.Fatalf("storetest: %v", c.templateErr)
		}
		from = " template " + c.template
	}
	name := newName("t")
	if err := c.exec(ctx, "create database "+name+from); err != nil {
		t.Fatalf("storetest: %v", err)
	}
	t.Cleanup(func() { c.drop(t, name) })
	return c.urlOf(name)
}

var errNoServer = errors.New("no PostgreSQL server to test with")

// start finds or starts the server.
func (c *cluster) start(ctx context.Context) error {
	if given := os.Getenv(EnvURL); given != "" {
		u, err := url.Parse(given)
		if err != nil || !strings.HasPrefix(u.Scheme, "postgres") {
			return fmt.Errorf("%s must have the form postgres://user@host/database", EnvURL)
		}
		c.admin = given
		return nil
	}
	if _, err := pgbin.Find(ctx, pgbin.Options{}); err != nil {
		return fmt.Errorf("%w (%s is not set): %w", errNoServer, EnvURL, err)
	}
	sweep(os.TempDir())
	sweep(memoryDir)
	dir, err := os.MkdirTemp(parentDir(), dirPrefix)
	if err != nil {
		return err
	}
	c.dir = dir
	// The server's user must get through: it is not root when we are.
	if err := os.Chmod(dir, 0o711); err != nil {
		return err
	}
	c.server, err = pgserver.Start(ctx, pgserver.Config{
		DataDir: dir, FsyncOff: true,
		Settings: map[string]string{"max_connections": "300"},
	})
	if err != nil {
		return err
	}
	c.admin = c.server.DatabaseURL("postgres")
	return nil
}

// makeTemplate migrates a database that tests then copy. Roles belong to the
// whole server and migrations make them, so test binaries that share a server
// take turns.
func (c *cluster) makeTemplate(ctx context.Context) error {
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	const lockKey = 7304112 // any number, the same in each binary
	if _, err := conn.Exec(ctx, "select pg_advisory_lock($1)", lockKey); err != nil {
		return fmt.Errorf("wait for other test binaries: %w", err)
	}
	name := newName("template")
	if _, err := conn.Exec(ctx, "create database "+name); err != nil {
		return fmt.Errorf("create the template: %w", err)
	}
	c.template = name
	if err := store.Migrate(ctx, c.urlOf(name)); err != nil {
		return fmt.Errorf("migrate the template: %w", err)
	}
	return nil
}

// drop ends a test's database and fails the test when it is still in use.
func (c *cluster) drop(t testing.TB, name string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	left, err := c.openConnections(ctx, name)
	if err != nil {
		t.Errorf("storetest: look for open connections: %v", err)
	}
	if len(left) > 0 {
		t.Errorf("storetest: the test left %d connections open:\n\t%s", len(left), strings.Join(left, "\n\t"))
	}
	if err := c.exec(ctx, "drop database if exists "+name+" with (force)"); err != nil {
		t.Errorf("storetest: %v", err)
	}
}

// openConnections describes the clients of a database that do not go away.
func (c *cluster) openConnections(ctx context.Context, name string) ([]string, error) {
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return nil, err
	}
	defer conn.Close(ctx)
	grace, cancel := context.WithTimeout(ctx, leakGrace)
	defer cancel()
	tick := time.NewTicker(leakPoll)
	defer tick.Stop()
	for {
		rows, err := conn.Query(ctx, `select format('pid %s, application %s, %s since %s: %s',
			pid, application_name, state, state_change, left(query, 200))
			from pg_stat_activity where datname = $1 and backend_type = 'client backend' order by pid`, name)
		if err != nil {
			return nil, err
		}
		left, err := pgx.CollectRows(rows, pgx.RowTo[string])
		if err != nil || len(left) == 0 {
			return nil, err
		}
		select {
		case <-grace.Done():
			return left, nil
		case <-tick.C:
		}
	}
}

func (c *cluster) exec(ctx context.Context, sql string) error {
	conn, err := pgx.Connect(ctx, c.admin)
	if err != nil {
		return fmt.Errorf("connect: %w", err)
	}
	defer conn.Close(ctx)
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("%s: %w", sql, err)
	}
	return nil
}

// urlOf is the admin URL with another database.
func (c *cluster) urlOf(name string) string {
	u, err := url.Parse(c.admin)
	if err != nil {
		panic("storetest: start has checked the URL: " + err.Error())
	}
	u.Path = "/" + name
	return u.String()
}

// close stops a server of ours, and leaves a given one as it was.
func (c *cluster) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), stepLimit)
	defer cancel()
	if c.server == nil {
		if c.template != "" {
			return c.exec(ctx, "drop database if exists "+c.template+" with (force)")
		}
		return nil
	}
	return errors.Join(c.server.Stop(ctx), os.RemoveAll(c.dir))
}

func newName(kind string) string {
	return "gavel_test_" + kind + "_" + strings.ToLower(rand.Text()[:12])
}

// parentDir prefers memory: making and dropping a database is a thousand small
// files, which some disks take half a second for.
func parentDir() string {
	var fs syscall.Statfs_t
	if err := syscall.Statfs(memoryDir, &fs); err != nil || fs.Bavail*uint64(fs.Bsize) < memoryWanted {
		return ""
	}
	if syscall.Access(memoryDir, 0o2|0o1) != nil { // write and enter
		return ""
	}
	return memoryDir
}

// sweep removes what killed test binaries left behind; their servers have died
// with them. An owner that lives holds the lock.
func sweep(tmp string) {
	dirs, _ := filepath.Glob(filepath.Join(tmp, dirPrefix+"*")) // the pattern is well-formed
	for _, dir := range dirs {
		lock, err := os.Open(filepath.Join(dir, "owner.lock"))
		if err != nil {
			if fi, err := os.Stat(dir); err == nil && time.Since(fi.ModTime()) > abandoned {
				_ = os.RemoveAll(dir) // best effort, like all of this
			}
			continue
		}
		if syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB) == nil {
			_ = os.RemoveAll(dir)
		}
		_ = lock.Close()
	}
}
