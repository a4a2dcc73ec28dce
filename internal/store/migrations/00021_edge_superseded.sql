-- An edge worker is told of a lease that a rejudge took the place of as that,
-- and not as one that was cancelled. Heartbeat, result and release are as before
-- but for that; a program that knows no superseded reads the outcome beside it.

-- +goose Up

-- How an attempt ended, for its worker. The words are those of SupersedeOpenJobs.
-- +goose StatementBegin
create function edge_ended(p_outcome text, p_message text) returns jsonb language sql immutable as $$
select jsonb_build_object('outcome', p_outcome)
       || case when p_outcome = 'cancelled' and p_message = 'superseded by a rejudge' then '{"superseded": true}' else '{}' end::jsonb
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function edge_heartbeat(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me    bigint := edge_me(request);
  v_token uuid := (request ->> 'lease_token')::uuid;
  v_a     record;
begin
  select a.job_id, a.lease_gen into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if not found then
    return jsonb_build_object('outcome', 'unknown');
  end if;
  update jobs j set lease_expires_at = now() + s.ttl, confirmed = true
    from lease_settings s
   where j.id = v_a.job_id and j.state = 'leased' and j.lease_token = v_token and j.lease_gen = v_a.lease_gen and j.worker_id = v_me;
  if not found then
    return (select edge_ended(a.outcome, a.message) from attempts a where a.job_id = v_a.job_id and a.lease_gen = v_a.lease_gen);
  end if;
  update workers set last_seen_at = now() where id = v_me and coalesce(last_seen_at < now() - interval '5 seconds', true);
  return (select jsonb_build_object('ttl_ms', (extract(epoch from s.ttl) * 1000)::bigint) from lease_settings s);
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function edge_result(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me     bigint := edge_me(request);
  v_token  uuid := (request ->> 'lease_token')::uuid;
  v_report jsonb := request -> 'report';
  v_fault  jsonb := nullif(v_report -> 'fault', 'null');
  v_cap    int := (select attempt_cap from lease_settings);
  v_a      record;
  v_j      record;
  v_g      record;
  v_run    jsonb := nullif(v_report -> 'run', 'null');
  v_why    text;
  v_out    bytea[];
  v_err    bytea[];
begin
  if v_report is null or (v_fault is null) = (coalesce(v_report ->> 'verdict', '') = '' and v_run is null) or octet_length(v_report::text) > 64 * 1024 * 1024 then
    raise exception using errcode = 'GV422', message = 'a report has either an outcome or a fault, and at most 64 MiB';
  end if;
  if v_run is not null then -- its output goes where outputs are kept, and not into any evidence
    select coalesce(array_agg(decode(coalesce(t.item ->> 'stdout_base64', ''), 'base64') order by t.n), '{}'),
           coalesce(array_agg(decode(coalesce(t.item ->> 'stderr_base64', ''), 'base64') order by t.n), '{}'),
           jsonb_set(v_run, '{results}', coalesce(jsonb_agg(t.item - '{stdout,stderr,stdout_base64,stderr_base64}'::text[] order by t.n), '[]'))
      into v_out, v_err, v_run
      from jsonb_array_elements(coalesce(nullif(v_run -> 'results', 'null'), '[]')) with ordinality as t (item, n);
    v_report := v_report || jsonb_build_object('run', v_run);
  end if;
  select a.job_id, a.lease_gen, a.outcome, a.message, a.kind, a.work_id, a.judging_id into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if not found then
    return jsonb_build_object('outcome', 'discarded', 'lease', 'unknown');
  end if;
  if v_a.outcome = 'running' and v_fault is null then -- is it believed?
    v_why := case when v_a.kind = 'run' and v_run is null then 'the worker''s report contradicts itself: the lease is a run, and it has no result of one'
                  when v_a.kind <> 'run' and v_run is not null then 'the worker''s report contradicts itself: it reports a run, and the lease is none'
                  when v_a.kind <> 'run' then 'the worker''s report contradicts its package: ' || edge_contradiction(v_report,
                    (select k.manifest from judgings g join packages k on k.digest = g.package_digest where g.id = v_a.judging_id)) end;
    if v_why is not null then
      v_fault := jsonb_build_object('blame', 'host', 'message', v_why);
    end if;
  end if;
  if v_a.outcome = 'running' then
    select j.attempts, j.judging_id, j.submission_id into v_j from jobs j
     where j.id = v_a.job_id and j.state = 'leased' and j.lease_token = v_token and j.lease_gen = v_a.lease_gen and j.worker_id = v_me
       for update;
    if found and v_fault is not null and v_j.attempts < v_cap then
      update jobs set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
             worker_id = null, session = null, request_id = null
       where id = v_a.job_id;
      update attempts set outcome = 'failed', ended_at = now(), blame = v_fault ->> 'blame', message = v_fault ->> 'message'
       where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
      perform edge_blame(v_me, v_fault);
      perform pg_notify('gavel_work', '');
      return jsonb_strip_nulls(jsonb_build_object('outcome', 'recorded', 'reason', v_why));
    elsif found then
      delete from jobs where id = v_a.job_id;
      if v_fault is null and v_run is not null then
        update runs r
           set state = 'done', compiled = coalesce((v_run ->> 'compiled')::boolean, false), compile = v_report -> 'compile', results = v_run -> 'results',
               outputs = v_out, errors = v_err, provenance = v_report -> 'provenance',
               lease_gen = v_a.lease_gen, worker_id = v_me, finished_at = now(), expires_at = now() + r.keep
         where r.id = v_a.work_id and r.state = 'open';
      elsif v_fault is null then
        update judgings g
           set state = 'done', verdict = v_report ->> 'verdict', cpu_us = coalesce((v_report ->> 'cpu_us')::bigint, 0),
               wall_us = coalesce((v_report ->> 'wall_us')::bigint, 0), memory_bytes = coalesce((v_report ->> 'memory_bytes')::bigint, 0),
               compile = v_report -> 'compile', tests = v_report -> 'tests', provenance = v_report -> 'provenance',
               lease_gen = v_a.lease_gen, worker_id = v_me, finished_at = now()
         where g.id = v_j.judging_id and g.state = 'open'
        returning g.id, g.submission_id, g.previous_judging_id, g.auto_apply into v_g;
        if found and v_g.auto_apply then -- a rejudging that applies itself replaces the judging that it was made beside
          update submissions s set current_judging_id = v_g.id
           where s.id = v_g.submission_id and s.current_judging_id = v_g.previous_judging_id;
        end if;
      else
        update runs r
           set state = 'system_error', fault = v_fault, compile = v_report -> 'compile', provenance = v_report -> 'provenance',
               lease_gen = v_a.lease_gen, worker_id = v_me, finished_at = now(), expires_at = now() + r.keep
         where v_a.kind = 'run' and r.id = v_a.work_id and r.state = 'open';
        update judgings g
           set state = 'system_error', fault = v_fault, compile = v_report -> 'compile', provenance = v_report -> 'provenance',
               lease_gen = v_a.lease_gen, worker_id = v_me, finished_at = now()
         where g.id = v_j.judging_id and g.state = 'open';
        update attempts set outcome = 'failed', ended_at = now(), blame = v_fault ->> 'blame', message = v_fault ->> 'message'
         where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
        perform edge_blame(v_me, v_fault);
      end if;
      if v_fault is null then
        update attempts set outcome = 'completed', ended_at = now() where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
        update edge_workers set host_faults = 0, aside_until = null where worker_id = v_me and (host_faults > 0 or aside_until is not null);
      end if;
      perform pg_notify('gavel_done', edge_done(v_a.kind, coalesce(v_j.submission_id, v_a.work_id), v_a.job_id));
      return jsonb_strip_nulls(jsonb_build_object('outcome', 'recorded', 'reason', v_why));
    end if;
    select a.job_id, a.lease_gen, a.outcome, a.message into v_a from attempts a where a.lease_token = v_token;
  end if;
  if v_a.outcome in ('completed', 'failed') then
    return jsonb_build_object('outcome', 'already_recorded');
  elsif v_a.outcome = 'running' then -- between two looks; the same report again gets a settled answer
    return jsonb_build_object('outcome', 'again');
  end if;
  update attempts set late_report = v_report, late_at = now()
   where lease_token = v_token and outcome not in ('running', 'completed') and late_report is null;
  return edge_ended(v_a.outcome, v_a.message) || jsonb_build_object('outcome', 'discarded', 'lease', v_a.outcome);
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function edge_release(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me    bigint := edge_me(request);
  v_token uuid := (request ->> 'lease_token')::uuid;
  v_a     record;
begin
  select a.job_id, a.lease_gen into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if not found then
    return jsonb_build_object('outcome', 'unknown');
  end if;
  update jobs j
     set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
         worker_id = null, session = null, request_id = null, attempts = j.attempts - 1
   where j.id = v_a.job_id and j.state = 'leased' and j.lease_token = v_token and j.lease_gen = v_a.lease_gen and j.worker_id = v_me;
  if found then
    update attempts set outcome = 'released', ended_at = now(), message = left(coalesce(request ->> 'reason', ''), 200)
     where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
    perform pg_notify('gavel_work', '');
  end if;
  return (select edge_ended(a.outcome, a.message) from attempts a where a.job_id = v_a.job_id and a.lease_gen = v_a.lease_gen);
end
$$;
-- +goose StatementEnd

-- Owner, search path and rights, as for the functions of 00010.
-- +goose StatementBegin
do $$
declare
  v_schema text := current_schema();
  f        text;
begin
  foreach f in array array['edge_heartbeat(jsonb)', 'edge_result(jsonb)', 'edge_release(jsonb)'] loop
    execute format('alter function %I.%s set search_path = %I, pg_temp', v_schema, f, v_schema);
  end loop;
  execute format('revoke all on function %I.edge_ended(text, text) from public', v_schema);
  if exists (select from pg_roles where rolname = 'gavel_arbiter') then
    execute format('grant create on schema %I to gavel_arbiter', v_schema);
    execute format('alter function %I.edge_ended(text, text) owner to gavel_arbiter', v_schema);
    execute format('revoke create on schema %I from gavel_arbiter', v_schema);
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- The functions stay as they are here, as in 00013: what they say more is not
-- read by who does not know it. They go when 00010 is taken back.
select 1;
