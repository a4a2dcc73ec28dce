-- The life of a lease. Every statement is conditional on what its caller
-- believes, works on a batch given as parallel arrays, finds each job by
-- primary key from a lateral sub-select (so no plan can turn into a scan driven
-- by the batch), and returns the rows that matched: the rest was not so. The id
-- is compared three times so that every plan begins with the jobs of the batch:
-- joined by anything that they have in common with others, such as the
-- generation, each meets each that is open.

-- name: GrantLeases :many
-- Leader's dispatch loop. I1: only a pending job of the generation that the
-- leader saw; I8: only while the term is still the leader's. A fresh lease
-- lives for the confirmation time only, until its first heartbeat.
with input as (
  select unnest(@job_ids::bigint[]) as job_id, unnest(@lease_gens::bigint[]) as lease_gen,
         unnest(@lease_tokens::uuid[]) as lease_token, unnest(@worker_ids::bigint[]) as worker_id,
         unnest(@sessions::uuid[]) as session, unnest(@request_ids::uuid[]) as request_id
), located as (
  select i.*, x.id from input i
   cross join lateral (select j.id from jobs j where j.id = i.job_id offset 0) x
), granted as (
  update jobs j
     set state = 'leased', lease_gen = j.lease_gen + 1, lease_token = l.lease_token,
         lease_expires_at = now() + sqlc.arg(confirm)::interval, confirmed = false,
         worker_id = l.worker_id, session = l.session, request_id = l.request_id,
         attempts = j.attempts + 1
    from located l
   where j.id = any(@job_ids::bigint[]) and j.id = l.job_id and j.id = l.id
     and j.state = 'pending' and j.lease_gen = l.lease_gen
     and exists (select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share)
  returning j.id, j.lease_gen, j.lease_token, j.judging_id, j.submission_id, j.worker_id,
            j.session, j.request_id, j.attempts, j.kind, j.language, j.work_id, j.package_digest
), logged as (
  insert into attempts (job_id, lease_gen, lease_token, judging_id, submission_id, worker_id, session, request_id, term, kind, work_id)
  select g.id, g.lease_gen, g.lease_token, g.judging_id, g.submission_id, g.worker_id, g.session, g.request_id, sqlc.arg(term)::bigint, g.kind, g.work_id
    from granted g
)
select g.id as job_id, g.lease_gen, g.lease_token, g.attempts, g.kind, coalesce(g.submission_id, 0)::bigint as submission_id,
       coalesce(g.work_id, 0)::bigint as work_id, g.language, coalesce(s.source_name, '') as source_name,
       coalesce(s.stop_rule, 'first') as stop_rule, coalesce(c.source, pr.source) as source, c.file_names, c.file_contents, coalesce(p.name, case when g.kind = 'probe' then 'known-answers' end, '') as problem,
       coalesce(h.package_digest, g.package_digest, '') as package_digest, coalesce(h.limits, pr.limits) as limits
  from granted g
  left join judgings h on h.id = g.judging_id
  left join submissions s on s.id = g.submission_id
  left join submission_sources c on c.submission_id = g.submission_id
  left join problems p on p.id = s.problem_id
  left join probes pr on g.kind = 'probe' and pr.id = g.work_id;

