package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// LeaderConn opens the session on which a leader holds its lock and renews its
// row. It stays the login role, because only that role may end another
// leader's session, and the server ends it when it falls silent, so that a
// frozen leader's lock does not outlive it for long.
func LeaderConn(ctx context.Context, url string) (*pgx.Conn, error) {
	cfg, err := pgx.ParseConfig(url)
	if err != nil {
		return nil, apperr.New(apperr.Invalid, "", "the database URL cannot be parsed")
	}
	guardConn(cfg, "gavel-leader:0")
	conn, err := pgx.ConnectConfig(ctx, cfg)
	if err != nil {
		return nil, explainConnect(cfg, err)
	}
	_, err = conn.Exec(ctx, `set statement_timeout = 5000; set lock_timeout = 2000;
set idle_in_transaction_session_timeout = 5000; set idle_session_timeout = 15000;
set client_connection_check_interval = 1000;
set tcp_keepalives_idle = 5; set tcp_keepalives_interval = 2; set tcp_keepalives_count = 3; set tcp_user_timeout = 8000`)
	if err != nil {
		_ = conn.Close(ctx)
		return nil, fmt.Errorf("arm leader session: %w", err)
	}
	return conn, nil
}

// ErrLed says that somebody leads, by the row.
var ErrLed = errors.New("the leadership is taken")

// TakeOver makes the holder the leader in a new term and gives every live
// lease its grace, in one transaction. The caller holds the leader lock.
func TakeOver(ctx context.Context, conn *pgx.Conn, q *storedb.Queries, params storedb.TakeLeadershipParams, ttl time.Duration) (term int64, err error) {
	return takeOver(ctx, conn, q, params, ttl, false)
}

// TakeOverByRow is TakeOver without the lock, which then decides nothing: it
// is ErrLed unless the row has expired.
func TakeOverByRow(ctx context.Context, conn *pgx.Conn, q *storedb.Queries, params storedb.TakeLeadershipParams, ttl time.Duration) (term int64, err error) {
	return takeOver(ctx, conn, q, params, ttl, true)
}

func takeOver(ctx context.Context, conn *pgx.Conn, q *storedb.Queries, params storedb.TakeLeadershipParams, ttl time.Duration, byRow bool) (term int64, err error) {
	err = pgx.BeginFunc(ctx, conn, func(tx pgx.Tx) error {
		row, err := q.LockLeadership(ctx, tx, params.Shard)
		if err != nil {
			return fmt.Errorf("lock leadership: %w", err)
		}
		if byRow && !row.Expired { // another one was faster
			return ErrLed
		}
		if term, err = q.TakeLeadership(ctx, tx, &params); err != nil {
			return fmt.Errorf("take leadership: %w", err)
		}
		if _, err := q.GrantGrace(ctx, tx, ttl); err != nil {
			return fmt.Errorf("grant grace: %w", err)
		}
		return nil
	})
	return term, err
}
