-- name: InsertRejudge :one
insert into rejudges (reason, filter, auto_apply, created_by) values (@reason, @filter, @auto_apply, @created_by)
returning id, created_at;

-- name: LockRejudgeCandidates :many
-- Planner of a rejudge: what the filter selects, locked in id order so that two
-- rejudges and any number of results cannot deadlock. Who else rejudges it, and
-- whether its language still exists, is decided by the caller.
select s.id, s.problem_id, s.language, s.submitter, s.current_judging_id, p.name as problem, p.package_digest,
       g.state as judging_state, g.package_digest as judged_digest,
       coalesce(r.id, 0)::bigint as open_rejudge_id
  from submissions s
  join problems p on p.id = s.problem_id
  join judgings g on g.id = s.current_judging_id
  left join jobs j on j.submission_id = s.id
  left join judgings o on o.id = j.judging_id
  left join rejudges r on r.id = o.rejudge_id and r.state = 'running' -- a cancelled one may have left it a first judging
 where (cardinality(@ids::bigint[]) = 0 or s.id = any(@ids::bigint[]))
   and (sqlc.narg(problem)::text is null or p.name = sqlc.narg(problem))
   and (sqlc.narg(submitter)::text is null or s.submitter = sqlc.narg(submitter))
   and (sqlc.narg(language)::text is null or s.language = sqlc.narg(language))
   and (sqlc.narg(verdict)::text is null or g.verdict = sqlc.narg(verdict)
        or (sqlc.narg(verdict) = 'SE' and g.state = 'system_error'))
   and (not @outdated::boolean or g.package_digest <> p.package_digest)
 order by s.id
 limit sqlc.arg(max_rows)::int
   for update of s;

-- name: MissingSubmissions :many
-- Which of these numbers no submission has.
select n.id::bigint as id
  from unnest(@ids::bigint[]) as n(id)
 where not exists (select 1 from submissions s where s.id = n.id)
 group by n.id
 order by n.id;

-- name: LockJobsOfSubmissions :exec
-- Before SupersedeOpenJobs, in its transaction: see store.DB.CancelJob. In id
-- order, as every statement that takes several jobs.
select from jobs j where j.submission_id = any(@submission_ids::bigint[]) order by j.id for update;

-- name: SupersedeOpenJobs :many
-- The open jobs of submissions that are rejudged: their leases are fenced
-- because the rows are gone, their judgings end as cancelled.
with ended as (
  delete from jobs j where j.submission_id = any(@submission_ids::bigint[])
  returning j.id, j.lease_gen, j.judging_id, j.submission_id, j.priority
), judged as (
  update judgings g set state = 'cancelled', finished_at = now()
    from ended e where g.id = e.judging_id and g.state = 'open'
  returning g.id
), closed as (
  update attempts a set outcome = 'cancelled', message = 'superseded by a rejudge', ended_at = now()
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen and a.outcome = 'running'
  returning a.job_id
)
select e.id as job_id, coalesce(e.submission_id, 0)::bigint as submission_id, e.priority, (select count(*) from judged) as judgings, (select count(*) from closed) as attempts
  from ended e;

-- name: InsertRejudgings :many
-- New judgings and jobs, oldest submission first. A submission that has no
-- verdict to keep (its judging was superseded or cancelled) gets the new
-- judging as its current one at once: see MakeCurrent. What was superseded leaves
-- its priority behind: see ReturnFirstJudgings.
with input as (
  select unnest(@submission_ids::bigint[]) as submission_id, unnest(@package_digests::text[]) as package_digest,
         unnest(@limits::jsonb[]) as limits, unnest(@languages::text[]) as language,
         unnest(@submitters::text[]) as submitter, unnest(@previous::bigint[]) as previous
), superseded as (
  select unnest(@superseded_ids::bigint[]) as submission_id, unnest(@superseded_priorities::smallint[]) as priority
), made as (
  insert into judgings (submission_id, kind, package_digest, limits, rejudge_id, previous_judging_id, auto_apply)
  select i.submission_id, 'rejudge', i.package_digest, i.limits, sqlc.arg(rejudge_id)::bigint, i.previous, sqlc.arg(auto_apply)::boolean
    from input i order by i.submission_id
  returning id, submission_id
)
insert into jobs (judging_id, submission_id, kind, lane, language, submitter, priority, problem_id, package_digest, memory_bytes, cpu_us,
                  batch_id, batch_budget, first_priority)
