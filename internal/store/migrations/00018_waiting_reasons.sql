-- Why work waits, written down by the leader, so that it can be read by SQL, at
-- a standby, and when the leader is dead. One row a shape of waiting work and
-- not one a job: docs/adr/0015-why-work-waits-is-stored-by-shape.md.

-- +goose Up

-- The jobs that a row speaks of are those of its shape, which job_shape says.
-- A row with a problem or with workers that failed them speaks of these only,
-- and goes before one without.
create table waiting_reasons (
  shape      text        not null,
  problem_id bigint      not null default 0,  -- whose jobs a brake on the problem holds; 0 is any other
  failed_by  text        not null default '', -- ids of workers, with commas, that failed or lost the jobs
  cause      text        not null,
  reason     text        not null,
  since      timestamptz not null default now(), -- of the cause; the words may have changed later
  changed_at timestamptz not null default now(),
  primary key (shape, problem_id, failed_by)
) with (fillfactor = 50);

-- When a leader last looked: what is stored was true then.
create table waiting_looks (
  shard     int         primary key,
  term      bigint      not null,
  looked_at timestamptz not null
) with (fillfactor = 50);

-- What decides who may take a job, as internal/arbiter's shapeOf writes it.
-- +goose StatementBegin
create function job_shape(p_lane text, p_language text, p_memory_bytes bigint, p_cpu_us bigint, p_features text[], p_tags text[],
                          p_batch bigint, p_budget int, p_target bigint) returns text language sql stable as $$
select concat_ws(' ', p_lane, coalesce(nullif(p_language, ''), '-'), p_memory_bytes,
                 case when p_cpu_us between 1 and 1000000 then 'tight' else '-' end,
                 coalesce(nullif(array_to_string(p_features, ','), ''), '-'), coalesce(nullif(array_to_string(p_tags, ','), ''), '-'),
                 coalesce(p_batch, 0), p_budget, coalesce(p_target, 0))
$$;
-- +goose StatementEnd

-- The workers that failed or lost a job, as waiting_reasons has them.
-- +goose StatementBegin
create function job_failed_by(p_job bigint) returns text language sql stable as $$
select coalesce(string_agg(f.worker_id::text, ',' order by f.worker_id), '')
  from (select distinct a.worker_id from attempts a where a.job_id = p_job and a.outcome in ('failed', 'expired')) f
$$;
-- +goose StatementEnd

revoke all on function job_shape(text, text, bigint, bigint, text[], text[], bigint, int, bigint), job_failed_by(bigint) from public;

-- Every waiting job with its reason. No reason: it came within the last
-- seconds, or nobody has led since it came.
create view waiting_work as
select j.id as job_id, j.kind, j.lane, j.language, j.submitter, j.priority, j.submission_id, j.work_id, j.problem_id, j.attempts,
       j.created_at, r.cause, r.reason, greatest(r.since, j.created_at) as since, k.looked_at
  from jobs j
  left join lateral (
    select w.cause, w.reason, w.since from waiting_reasons w
     where w.shape = job_shape(j.lane, j.language, j.memory_bytes, j.cpu_us, j.features, j.tags, j.batch_id, j.batch_budget, j.target_worker_id)
       and w.problem_id in (0, coalesce(j.problem_id, 0)) and w.failed_by in ('', case when j.lease_gen = 0 then '' else job_failed_by(j.id) end)
     order by w.failed_by = '', w.problem_id desc limit 1) r on true
  left join waiting_looks k on k.shard = 0
 where j.state = 'pending';

-- +goose StatementBegin
do $$
declare
  role name;
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on waiting_reasons, waiting_looks, waiting_work to gavel_read';
  end if;
  for role in select rolname from pg_roles where rolname in ('gavel_arbiter', 'gavel_read') loop
    execute format('grant execute on function job_shape(text, text, bigint, bigint, text[], text[], bigint, int, bigint), job_failed_by(bigint) to %I', role);
  end loop;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop view waiting_work;
drop function job_failed_by(bigint);
drop function job_shape(text, text, bigint, bigint, text[], text[], bigint, int, bigint);
drop table waiting_looks, waiting_reasons;
