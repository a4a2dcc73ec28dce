// Package store is the one place that knows the database. The SQL lives in
// queries/*.sql and is compiled to storedb by sqlc; migrations/*.sql are
// embedded and run by goose; functions/*.sql, which edge workers and sites call,
// are made anew when they have changed. This package adds what needs more than
// one statement: opening with guards, migrating, and the transactions of
// submitting, publishing, enrolling, taking over leadership and reclaiming.
//
// Time: every lease time is the database's now(). Nothing here compares it
// with a clock of ours.
package store

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// Roles that pool connections become after login; see 00002_roles.sql and
// functions/rights.sql.
const (
	ArbiterRole = "gavel_arbiter"
	EdgeRole    = "gavel_edge"
)

// Guards bound what a session of ours may hold, so that one that stops in the
// middle (a frozen process, a cut line) cannot hold up others (I7).
type Guards struct {
	Statement         time.Duration // statement_timeout
	Lock              time.Duration // lock_timeout
	IdleInTransaction time.Duration // idle_in_transaction_session_timeout
}

// DefaultGuards are used by the pool.
var DefaultGuards = Guards{Statement: 10 * time.Second, Lock: 5 * time.Second, IdleInTransaction: 6 * time.Second}

// DB are guarded connections with the compiled queries.
type DB struct {
	Pool *pgxpool.Pool
	// Hot is for the statements of the hot path: handing in, grants, heartbeats
	// and results. Their sessions plan each of them once a second, see planKept.
	Hot *pgxpool.Pool
	Q   *storedb.Queries

	full atomic.Bool // see DiskFull
}

// Options of Open.
type Options struct {
	MaxConns int32       // 0: 8
	Guards   Guards      // zero: DefaultGuards
	AppName  string      // shown in pg_stat_activity; "" means gavel
	Role     string      // to become, where the login may; "" means ArbiterRole
	Clock    clock.Clock // of the age of plans; nil is the system's
}

// Open connects to url. An unreachable or refusing database is an
// apperr.Unavailable that names host and database, never the password.
func Open(ctx context.Context, url string, opts Options) (*DB, error) {
	if opts.Clock == nil {
		opts.Clock = clock.System{}
	}
	cfg, err := pgxpool.ParseConfig(url)
	if err != nil {
		return nil, apperr.New(apperr.Invalid, "expected postgres://user@host:port/database or host=… dbname=…",
			"the database URL cannot be parsed")
	}
	if opts.MaxConns == 0 {
		opts.MaxConns = 8
	}
	if opts.Guards == (Guards{}) {
		opts.Guards = DefaultGuards
	}
	if opts.Role == "" {
		opts.Role = ArbiterRole
	}
	cfg.MaxConns = opts.MaxConns
	guardConn(cfg.ConnConfig, opts.AppName)
	cfg.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		return setUp(ctx, conn, opts.Guards, opts.Role)
	}
	db := &DB{Q: storedb.New()}
	closes := cfg.ConnConfig.OnPgError
	cfg.ConnConfig.OnPgError = func(conn *pgconn.PgConn, e *pgconn.PgError) bool {
		if e.Code == codeDiskFull {
			db.full.Store(true)
		}
		return closes(conn, e)
	}
	hot := cfg.Copy()
	hot.AfterConnect = func(ctx context.Context, conn *pgx.Conn) error {
		if err := cfg.AfterConnect(ctx, conn); err != nil {
			return err
		}
		_, err := conn.Exec(ctx, "set plan_cache_mode = force_generic_plan")
		return err
	}
	hot.PrepareConn = keepPlans(opts.Clock)
	pool, err := pgxpool.NewWithConfig(ctx, cfg)
	if err != nil {
		return nil, fmt.Errorf("database pool: %w", err)
	}
	if err := pool.Ping(ctx); err != nil {
		pool.Close()
		return nil, explainConnect(cfg.ConnConfig, err)
	}
	db.Pool = pool
	if db.Hot, err = pgxpool.NewWithConfig(ctx, hot); err != nil { // connects when it is used
		pool.Close()
		return nil, fmt.Errorf("database pool of the hot path: %w", err)
	}
	return db, nil
}

// Close waits for connections in use and closes them.
func (db *DB) Close() {
	db.Pool.Close()
	db.Hot.Close()
}

