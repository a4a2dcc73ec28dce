-- Edge workers: runs are theirs as well; reports are compared with the package in
-- the database, which does not trust who reports; and nobody is waited for who
-- would get nothing: set aside by an arbiter, or in planned hours.

-- +goose Up
alter table lease_settings add column if not exists sleep_lead interval not null default '5 minutes';

-- +goose StatementBegin
create or replace function edge_base64(p_bytes bytea) returns text language sql immutable as $$
select replace(encode(p_bytes, 'base64'), E'\n', '')
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function edge_files(p_names text[], p_contents bytea[]) returns jsonb language sql immutable as $$
select jsonb_agg(jsonb_build_object('name', f.name, 'content', edge_base64(f.content)) order by f.n)
  from unnest(p_names, p_contents) with ordinality as f (name, content, n)
$$;
-- +goose StatementEnd

-- What is said on the channel gavel_done: a submission and its job, or a run and its.
-- +goose StatementBegin
create or replace function edge_done(p_kind text, p_subject bigint, p_job bigint) returns text language sql immutable as $$
select case when p_kind = 'run' then 'run ' else '' end || p_subject || ' ' || p_job
$$;
-- +goose StatementEnd

-- Whether planned hours keep a worker from beginning anything: its own plan, or
-- its pool's. The text is what internal/hours writes. Near a change of the clock
-- it may be wrong by as much as the clock is moved; a zone that this PostgreSQL
-- does not know keeps nobody from anything.
-- +goose StatementBegin
create or replace function edge_asleep(p_worker bigint, p_pool text, p_at timestamptz default now()) returns boolean language plpgsql stable as $$
declare
  v_plan  record;
  v_lead  interval;
  v_local timestamp;
begin
  select h.hours, h.zone into v_plan from planned_hours h where h.worker_id = p_worker or h.pool = p_pool order by h.worker_id nulls last limit 1;
  if not found then
    return false;
  end if;
  select s.sleep_lead into v_lead from lease_settings s;
  v_local := p_at at time zone v_plan.zone;
  return exists (
    select from regexp_split_to_table(v_plan.hours, '; ') l (line)
      cross join lateral regexp_match(l.line, '^(\S+) ([0-9:]+)-([0-9:]+)$') m
      cross join lateral (select v_local::date + d as day from generate_series(-1, 1) d) x
     where (m[1] = 'daily' or to_char(x.day, 'Dy') = any (string_to_array(m[1], ',')))
       and v_local >= x.day + m[2]::interval - v_lead
       and v_local < x.day + m[3]::interval + case when m[3]::interval <= m[2]::interval then interval '1 day' else interval '0' end);
exception when invalid_parameter_value then
  return false;
end
$$;
-- +goose StatementEnd

-- Whether a worker gets nothing at present, whatever there is: disabled, away,
-- unhealthy, set aside, asleep. What health says of it counts on the way that it
-- was last seen on.
-- +goose StatementBegin
create or replace function edge_out(p_worker bigint) returns boolean language sql stable as $$
select w.disabled or w.away <> '' and coalesce(w.away_until > now(), true)
    or case when w.session = e.session
         then e.failed_rounds >= 3 or coalesce(e.aside_until > now(), false)
         else exists (select from worker_health h where h.worker_id = w.id and h.set_aside_at is not null) end
    or edge_asleep(w.id, w.pool)
  from workers w left join edge_workers e on e.worker_id = w.id
 where w.id = p_worker
$$;
-- +goose StatementEnd

-- The languages that a worker gets work in: those that it offers, without those
-- that an arbiter has set aside on its way.
-- +goose StatementBegin
create or replace function edge_languages(p_worker bigint) returns jsonb language sql stable as $$
select jsonb_path_query_array(w.capabilities, '$.languages[*].id')
       - case when w.session = e.session then '{}' else coalesce((select array(select jsonb_object_keys(h.languages)) from worker_health h where h.worker_id = w.id), '{}') end
  from workers w left join edge_workers e on e.worker_id = w.id
 where w.id = p_worker
$$;
-- +goose StatementEnd

-- +goose StatementBegin
create or replace function edge_preferred(p_worker bigint, p_rank int, p_fresh interval) returns jsonb language sql stable as $$
select coalesce(jsonb_agg(jsonb_build_object(
         'languages', edge_languages(w.id),
         'features', coalesce(w.capabilities -> 'features', '[]'), 'tags', to_jsonb(w.tags), 'lanes', to_jsonb(w.lanes),
         'memory', coalesce(nullif((w.capabilities ->> 'memory_bytes')::bigint, 0), 1::bigint << 60),
         'lacks', coalesce(e.lacks, '{}'))), '[]')
  from workers w
  left join edge_workers e on e.worker_id = w.id
  left join pools p on p.name = w.pool
 where w.id <> p_worker and coalesce(p.rank, 100) < p_rank
   and case when w.session = e.session then e.polled_at else w.last_seen_at end > now() - p_fresh
   and (select count(*) from jobs j where j.state = 'leased' and j.worker_id = w.id) < w.slots
   and not edge_out(w.id)