-- name: HeldLeases :many
-- Leader, for a repeated request_id: the same leases, with what they carry.
-- Touching them gives the worker the confirmation time anew.
with held as (
  update jobs j
     set lease_expires_at = greatest(j.lease_expires_at, now() + sqlc.arg(confirm)::interval)
   where j.id = any(@job_ids::bigint[]) and j.state = 'leased' and j.worker_id = sqlc.arg(worker_id)::bigint
     and j.request_id = sqlc.arg(request_id)::uuid
     and exists (select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share)
  returning j.id, j.lease_gen, j.lease_token, j.judging_id, j.submission_id, j.attempts, j.kind, j.language, j.work_id, j.package_digest
)
select g.id as job_id, g.lease_gen, g.lease_token, g.attempts, g.kind, coalesce(g.submission_id, 0)::bigint as submission_id,
       coalesce(g.work_id, 0)::bigint as work_id, g.language, coalesce(s.source_name, '') as source_name,
       coalesce(s.stop_rule, 'first') as stop_rule, coalesce(c.source, pr.source) as source, c.file_names, c.file_contents, coalesce(p.name, case when g.kind = 'probe' then 'known-answers' end, '') as problem,
       coalesce(h.package_digest, g.package_digest, '') as package_digest, coalesce(h.limits, pr.limits) as limits
  from held g
  left join judgings h on h.id = g.judging_id
  left join submissions s on s.id = g.submission_id
  left join submission_sources c on c.submission_id = g.submission_id
  left join problems p on p.id = s.problem_id
  left join probes pr on g.kind = 'probe' and pr.id = g.work_id;

-- name: ExtendLeases :many
-- Heartbeats, many in one statement. I2: token and holder must match.
with input as (
  select unnest(@job_ids::bigint[]) as job_id, unnest(@lease_tokens::uuid[]) as lease_token,
         unnest(@worker_ids::bigint[]) as worker_id
), located as (
  select i.*, x.id from input i
   cross join lateral (select j.id from jobs j where j.id = i.job_id offset 0) x
)
update jobs j set lease_expires_at = now() + sqlc.arg(ttl)::interval, confirmed = true
  from located l
 where j.id = any(@job_ids::bigint[]) and j.id = l.job_id and j.id = l.id
   and j.state = 'leased' and j.lease_token = l.lease_token and j.worker_id = l.worker_id
returning j.id as job_id, j.lease_token;

-- name: RecordResults :many
-- Results that are verdicts. I2 and I3: the job leaves the table of open work
-- only if the token still holds it, and only then is its judging written, in
-- the same statement.
with input as (
  select unnest(@job_ids::bigint[]) as job_id, unnest(@lease_tokens::uuid[]) as lease_token,
         unnest(@worker_ids::bigint[]) as worker_id, unnest(@verdicts::text[]) as verdict,
         unnest(@cpu_us::bigint[]) as cpu_us, unnest(@wall_us::bigint[]) as wall_us,
         unnest(@memory_bytes::bigint[]) as memory_bytes, unnest(@compiles::jsonb[]) as compile,
         unnest(@tests::jsonb[]) as tests, unnest(@provenances::jsonb[]) as provenance, unnest(@outputs::jsonb[]) as outputs
), located as (
  select i.*, x.id from input i
   cross join lateral (select j.id from jobs j where j.id = i.job_id offset 0) x
), won as (
  delete from jobs j using located l
   where j.id = any(@job_ids::bigint[]) and j.id = l.job_id and j.id = l.id
     and j.state = 'leased' and j.lease_token = l.lease_token and j.worker_id = l.worker_id
     and j.judging_id is not null -- a verdict on other work is none
  returning j.id, j.lease_gen, j.lease_token, j.judging_id, j.submission_id
), judged as (
  update judgings g
     set state = 'done', verdict = i.verdict, cpu_us = i.cpu_us, wall_us = i.wall_us,
         memory_bytes = i.memory_bytes, compile = i.compile, tests = i.tests, provenance = i.provenance,
         lease_gen = w.lease_gen, worker_id = i.worker_id, finished_at = now()
    from won w join input i on i.job_id = w.id and i.lease_token = w.lease_token
   where g.id = w.judging_id and g.state = 'open'
  returning g.id, g.submission_id, g.previous_judging_id, g.auto_apply
), kept as (
  insert into judging_outputs (judging_id, outputs)
  select d.id, i.outputs
    from judged d join won w on w.judging_id = d.id join input i on i.job_id = w.id and i.lease_token = w.lease_token
   where i.outputs is not null
  on conflict (judging_id) do nothing
  returning judging_id
), applied as ( -- a rejudging that applies itself replaces the judging that it was made beside
  update submissions s set current_judging_id = d.id
    from judged d
   where d.auto_apply and s.id = d.submission_id and s.current_judging_id = d.previous_judging_id
  returning s.id
), closed as (
  update attempts a set outcome = 'completed', ended_at = now()
    from won w where a.job_id = w.id and a.lease_gen = w.lease_gen
  returning a.job_id
)
select w.id as job_id, w.lease_token, coalesce(w.submission_id, 0)::bigint as submission_id,
       (select count(*) from judged) as judgings, (select count(*) from closed) as attempts,
       (select count(*) from applied) as applied, (select count(*) from kept) as kept
  from won w;

