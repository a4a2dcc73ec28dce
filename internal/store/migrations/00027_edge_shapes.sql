-- Edge pull: what comes through a database login is as strictly looked at as what
-- comes over HTTPS. Requests are brought into the shapes of gavelapi, as decoding
-- into its types does: unknown fields are dropped, null is nothing, another type
-- is refused. Reports are made storable by the rules of internal/report, which has
-- them for both ways in Go (internal/edge/shapes_test.go compares every answer).

-- +goose Up

-- How many jobs one edge worker may hold at once, whatever slots it claims to have.
alter table lease_settings add column if not exists edge_slots int not null default 64 check (edge_slots between 1 and 1024);

-- The beginning of a text that fits, whole characters only.
-- +goose StatementBegin
create or replace function edge_cut(p_text text, p_bytes int) returns text language plpgsql immutable as $$
declare
  v_raw  bytea;
  v_last int := p_bytes;
begin
  if octet_length(p_text) <= p_bytes then
    return p_text;
  end if;
  v_raw := convert_to(p_text, 'UTF8');
  while v_last > 0 and v_last < octet_length(v_raw) and get_byte(v_raw, v_last) between 128 and 191 loop
    v_last := v_last - 1;
  end loop;
  return convert_from(substring(v_raw for v_last), 'UTF8');
end
$$;
-- +goose StatementEnd

-- Brings a value into a shape. A shape is "int", "bool", "uuid", "base64", "text" (with the
-- bytes at which it is cut, if any), [shape] of a list, {"*": shape} of a map by
-- names of any kind, else an object by its fields.
-- +goose StatementBegin
create or replace function edge_fit(p_value jsonb, p_shape jsonb, p_at text) returns jsonb language plpgsql immutable as $$
declare
  v_type text := coalesce(jsonb_typeof(p_value), 'null');
  v_kind text := jsonb_typeof(p_shape);
  v_most text;
  v_text text;
  v_out  jsonb;
  v_fits boolean;