$$;
-- +goose StatementEnd

-- Where a report of a judging contradicts its package, or holds numbers that
-- nothing can have measured; null when it does neither. internal/report has the
-- same rules for those who report to an arbiter.
-- +goose StatementBegin
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
-- +goose StatementEnd

-- What a lease carries, in the words of gavelapi.Lease: of a judging, or of a run.
-- +goose StatementBegin
create or replace function edge_lease(p_job bigint) returns jsonb language sql stable as $$
select jsonb_build_object(
         'job_id', j.id, 'kind', j.kind, 'attempt', j.attempts, 'lease_token', j.lease_token, 'lease_gen', j.lease_gen,
         'ttl_ms', (extract(epoch from l.ttl) * 1000)::bigint, 'confirm_ms', (extract(epoch from l.confirm) * 1000)::bigint,
         'heartbeat_ms', (extract(epoch from l.heartbeat) * 1000)::bigint, 'language', j.language) || x.subject
  from jobs j
  cross join lease_settings l
  cross join lateral (
    select jsonb_build_object(
             'submission_id', j.submission_id, 'source_name', s.source_name, 'source', edge_base64(c.source),
             'files', edge_files(c.file_names, c.file_contents), 'problem', p.name,
             'package_digest', g.package_digest, 'limits', g.limits, 'stop_rule', s.stop_rule) as subject
      from judgings g
      join submissions s on s.id = j.submission_id
      join submission_sources c on c.submission_id = j.submission_id
      join problems p on p.id = s.problem_id
     where j.kind <> 'run' and g.id = j.judging_id
    union all
    select jsonb_build_object(
             'source_name', r.source_name, 'source', edge_base64(r.source), 'files', edge_files(r.file_names, r.file_contents),
             'limits', r.limits, 'stop_rule', 'first',
             'run', jsonb_build_object('run_id', r.id, 'inputs', (select jsonb_agg(edge_base64(i.content) order by i.n) from unnest(r.inputs) with ordinality as i (content, n))))
      from runs r
     where j.kind = 'run' and r.id = j.work_id) x
 where j.id = p_job
$$;
-- +goose StatementEnd

-- As in 00010; a run that is given up ends here, and not when an arbiter next looks.
-- +goose StatementBegin
create or replace function edge_reclaim_leases(p_worker bigint) returns table (requeued int, ended int) language plpgsql as $$
declare
  v        lease_settings%rowtype;
  v_vacant boolean;
  v_said   text;
begin
  select * into v from lease_settings;
  v_vacant := not exists (select from leadership s where s.expires_at >= now() - v.ttl);
  with dead as (
    select j.id, j.lease_gen, j.confirmed from jobs j
      join attempts a on a.job_id = j.id and a.lease_gen = j.lease_gen
     where j.state = 'leased' and j.lease_expires_at <= now() and (p_worker is null or j.worker_id = p_worker)
       and (not j.confirmed or j.attempts < v.attempt_cap) and (a.term = 0 or v_vacant)
     order by j.id for update of j skip locked
  ), returned as (
    update jobs j
       set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
           worker_id = null, session = null, request_id = null,
           attempts = case when d.confirmed then j.attempts else j.attempts - 1 end
      from dead d where j.id = d.id
    returning j.id, j.lease_gen, d.confirmed
  ), closed as (
    update attempts a set outcome = case when r.confirmed then 'expired' else 'undelivered' end, ended_at = now()
      from returned r where a.job_id = r.id and a.lease_gen = r.lease_gen
  )
  select count(*) into requeued from returned;
  with dead as (
    select j.id from jobs j
      join attempts a on a.job_id = j.id and a.lease_gen = j.lease_gen
     where j.state = 'leased' and j.lease_expires_at <= now() and (p_worker is null or j.worker_id = p_worker)
       and j.confirmed and j.attempts >= v.attempt_cap and (a.term = 0 or v_vacant)
     order by j.id for update of j skip locked
  ), gone as (
    delete from jobs j using dead d where j.id = d.id
    returning j.id, j.lease_gen, j.judging_id, j.submission_id, j.worker_id, j.kind, j.work_id
  ), judged as (
    update judgings g set state = 'system_error', lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now(),
           fault = jsonb_build_object('blame', 'host', 'message',
             format('the worker was lost while judging, %s times in a row; look at the attempts, then retry', v.attempt_cap))
      from gone e where g.id = e.judging_id and g.state = 'open'
  ), ran as (
    update runs r set state = 'system_error', lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now(), expires_at = now() + r.keep,
           fault = jsonb_build_object('blame', 'host', 'message', format('the worker was lost while running, %s times in a row', v.attempt_cap))
      from gone e where e.kind = 'run' and r.id = e.work_id and r.state = 'open'
  ), closed as (
    update attempts a set outcome = 'expired', ended_at = now()
      from gone e where a.job_id = e.id and a.lease_gen = e.lease_gen
  )
  select count(*), string_agg(pg_notify('gavel_done', edge_done(g.kind, coalesce(g.submission_id, g.work_id), g.id))::text, '') into ended, v_said from gone g;
  if requeued > 0 then
    perform pg_notify('gavel_work', '');
  end if;
  return next;
