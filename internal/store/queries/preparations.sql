-- Preparing packages: a preparation is written by the API, its steps are jobs
-- and live by the lease protocol. A step is open as long as its job is there.
--
-- Locks are taken in this order: the name, the preparation, jobs, steps.

-- name: LockProblemName :exec
-- API, first statement of an import: two imports of one problem go one after
-- the other, which decides which is the newest.
select pg_advisory_xact_lock(1734440558, hashtext(@name::text));

-- name: PreparationAtWork :one
-- Served by preparations_at_work.
select * from preparations where problem = @problem and state = 'preparing' for update;

-- name: InsertPreparation :one
insert into preparations (problem, title, package_digest, verify, state, version, created_by, finished_at)
values (@problem, @title, @package_digest, @verify, @state, sqlc.narg(version)::int, sqlc.narg(created_by)::bigint,
        case when @state::text = 'preparing' then null else now() end)
returning id;

-- name: InsertPreparationSteps :exec
insert into preparation_steps (preparation_id, n, kind, path, language, expected, limits)
select sqlc.arg(preparation_id)::bigint, unnest(@ns::int[]), unnest(@kinds::text[]), unnest(@paths::text[]), unnest(@languages::text[]),
       unnest(@expected::text[]), unnest(@limits::jsonb[]);

-- name: BeginPreparationSteps :many
-- Makes jobs of the steps that wait: of all but the submissions, or of those. A
-- job has one language; more are asked for as dispatch.AlsoLanguage says.
with begun as (
  update preparation_steps s set state = 'open'
   where s.preparation_id = sqlc.arg(preparation_id)::bigint and s.state = 'waiting'
     and (s.kind = 'submission') = sqlc.arg(submissions)::boolean
  returning s.id, s.n, s.language, s.limits
)
insert into jobs (work_id, kind, lane, language, submitter, package_digest, features, memory_bytes, cpu_us)
select b.id, 'prepare', 'prepare', split_part(b.language, ' ', 1), p.problem, p.package_digest,
       @features::text[] || array(select 'language:' || l.id from unnest((string_to_array(b.language, ' '))[2:]) as l (id)),
       coalesce((b.limits ->> 'memory_bytes')::bigint, 0), coalesce((b.limits ->> 'cpu_us')::bigint, 0)
  from begun b join preparations p on p.id = sqlc.arg(preparation_id)::bigint
 order by b.n
returning *;

-- name: PreparePayloads :many
-- Leader, after a grant that held steps: what their workers need.
select s.id, s.kind, s.path, s.limits, p.problem
  from preparation_steps s join preparations p on p.id = s.preparation_id where s.id = any(@ids::bigint[]);

-- name: PreparationOfStep :one
select s.preparation_id, s.kind, s.path, s.expected, s.limits, p.problem
  from preparation_steps s join preparations p on p.id = s.preparation_id where s.id = @id;

-- name: RecordPrepareStep :many
-- The findings of a step. I2 and I3 as in RecordResults: the job leaves the
-- table of open work only if the token still holds it, and only then is the step
-- written, in the same statement.
with won as (
  delete from jobs j
   where j.id = sqlc.arg(job_id)::bigint and j.state = 'leased' and j.kind = 'prepare'
     and j.lease_token = sqlc.arg(lease_token)::uuid and j.worker_id = sqlc.arg(worker_id)::bigint
  returning j.id, j.lease_gen, j.work_id
), done as (
  update preparation_steps s
     set state = 'done', failed = sqlc.arg(failed)::boolean, findings = @findings,
         lease_gen = w.lease_gen, worker_id = sqlc.arg(worker_id)::bigint, finished_at = now()
    from won w where s.id = w.work_id and s.state = 'open'
  returning s.id
), closed as (
  update attempts a set outcome = 'completed', ended_at = now()
    from won w where a.job_id = w.id and a.lease_gen = w.lease_gen
  returning a.job_id
)
select w.id as job_id, (select count(*) from done) as steps, (select count(*) from closed) as attempts from won w;

-- name: LockPreparation :one
select * from preparations where id = @id for update;

