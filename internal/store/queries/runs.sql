-- Runs: written by the API, read and written by the lease protocol. A run is
-- open as long as its job is there.

-- name: InsertRun :one
-- API, first statement of its transaction.
insert into runs (language, submitter, source_name, source, file_names, file_contents, inputs, limits, created_by, keep)
values (@language, @submitter, @source_name, @source, sqlc.narg(file_names)::text[], sqlc.narg(file_contents)::bytea[],
        @inputs::bytea[], @limits, @created_by, @keep)
returning id;

-- name: InsertRunJob :one
insert into jobs (work_id, kind, lane, language, submitter, features, memory_bytes, cpu_us)
values (sqlc.arg(run_id)::bigint, 'run', 'run', @language, @submitter, @features::text[], @memory_bytes, @cpu_us)
returning id;

-- name: LockSubmitter :exec
-- API, before WaitingOf: two requests of one user are counted one after the
-- other. Held to the end of the transaction; others' requests do not meet it.
select pg_advisory_xact_lock(1734440557, hashtext(@submitter::text));

-- name: WaitingOf :one
-- What a user has waiting, with an answer that does not grow beyond the cap.
-- Served by jobs_by_submitter.
select count(*) from (
  select 1 from jobs j
   where j.submitter = @submitter::text and j.submitter <> '' and j.state = 'pending' and j.kind in ('judge', 'run')
   limit sqlc.arg(cap)::int
) w;

-- name: RunPayloads :many
-- Leader, after a grant that held runs: what their workers need.
select id, language, source_name, source, file_names, file_contents, inputs, limits from runs where id = any(@ids::bigint[]);

-- name: RecordRun :many
-- The result of a run. I2 and I3 as in RecordResults: the job leaves the table
-- of open work only if the token still holds it, and only then is the run
-- written, in the same statement.
with won as (
  delete from jobs j
   where j.id = sqlc.arg(job_id)::bigint and j.state = 'leased' and j.kind = 'run'
     and j.lease_token = sqlc.arg(lease_token)::uuid and j.worker_id = sqlc.arg(worker_id)::bigint
  returning j.id, j.lease_gen, j.work_id
), ran as (
  update runs r
     set state = 'done', compiled = sqlc.arg(compiled)::boolean, compile = @compile, results = @results,
         outputs = @outputs::bytea[], errors = @errors::bytea[], provenance = @provenance,
         lease_gen = w.lease_gen, worker_id = sqlc.arg(worker_id)::bigint, finished_at = now(), expires_at = now() + r.keep
    from won w where r.id = w.work_id and r.state = 'open'
  returning r.id
), closed as (
  update attempts a set outcome = 'completed', ended_at = now()
    from won w where a.job_id = w.id and a.lease_gen = w.lease_gen
  returning a.job_id
)
select w.id as job_id, (select count(*) from ran) as runs, (select count(*) from closed) as attempts from won w;

-- name: LockJobOfRun :exec
-- Before CancelOpenRun, in its transaction: see store.DB.CancelJob.
select from jobs where kind = 'run' and work_id = sqlc.arg(run_id)::bigint for update;

-- name: CancelOpenRun :many
-- API: ends the open job of a run, pending or leased; its lease is fenced
-- because the row is gone.
with ended as (
  delete from jobs j where j.kind = 'run' and j.work_id = sqlc.arg(run_id)::bigint
  returning j.id, j.lease_gen, j.work_id
), ran as (
  update runs r set state = 'cancelled', finished_at = now(), expires_at = now() + r.keep
    from ended e where r.id = e.work_id and r.state = 'open'
  returning r.id
), closed as (
  update attempts a set outcome = 'cancelled', ended_at = now()
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen and a.outcome = 'running'
  returning a.job_id
)
select e.id as job_id, (select count(*) from ran) as runs, (select count(*) from closed) as attempts from ended e;

-- name: RunByID :one
-- API. One state: that of the run, or of its open job. What has expired is not
-- there, whether it was deleted yet or not.
select r.id, r.language, r.submitter, r.source_name, cardinality(r.inputs)::int as inputs, r.limits,
       case when r.state <> 'open' then r.state when j.state = 'leased' then 'running' else 'pending' end as state,
       r.compile, r.compiled, r.results, r.outputs, r.errors, r.fault, r.provenance,
       r.created_at, r.finished_at, r.expires_at, coalesce(w.name, '') as worker, j.id as job_id, j.lease_token
  from runs r
  left join jobs j on r.state = 'open' and j.work_id = r.id and j.kind = 'run'
  left join workers w on w.id = coalesce(r.worker_id, j.worker_id)
 where r.id = $1 and (r.expires_at is null or r.expires_at > now());

-- name: AttemptsOfRun :many
select a.lease_gen, a.job_id, w.name as worker, a.granted_at, a.ended_at, a.outcome, a.blame, a.message, a.late_report
  from attempts a join workers w on w.id = a.worker_id
 where a.work_id = sqlc.arg(run_id)::bigint and a.kind = 'run' order by a.granted_at, a.job_id, a.lease_gen;

-- name: DeleteExpiredRuns :execrows
-- Leader, now and then; served by runs_by_expiry.
delete from runs where expires_at <= now();

-- name: EndOrphanedRuns :execrows
-- Leader, now and then: runs whose job is gone without a result. The edge
-- functions give up lost leases of any kind while no arbiter leads.
update runs r set state = 'system_error', fault = @fault, finished_at = now(), expires_at = now() + r.keep
 where r.state = 'open' and not exists (select from jobs j where j.work_id = r.id and j.kind = 'run');