end
$$;
-- +goose StatementEnd

-- As in 00010, but: nothing is begun in planned hours; a job is left to a colleague
-- that has not failed it only if that one can get it; and an answer is bounded.
-- +goose StatementBegin
create or replace function edge_claim(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me       bigint := edge_me(request);
  v          lease_settings%rowtype;
  v_w        workers%rowtype;
  v_e        edge_workers%rowtype;
  v_session  uuid := (request ->> 'session')::uuid;
  v_previous uuid := nullif(request ->> 'previous_session', '')::uuid;
  v_request  uuid := (request ->> 'request_id')::uuid;
  v_slots    int := least((request ->> 'slots')::int, 1024);
  v_total    int := least((request ->> 'total_slots')::int, 1024);
  v_caps     jsonb := coalesce(request -> 'capabilities', '{}');
  v_memory   bigint := coalesce((v_caps ->> 'memory_bytes')::bigint, 0);
  v_languages text[] := array(select l.value ->> 'id' from jsonb_array_elements(coalesce(v_caps -> 'languages', '[]')) l);
  v_features text[] := array(select jsonb_array_elements_text(case jsonb_typeof(v_caps -> 'features') when 'array' then v_caps -> 'features' else '[]' end));
  v_kinds    text[] := array(select jsonb_array_elements_text(coalesce(request -> 'kinds', '["judge", "rejudge"]')));
  v_lacks    text[] := (array(select jsonb_array_elements_text(case jsonb_typeof(request -> 'lacks') when 'array' then request -> 'lacks' else '[]' end) order by 1))[1:256];
  v_turn     int := abs(coalesce((request ->> 'turn')::int, 0) % 3);
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
  if v_session is null or v_request is null or v_slots is null or v_slots < 1 or v_total is null or v_total < v_slots then
    raise exception using errcode = 'GV422', message = 'a claim needs a session, a request_id, slots and total_slots';
  end if;
  select * into v from lease_settings;
  select * into v_w from workers where id = v_me;
  select * into v_e from edge_workers where worker_id = v_me;
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

-- As in 00010, but: a report that is not believed is a fault of who sent it, and
-- runs are recorded. Their outputs come in base64, which carries every byte.
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
  select a.job_id, a.lease_gen, a.outcome, a.kind, a.work_id, a.judging_id into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
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
    select a.job_id, a.lease_gen, a.outcome into v_a from attempts a where a.lease_token = v_token;
  end if;
  if v_a.outcome in ('completed', 'failed') then
    return jsonb_build_object('outcome', 'already_recorded');
  elsif v_a.outcome = 'running' then -- between two looks; the same report again gets a settled answer
    return jsonb_build_object('outcome', 'again');
  end if;
  update attempts set late_report = v_report, late_at = now()
   where lease_token = v_token and outcome not in ('running', 'completed') and late_report is null;
  return jsonb_build_object('outcome', 'discarded', 'lease', v_a.outcome);
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
  foreach f in array array['edge_claim(jsonb)', 'edge_result(jsonb)'] loop
    execute format('alter function %I.%s set search_path = %I, pg_temp', v_schema, f, v_schema);
  end loop;
  foreach f in array array['edge_base64(bytea)', 'edge_files(text[], bytea[])', 'edge_done(text, bigint, bigint)', 'edge_asleep(bigint, text, timestamptz)',
      'edge_out(bigint)', 'edge_languages(bigint)', 'edge_contradiction(jsonb, jsonb)'] loop
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
-- The functions of 00010 stay as they are here: they do what they did, and more.
-- They go, with those they call, when 00010 is taken back.
select 1;
