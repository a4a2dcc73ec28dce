package store_test

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgproto3"

	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

// The 6-second test: with the guards as they ship, a session that goes silent
// in mid-transaction holds up others for six seconds and no longer. Without the
// guard the second session would give up after its lock_timeout instead.
func TestASessionThatStopsInATransactionIsEndedAfterSixSeconds(t *testing.T) {
	db := open(t, store.Options{MaxConns: 2})
	ctx := t.Context()
	stopped, err := db.Pool.Begin(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := stopped.Exec(ctx, "select term from leadership where shard = 0 for update"); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	refused := 0
	for {
		_, err := db.Pool.Exec(ctx, "update leadership set holder = 'x'")
		if err == nil {
			break
		}
		if pgCode(err) != "55P03" {
			t.Fatalf("waiting for the lock ended with %v", err)
		}
		if why, hint := store.WhyUnavailable(err); !strings.Contains(why, "another transaction") || !strings.Contains(hint, "pg_stat_activity") {
			t.Errorf("of a lock that is held it is said: %s; %s", why, hint)
		}
		if refused++; refused > 2 {
			t.Fatal("the lock is held for ever")
		}
	}
	if held := time.Since(began); held < 5*time.Second || held > 8*time.Second {
		t.Errorf("the locks were held for %v, want about 6 s", held)
	}
	if refused == 0 {
		t.Error("nobody was refused: lock_timeout (5 s) did not fire before the session ended")
	}
	if err := stopped.Commit(ctx); err == nil {
		t.Error("the stopped session could still commit")
	}
}

// A leader is killed while the database works for it. Its socket closes, but a
// backend that is busy does not look at its socket, and would hold the lock
// until its statement ends.
func TestAKilledLeadersLockFreesInTheMiddleOfALongStatement(t *testing.T) {
	for _, c := range []struct {
		name    string
		prepare string
		freed   bool
	}{
		{"with client_connection_check_interval", "select 1", true},
		{"without it the lock stays", "set client_connection_check_interval = 0", false},
	} {
		t.Run(c.name, func(t *testing.T) {
			url := storetest.DB(t)
			leader, err := store.LeaderConn(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			for _, sql := range []string{"select pg_advisory_lock(1734440556, 0)", c.prepare, "set statement_timeout = 0"} {
				if _, err := leader.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			pid := leader.PgConn().PID()
			// By hand: pgx would ask the server to cancel when its socket
			// breaks, and a killed process asks for nothing.
			raw, err := leader.PgConn().Hijack()
			if err != nil {
				t.Fatal(err)
			}
			raw.Frontend.SendQuery(&pgproto3.Query{String: "select pg_sleep(60)"})
			if err := raw.Frontend.Flush(); err != nil {
				t.Fatal(err)
			}
			standby, err := pgx.Connect(t.Context(), url)
			if err != nil {
				t.Fatal(err)
			}
			defer standby.Close(context.WithoutCancel(t.Context()))
			defer func() { // the one that stays must not disturb the tests after this
				if _, err := standby.Exec(context.WithoutCancel(t.Context()), "select pg_terminate_backend($1)", int32(pid)); err != nil {
					t.Error(err)
				}
			}()
			await(t, standby, 10*time.Second, true, "select exists (select from pg_stat_activity where pid = $1 and query like '%pg_sleep%' and state = 'active')", int32(pid))
			if err := raw.Conn.Close(); err != nil { // what the kernel does for a killed process
				t.Fatal(err)
			}
			limit := 4 * time.Second
			await(t, standby, limit, c.freed, "select pg_try_advisory_lock(1734440556, 0)")
		})
	}
}

// await repeats a question until it is answered yes, or, when want is false,
// makes sure that it never is within the limit.
func await(t *testing.T, conn *pgx.Conn, limit time.Duration, want bool, sql string, args ...any) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		var yes bool
		err := conn.QueryRow(t.Context(), sql, args...).Scan(&yes)
		switch {
		case err != nil && !errors.Is(err, pgx.ErrNoRows):
			t.Fatal(err)
		case yes && want:
			return
		case yes:
			t.Fatalf("%s was answered yes", sql)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			if want {
				t.Fatalf("%s was not answered yes within %v", sql, limit)
			}
			return
		}
	}
}

// Both ends of a line watch it, so that a cut one is noticed by the server
// (locks free) and by us (a leader steps down). The drill a7-leader-cut-off
// cuts a real one; this holds the settings it depends on.
func TestSessionsWatchTheirLines(t *testing.T) {
	url := storetest.DB(t)
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	leader, err := store.LeaderConn(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer leader.Close(context.WithoutCancel(t.Context()))
	var pooled, led string
	const sql = `select string_agg(name || '=' || setting, ' ' order by name) from (
  select name, case name when 'client_connection_check_interval' then setting else coalesce(source, '') end as setting
    from pg_settings where name in ('client_connection_check_interval', 'tcp_keepalives_idle', 'tcp_keepalives_interval', 'tcp_keepalives_count', 'tcp_user_timeout')) x`
	if err := db.Pool.QueryRow(t.Context(), sql).Scan(&pooled); err != nil {
		t.Fatal(err)
	}
	if err := leader.QueryRow(t.Context(), sql).Scan(&led); err != nil {
		t.Fatal(err)
	}
	want := "client_connection_check_interval=1000 tcp_keepalives_count=session tcp_keepalives_idle=session tcp_keepalives_interval=session tcp_user_timeout=session"
	if pooled != want || led != want {
		t.Errorf("set on a pooled session: %s\non the leader's: %s\nwant: %s", pooled, led, want)
	}
	if db.Pool.Config().ConnConfig.DialFunc == nil {
		t.Error("our end of the line is not watched")
	}
}
