package arbiter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// campaign waits until this process leads: it polls for the lock, which frees
// at once when a leader's session ends, and when the row has expired while the
// lock is still held it ends the holder's session, because a frozen leader
// never will. A lock that is no arbiter's decides nothing. It returns nil when
// ctx ends.
func (a *Arbiter) campaign(ctx context.Context) *leadership {
	var conn *pgx.Conn
	defer func() {
		if conn != nil {
			closeSoon(ctx, conn)
		}
	}()
	complained := false
	for {
		l, err := a.tryToLead(ctx, &conn)
		if l != nil {
			conn = nil // it belongs to the leadership now
			return l
		}
		if err != nil && ctx.Err() == nil {
			if !complained {
				a.log.Warn("standing by without the database", "error", err)
				complained = true
			}
			if conn != nil {
				closeSoon(ctx, conn)
				conn = nil
			}
		} else {
			complained = false
		}
		select {
		case <-a.clock.After(a.cfg.Leader.Poll):
		case <-ctx.Done():
			return nil
		}
	}
}

func (a *Arbiter) tryToLead(ctx context.Context, conn **pgx.Conn) (*leadership, error) {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	if *conn == nil {
		c, err := store.LeaderConn(ctx, a.cfg.DatabaseURL)
		if err != nil {
			return nil, err
		}
		*conn = c
	}
	locked, err := a.q.TryLeaderLock(ctx, *conn, shard)
	if err != nil {
		return nil, fmt.Errorf("try the leader lock: %w", err)
	}
	before, err := a.q.ReadLeadership(ctx, *conn, shard)
	if err != nil {
		return nil, fmt.Errorf("read leadership: %w", err)
	}
	takeOver := store.TakeOver
	if !locked {
		if free, err := a.lockIsNobodys(ctx, *conn, before); err != nil || !free {
			return nil, err
		}
		takeOver = store.TakeOverByRow
	}
	sent := a.clock.Now()
	term, err := takeOver(ctx, *conn, a.q, storedb.TakeLeadershipParams{
		Holder: a.cfg.Holder, Valid: a.cfg.Leader.Valid, Shard: shard,
	}, a.cfg.Lease.TTL)
	if errors.Is(err, store.ErrLed) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	l := newLeadership(a, *conn, term, sent)
	l.locked = locked
	if err := l.rebuild(ctx); err != nil {
		return nil, fmt.Errorf("rebuild memory: %w", err)
	}
	if err := l.restoreHealth(ctx); err != nil {
		return nil, err
	}
	if before.Term > 0 {
		l.happened(alarm.LeaderChanged, fmt.Sprintf("%s leads after %s (term %d)", a.cfg.Holder, before.Holder, term), map[string]any{
			"term": term, "leader": a.cfg.Holder, "leader_before": before.Holder, "resigned_or_silent": before.Expired,
		})
	}
	return l, nil
}

// lockIsNobodys says whether the lock that another session holds may be passed
// over: nobody leads by the row, and the session is not an arbiter's. One of an
// arbiter is ended, and its lock is free at the next try.
func (a *Arbiter) lockIsNobodys(ctx context.Context, conn *pgx.Conn, row *storedb.ReadLeadershipRow) (bool, error) {
	if !row.Expired {
		return false, nil
	}
	n, err := a.q.EndLeaderSessions(ctx, conn, shard)
	if err != nil {
		return false, fmt.Errorf("end the silent leader's session: %w", err)
	}
	if n > 0 {
		a.log.Warn("ended the session of a leader that no longer renews", "holder", row.Holder, "term", row.Term, "sessions", n)
		return false, nil
	}
	foreign, err := a.q.ForeignLeaderLock(ctx, conn, shard)
	if err != nil {
		return false, fmt.Errorf("who holds the leader lock: %w", err)
	}
	for _, f := range foreign {
		a.log.Warn("a session that is no arbiter's holds the leader lock; leading without it",
			"pid", f.Pid, "login", f.Login, "application", f.Application,
			"hint", fmt.Sprintf("a standby notices the end of a leader %s later than with it; as a superuser: select pg_terminate_backend(%d)", a.cfg.Leader.Valid, f.Pid))
	}
	return len(foreign) > 0, nil
}

var (
	errNotOurs = errors.New("the leadership row carries another term")
	errStuck   = errors.New("the dispatch loop is stuck")
)

// stuckTerm is how many times as long as its alarm needs a dispatch loop may
// be stuck before its leadership ends: another arbiter, or this one when
// whatever held the loop lets go with the term, then begins anew.
const stuckTerm = 2

// keepLeading renews the row until ctx ends or leadership is lost. The renewal
// is bound to the dispatch loop: a leader that only seems to live is replaced.
func (l *leadership) keepLeading(ctx context.Context) error {
	ticker := l.a.clock.NewTicker(l.a.cfg.Leader.Renew)
	defer ticker.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-ticker.C:
		}
		sent := l.a.clock.Now()
		if sent.Sub(*l.loopedAt.Load()) > stuckTerm*l.a.cfg.Alarms.Stuck {
			return errStuck // who does not dispatch does not lead
		}
		err := l.renew(ctx)
		if ctx.Err() != nil {
			return nil
		}
		if err != nil {
			return fmt.Errorf("renew leadership: %w", err)
		}
		l.renewedAt.Store(&sent)
	}
}

func (l *leadership) renew(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, l.a.cfg.Leader.Answer)
	defer cancel()
	n, err := l.a.q.RenewLeadership(ctx, l.conn, &storedb.RenewLeadershipParams{
		Valid: l.a.cfg.Leader.Valid, Shard: shard, Term: l.term, Holder: l.a.cfg.Holder,
	})
	if err != nil {
		return err
	}
	if n != 1 {
		return errNotOurs
	}
	if !l.locked { // else the first standby to get it would begin a new term
		if l.locked, err = l.a.q.TryLeaderLock(ctx, l.conn, shard); err != nil {
			return err
		}
	}
	return nil
}

// resign gives the leadership back on an orderly stop, so that a standby need
// not wait for the row to expire.
func (l *leadership) resign(ctx context.Context) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 2*time.Second)
	defer cancel()
	_, err := l.a.q.ResignLeadership(ctx, l.conn, &storedb.ResignLeadershipParams{
		Shard: shard, Term: l.term, Holder: l.a.cfg.Holder,
	})
	if err != nil {
		l.a.log.Warn("resigning failed; the row will expire", "term", l.term, "error", err)
	}
}

// closeSoon closes a session without waiting long for a server that is gone.
func closeSoon(ctx context.Context, conn *pgx.Conn) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Second)
	defer cancel()
	_ = conn.Close(ctx) // the session ends either way
}