begin
  if v_kind = 'string' then
    v_kind := split_part(p_shape #>> '{}', ' ', 1);
    v_most := split_part(p_shape #>> '{}', ' ', 2);
  elsif p_shape ? '*' then
    v_kind := 'map';
  end if;
  if v_type = 'null' then
    return case v_kind when 'int' then '0' when 'bool' then 'false' when 'array' then '[]' when 'map' then '{}' when 'object' then '{}' else '""' end::jsonb;
  end if;
  v_text := p_value #>> '{}';
  v_fits := case v_kind
    when 'text' then v_type = 'string'
    when 'uuid' then v_type = 'string' and v_text ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
    when 'base64' then v_type = 'string' and v_text ~ '^[A-Za-z0-9+/=[:space:]]*$'
    when 'bool' then v_type = 'boolean'
    when 'int' then v_type = 'number' and v_text ~ '^-?[0-9]{1,19}$' and v_text::numeric between -9223372036854775808 and 9223372036854775807
    when 'array' then v_type = 'array' and jsonb_array_length(case v_type when 'array' then p_value else '[]' end) <= 10000
    else v_type = 'object' end;
  if not v_fits then
    raise exception using errcode = 'GV422', message = format('%s must be %s', p_at, case v_kind
        when 'text' then 'a text' when 'base64' then 'base64' when 'uuid' then 'a UUID' when 'bool' then 'true or false' when 'int' then 'a whole number of 64 bits'
        when 'array' then 'a list of at most 10000' else 'an object' end),
      hint = 'the shapes are those of the worker protocol, over HTTPS as well';
  end if;
  case v_kind
    when 'text' then
      return case when v_most = '' or octet_length(v_text) <= v_most::int then p_value else to_jsonb(edge_cut(v_text, v_most::int)) end;
    when 'array' then
      select jsonb_agg(edge_fit(i.value, p_shape -> 0, p_at || '[' || i.n - 1 || ']') order by i.n) into v_out
        from jsonb_array_elements(p_value) with ordinality i (value, n);
      return coalesce(v_out, '[]');
    when 'map' then
      select jsonb_object_agg(edge_cut(f.key, 256), edge_fit(f.value, p_shape -> '*', p_at || '.' || left(f.key, 40))) into v_out from jsonb_each(p_value) f;
      return coalesce(v_out, '{}');
    when 'object' then
      -- Plain fields that fit need no call each: a report may have thousands of them.
      select jsonb_object_agg(s.key, case
               when jsonb_typeof(s.value) = 'string' and case jsonb_typeof(f.value)
                      when 'number' then s.value = '"int"' and f.value::text ~ '^-?[0-9]{1,18}$'
                      when 'string' then s.value #>> '{}' like 'text%' and octet_length(f.value::text) <= 200
                      else false end then f.value
               else edge_fit(f.value, s.value, p_at || '.' || s.key) end) into v_out
        from jsonb_each(p_value) f join jsonb_each(p_shape) s using (key) where jsonb_typeof(f.value) <> 'null';
      return coalesce(v_out, '{}');
    else
      return p_value;
  end case;
end
$$;
-- +goose StatementEnd

-- The shapes of gavelapi.Report (without what was written in failed tests, which is
-- not kept on this way) and gavelapi.Capabilities, with the bounds of
-- internal/report; and of what every request has beside.
-- +goose StatementBegin
create or replace function edge_shape(p_of text) returns jsonb language sql immutable as $$
select case p_of
  when 'report' then jsonb '{
    "verdict": "text 256", "cpu_us": "int", "wall_us": "int", "memory_bytes": "int",
    "fault": {"blame": "text 256", "message": "text 4096"},
    "compile": {"log": "text 65536", "log_cut": "bool", "reason": "text 256", "cpu_us": "int", "wall_us": "int", "cached": "bool", "precompiled": "bool", "header": "text 256"},
    "tests": [{"name": "text 256", "sample": "bool", "verdict": "text 256", "reason": "text 256", "cpu_us": "int", "wall_us": "int",
               "memory_bytes": "int", "output_bytes": "int", "exit_code": "int", "signal": "int", "message": "text 4096",
               "attempts": [{"cpu_us": "int", "wall_us": "int"}]}],
    "run": {"compiled": "bool", "results": [{"ended": "text", "exit_code": "int", "signal": "int", "cpu_us": "int", "wall_us": "int", "memory_bytes": "int",
            "stdout": "text", "stdout_base64": "base64", "stdout_cut": "bool", "stderr": "text", "stderr_base64": "base64", "stderr_cut": "bool",
            "message": "text 4096"}]},
    "prepare": {"verdict": "text", "findings": [{"step": "text", "what": "text", "outcome": "text", "detail": "text", "took_us": "int"}]},
    "limits": {"cpu_us": "int", "wall_us": "int", "memory_bytes": "int", "output_bytes": "int", "processes": "int"},
    "provenance": {"worker_build": "text 256", "kernel": "text 256", "memory_meter": "text 256", "cpu_meter": "text 256", "toolchain": "text 256",
                   "checker_toolchain": "text 256", "package_digest": "text 256", "stages_us": {"*": "int"}}}'
  when 'capabilities' then jsonb '{
    "languages": [{"id": "text 256", "version": "text 256"}], "features": ["text 256"], "memory_bytes": "int", "cores": "int", "arch": "text 256",
    "build": "text 256", "kernel": "text 256", "memory_meter": "text 256", "sandbox": "text 256", "weaker": ["text 256"]}'
  when 'claim' then jsonb '{
    "request_id": "uuid", "session": "uuid", "previous_session": "uuid", "slots": "int", "total_slots": "int",
    "kinds": ["text 64"], "turn": "int", "lacks": ["text 256"]}'
  when 'lease' then jsonb '{"worker_id": "int", "lease_token": "uuid", "reason": "text 200"}'
  when 'hello' then jsonb '{"name": "text 256", "pool": "text 256", "rank": "int"}' end
$$;
-- +goose StatementEnd

-- Where a report of a lease contradicts itself; null when it does not.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- Clears numbers beside a fault that nothing can have measured.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- A report as report.Tidy makes it: storable whatever it contains, and a fault of
-- its host if it contradicts itself.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- As in 00010, and the fields that every call has are what they should be.
-- +goose StatementBegin
create or replace function edge_me(request jsonb) returns bigint language plpgsql stable as $$
declare
  v_idle interval := current_setting('idle_in_transaction_session_timeout')::interval;
  v_ask  jsonb := edge_fit(request, edge_shape('lease'), 'request');
  v_id   bigint;
begin
  if v_idle <= interval '0' or v_idle > interval '10 seconds' then
    raise exception using errcode = 'GV422', message = 'idle_in_transaction_session_timeout must lie between 1 ms and 10 s for an edge worker',
      hint = 'set it for the session, or with alter role';
  end if;
  select e.worker_id into v_id
    from edge_workers e join workers w on w.id = e.worker_id
   where e.worker_id = (v_ask ->> 'worker_id')::bigint and e.login = session_user and not w.disabled;
  if not found then
    raise exception using errcode = 'GV403', message = 'this login may not work as this worker, or the worker is disabled';
  end if;
  return v_id;