-- name: ReturnFailed :many
-- A fault below the attempt cap: back to pending for another try.
with returned as (
  update jobs j
     set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
         worker_id = null, session = null, request_id = null
   where j.id = sqlc.arg(job_id)::bigint and j.state = 'leased'
     and j.lease_token = sqlc.arg(lease_token)::uuid and j.worker_id = sqlc.arg(worker_id)::bigint
     and j.attempts < sqlc.arg(attempt_cap)::int
  returning j.id, j.lease_gen
), closed as (
  update attempts a set outcome = 'failed', ended_at = now(), blame = @blame, message = @message
    from returned r where a.job_id = r.id and a.lease_gen = r.lease_gen
  returning a.job_id
)
select r.id as job_id, r.lease_gen, (select count(*) from closed) as attempts from returned r;

-- name: GiveUpFailed :many
-- A fault at the attempt cap: system_error, with the fault as evidence.
with ended as (
  delete from jobs j
   where j.id = sqlc.arg(job_id)::bigint and j.state = 'leased'
     and j.lease_token = sqlc.arg(lease_token)::uuid and j.worker_id = sqlc.arg(worker_id)::bigint
     and j.attempts >= sqlc.arg(attempt_cap)::int
  returning j.id, j.lease_gen, j.judging_id, j.submission_id, j.kind, j.work_id
), judged as (
  update judgings g
     set state = 'system_error', fault = @fault, compile = @compile, provenance = @provenance,
         lease_gen = e.lease_gen, worker_id = sqlc.arg(worker_id)::bigint, finished_at = now()
    from ended e where g.id = e.judging_id and g.state = 'open'
  returning g.id
), ran as (
  update runs r
     set state = 'system_error', fault = @fault, compile = @compile, provenance = @provenance,
         lease_gen = e.lease_gen, worker_id = sqlc.arg(worker_id)::bigint, finished_at = now(), expires_at = now() + r.keep
    from ended e where e.kind = 'run' and r.id = e.work_id and r.state = 'open'
  returning r.id
), stepped as (
  update preparation_steps p
     set state = 'system_error', fault = @fault, lease_gen = e.lease_gen, worker_id = sqlc.arg(worker_id)::bigint, finished_at = now()
    from ended e where e.kind = 'prepare' and p.id = e.work_id and p.state = 'open'
), closed as (
  update attempts a set outcome = 'failed', ended_at = now(), blame = @blame, message = @message
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen
  returning a.job_id
)
select e.id as job_id, coalesce(e.submission_id, 0)::bigint as submission_id, (select count(*) from judged) as judgings,
       (select count(*) from ran) as runs, (select count(*) from closed) as attempts
  from ended e;

-- name: ReleaseLease :many
-- A worker hands its lease back: pending at once, the attempt refunded.
with returned as (
  update jobs j
     set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
         worker_id = null, session = null, request_id = null, attempts = j.attempts - 1
   where j.id = sqlc.arg(job_id)::bigint and j.state = 'leased'
     and j.lease_token = sqlc.arg(lease_token)::uuid and j.worker_id = sqlc.arg(worker_id)::bigint
  returning j.id, j.lease_gen
), closed as (
  update attempts a set outcome = 'released', ended_at = now(), message = @reason
    from returned r where a.job_id = r.id and a.lease_gen = r.lease_gen
  returning a.job_id
)
select r.id as job_id, r.lease_gen, (select count(*) from closed) as attempts from returned r;

