-- Edge pull: reports. They are made storable by the rules of internal/report, which
-- has them for both ways in Go (internal/edge/shapes_test.go compares every answer).

-- Where a report of a lease contradicts itself; null when it does not.
create or replace function edge_contradicts_itself(p_kind text, r jsonb) returns text language plpgsql immutable as $$
declare
  c_verdicts constant text[] := '{AC,WA,TLE,MLE,OLE,RE,CE}';
  v_verdict  text := coalesce(r ->> 'verdict', '');
  v_results  int := jsonb_array_length(coalesce(r #> '{run,results}', '[]'));
  v_compiled boolean := coalesce((r #>> '{run,compiled}')::boolean, false);
  v_first    text;
  v_n        bigint;
begin
  if r ? 'fault' then
    return case when v_verdict <> '' or r ? 'run' or r ? 'prepare' then 'it has both an outcome and a fault' end;
  elsif p_kind = 'run' then
    if not r ? 'run' or v_verdict <> '' or r ? 'prepare' then
      return 'the lease is a run, and it has no result of one';
    elsif not v_compiled and v_results > 0 then
      return 'it did not compile and has results';
    elsif v_compiled and v_results = 0 then
      return 'it compiled and has no results';
    end if;
    select t.n into v_n from jsonb_array_elements(coalesce(r #> '{run,results}', '[]')) with ordinality t (item, n)
     where not coalesce(t.item ->> 'ended', '') = any ('{exit,signal,cpu,wall,idle,memory,output}') order by t.n limit 1;
    return case when found then format('result %s does not say what ended it', v_n) end;
  elsif r ? 'run' then
    return 'it reports a run, and the lease is none';
  elsif r ? 'prepare' then
    return 'it reports a step of preparing a package, and the lease is none';
  elsif not v_verdict = any (c_verdicts) then
    return 'it has neither a known verdict nor a fault';
  elsif v_verdict = 'CE' then
    return null;
  elsif coalesce(r -> 'tests', '[]') = '[]' then
    return 'it has a verdict but no tests';
  end if;
  select t.n into v_n from jsonb_array_elements(r -> 'tests') with ordinality t (item, n)
   where coalesce(t.item ->> 'verdict', '') = 'CE' or not coalesce(t.item ->> 'verdict', '') = any (c_verdicts || 'skipped'::text) order by t.n limit 1;
  if found then
    return format('test %s has no known verdict', v_n);
  end if;
  select t.item ->> 'verdict' into v_first from jsonb_array_elements(r -> 'tests') with ordinality t (item, n)
   where t.item ->> 'verdict' <> 'AC' order by t.n limit 1;
  return case when v_verdict = 'AC' and v_first is not null then 'it is AC but not all of its tests are'
              when v_verdict <> 'AC' and v_first is distinct from v_verdict then 'its verdict is not that of the first test that is not AC' end;
end
$$;

-- Clears numbers beside a fault that nothing can have measured.
create or replace function edge_sane(r jsonb) returns jsonb language plpgsql immutable as $$
declare
  c_us   constant bigint := 7 * 24 * 3600 * 1000000::bigint; -- a week
  v_path text[];
begin
  foreach v_path slice 1 in array array[array['', 'cpu_us'], array['', 'wall_us'], array['compile', 'cpu_us'], array['compile', 'wall_us']] loop
    v_path := array_remove(v_path, '');
    if (r #>> v_path)::bigint not between 0 and c_us then
      r := jsonb_set(r, v_path, '0');
    end if;
  end loop;
  if r #> '{provenance,stages_us}' is not null then
    r := jsonb_set(r, '{provenance,stages_us}', coalesce((select jsonb_object_agg(s.key, s.value)
           from jsonb_each(r #> '{provenance,stages_us}') s where s.value::bigint between 0 and c_us), '{}'));
  end if;
  return r;
end
$$;

-- A report as report.Tidy makes it: storable whatever it contains, and a fault of
-- its host if it contradicts itself.
create or replace function edge_tidy(p_kind text, p_report jsonb) returns jsonb language plpgsql immutable as $$
declare
  r     jsonb := edge_fit(p_report, edge_shape('report'), 'report');
  v_why text := edge_contradicts_itself(p_kind, r);
begin
  if v_why is not null then
    r := r - '{verdict,run,prepare}'::text[]
         || jsonb_build_object('fault', jsonb_build_object('blame', 'host', 'message', 'the worker''s report contradicts itself: ' || v_why));
  end if;
  if octet_length(p_report #>> '{compile,log}') > 65536 then
    r := jsonb_set(r, '{compile,log_cut}', 'true');
  end if;
  if r ? 'fault' then
    if not coalesce(r #>> '{fault,blame}', '') = any ('{toolchain,package,checker}') then
      r := jsonb_set(r, '{fault,blame}', '"host"');
    end if;
    r := edge_sane(r);
  end if;
  return r;
end
$$;

-- Where a report of a judging contradicts its package, or holds numbers that
-- nothing can have measured; null when it does neither. internal/report has the
-- same rules for those who report to an arbiter.
create or replace function edge_contradiction(p_report jsonb, p_manifest jsonb) returns text language plpgsql immutable as $$
declare
  c_us    constant numeric := 7 * 24 * 3600 * 1e6; -- a week
  c_bytes constant numeric := 2.0 ^ 50;
  c_exit  constant numeric := 2.0 ^ 30;
  v_tests int := jsonb_array_length(coalesce(nullif(p_report -> 'tests', 'null'), '[]'));
  v_known int := jsonb_array_length(p_manifest -> 'tests');
  v_why   text;
begin
  if exists (select from (values (p_report ->> 'cpu_us', c_us), (p_report ->> 'wall_us', c_us), (p_report #>> '{compile,cpu_us}', c_us),
               (p_report #>> '{compile,wall_us}', c_us), (p_report ->> 'memory_bytes', c_bytes)) n (v, most)
              where n.v::numeric not between 0 and n.most) then
    return 'its times or sizes are negative or beyond reason';
  end if;
  select format('the time of its stage "%s" is negative or beyond reason', left(s.key, 40)) into v_why
    from jsonb_each_text(coalesce(nullif(p_report #> '{provenance,stages_us}', 'null'), '{}')) s where s.value::numeric not between 0 and c_us limit 1;
  if found then
    return v_why;
  end if;
  if p_report ->> 'verdict' = 'CE' then
    return case when v_tests > 0 then 'it is CE but has results of tests' end;
  elsif v_tests <> v_known then
    return format('it has results of %s tests, its package has %s', v_tests, v_known);
  end if;
  select x.why into v_why
    from (select r.n, case
             when r.item ->> 'name' is distinct from m.item ->> 'name'
               then format('its test %s is "%s", in its package "%s"', r.n, left(r.item ->> 'name', 60), m.item ->> 'name')
             when exists (select from (values ('cpu_us', c_us), ('wall_us', c_us), ('memory_bytes', c_bytes), ('output_bytes', c_bytes)) f (name, most)
                           where (r.item ->> f.name)::numeric not between 0 and f.most)
               then format('test "%s" has times or sizes that are negative or beyond reason', r.item ->> 'name')
             when (r.item ->> 'exit_code')::numeric not between 0 and c_exit or (r.item ->> 'signal')::numeric not between 0 and c_exit
               then format('test "%s" has an exit code or signal that no program can have', r.item ->> 'name')
             when r.item ->> 'verdict' = 'skipped' and exists (select from unnest(array['cpu_us', 'wall_us', 'memory_bytes']) f (name) where (r.item ->> f.name)::numeric <> 0)
               then format('test "%s" was skipped but has measurements', r.item ->> 'name')
             when exists (select from jsonb_array_elements(coalesce(nullif(r.item -> 'attempts', 'null'), '[]')) t
                           where (t.value ->> 'cpu_us')::numeric not between 0 and c_us or (t.value ->> 'wall_us')::numeric not between 0 and c_us)
               then format('test "%s" has times that are negative or beyond reason', r.item ->> 'name') end as why
            from jsonb_array_elements(p_report -> 'tests') with ordinality r (item, n)
            join jsonb_array_elements(p_manifest -> 'tests') with ordinality m (item, n) using (n)) x
   where x.why is not null order by x.n limit 1;
  return v_why;
end
$$;

-- Three faults of the machine in a row set a worker aside for a while, so that
-- one with a broken disk does not use up everybody's attempts.
create or replace function edge_blame(p_worker bigint, p_fault jsonb) returns void language sql as $$
update edge_workers
   set host_faults = host_faults + 1, last_error = left(p_fault ->> 'message', 500), last_error_at = now(),
       aside_until = case when host_faults + 1 >= 3 then now() + least(host_faults - 1, 10) * interval '30 seconds' end
 where worker_id = p_worker and p_fault ->> 'blame' in ('host', 'toolchain')
$$;

-- What is said on the channel gavel_done: a submission and its job, or a run and its.
create or replace function edge_done(p_kind text, p_subject bigint, p_job bigint) returns text language sql immutable as $$
select case when p_kind = 'run' then 'run ' else '' end || p_subject || ' ' || p_job
$$;

-- Result, the ownership gate. {worker_id, lease_token, report} → {outcome, lease}
-- The job is written only while this grant of it lives: worker, token and
-- generation. That the worker is the same one is not enough, since it can have
-- lost the job and got it again.
--
-- The report is made tidy first. One that is not believed is a fault of who sent
-- it. The outputs of runs come in base64, which carries every byte.
create or replace function edge_result(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me     bigint := edge_me(request);
  v_token  uuid := (request ->> 'lease_token')::uuid;
  v_report jsonb;
  v_fault  jsonb;
  v_cap    int := (select attempt_cap from lease_settings);
  v_a      record;
  v_j      record;
  v_g      record;
  v_run    jsonb;
  v_why    text;
  v_out    bytea[];
  v_err    bytea[];
begin
  if pg_column_size(request) > 16 * 1024 * 1024 then
    raise exception using errcode = 'GV422', message = 'a report has at most 16 MiB';
  end if;
  select a.job_id, a.lease_gen, a.outcome, a.message, a.kind, a.work_id, a.judging_id into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if (select count(*) from (values (nullif(request #> '{report,verdict}', '""')), (request #> '{report,run}'), (request #> '{report,prepare}'), (request #> '{report,fault}')) o (part)
       where o.part <> 'null') <> 1 then
    raise exception using errcode = 'GV422', message = 'a report is a verdict, the outcome of a run, or a fault: exactly one of them';
  end if;
  v_report := edge_tidy(v_a.kind, request -> 'report');
  v_run := v_report -> 'run';
  if v_run is not null then -- its output goes where outputs are kept, and not into any evidence
    begin
      select coalesce(array_agg(coalesce(decode(t.item ->> 'stdout_base64', 'base64'), convert_to(coalesce(t.item ->> 'stdout', ''), 'UTF8')) order by t.n), '{}'),
             coalesce(array_agg(coalesce(decode(t.item ->> 'stderr_base64', 'base64'), convert_to(coalesce(t.item ->> 'stderr', ''), 'UTF8')) order by t.n), '{}'),
             jsonb_set(v_run, '{results}', coalesce(jsonb_agg(t.item - '{stdout,stderr,stdout_base64,stderr_base64}'::text[] order by t.n), '[]'))
        into v_out, v_err, v_run
        from jsonb_array_elements(v_run -> 'results') with ordinality as t (item, n);
    exception when invalid_parameter_value then
      raise exception using errcode = 'GV422', message = 'report.run.results: an output is not base64';
    end;
    v_report := v_report || jsonb_build_object('run', v_run);
  end if;
  if v_a.job_id is null then
    return jsonb_build_object('outcome', 'discarded', 'lease', 'unknown');
  end if;
  v_fault := v_report -> 'fault';
  v_why := case when v_fault ->> 'message' like 'the worker''s report contradicts itself: %' then v_fault ->> 'message' end;
  if v_a.outcome = 'running' and v_fault is null and v_a.kind <> 'run' then -- is it believed?
    v_why := 'the worker''s report contradicts its package: ' || edge_contradiction(v_report,
      (select k.manifest from judgings g join packages k on k.digest = g.package_digest where g.id = v_a.judging_id));
    if v_why is not null then
      v_fault := jsonb_build_object('blame', 'host', 'message', v_why);
      v_report := edge_sane(v_report);
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