-- name: EndOrphanedSteps :execrows
-- With the preparation locked: steps whose job is gone without a result. The
-- edge functions give up lost leases of any kind while no arbiter leads.
update preparation_steps s set state = 'system_error', fault = @fault, finished_at = now()
 where s.preparation_id = sqlc.arg(preparation_id)::bigint and s.state = 'open'
   and not exists (select from jobs j where j.work_id = s.id and j.kind = 'prepare');

-- name: CountSteps :one
select count(*) filter (where state = 'open')::int as open,
       count(*) filter (where state = 'waiting')::int as waiting,
       count(*) filter (where state in ('done', 'system_error'))::int as ended,
       count(*) filter (where failed)::int as failed,
       coalesce((select f.fault from preparation_steps f
                  where f.preparation_id = sqlc.arg(preparation_id)::bigint and f.state = 'system_error' order by f.n limit 1), 'null')::jsonb as fault
  from preparation_steps where preparation_id = sqlc.arg(preparation_id)::bigint;

-- name: FinishPreparation :execrows
update preparations set state = @state, message = @message, fault = sqlc.narg(fault)::jsonb, version = sqlc.narg(version)::int, finished_at = now()
 where id = @id and state = 'preparing';

-- name: SkipSteps :exec
update preparation_steps set state = 'skipped' where preparation_id = @preparation_id and state in ('waiting', 'open');

-- name: LockPrepareJobs :exec
-- Before CancelPrepareJobs, in its transaction: see store.DB.CancelJob.
select from jobs j
 where j.kind = 'prepare'
   and j.work_id in (select s.id from preparation_steps s where s.preparation_id = sqlc.arg(preparation_id)::bigint)
 order by j.id for update;

-- name: CancelPrepareJobs :many
-- Ends the open jobs of a preparation, pending or leased; their leases are
-- fenced because the rows are gone.
with ended as (
  delete from jobs j
   where j.kind = 'prepare'
     and j.work_id in (select s.id from preparation_steps s where s.preparation_id = sqlc.arg(preparation_id)::bigint)
  returning j.id, j.lease_gen
), closed as (
  update attempts a set outcome = 'cancelled', ended_at = now()
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen and a.outcome = 'running'
  returning a.job_id
)
select e.id as job_id, (select count(*) from closed) as attempts from ended e;

-- name: DeleteOldPreparations :execrows
-- With the name locked: the newest reports of a problem stay.
delete from preparations p
 where p.problem = @problem and p.state <> 'preparing'
   and p.id not in (select k.id from preparations k where k.problem = @problem order by k.id desc limit sqlc.arg(keep)::int)
   and not exists (select from problems q where q.name = p.problem and q.package_digest = p.package_digest and p.state = 'published');

-- name: PreparationsAtWork :many
-- Leader, now and then: a crash between the end of a step and the look at its
-- preparation is made good.
select id from preparations where state = 'preparing' order by id;

-- name: LatestPreparation :one
-- Served by preparations_by_problem.
select p.id, p.problem, p.title, p.package_digest, p.verify, p.state, p.message, p.fault, p.version, p.created_at, p.finished_at, k.manifest, k.size_bytes,
       (select count(*) from preparation_steps s where s.preparation_id = p.id)::int as steps,
       (select count(*) from preparation_steps s where s.preparation_id = p.id and s.state not in ('waiting', 'open'))::int as steps_done
  from preparations p join packages k on k.digest = p.package_digest
 where p.problem = @problem and (sqlc.arg(id)::bigint = 0 or p.id = sqlc.arg(id)::bigint)
 order by p.id desc limit 1;

-- name: StepsOfPreparation :many
select s.id, s.kind, s.path, s.language, s.expected, s.state, s.failed, s.findings, s.fault, j.id as job_id, j.state as job_state, j.lease_token,
       coalesce(w.name, '') as worker
  from preparation_steps s
  left join jobs j on s.state = 'open' and j.work_id = s.id and j.kind = 'prepare'
  left join workers w on w.id = coalesce(s.worker_id, j.worker_id)
 where s.preparation_id = @preparation_id order by s.n;