select m.id, m.submission_id, 'rejudge', 'rejudge', i.language, i.submitter, sqlc.arg(priority)::smallint, s.problem_id, i.package_digest,
       coalesce((i.limits ->> 'memory_bytes')::bigint, 0), coalesce((i.limits ->> 'cpu_us')::bigint, 0),
       sqlc.arg(rejudge_id)::bigint, sqlc.arg(batch_budget)::int, o.priority
  from made m join input i on i.submission_id = m.submission_id
  left join superseded o on o.submission_id = m.submission_id
  join submissions s on s.id = m.submission_id order by m.submission_id
returning id, judging_id, submission_id, language;

-- name: MakeCurrent :execrows
-- Submissions without a verdict to keep.
update submissions s set current_judging_id = j.judging_id
  from jobs j join judgings g on g.id = j.judging_id
 where j.submission_id = s.id and s.id = any(@submission_ids::bigint[]) and g.rejudge_id = sqlc.arg(rejudge_id)::bigint;

-- name: SetRejudgeTotal :exec
update rejudges set total = @total, skipped = @skipped where id = @id;

-- name: FinishRejudges :many
-- After results: rejudges of which nothing is open any more. The condition on
-- the state makes this happen once, whoever asks and however often.
update rejudges r
   set state = case when r.auto_apply then 'applied' else 'ready' end, finished_at = now(),
       decided_at = case when r.auto_apply then now() end
 where r.state = 'running'
   and not exists (select 1 from judgings g where g.rejudge_id = r.id and g.state = 'open')
returning r.id, r.state, r.total;

-- name: Rejudges :many
-- One, or a page of them, newest first, with what became of each so far; of a
-- cancelled one, until then. Applied is as in RejudgeChanges.
select r.*, c.done, c.changed, c.failed, c.applied
  from rejudges r
 cross join lateral (
    select count(*) filter (where g.state in ('done', 'system_error')) as done,
           count(*) filter (where g.state = 'done' and o.verdict is distinct from g.verdict) as changed,
           count(*) filter (where g.state = 'system_error') as failed,
           count(*) filter (where g.state = 'done' and o.state <> 'cancelled'
             and (s.current_judging_id = g.id
                  or exists (select from judgings h where h.submission_id = g.submission_id and h.previous_judging_id = g.id))) as applied
      from judgings g
      join judgings o on o.id = g.previous_judging_id
      join submissions s on s.id = g.submission_id
     where g.rejudge_id = r.id and (r.state <> 'cancelled' or g.finished_at <= r.finished_at)) c
 where r.id between sqlc.arg(first)::bigint and sqlc.arg(last)::bigint order by r.id desc limit sqlc.arg(page)::int;

-- name: RejudgeChanges :many
-- Old beside new, of every submission in a rejudge, or of those that differ. A
-- judging was applied if it is, or was when a later one was made, the current
-- one. Where there was no verdict to keep it has been that from the beginning,
-- and nobody applied it: see MakeCurrent.
select g.submission_id, p.name as problem, s.submitter, s.language,
       o.state as old_state, coalesce(o.verdict, '') as old_verdict, o.cpu_us as old_cpu_us,
       g.state as new_state, coalesce(g.verdict, '') as new_verdict, g.cpu_us as new_cpu_us,
       (o.state = 'cancelled')::boolean as first,
       (g.state = 'done' and o.state <> 'cancelled'
        and (s.current_judging_id = g.id
             or exists (select from judgings h where h.submission_id = g.submission_id and h.previous_judging_id = g.id)))::boolean as applied
  from judgings g
  join submissions s on s.id = g.submission_id
  join problems p on p.id = s.problem_id
  join judgings o on o.id = g.previous_judging_id
 where g.rejudge_id = sqlc.arg(rejudge_id)::bigint and g.submission_id > sqlc.arg(after)::bigint
   and (not @only_changed::boolean or (g.state = 'done' and o.verdict is distinct from g.verdict))
 order by g.submission_id limit sqlc.arg(page)::int;

