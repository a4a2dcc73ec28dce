package drill

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"
)

// The claim path of the two incidents, as its operator has described it. It is
// a model for replays and no part of gavel.

// claimAdvisoryLockID is the one lock of the whole site: "OJSCHED" in ASCII.
const claimAdvisoryLockID = 0x4f4a5343484544

// oldPath says which version of the old claim path it is.
type oldPath struct {
	// HomeLocks: the home worker takes the site's lock as the server does.
	HomeLocks bool
	// Savepoints: each cell has a savepoint, so that an error in one does not
	// spoil the others, and three failed rounds make a worker unhealthy.
	Savepoints bool
	// IdleLimit ends a claim's session that says nothing for so long in the
	// middle of its transaction; 0 is never.
	IdleLimit time.Duration
}

// oldCells are the cells of a claim in their order: the runs of the IDE, then
// the three queues in turn, with submissions twice.
var oldCells = []string{"run_jobs", "submissions", "prepare_jobs", "submissions", "rejudge_jobs"}

// oldSchema is what the claim path needs, with a trigger that writes down for
// the drill who claimed what, if it was committed.
const oldSchema = `
create table submissions (
  id             bigint      generated always as identity primary key,
  status         text        not null default 'pending',
  worker_id      text,
  heartbeat_at   timestamptz,
  judge_attempts int         not null default 0,
  created_at     timestamptz not null default now(),
  finished_at    timestamptz
);
create table prepare_jobs (like submissions including all);
create table rejudge_jobs (like submissions including all);
create table run_jobs (like submissions including all);
create table judge_dispatch_state (one boolean primary key default true, turn int not null default 0);
insert into judge_dispatch_state default values;
create table judge_workers (
  name text primary key, role text not null, seen_at timestamptz not null default now(), healthy boolean not null default true
);
create table judge_history (submission_id bigint not null, worker_id text not null, at timestamptz not null default now());
create table seen_claims (submission_id bigint not null, worker_id text not null, at timestamptz not null, outcome text not null default 'lost');
create function see() returns trigger language plpgsql security definer as $$
begin
  if new.status = 'judging' and old.status = 'pending' then
    insert into seen_claims values (new.id, new.worker_id, clock_timestamp());
  elsif new.status = 'done' then
    update seen_claims c set outcome = 'completed' where c.submission_id = new.id and c.at = (select max(at) from seen_claims where submission_id = new.id);
  end if;
  return null;
end
$$;
create trigger see after update on submissions for each row execute function see();
create role oj login;
create role oj_judge login;
grant all on all tables in schema public to oj, oj_judge;
`

// oldClaim is one claim, with a round trip for each of its statements. Where
// there are savepoints, an error in a cell does not end it; broken says that
// there was one.
func (w *oldWorker) oldClaim(ctx context.Context) (id int64, broken bool, err error) {
	tx, err := w.conn.Begin(ctx)
	if err != nil {
		return 0, false, err
	}
	defer func() { _ = tx.Rollback(context.WithoutCancel(ctx)) }() // after a commit it does nothing
	if limit := w.Path.IdleLimit; limit > 0 {
		if _, err := tx.Exec(ctx, "set local idle_in_transaction_session_timeout = "+w.ms(limit)); err != nil {
			return 0, false, err
		}
	}
	if w.Role == "server" || w.Path.HomeLocks {
		if _, err := tx.Exec(ctx, fmt.Sprintf("select pg_advisory_xact_lock(%d)", claimAdvisoryLockID)); err != nil {
			return 0, false, err
		}
	}
	turn := 0
	for i, table := range oldCells {
		if i == 1 { // the runs come before the turn is read
			if err := tx.QueryRow(ctx, "select turn from judge_dispatch_state where one for update").Scan(&turn); err != nil {
				return 0, broken, err
			}
		}
		id, err = w.cell(ctx, tx, table)
		if err != nil && (!w.Path.Savepoints || w.conn.IsClosed()) {
			return 0, broken, err
		}
		broken = broken || err != nil
		if id != 0 {
			break
		}
	}
	if _, err := tx.Exec(ctx, fmt.Sprintf("update judge_dispatch_state set turn = %d", (turn+1)%3)); err != nil {
		return 0, broken, err
	}
	return id, broken, tx.Commit(ctx)
}