// guardConn sets what has to be known before connecting.
func guardConn(cfg *pgx.ConnConfig, appName string) {
	if appName == "" {
		appName = "gavel"
	}
	if cfg.RuntimeParams["application_name"] == "" {
		cfg.RuntimeParams["application_name"] = appName
	}
	if cfg.ConnectTimeout == 0 {
		cfg.ConnectTimeout = 5 * time.Second
	}
	// Our end of the line; the server's is set in setUp.
	dialer := &net.Dialer{KeepAliveConfig: net.KeepAliveConfig{
		Enable: true, Idle: 5 * time.Second, Interval: 2 * time.Second, Count: 3,
	}}
	cfg.DialFunc = dialer.DialContext
}

// setUp arms the guards of a new session and gives up the login role's powers.
func setUp(ctx context.Context, conn *pgx.Conn, g Guards, role string) error {
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	// force_custom_plan: a plan cached while the table of open work was empty
	// would scan it for ever (performance.md, plan flips). No jit: what a table without
	// statistics makes a plan seem to cost has PostgreSQL compile it, half a second
	// each time, until the first ANALYZE.
	sql := fmt.Sprintf(`set statement_timeout = %d; set lock_timeout = %d;
set idle_in_transaction_session_timeout = %d; set plan_cache_mode = force_custom_plan; set jit = off;
set client_connection_check_interval = 1000;
set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3;
set tcp_user_timeout = 8000`,
		ms(g.Statement), ms(g.Lock), ms(g.IdleInTransaction))
	if _, err := conn.Exec(ctx, sql); err != nil {
		return fmt.Errorf("arm session guards: %w", err)
	}
	var may bool
	err := conn.QueryRow(ctx, `select coalesce((select pg_has_role(current_user, oid, 'member') from pg_roles where rolname = $1), false)`,
		role).Scan(&may)
	if err != nil {
		return fmt.Errorf("look up role %s: %w", role, err)
	}
	if may {
		if _, err := conn.Exec(ctx, "set role "+role); err != nil {
			return fmt.Errorf("become %s: %w", role, err)
		}
	}
	return nil
}

// planKept is how long a session of the hot path keeps its plans. To plan each
// statement anew costs three times as much as to do it. To keep a plan for
// longer is worse: one that was made while a table was empty reads all of it
// ever after.
const planKept = time.Second

// keepPlans is the PrepareConn of the hot path's pool: it has a session plan
// again when its plans are old. One that fails is replaced.
func keepPlans(clk clock.Clock) func(context.Context, *pgx.Conn) (bool, error) {
	const key = "gavel: plans from"
	return func(ctx context.Context, conn *pgx.Conn) (bool, error) {
		data, now := conn.PgConn().CustomData(), clk.Now()
		if from, ok := data[key].(time.Time); ok && now.Sub(from) < planKept {
			return true, nil
		}
		data[key] = now
		_, err := conn.Exec(ctx, "discard plans")
		return err == nil, nil
	}
}

// explainConnect turns a connection error into one line a person can act on.
func explainConnect(cfg *pgx.ConnConfig, err error) error {
	where := fmt.Sprintf("database %q on %s", cfg.Database, cfg.Host)
	if !strings.HasPrefix(cfg.Host, "/") {
		where += fmt.Sprintf(":%d", cfg.Port)
	}
	hint := "check that PostgreSQL runs and that the database URL is right"
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		switch pg.Code {
		case "28P01", "28000":
			hint = "check user and password in the database URL, and pg_hba.conf"
		case "3D000":
			hint = fmt.Sprintf("create it first: createdb %s", cfg.Database)
		case "57P03":
			hint = "it is starting up or shutting down; try again in a moment"
		case "53300":
			hint = "it has no free connections; raise max_connections or stop other clients"
		}
	}
	return apperr.Wrap(err, apperr.Unavailable, hint, "cannot connect to %s", where)
}

// InTx runs fn in one read-committed transaction, committed when fn returns nil.
func (db *DB) InTx(ctx context.Context, fn func(tx pgx.Tx) error) error {
	return pgx.BeginFunc(ctx, db.Pool, fn)
}

// InDoubt says whether a statement that ended with err may have been committed
// all the same, or may yet be. It is not when nothing was sent, or when the
// server refused it and kept the session. A session that was ended may have
// committed first: its last words can overtake those of the statement.
func InDoubt(err error) bool {
	if err == nil || pgconn.SafeToRetry(err) {
		return false
	}
	if _, unreached := errors.AsType[*pgconn.ConnectError](err); unreached {
		return false
	}
	pg, spoke := errors.AsType[*pgconn.PgError](err)
	return !spoke || pg.SeverityUnlocalized != "ERROR"
}