-- name: RequeueExpired :many
-- Leader's reclaim, first half: leases past their time that may be tried
-- again. One that was never confirmed is "undelivered" and costs no attempt.
-- SKIP LOCKED: a row that a report is just being written to is not expired yet.
with dead as (
  select j.id, j.lease_gen, j.confirmed from jobs j
   where j.state = 'leased' and j.lease_expires_at <= now()
     and (not j.confirmed or j.attempts < sqlc.arg(attempt_cap)::int)
     and exists (select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share)
   order by j.id for update skip locked
), returned as (
  update jobs j
     set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
         worker_id = null, session = null, request_id = null,
         attempts = case when d.confirmed then j.attempts else j.attempts - 1 end
    from dead d where j.id = d.id
  returning j.id, j.lease_gen, d.confirmed, j.submission_id, j.kind, j.work_id
), closed as (
  update attempts a
     set outcome = case when r.confirmed then 'expired' else 'undelivered' end, ended_at = now()
    from returned r where a.job_id = r.id and a.lease_gen = r.lease_gen
  returning a.job_id
)
select r.id as job_id, r.lease_gen, r.confirmed, coalesce(r.submission_id, 0)::bigint as submission_id, r.kind,
       coalesce(r.work_id, 0)::bigint as work_id, (select count(*) from closed) as attempts from returned r;

-- name: GiveUpExpired :many
-- Leader's reclaim, second half: leases past their time at the attempt cap.
with dead as (
  select j.id from jobs j
   where j.state = 'leased' and j.lease_expires_at <= now() and j.confirmed
     and j.attempts >= sqlc.arg(attempt_cap)::int
     and exists (select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share)
   order by j.id for update skip locked
), ended as (
  delete from jobs j using dead d where j.id = d.id
  returning j.id, j.lease_gen, j.judging_id, j.submission_id, j.worker_id, j.kind, j.work_id
), judged as (
  update judgings g set state = 'system_error', fault = @fault, lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now()
    from ended e where g.id = e.judging_id and g.state = 'open'
  returning g.id
), ran as (
  update runs r set state = 'system_error', fault = @fault, lease_gen = e.lease_gen, worker_id = e.worker_id,
         finished_at = now(), expires_at = now() + r.keep
    from ended e where e.kind = 'run' and r.id = e.work_id and r.state = 'open'
  returning r.id
), stepped as (
  update preparation_steps p set state = 'system_error', fault = @fault, lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now()
    from ended e where e.kind = 'prepare' and p.id = e.work_id and p.state = 'open'
), closed as (
  update attempts a set outcome = 'expired', ended_at = now()
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen
  returning a.job_id
)
select e.id as job_id, coalesce(e.submission_id, 0)::bigint as submission_id, e.kind, coalesce(e.work_id, 0)::bigint as work_id,
       (select count(*) from judged) as judgings, (select count(*) from ran) as runs, (select count(*) from closed) as attempts
  from ended e;

-- name: LockJob :exec
-- Before CancelOpenJob, in its transaction: see store.DB.CancelJob.
select from jobs where id = @job_id for update;

-- name: CloseOrphan :execrows
-- A report of an attempt that is open and whose job is not: it ended with its job.
update attempts a set outcome = 'cancelled', ended_at = now(), message = 'its job was ended while it was granted'
 where a.lease_token = @lease_token and a.outcome = 'running'
   and not exists (select from jobs j where j.id = a.job_id and j.lease_gen = a.lease_gen);

