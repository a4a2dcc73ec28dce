-- Edge pull: taking work.

-- Base64 as decoders in other languages take it: in one line.
create or replace function edge_base64(p_bytes bytea) returns text language sql immutable as $$
select replace(encode(p_bytes, 'base64'), E'\n', '')
$$;

-- Files by name, in base64, which carries every byte.
create or replace function edge_files(p_names text[], p_contents bytea[]) returns jsonb language sql immutable as $$
select jsonb_agg(jsonb_build_object('name', f.name, 'content', edge_base64(f.content)) order by f.n)
  from unnest(p_names, p_contents) with ordinality as f (name, content, n)
$$;

-- What a lease carries, in the words of gavelapi.Lease: of a judging, or of a run.
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

-- Claim. {worker_id, request_id, session, previous_session, slots, total_slots,
-- capabilities, kinds, turn, lacks} → {leases, errors, failed_rounds, aside_ms, drain}
--
-- An idle poll reads, and writes once a second that it looked. Work is taken
-- under the lock of the worker's own row (I4), lane by lane, one savepoint a
-- lane: the run lane first, then the others in turn, beginning with the one
-- that the worker says. There is nothing in it that two workers share but the
-- jobs, and a job that is locked is stepped over.
--
-- Nothing is begun in planned hours; a job is left to a colleague that has not
-- failed it only if that one can get it; nobody holds more than edge_slots; and an
-- answer is bounded.
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
