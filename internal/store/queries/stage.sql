-- Where a deployment stands between edge pull and the arbiter: gavel fleet stage.

-- name: StageWorkers :many
-- Workers seen lately, and by which way; not those that were removed. A worker's
-- last sign of life came straight from the database when the sessions agree. One
-- without any for longer than a lease is dead.
select w.name, w.pool, w.last_seen_at::timestamptz as seen_at, (w.session = e.session and e.session is not null)::boolean as edge,
       coalesce(e.login, '') as login,
       coalesce(p.rank, 100)::int as rank,
       (coalesce(e.failed_rounds, 0) < 3 and coalesce(e.aside_until <= now(), true))::boolean as healthy,
       (w.last_seen_at > now() - s.ttl)::boolean as alive,
       (select count(*) from jobs j where j.state = 'leased' and j.worker_id = w.id) as leases
  from workers w left join edge_workers e on e.worker_id = w.id left join pools p on p.name = w.pool
 cross join lease_settings s
 where not w.disabled and w.last_seen_at > now() - sqlc.arg(since)::interval
 order by rank, w.name;

-- name: StageLogins :many
-- Database logins that may work straight on the database.
select r.rolname::text as login, (select count(*) from pg_catalog.pg_stat_activity s where s.usename = r.rolname) as sessions
  from pg_catalog.pg_roles r
  join pg_catalog.pg_auth_members m on m.member = r.oid
  join pg_catalog.pg_roles g on g.oid = m.roleid
 where g.rolname = 'gavel_edge' and r.rolcanlogin order by 1;

-- name: StageShared :one
-- What the old way shared: a table with the rotation row, a lock for the whole
-- site, a login with rights to the tables. Advisory locks are known only while
-- somebody holds or wants them.
select exists (select from pg_catalog.pg_class c where c.relname = sqlc.arg(old_table)::text and c.relkind = 'r')::boolean as has_table,
       exists (select from pg_catalog.pg_roles r where r.rolname = sqlc.arg(old_role)::text)::boolean as has_role,
       (select count(*) from pg_catalog.pg_locks l where l.locktype = 'advisory' and l.objsubid = 1
           and l.classid::bigint = (sqlc.arg(old_lock)::bigint >> 32) and l.objid::bigint = (sqlc.arg(old_lock)::bigint & 4294967295)
           and l.database = (select d.oid from pg_catalog.pg_database d where d.datname = current_database())) as lock_users;

-- name: StagePreparations :one
-- Packages that are being prepared. Few rows, by the partial index preparations_at_work.
select count(*) from preparations where state = 'preparing';

-- name: StageLimits :one
-- Published problems that nobody can submit to by SQL.
select count(*) from problems p where not exists (select from package_languages l where l.package_digest = p.package_digest);
