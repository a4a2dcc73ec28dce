-- name: InsertSubmission :one
-- API: a submission with its source, first judging and job, in one statement;
-- the further files are null for a source of one. It waits for a concurrent
-- request with the same key; no row means that the key is taken by one that
-- committed, and then nothing is stored.
with ids as materialized (
  select nextval('submissions_id_seq') as submission_id,
         nextval('judgings_id_seq') as judging_id
), keyed as (
  insert into idempotency_keys (token_id, key, body_hash, submission_id)
  select sqlc.arg(token_id)::bigint, @key::text, sqlc.narg(body_hash)::bytea, i.submission_id from ids i where @key::text <> ''
      on conflict do nothing
  returning submission_id
), fresh as materialized (
  select i.submission_id, i.judging_id from ids i where @key::text = '' or exists (select from keyed)
), submitted as (
  insert into submissions (id, problem_id, language, submitter, source_name, source_bytes, source_files, stop_rule, current_judging_id, created_by)
  overriding system value
  select f.submission_id, sqlc.arg(problem_id)::bigint, @language::text, @submitter::text, @source_name::text, sqlc.arg(source_bytes)::bigint,
         sqlc.arg(source_files)::int, @stop_rule::text, f.judging_id, sqlc.narg(created_by)::bigint
    from fresh f
), sourced as (
  insert into submission_sources (submission_id, source, file_names, file_contents)
  select f.submission_id, @source::bytea, sqlc.narg(file_names)::text[], sqlc.narg(file_contents)::bytea[] from fresh f
), judged as (
  insert into judgings (id, submission_id, kind, package_digest, limits)
  overriding system value
  select f.judging_id, f.submission_id, 'judge', sqlc.arg(package_digest)::text, @limits::jsonb from fresh f
)
insert into jobs (judging_id, submission_id, kind, lane, language, submitter, priority, problem_id, package_digest,
                  memory_bytes, cpu_us)
select f.judging_id, f.submission_id, 'judge', @lane::text, @language::text, @submitter::text, sqlc.arg(priority)::smallint,
       sqlc.arg(problem_id)::bigint, sqlc.arg(package_digest)::text, sqlc.arg(memory_bytes)::bigint, sqlc.arg(cpu_us)::bigint
  from fresh f
returning id as job_id, coalesce(submission_id, 0)::bigint as submission_id, coalesce(judging_id, 0)::bigint as judging_id, created_at,
          features, memory_bytes; -- with what the package asks for

-- name: SourceOfSubmission :one
-- API.
select s.language, s.source_name, c.source, c.file_names, c.file_contents
  from submissions s join submission_sources c on c.submission_id = s.id
 where s.id = $1;

-- name: InsertIdempotencyKey :execrows
-- API: waits for a concurrent request with the same key; 0 rows means that the
-- key is taken by one that committed.
insert into idempotency_keys (token_id, key, body_hash, submission_id, run_id)
values (@token_id, @key, @body_hash, @submission_id, @run_id) on conflict do nothing;

-- name: FindIdempotencyKey :one
select body_hash, submission_id, run_id from idempotency_keys where token_id = @token_id and key = @key;

-- name: DeleteOldIdempotencyKeys :execrows
delete from idempotency_keys where created_at < now() - sqlc.arg(age)::interval;

-- name: SubmissionByID :one
-- API. One state: that of the current judging, or of its open job.
select s.id, p.name as problem, s.language, s.submitter, s.source_name, s.source_bytes, s.source_files, s.created_at,
       g.id as judging_id, g.package_digest, g.limits,
       case when g.state <> 'open' then g.state when j.state = 'leased' then 'judging' else 'pending' end as state,
       coalesce(g.verdict, '') as verdict, g.cpu_us, g.wall_us, g.memory_bytes, g.compile, g.tests, g.fault, g.provenance,
       g.finished_at, coalesce(w.name, '') as worker, j.id as job_id, j.lease_token,
       exists (select 1 from jobs o where o.submission_id = s.id and o.judging_id <> g.id) as rejudging
  from submissions s
  join problems p on p.id = s.problem_id
  join judgings g on g.id = s.current_judging_id
  left join jobs j on g.state = 'open' and j.submission_id = s.id and j.judging_id = g.id
  left join workers w on w.id = coalesce(g.worker_id, j.worker_id)
 where s.id = $1;

-- name: OpenJobOfSubmission :one
-- API, for cancel: found by the narrow table, which is small.
select id from jobs where submission_id = sqlc.arg(submission_id)::bigint;

-- name: LeaseOfSubmission :one
-- Explain: what is left of the lease that it is judged under.
select extract(epoch from lease_expires_at - now())::float8 as left_s, confirmed
  from jobs where submission_id = sqlc.arg(submission_id)::bigint and state = 'leased' order by id limit 1;

-- name: AttemptsOfSubmission :many
select a.lease_gen, a.job_id, coalesce(a.judging_id, 0)::bigint as judging_id, w.name as worker, a.granted_at, a.ended_at, a.outcome, a.blame, a.message, a.late_report
  from attempts a join workers w on w.id = a.worker_id
 where a.submission_id = sqlc.arg(submission_id)::bigint order by a.granted_at, a.job_id, a.lease_gen;

-- name: ListSubmissions :many
-- API. Newest first from a cursor; every filter may be absent.
select s.id, p.name as problem, s.language, s.submitter, s.source_name, s.source_bytes, s.source_files, s.created_at,
       g.package_digest,
       case when g.state <> 'open' then g.state when j.state = 'leased' then 'judging' else 'pending' end as state,
       coalesce(g.verdict, '') as verdict, g.cpu_us, g.wall_us, g.memory_bytes, g.fault,
       g.finished_at, coalesce(w.name, '') as worker
  from submissions s
  join problems p on p.id = s.problem_id
  join judgings g on g.id = s.current_judging_id
  left join jobs j on g.state = 'open' and j.submission_id = s.id and j.judging_id = g.id
  left join workers w on w.id = coalesce(g.worker_id, j.worker_id)
 where s.id < sqlc.arg(before)::bigint
   and (sqlc.narg(problem)::text is null or p.name = sqlc.narg(problem))
   and (sqlc.narg(submitter)::text is null or s.submitter = sqlc.narg(submitter))
   and (sqlc.narg(language)::text is null or s.language = sqlc.narg(language))
   and (sqlc.narg(verdict)::text is null or g.verdict = sqlc.narg(verdict)
        or (sqlc.narg(verdict) = 'SE' and g.state = 'system_error'))
   and (sqlc.narg(state)::text is null
        or case when g.state <> 'open' then g.state when j.state = 'leased' then 'judging' else 'pending' end = sqlc.narg(state))
 order by s.id desc
 limit sqlc.arg(page)::int;

-- name: OutputsOfSubmission :one
-- API. Of the current judging.
select g.id as judging_id, coalesce(o.outputs, '[]')::jsonb as outputs
  from submissions s join judgings g on g.id = s.current_judging_id
  left join judging_outputs o on o.judging_id = g.id
 where s.id = $1;

-- name: DropOldOutputs :execrows
-- Leader, once an hour, a bounded number; served by judging_outputs_by_age.
delete from judging_outputs
 where judging_id in (select o.judging_id from judging_outputs o where o.created_at < now() - sqlc.arg(kept)::interval
                       order by o.created_at limit 50000);
