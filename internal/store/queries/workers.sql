-- name: TokenByHash :one
-- Every authenticated request.
select t.id, t.kind, t.worker_id, coalesce(w.name, '') as worker_name, coalesce(w.disabled, false) as worker_disabled
  from tokens t left join workers w on w.id = t.worker_id
 where t.hash = @hash and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
   and t.kind <> 'invitation';

-- name: InsertToken :one
insert into tokens (kind, hash, note, worker_id, pool, expires_at)
values (@kind, @hash, @note, sqlc.narg(worker_id), @pool, now() + sqlc.narg(valid)::interval)
returning id, expires_at;

-- name: RevokeTokensByNote :execrows
-- gavel up: the administrator's token of an earlier start.
update tokens set revoked_at = now() where kind = 'admin' and note = @note and revoked_at is null;

-- name: UseInvitation :one
-- Enrolment, first statement: one use, and only in time.
update tokens set used_at = now()
 where hash = @hash and kind = 'invitation' and used_at is null and revoked_at is null and expires_at > now()
returning pool;

-- name: InsertWorker :one
insert into workers (name, pool) values (@name, @pool) on conflict (name) do nothing returning id;

-- name: LockEdgeWorker :one
-- Enrolment under a name that is taken, when it is an edge worker's: that worker
-- goes over. Locked, so that of two invitations one wins.
select w.id, w.pool from workers w
 where w.name = @name and not w.disabled and exists (select from edge_workers e where e.worker_id = w.id) for update of w;

-- name: HasToken :one
-- Enrolment, after the lock: the worker went over before.
select exists (select from tokens t where t.worker_id = sqlc.arg(worker_id)::bigint and t.kind = 'worker' and t.revoked_at is null)::boolean;

-- name: WorkerByID :one
select id, name, pool, disabled, session, slots, last_seen_at from workers where id = $1;

-- name: ListWorkers :many
select w.id, w.name, w.pool, coalesce(p.rank, 100)::int as rank, w.slots, w.capabilities, w.enrolled_at, w.last_seen_at,
       w.tags, w.lanes, (case when w.away_until <= now() then '' else w.away end)::text as away, w.away_note, w.away_until,
       (select count(*) from jobs j where j.state = 'leased' and j.worker_id = w.id) as leases,
       coalesce(w.session = e.session and w.last_seen_at > now() - interval '15 seconds', false)::boolean as on_database
  from workers w left join pools p on p.name = w.pool left join edge_workers e on e.worker_id = w.id
 where not w.disabled and (sqlc.arg(name)::text = '' or w.name = sqlc.arg(name)::text) order by w.name;

-- name: SeeWorkers :execrows
-- Leader, about once a second: what the claims and heartbeats of the last
-- moment say. Never on the path of an answer.
with input as (
  select unnest(@ids::bigint[]) as id, unnest(@sessions::uuid[]) as session,
         unnest(@slots::int[]) as slots, unnest(@capabilities::jsonb[]) as capabilities
)
update workers w set session = i.session, slots = i.slots, capabilities = i.capabilities, last_seen_at = now()
  from input i where w.id = i.id;

-- name: TouchWorkers :execrows
update workers set last_seen_at = now() where id = any(@ids::bigint[]);

-- name: FleetSettings :many
-- Leader: what operators have said of each worker and its pool. An absence
-- that has a time ends by itself.
select w.id, w.name, w.pool, coalesce(p.rank, 100)::int as rank, w.tags, w.lanes, w.disabled,
       (case when w.away_until <= now() then '' else w.away end)::text as away, w.away_note, w.away_until
  from workers w left join pools p on p.name = w.pool;
