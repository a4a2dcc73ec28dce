-- What operators do. Each change is written with its audit row in one transaction.

-- name: InsertAudit :exec
insert into audit (token_id, action, subject, reason, details) values (@token_id, @action, @subject, @reason, @details);

-- name: ListAudit :many
-- API. Newest first from a cursor.
select a.id, a.at, coalesce(a.token_id, 0)::bigint as token_id, coalesce(t.note, '') as token_note, a.action, a.subject, a.reason, a.details
  from audit a left join tokens t on t.id = a.token_id
 where a.id < sqlc.arg(before)::bigint and (sqlc.arg(subject)::text = '' or a.subject = sqlc.arg(subject)::text)
 order by a.id desc limit sqlc.arg(page)::int;

-- name: DoneToSubmission :many
-- API, explaining one: who put it in front, cancelled it or had it rejudged, and
-- why. Indexes: audit_by_subject, judgings_by_submission.
with rejudged as (
  select r.id, r.created_at, r.reason, r.created_by from judgings g join rejudges r on r.id = g.rejudge_id
   where g.submission_id = sqlc.arg(submission_id)::bigint
)
select d.at, d.action, d.reason, d.rejudge_id, coalesce(t.note, '') as token_note
  from (select a.at, a.action, a.reason, 0::bigint as rejudge_id, a.token_id
          from audit a where a.subject = sqlc.arg(submission_id)::bigint::text and a.action in ('submission.cancel', 'queue.bump')
        union all
        select r.created_at, 'rejudge.start', r.reason, r.id, r.created_by from rejudged r
        union all
        select a.at, a.action, a.reason, r.id, a.token_id
          from rejudged r join audit a on a.subject = 'rejudge ' || r.id and a.action in ('rejudge.apply', 'rejudge.discard', 'rejudge.cancel')) d
  left join tokens t on t.id = d.token_id
 order by d.at;

-- name: SetWorkerAway :execrows
-- 0 rows: there is no such worker, or it was removed.
update workers set away = @away, away_note = @note, away_until = @until, away_at = now() where name = @name and not disabled;

-- name: LabelWorker :execrows
update workers set pool = coalesce(sqlc.narg(pool), pool), tags = coalesce(sqlc.narg(tags), tags), lanes = coalesce(sqlc.narg(lanes), lanes)
 where name = @name and not disabled;

-- name: RemoveWorker :one
-- The row stays for the history of what it judged; its name is free again.
update workers set disabled = true, name = name || '~' || id, away = '', away_note = '', away_until = null
 where name = @name and not disabled returning id;

-- name: RevokeWorkerTokens :execrows
update tokens set revoked_at = now() where worker_id = sqlc.arg(worker_id)::bigint and revoked_at is null;

-- name: ExpireWorker :execrows
-- Leases of a worker that was removed: the leader reclaims them at once.
update jobs set lease_expires_at = now(), confirmed = true where state = 'leased' and worker_id = sqlc.arg(worker_id)::bigint;

-- name: SetPool :exec
insert into pools (name, rank, note) values (@name, @rank, @note)
on conflict (name) do update set rank = excluded.rank, note = excluded.note;

-- name: ListPools :many
-- Every pool that is ranked or has a worker.
select n.name, coalesce(p.rank, 100)::int as rank, coalesce(p.note, '') as note,
       (select count(*) from workers w where w.pool = n.name and not w.disabled)::int as workers
  from (select name from pools union select pool from workers where not disabled) n
  left join pools p on p.name = n.name order by rank, n.name;

-- name: SetBrake :exec
insert into brakes (kind, name, problem_id, reason, created_by) values (@kind, @name, @problem_id, @reason, @created_by)
on conflict (kind, name) do update set reason = excluded.reason, created_by = excluded.created_by, created_at = now();

-- name: ReleaseBrake :execrows
delete from brakes where kind = @kind and name = @name;

-- name: ListBrakes :many
select b.kind, b.name, coalesce(b.problem_id, 0)::bigint as problem_id, b.reason, b.created_at from brakes b order by b.kind, b.name;

-- name: BumpSubmission :execrows
-- In front of everything of its lane, as long as it waits.
update jobs set priority = -1 where submission_id = sqlc.arg(submission_id)::bigint and state = 'pending';