-- name: CancelOpenJob :many
-- API: ends the open job of a submission, pending or leased; its lease is
-- fenced because the row is gone. A final submission has no such row.
with ended as (
  delete from jobs j
   where j.submission_id = sqlc.arg(submission_id)::bigint and j.id = sqlc.arg(job_id)::bigint
  returning j.id, j.lease_gen, j.judging_id
), judged as (
  update judgings g set state = 'cancelled', finished_at = now()
    from ended e where g.id = e.judging_id and g.state = 'open'
  returning g.id
), closed as (
  update attempts a set outcome = 'cancelled', ended_at = now()
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen and a.outcome = 'running'
  returning a.job_id
)
select e.id as job_id, (select count(*) from judged) as judgings, (select count(*) from closed) as attempts from ended e;

-- name: PendingJobs :many
-- Leader's rebuild: what dispatch must know of every waiting job, oldest first.
select id, lease_gen, lane, language, submitter, priority, problem_id, package_digest, features, tags, memory_bytes, cpu_us,
       batch_id, batch_budget, target_worker_id
  from jobs where state = 'pending' order by id;

-- name: PendingJobKeys :many
-- Leader's catch-up scan: what tells whether memory knows a waiting job as it
-- is. There may be very many, and nearly always it does.
select id, lease_gen, lane, priority from jobs where state = 'pending';

-- name: PendingJobsOf :many
-- Leader's catch-up scan: those that memory does not know, oldest first. There
-- may be very many: the planner would weigh each element of an "= any" for itself.
select j.* from unnest(@ids::bigint[]) as unknown(id) join jobs j on j.id = unknown.id where j.state = 'pending' order by j.id;

-- name: LeasedJobs :many
-- Leader's rebuild after a takeover or an uncertain commit.
select sqlc.embed(jobs), greatest(extract(epoch from lease_expires_at - now()), 0)::float8 as left_s
  from jobs where state = 'leased' order by id;

-- name: FailedAttemptsOfOpenJobs :many
-- Leader's rebuild: which workers have already failed which open job.
select distinct a.job_id, a.worker_id from jobs j
  join attempts a on a.job_id = j.id
 where a.outcome in ('failed', 'expired');

-- name: AttemptByToken :one
-- Reports and heartbeats of leases that the leader does not know: why is it
-- dead, or whose is it? Served by the unique index on lease_token.
select job_id, lease_gen, coalesce(submission_id, 0)::bigint as submission_id, kind, coalesce(work_id, 0)::bigint as work_id, worker_id, outcome,
       (outcome = 'cancelled' and message = 'superseded by a rejudge')::bool as superseded -- see SupersedeOpenJobs
  from attempts where lease_token = $1;

-- name: PackageByToken :one
-- Reports whose lease the leader does not know, as after a change of leaders:
-- which package was judged? Served by the unique index on lease_token.
select g.package_digest from attempts t join judgings g on g.id = t.judging_id where t.lease_token = $1;

-- name: KeepLateReport :execrows
-- A report of a dead lease: kept beside the attempt, never applied. The first
-- one stays; a completed attempt needs none.
update attempts set late_report = @report, late_at = now()
 where lease_token = @lease_token and outcome not in ('running', 'completed') and late_report is null;

-- name: PackageLeasedTo :one
-- I9: a worker may read only packages of jobs that it holds.
select exists (
  select 1 from jobs j left join judgings g on g.id = j.judging_id
   where j.state = 'leased' and j.worker_id = sqlc.arg(worker_id)::bigint
     and coalesce(g.package_digest, j.package_digest) = sqlc.arg(digest)::text
);

-- name: ExpireSession :execrows
-- Leader, when the successor of a worker's process claims: what the dead
-- process held is reclaimed as expired. An unconfirmed grant counts as
-- confirmed here: its worker was alive enough to ask for it and has died since.
update jobs j set lease_expires_at = now(), confirmed = true
 where j.state = 'leased' and j.worker_id = sqlc.arg(worker_id)::bigint and j.session = sqlc.arg(session)::uuid
   and exists (select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share);
