-- Why work waits, as the leader saw it. Rows are those of shapes of work, of
-- which there are few however much waits.

-- name: WriteReasons :execrows
-- Leader, about once a second while anything waits: what has changed, what is
-- gone, and that it looked. I8: only while the term is still the leader's.
with term_holds as (
  select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share
), gone as (
  select unnest(@gone_shapes::text[]) as shape, unnest(@gone_problems::bigint[]) as problem_id, unnest(@gone_failed_by::text[]) as failed_by
), dropped as (
  delete from waiting_reasons w using gone g, term_holds
   where w.shape = g.shape and w.problem_id = g.problem_id and w.failed_by = g.failed_by
), input as (
  select unnest(@shapes::text[]) as shape, unnest(@problem_ids::bigint[]) as problem_id, unnest(@failed_bys::text[]) as failed_by,
         unnest(@causes::text[]) as cause, unnest(@reasons::text[]) as reason
), said as (
  insert into waiting_reasons (shape, problem_id, failed_by, cause, reason)
  select i.shape, i.problem_id, i.failed_by, i.cause, i.reason from input i, term_holds
      on conflict (shape, problem_id, failed_by) do update
     set cause = excluded.cause, reason = excluded.reason, changed_at = now(),
         since = case when waiting_reasons.cause = excluded.cause then waiting_reasons.since else now() end
)
insert into waiting_looks (shard, term, looked_at)
select @shard, sqlc.arg(term)::bigint, now() from term_holds
    on conflict (shard) do update set term = excluded.term, looked_at = excluded.looked_at;

-- name: StoredReasons :many
-- Leader, when a term begins: what is written already.
select shape, problem_id, failed_by, cause, reason from waiting_reasons;

-- name: ReasonOfJob :one
-- API: what is stored of one waiting job, how old it is, and whether nobody
-- leads. Primary keys only.
select coalesce(w.cause, '')::text as cause, coalesce(w.reason, '')::text as reason, w.lane, w.priority,
       coalesce(w.since, w.created_at)::timestamptz as since,
       coalesce(extract(epoch from now() - w.looked_at), 0)::float8 as age_s,
       (select s.expires_at <= now() from leadership s where s.shard = @shard)::bool as leaderless
  from waiting_work w where w.job_id = sqlc.arg(job_id)::bigint;

-- name: WaitingGroups :many
-- API of a standby: what waits, with what is stored of it. One pass over the
-- narrow table; reasons are looked up once a group.
with g as (
  select j.lane, j.language, job_shape(j.lane, j.language, j.memory_bytes, j.cpu_us, j.features, j.tags, j.batch_id, j.batch_budget, j.target_worker_id) as shape,
         coalesce(j.problem_id, 0)::bigint as problem_id, case when j.lease_gen = 0 then '' else job_failed_by(j.id) end as failed_by, count(*) as jobs
    from jobs j where j.state = 'pending' group by 1, 2, 3, 4, 5
), r as (
  select g.lane, g.language, g.jobs, o.cause, o.reason, o.since
    from g left join lateral (
      select w.cause, w.reason, w.since from waiting_reasons w
       where w.shape = g.shape and w.problem_id in (0, g.problem_id) and w.failed_by in ('', g.failed_by)
       order by w.failed_by = '', w.problem_id desc limit 1) o on true
)
select r.lane, r.language, sum(r.jobs)::bigint as jobs, coalesce(r.cause, '')::text as cause, coalesce(r.reason, '')::text as reason,
       coalesce(min(r.since), now())::timestamptz as since
  from r group by r.lane, r.language, r.cause, r.reason order by r.lane, r.language, jobs desc, reason;

-- name: LookedAt :one
-- API: when a leader last looked at why work waits.
select looked_at from waiting_looks where shard = @shard;