-- name: LockRejudge :one
select * from rejudges where id = $1 for update;

-- name: ApplyRejudge :many
-- Makes final judgings of a rejudge current; all of them, or those named. A
-- judging that ended in system_error never replaces a verdict, and one whose
-- submission has meanwhile got another current judging is left alone.
update submissions s set current_judging_id = g.id
  from judgings g
 where g.rejudge_id = sqlc.arg(rejudge_id)::bigint and g.submission_id = s.id and g.state = 'done'
   and s.current_judging_id = g.previous_judging_id
   and (cardinality(@submission_ids::bigint[]) = 0 or s.id = any(@submission_ids::bigint[]))
returning s.id;

-- name: NotInRejudge :many
-- Which of the named submissions a rejudge does not have.
select n.id::bigint as id from unnest(@submission_ids::bigint[]) as n(id)
 where not exists (select from judgings g where g.rejudge_id = sqlc.arg(rejudge_id)::bigint and g.submission_id = n.id)
 group by n.id order by n.id;

-- name: DecideRejudge :execrows
update rejudges set state = @state, decided_at = now() where id = @id and state = @from_state;

-- name: LockJobsOfRejudge :exec
-- Before CancelRejudgeJobs, in its transaction: see store.DB.CancelJob.
select from jobs j join judgings g on g.id = j.judging_id
 where g.rejudge_id = sqlc.arg(rejudge_id)::bigint order by j.id for update of j;

-- name: CancelRejudgeJobs :many
-- Cancels what is still open in a rejudge, each row once, but for the first
-- judgings that it took over: see ReturnFirstJudgings.
with ended as (
  delete from jobs j using judgings g
   where g.id = j.judging_id and g.rejudge_id = sqlc.arg(rejudge_id)::bigint and j.first_priority is null
  returning j.id, j.lease_gen, j.judging_id, j.submission_id
), judged as (
  update judgings g set state = 'cancelled', finished_at = now()
    from ended e where g.id = e.judging_id and g.state = 'open'
  returning g.id
), closed as (
  update attempts a set outcome = 'cancelled', message = 'the rejudge was cancelled', ended_at = now()
    from ended e where a.job_id = e.id and a.lease_gen = e.lease_gen and a.outcome = 'running'
  returning a.job_id
)
select e.id as job_id, coalesce(e.submission_id, 0)::bigint as submission_id, (select count(*) from judged) as judgings, (select count(*) from closed) as attempts
  from ended e;

-- name: ReturnFirstJudgings :many
-- After CancelRejudgeJobs, in its transaction. What the rejudge superseded before
-- it had a verdict has nothing to go back to: it is judged as it would have been,
-- in the lane and with the priority that it had, or in front if it was put there
-- since. Leases go on.
update jobs j set lane = 'judge', priority = least(j.priority, j.first_priority), batch_id = null, batch_budget = 0, first_priority = null
  from judgings g
 where g.id = j.judging_id and g.rejudge_id = sqlc.arg(rejudge_id)::bigint and j.first_priority is not null
returning j.id as job_id, coalesce(j.submission_id, 0)::bigint as submission_id, j.priority;

-- name: CancelRejudge :execrows
update rejudges set state = 'cancelled', finished_at = coalesce(finished_at, now()) where id = @id and state = 'running';

-- name: JudgingsOfSubmission :many
-- API, reading one, with who started its rejudges and why. Index: judgings_by_submission.
select g.id, g.kind, g.state, coalesce(g.verdict, '') as verdict, g.package_digest, g.rejudge_id, g.created_at, g.finished_at,
       coalesce(w.name, '') as worker, coalesce(r.reason, '') as rejudge_reason, coalesce(t.note, '') as rejudge_by
  from judgings g
  left join workers w on w.id = g.worker_id
  left join rejudges r on r.id = g.rejudge_id
  left join tokens t on t.id = r.created_by
 where g.submission_id = $1 order by g.id;

-- name: SolvesOf :many
-- API: what a user has solved, oldest first; served by submissions_by_submitter.
select problem, points, submission_id, solved_at from solves where submitter = @submitter order by submission_id;