end
$$;
-- +goose StatementEnd

-- As in 00013, but: what is asked is brought into its shape first, what a worker
-- says of itself as well, and nobody holds more than edge_slots.
-- +goose StatementBegin
create or replace function edge_claim(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me       bigint := edge_me(request);
  v          lease_settings%rowtype;
  v_w        workers%rowtype;
  v_e        edge_workers%rowtype;
  v_ask      jsonb;
  v_session  uuid;
  v_previous uuid;
  v_request  uuid;
  v_slots    int;
  v_total    int;
  v_caps     jsonb := request -> 'capabilities';
  v_memory   bigint;
  v_languages text[];
  v_features text[];
  v_kinds    text[];
  v_lacks    text[];
  v_turn     int;
  v_order    text[];
  v_broken   text[] := '{}';
  v_lane     text;
  v_yield    jsonb;
  v_free     int;
  v_taken    boolean;
  v_job      record;
  v_gen      bigint;
  v_token    uuid;
  v_payload  jsonb;
  v_leases   jsonb := '[]';
  v_errors   jsonb := '[]';
  v_bytes    bigint := 0;
  v_asleep   boolean;
begin
  if pg_column_size(request) > 4 * 1024 * 1024 then
    raise exception using errcode = 'GV422', message = 'a claim has at most 4 MiB';
  end if;
  v_ask := edge_fit(request, edge_shape('claim'), 'request');
  if coalesce(v_ask ->> 'session', '') = '' or coalesce(v_ask ->> 'request_id', '') = ''
     or not coalesce((v_ask ->> 'slots')::bigint between 1 and (v_ask ->> 'total_slots')::bigint and (v_ask ->> 'total_slots')::bigint <= 1024, false) then
    raise exception using errcode = 'GV422', message = 'a claim needs a session, a request_id, slots and total_slots; there are at most 1024 slots, and no fewer in total than free';
  end if;
  select * into v from lease_settings;
  select * into v_w from workers where id = v_me;
  select * into v_e from edge_workers where worker_id = v_me;
  if v_w.capabilities is distinct from v_caps then -- what is stored has been looked at
    v_caps := edge_fit(v_caps, edge_shape('capabilities'), 'request.capabilities');
  end if;
  v_session := (v_ask ->> 'session')::uuid;
  v_previous := nullif(v_ask ->> 'previous_session', '')::uuid;
  v_request := (v_ask ->> 'request_id')::uuid;
  v_slots := (v_ask ->> 'slots')::int;
  v_total := least((v_ask ->> 'total_slots')::int, v.edge_slots);
  v_memory := coalesce((v_caps ->> 'memory_bytes')::bigint, 0);
  v_languages := array(select l.value ->> 'id' from jsonb_array_elements(v_caps -> 'languages') l);
  v_features := array(select jsonb_array_elements_text(v_caps -> 'features'));
  -- A step of preparing and other kinds have no payload here: nobody gets them by asking.
  v_kinds := array(select k.kind from jsonb_array_elements_text(coalesce(v_ask -> 'kinds', '["judge", "rejudge"]')) k (kind) where k.kind in ('judge', 'rejudge', 'run'));
  v_lacks := (array(select jsonb_array_elements_text(v_ask -> 'lacks') order by 1))[1:256];
  v_turn := (abs(coalesce((v_ask ->> 'turn')::numeric, 0)) % 3)::int;
  if v_w.session <> v_session and v_w.last_seen_at > now() - interval '15 seconds' and v_w.session is distinct from v_previous then
    raise exception using errcode = 'GV409', message = format('another live session of worker %s is claiming', v_w.name),
      hint = 'stop the other process of this worker, or give this machine a name of its own';
  end if;
  if v_w.session is distinct from v_session or v_e.session is distinct from v_session or v_w.slots <> v_total
     or v_w.capabilities is distinct from v_caps or coalesce(v_w.last_seen_at < now() - interval '5 seconds', true) then
    update workers set session = v_session, slots = v_total, capabilities = v_caps, last_seen_at = now() where id = v_me;
    update edge_workers set session = v_session where worker_id = v_me and session is distinct from v_session;
    if v_previous = v_w.session and v_previous <> v_session then -- the process before this one is dead, and so are its leases
      update jobs set lease_expires_at = now(), confirmed = true
       where state = 'leased' and worker_id = v_me and session = v_previous;
      perform edge_reclaim_leases(v_me);
    end if;
  end if;
  if v_e.lacks is distinct from v_lacks then
    update edge_workers set lacks = v_lacks where worker_id = v_me;
  end if;

  if v_w.away <> '' and coalesce(v_w.away_until > now(), true) then -- an operator drains or pauses it
    return jsonb_build_object('leases', '[]'::jsonb, 'errors', '[]'::jsonb, 'failed_rounds', v_e.failed_rounds, 'drain', true);
  end if;
  v_asleep := edge_asleep(v_me, v_w.pool);
  v_order := array(select distinct j.lane from jobs j where j.state = 'pending' and j.kind = any (v_kinds) and j.language = any (v_languages)
                    and (v_w.lanes = '{}' or j.lane = any (v_w.lanes)) and not v_asleep);
  if v_order <> '{}' or exists (select from jobs j where j.state = 'leased' and j.worker_id = v_me and j.request_id = v_request) then
    -- The rest is for one claim of a worker at a time: a repeated one finds what the first was given.
    perform from edge_workers where worker_id = v_me for update;
    update jobs j set lease_expires_at = greatest(j.lease_expires_at, now() + v.confirm)
     where j.state = 'leased' and j.worker_id = v_me and j.request_id = v_request;
    if found then
      return jsonb_build_object('leases', (select jsonb_agg(edge_lease(j.id) order by j.id) from jobs j
               where j.state = 'leased' and j.worker_id = v_me and j.request_id = v_request),
               'errors', '[]'::jsonb, 'failed_rounds', v_e.failed_rounds);
    end if;
    if v_e.aside_until > now() then
      return jsonb_build_object('leases', '[]'::jsonb, 'errors', '[]'::jsonb, 'failed_rounds', v_e.failed_rounds,
               'aside_ms', (extract(epoch from v_e.aside_until - now()) * 1000)::bigint);
    end if;
    v_free := least(v_slots, v_total - (select count(*) from jobs j where j.state = 'leased' and j.worker_id = v_me)::int);
    v_yield := edge_preferred(v_me, coalesce((select p.rank from pools p where p.name = v_w.pool), 100), v.fresh);
    -- The run lane, then the three in turn.
    v_order := array(select o.lane from unnest(array['run', 'judge', 'prepare', 'rejudge']) with ordinality as o (lane, n)
                      where o.lane = any (v_order) order by case when o.n = 1 then -1 else (o.n - 2 - v_turn + 3) % 3 end);
    loop
      v_taken := false;
      foreach v_lane in array v_order loop
        continue when v_lane = any (v_broken);
        loop
          exit when v_free <= 0;
          v_gen := null;
          begin -- a savepoint: an error in one lane costs this worker that lane only
            select j.id, j.lease_gen into v_job
              from jobs j
             where j.state = 'pending' and j.lane = v_lane and j.kind = any (v_kinds) and j.language = any (v_languages)
               and coalesce(j.features, '{}') <@ v_features and coalesce(j.tags, '{}') <@ v_w.tags
               and coalesce(j.target_worker_id = v_me, true) and (v_memory = 0 or j.memory_bytes <= v_memory)
               and not coalesce(j.package_digest, '') = any (v_lacks)
               and not exists (select from brakes h where h.kind = 'lane' and h.name = j.lane or h.kind = 'language' and h.name = j.language
                                 or h.kind = 'problem' and h.problem_id = j.problem_id) -- what an operator holds
               -- A new job is a preferred colleague's for a moment, if one is there that can and is free.
               and not (j.created_at > now() - v.yield
                        and exists (select from jsonb_array_elements(v_yield) y
                                     where y.value -> 'languages' ? j.language and (y.value ->> 'memory')::bigint >= j.memory_bytes
                                       and y.value -> 'features' @> to_jsonb(coalesce(j.features, '{}')) and y.value -> 'tags' @> to_jsonb(coalesce(j.tags, '{}'))
                                       and (y.value -> 'lanes' = '[]' or y.value -> 'lanes' ? j.lane)
                                       and not y.value -> 'lacks' ? coalesce(j.package_digest, '')))
               -- Not again what it failed, while somebody else who is there has not.
               and not (j.attempts > 0
                        and exists (select from attempts a where a.job_id = j.id and a.worker_id = v_me and a.outcome in ('failed', 'expired'))
                        and exists (select from workers o
                                     where o.id <> v_me and o.slots > 0 and o.last_seen_at > now() - interval '15 seconds'
                                       and edge_languages(o.id) ? j.language and coalesce(o.capabilities -> 'features', '[]') @> to_jsonb(coalesce(j.features, '{}'))
                                       and coalesce(j.tags, '{}') <@ o.tags and (o.lanes = '{}' or j.lane = any (o.lanes))
                                       and coalesce(nullif((o.capabilities ->> 'memory_bytes')::bigint, 0) >= j.memory_bytes, true)
                                       and not edge_out(o.id)
                                       and not exists (select from attempts b where b.job_id = j.id and b.worker_id = o.id and b.outcome in ('failed', 'expired'))))
             order by j.priority, j.id for update of j skip locked limit 1;
            if found then
              v_token := gen_random_uuid();
              update jobs j
                 set state = 'leased', lease_gen = j.lease_gen + 1, lease_token = v_token,
                     lease_expires_at = now() + v.confirm, confirmed = false,
                     worker_id = v_me, session = v_session, request_id = v_request, attempts = j.attempts + 1
               where j.id = v_job.id and j.state = 'pending' and j.lease_gen = v_job.lease_gen
              returning j.lease_gen into v_gen;
              if found then
                -- The clock, not the beginning of this transaction: a job that was handed back since then can be had.
                insert into attempts (job_id, lease_gen, lease_token, judging_id, submission_id, worker_id, session, request_id, term, kind, work_id, granted_at)
                select j.id, j.lease_gen, j.lease_token, j.judging_id, j.submission_id, v_me, v_session, v_request, 0, j.kind, j.work_id, clock_timestamp()
                  from jobs j where j.id = v_job.id;
                v_payload := edge_lease(v_job.id);
                if v_payload is null then
                  raise exception 'job % lacks its submission, source or problem', v_job.id;
                end if;
              end if;
            end if;
          exception when others then
            v_gen := null;
            v_broken := v_broken || v_lane;
            v_errors := v_errors || jsonb_build_object('lane', v_lane, 'code', sqlstate, 'message', left(sqlerrm, 500));
          end;
          exit when v_gen is null;
          v_leases := v_leases || v_payload;
          v_free := v_free - 1;
          v_bytes := v_bytes + pg_column_size(v_payload);
          if v_bytes > 8 * 1024 * 1024 then -- the rest comes with a later claim
            v_free := 0;
          end if;
          v_taken := true;
          exit when v_lane <> 'run'; -- the others give one and pass the turn
        end loop;
      end loop;
      exit when not v_taken or v_free <= 0;
    end loop;
  end if;

  if v_errors <> '[]' then
    update edge_workers set failed_rounds = least(failed_rounds + 1, 1000000), last_error = v_errors -> 0 ->> 'message', last_error_at = now()
     where worker_id = v_me returning failed_rounds into v_e.failed_rounds;
  elsif v_e.failed_rounds > 0 or coalesce(v_e.polled_at < now() - interval '1 second', true) then
    update edge_workers set failed_rounds = 0, polled_at = now() where worker_id = v_me;
    v_e.failed_rounds := 0;
  end if;
  return jsonb_build_object('leases', v_leases, 'errors', v_errors, 'failed_rounds', v_e.failed_rounds);
end
$$;
-- +goose StatementEnd

-- As in 00013, but: the report is made tidy first, by the rules of internal/report.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- What edge workers said of themselves before it was looked at; they say it again
-- with their next claim.
update workers w set capabilities = '{}' from edge_workers e where e.worker_id = w.id;

-- Owner, search path and rights, as for the functions of 00010.
-- +goose StatementBegin
do $$
declare
  v_schema text := current_schema();
  f        text;
begin
  foreach f in array array['edge_claim(jsonb)', 'edge_result(jsonb)'] loop
    execute format('alter function %I.%s set search_path = %I, pg_temp', v_schema, f, v_schema);
  end loop;
  foreach f in array array['edge_cut(text, int)', 'edge_fit(jsonb, jsonb, text)', 'edge_shape(text)', 'edge_contradicts_itself(text, jsonb)',
      'edge_sane(jsonb)', 'edge_tidy(text, jsonb)'] loop
    execute format('revoke all on function %I.%s from public', v_schema, f);
    if exists (select from pg_roles where rolname = 'gavel_arbiter') then
      execute format('grant create on schema %I to gavel_arbiter', v_schema);
      execute format('alter function %I.%s owner to gavel_arbiter', v_schema, f);
      execute format('revoke create on schema %I from gavel_arbiter', v_schema);
    end if;
  end loop;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- The functions of 00010 stay as they are here, with those they call and the
-- setting that they read: they do what they did, and refuse what nothing can read.
select 1;
