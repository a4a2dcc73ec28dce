-- Health of workers, known-answer probes and planned hours.

-- name: ReadHealth :many
-- Leader, when a term begins.
select worker_id, state from worker_health;

-- name: WriteHealth :execrows
-- Leader, about once a second: the states that have changed. I8: only while the
-- term is still the leader's, so that a leader that was replaced cannot write
-- an older state over its successor's.
with input as (
  select unnest(@worker_ids::bigint[]) as worker_id, unnest(@states::jsonb[]) as state,
         unnest(@set_aside_ats::timestamptz[]) as set_aside_at, unnest(@reasons::text[]) as reason,
         unnest(@languages::jsonb[]) as languages, unnest(@speed_factors::float8[]) as speed_factor
)
insert into worker_health (worker_id, state, set_aside_at, reason, languages, speed_factor)
select i.worker_id, i.state, nullif(i.set_aside_at, '-infinity'), i.reason, i.languages, i.speed_factor from input i
 where exists (select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share)
    on conflict (worker_id) do update
   set state = excluded.state, set_aside_at = excluded.set_aside_at, reason = excluded.reason,
       languages = excluded.languages, speed_factor = excluded.speed_factor, updated_at = now();

-- name: InsertHealthChanges :execrows
with input as (
  select unnest(@worker_ids::bigint[]) as worker_id, unnest(@languages::text[]) as language, unnest(@whats::text[]) as what,
         unnest(@reasons::text[]) as reason, unnest(@evidences::jsonb[]) as evidence
)
insert into health_changes (worker_id, language, what, reason, evidence)
select i.worker_id, i.language, i.what, i.reason, i.evidence from input i;

-- name: HealthChangesOf :many
-- API: newest first.
select language, what, reason, evidence, at from health_changes where worker_id = @worker_id order by id desc limit sqlc.arg(page)::int;

-- name: InsertProbe :one
-- Leader: a probe and its job in one statement, so that neither is without the other.
with term_holds as (
  select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share
), made as (
  insert into probes (worker_id, language, program, purpose, source, package_digest, limits)
  select sqlc.arg(worker_id)::bigint, @language, @program, @purpose, @source, @package_digest, @limits from term_holds
  returning id
)
insert into jobs (kind, lane, language, submitter, work_id, package_digest, memory_bytes, cpu_us, target_worker_id)
select 'probe', 'probe', @language, '', m.id, @package_digest, @memory_bytes, @cpu_us, sqlc.arg(worker_id)::bigint from made m
returning *;

-- name: ProbesByID :many
-- Leader: what leases of probes carry.
select id, source, limits from probes where id = any(@ids::bigint[]);

-- name: RecordProbe :many
-- A report of a probe, right or wrong, a fault among them: the job ends with
-- it. I2: token and holder must match.
with ended as (
  delete from jobs j
   where j.id = sqlc.arg(job_id)::bigint and j.state = 'leased' and j.kind = 'probe'
     and j.lease_token = sqlc.arg(lease_token)::uuid and j.worker_id = sqlc.arg(worker_id)::bigint
  returning j.id, j.lease_gen, j.work_id
), closed as (
  update attempts a set outcome = sqlc.arg(attempt_outcome)::text, ended_at = now(), blame = sqlc.arg(blame)::text, message = sqlc.arg(message)::text
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen
  returning a.job_id
), noted as (
  update probes p
     set job_id = e.id, finished_at = now(), outcome = sqlc.arg(outcome)::text, verdict = @verdict, message = sqlc.arg(message)::text,
         cpu_us = @cpu_us, wall_us = @wall_us, took_us = @took_us
    from ended e where p.id = e.work_id and p.finished_at is null
  returning p.id
)
select e.id as job_id, e.work_id, (select count(*) from closed) as attempts, (select count(*) from noted) as probes from ended e;

-- name: ProbeOfJob :one
-- Leader, before it compares a report: what was asked.
select p.id, p.worker_id, p.language, p.program, p.limits,
       (extract(epoch from now() - a.granted_at) * 1000000)::bigint as took_us
  from jobs j join probes p on p.id = j.work_id
  join attempts a on a.job_id = j.id and a.lease_gen = j.lease_gen
 where j.id = sqlc.arg(job_id)::bigint and j.kind = 'probe' and j.lease_token = sqlc.arg(lease_token)::uuid;

-- name: EndProbeJob :many
-- Leader: a probe that is not waited for any more, because its lease was lost
-- or handed back. A lease that lives is left alone.
with ended as (
  delete from jobs j where j.id = sqlc.arg(job_id)::bigint and j.kind = 'probe' and j.state = 'pending'
  returning j.id, j.work_id
), noted as (
  update probes p set job_id = e.id, finished_at = now(), outcome = sqlc.arg(outcome)::text, message = @message
    from ended e where p.id = e.work_id and p.finished_at is null
  returning p.id
)
select e.id as job_id, e.work_id, (select count(*) from noted) as probes from ended e;

-- name: OpenProbeJobs :many
-- Leader, when a term begins: probes on their way.
select id, target_worker_id from jobs where kind = 'probe';

-- name: ProbesOf :many
-- API: newest first.
select id, language, program, purpose, created_at, finished_at, outcome, verdict, message, cpu_us, wall_us, took_us
  from probes where worker_id = @worker_id order by id desc limit sqlc.arg(page)::int;

-- name: InsertSpeed :execrows
insert into worker_speeds (worker_id, at, language, cpu_us, factor)
values (@worker_id, sqlc.arg(at)::timestamptz, @language, @cpu_us, @factor) on conflict do nothing;

-- name: DropOldProbes :execrows
-- Once an hour: what is older than is worth keeping.
delete from probes where created_at < now() - sqlc.arg(kept)::interval;

-- name: WorkerByName :one
select id, pool from workers where name = $1 and not disabled;

-- name: AllPlannedHours :many
select h.worker_id, coalesce(h.pool, '') as pool, h.hours, h.zone from planned_hours h;

-- name: SetWorkerHours :execrows
insert into planned_hours (worker_id, hours, zone, changed_by) values (sqlc.arg(worker_id)::bigint, @hours, @zone, sqlc.narg(changed_by))
    on conflict (worker_id) do update set hours = excluded.hours, zone = excluded.zone, changed_by = excluded.changed_by, changed_at = now();

-- name: SetPoolHours :execrows
insert into planned_hours (pool, hours, zone, changed_by) values (sqlc.arg(pool)::text, @hours, @zone, sqlc.narg(changed_by))
    on conflict (pool) do update set hours = excluded.hours, zone = excluded.zone, changed_by = excluded.changed_by, changed_at = now();

-- name: DropWorkerHours :execrows
delete from planned_hours where worker_id = sqlc.arg(worker_id)::bigint;

-- name: DropPoolHours :execrows
delete from planned_hours where pool = sqlc.arg(pool)::text;