// cell looks into one queue.
func (w *oldWorker) cell(ctx context.Context, tx pgx.Tx, table string) (id int64, err error) {
	if !w.Path.Savepoints {
		return w.take(ctx, tx, table)
	}
	inner, err := tx.Begin(ctx) // savepoint sp_1 to sp_5
	if err != nil {
		return 0, err
	}
	if id, err = w.take(ctx, inner, table); err != nil {
		_ = inner.Rollback(ctx) // the error above is the one to tell
		return 0, err
	}
	return id, inner.Commit(ctx)
}

func (w *oldWorker) take(ctx context.Context, tx pgx.Tx, table string) (id int64, err error) {
	err = tx.QueryRow(ctx, "select id from "+table+" where status = 'pending'"+w.yield()+" order by id for update skip locked limit 1").Scan(&id)
	if errors.Is(err, pgx.ErrNoRows) {
		return 0, nil
	}
	if err != nil {
		return 0, err
	}
	tag, err := tx.Exec(ctx, "update "+table+" set status = 'judging', worker_id = $2, heartbeat_at = now(), judge_attempts = judge_attempts + 1 where id = $1 and status = 'pending'", id, w.Name)
	if err != nil || tag.RowsAffected() == 0 {
		return 0, err
	}
	return id, nil
}

// yield is the condition under which the server leaves work to home: a home
// worker is online, healthy and has nothing in hand. Each can judge everything.
func (w *oldWorker) yield() string {
	if w.Role == "home" {
		return ""
	}
	healthy := ""
	if w.Path.Savepoints {
		healthy = " and h.healthy"
	}
	return " and not exists (select from judge_workers h where h.role = 'home' and h.seen_at > now() - " + w.interval(60*time.Second) + healthy +
		" and not exists (select from submissions b where b.status = 'judging' and b.worker_id = h.name))"
}

// oldReclaim gives work of workers without a heartbeat back, as each worker
// does every ten seconds.
func (w *oldWorker) oldReclaim(ctx context.Context) error {
	_, err := w.conn.Exec(ctx, `with stale as (
  select id from submissions where status = 'judging' and coalesce(heartbeat_at, created_at) < now() - `+w.interval(60*time.Second)+` for update skip locked)
update submissions s set status = case when s.judge_attempts < 3 then 'pending' else 'system_error' end, worker_id = null, heartbeat_at = null
  from stale where s.id = stale.id`)
	return err
}

// oldFinalize records a verdict, unless the submission is no longer ours.
func (w *oldWorker) oldFinalize(ctx context.Context, id int64) error {
	return pgx.BeginFunc(ctx, w.conn, func(tx pgx.Tx) error {
		var mine bool
		if err := tx.QueryRow(ctx, "select status = 'judging' and worker_id = $2 from submissions where id = $1 for update", id, w.Name).Scan(&mine); err != nil || !mine {
			return err
		}
		if _, err := tx.Exec(ctx, "update submissions set status = 'done', finished_at = now() where id = $1", id); err != nil {
			return err
		}
		_, err := tx.Exec(ctx, "insert into judge_history (submission_id, worker_id) values ($1, $2)", id, w.Name)
		return err
	})
}

func (w *oldWorker) ms(d time.Duration) string {
	return fmt.Sprint(max(1, w.Factor.of(d).Milliseconds()))
}

func (w *oldWorker) interval(d time.Duration) string {
	return fmt.Sprintf("interval '%d microseconds'", w.Factor.of(d).Microseconds())
}
