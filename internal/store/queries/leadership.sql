-- Who leads. The row is the truth; the advisory lock of the same shard is only
-- the fast path by which a standby notices that a leader's session is gone.

-- name: LockLeadership :one
-- Called by a standby inside its takeover transaction. FOR UPDATE conflicts
-- with the FOR KEY SHARE of every fenced write, so the term cannot change
-- under a write that has already checked it.
select term, holder, expires_at <= now() as expired from leadership where shard = $1 for update;

-- name: TakeLeadership :one
-- Second statement of the takeover: a new term fences every older leader (I8).
update leadership set term = term + 1, holder = @holder, expires_at = now() + sqlc.arg(valid)::interval
 where shard = @shard
returning term;

-- name: GrantGrace :execrows
-- Third statement of the takeover: every live lease gets a full TTL, once per
-- leadership, so that no judging in flight is lost to the change of leader.
update jobs set lease_expires_at = greatest(lease_expires_at, now() + sqlc.arg(ttl)::interval)
 where state = 'leased';

-- name: RenewLeadership :execrows
-- Called by the leader every second, on its lock session. 0 rows: step down.
update leadership set expires_at = now() + sqlc.arg(valid)::interval
 where shard = @shard and term = @term and holder = @holder;

-- name: ResignLeadership :execrows
-- Called on an orderly stop so that the standby need not wait for the expiry.
update leadership set expires_at = now()
 where shard = @shard and term = @term and holder = @holder;

-- name: ReadLeadership :one
select term, holder, expires_at <= now() as expired from leadership where shard = $1;

-- name: TryLeaderLock :one
-- Session-level; held by the leader's own connection for as long as it leads.
select pg_try_advisory_lock(1734440556, sqlc.arg(shard)::int);

-- name: EndLeaderSessions :execrows
-- Called by a standby that found the row expired while the lock is still held:
-- the holder is frozen or cut off, and nobody else will end its session. Only
-- sessions of the arbiters' own login are theirs to end.
select pg_terminate_backend(l.pid)
  from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.classid = 1734440556::oid and l.objid = sqlc.arg(shard)::int::oid
   and l.objsubid = 2 and l.granted and l.pid <> pg_backend_pid() and a.usename = session_user
   and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database());

-- name: ForeignLeaderLock :many
-- Who else holds the leader lock: any login of the server can take it.
select l.pid::int as pid, coalesce(a.usename, '')::text as login, coalesce(a.application_name, '')::text as application
  from pg_catalog.pg_locks l join pg_catalog.pg_stat_activity a on a.pid = l.pid
 where l.locktype = 'advisory' and l.classid = 1734440556::oid and l.objid = sqlc.arg(shard)::int::oid
   and l.objsubid = 2 and l.granted and a.usename is distinct from session_user
   and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database());
