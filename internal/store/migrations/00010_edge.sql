-- Edge pull: workers straight on the database, and submitting from a site's own
-- transaction. Both are interfaces of functions, so that who uses them needs no
-- right to any table (docs/adr/0009-edge-workers-call-functions.md).
--
-- Every edge function takes and gives one jsonb in the words of the worker
-- protocol (gavelapi), is one round trip, and is its own transaction: a client
-- that stops in the middle holds nothing.

-- +goose Up

-- The times of leases, for those who grant without an arbiter. An arbiter that
-- takes over writes its own settings here, so that both sides agree.
create table lease_settings (
  one         boolean  primary key default true check (one),
  ttl         interval not null default '60 seconds',
  heartbeat   interval not null default '5 seconds',
  confirm     interval not null default '10 seconds',
  attempt_cap int      not null default 3 check (attempt_cap >= 1),
  -- How long a less preferred worker leaves a new job to a preferred one.
  yield       interval not null default '1 second',
  -- How long ago a preferred worker may have looked for work and still count as looking.
  fresh       interval not null default '2500 milliseconds',
  check (3 * heartbeat <= ttl and confirm <= ttl and heartbeat > interval '0' and confirm > interval '0')
);
insert into lease_settings default values;

-- What an edge worker has beside its row in workers. The session tells whether
-- the worker's last sign of life came this way or by way of an arbiter.
create table edge_workers (
  worker_id     bigint      primary key references workers (id),
  login         text        not null, -- the database login that may work as this worker
  session       uuid,
  polled_at     timestamptz, -- last round in which it could look into every lane
  failed_rounds int         not null default 0,
  host_faults   int         not null default 0, -- in a row, blamed on the machine
  aside_until   timestamptz,
  lacks         text[]      not null default '{}', -- packages that it cannot get
  last_error    text        not null default '',
  last_error_at timestamptz
) with (fillfactor = 50);

-- Effective limits of each language that a package allows. They are computed in
-- one place, by the arbiter, when a package is published and when the rules of a
-- language have changed; SQL only looks them up. rules names the rules they come
-- from. No foreign key: the limits are there before the package is.
create table package_languages (
  package_digest text   not null,
  language       text   not null,
  limits         jsonb  not null,
  source_bytes   bigint not null,
  rules          text   not null,
  primary key (package_digest, language)
);

-- One more place that names the same thing: a submission's state and verdict,
-- for sites that show it from their own database session.
create view submission_verdicts as
select s.id as submission_id, p.name as problem, s.language, s.submitter,
       case when g.state <> 'open' then g.state when j.state = 'leased' then 'judging' else 'pending' end as state,
       case g.state when 'system_error' then 'SE' else coalesce(g.verdict, '') end as verdict,
       g.cpu_us, g.wall_us, g.memory_bytes, s.created_at, g.finished_at
  from submissions s
  join problems p on p.id = s.problem_id
  join judgings g on g.id = s.current_judging_id
  left join jobs j on g.state = 'open' and j.submission_id = s.id and j.judging_id = g.id;

-- Who calls: the worker of the request, if this login may work as it. Refuses a
-- session whose transactions could stay open: it could keep what it claimed
-- from everybody (a stopped client, the five nights).
-- +goose StatementBegin
create function edge_me(request jsonb) returns bigint language plpgsql stable as $$
declare
  v_idle interval := current_setting('idle_in_transaction_session_timeout')::interval;
  v_id   bigint;
begin
  if v_idle <= interval '0' or v_idle > interval '10 seconds' then
    raise exception using errcode = 'GV422', message = 'idle_in_transaction_session_timeout must lie between 1 ms and 10 s for an edge worker',
      hint = 'set it for the session, or with alter role';
  end if;
  select e.worker_id into v_id
    from edge_workers e join workers w on w.id = e.worker_id
   where e.worker_id = (request ->> 'worker_id')::bigint and e.login = session_user and not w.disabled;
  if not found then
    raise exception using errcode = 'GV403', message = 'this login may not work as this worker, or the worker is disabled';
  end if;
  return v_id;
end
$$;
-- +goose StatementEnd

-- Enrols or greets. {name, pool, rank} → {worker_id, rank, …settings}; the rank
-- asked for is that of a pool nobody has named yet.
-- +goose StatementBegin
create function edge_hello(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_name text := request ->> 'name';
  v_pool text := coalesce(nullif(request ->> 'pool', ''), 'default');
  v_rank int := coalesce((request ->> 'rank')::int, 100);
  v_id   bigint;
  v_login text;
begin
  if v_name is null or v_name !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' or v_pool !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' then
    raise exception using errcode = 'GV422', message = 'names of workers and pools have letters, digits, dot, dash and underscore, at most 64';
  end if;
  select w.id, e.login into v_id, v_login from workers w left join edge_workers e on e.worker_id = w.id where w.name = v_name;
  if v_id is null then
    if (select count(*) from edge_workers e where e.login = session_user) >= 64 then
      raise exception using errcode = 'GV429', message = 'this login has 64 workers already';
    end if;
    insert into workers (name, pool) values (v_name, v_pool) on conflict (name) do nothing returning id into v_id;
    if v_id is not null then
      insert into edge_workers (worker_id, login) values (v_id, session_user);
    else -- two of the same name at the same instant: the other one has made it
      select w.id, e.login into v_id, v_login from workers w left join edge_workers e on e.worker_id = w.id where w.name = v_name;
    end if;
  end if;
  if not exists (select from edge_workers e where e.worker_id = v_id and e.login = session_user) then
    raise exception using errcode = 'GV409', message = case when v_login is null
        then 'a worker of this name is enrolled with the arbiter' else 'a worker of this name belongs to another database login' end,
      hint = 'choose another name, or let the administrator give it to this login (table edge_workers)';
  end if;
  update workers set pool = v_pool where id = v_id and pool <> v_pool;
  insert into pools (name, rank) values (v_pool, v_rank) on conflict (name) do nothing; -- a rank that is there is the operator's
  return (select jsonb_build_object('worker_id', v_id, 'rank', (select p.rank from pools p where p.name = v_pool),
            'ttl_ms', (extract(epoch from s.ttl) * 1000)::bigint, 'heartbeat_ms', (extract(epoch from s.heartbeat) * 1000)::bigint,
            'confirm_ms', (extract(epoch from s.confirm) * 1000)::bigint, 'attempt_cap', s.attempt_cap)
            from lease_settings s);
end
$$;
-- +goose StatementEnd

-- What a lease carries, in the words of gavelapi.Lease.
-- +goose StatementBegin
create function edge_lease(p_job bigint) returns jsonb language sql stable as $$
select jsonb_build_object(
         'job_id', j.id, 'kind', j.kind, 'attempt', j.attempts, 'lease_token', j.lease_token, 'lease_gen', j.lease_gen,
         'ttl_ms', (extract(epoch from l.ttl) * 1000)::bigint, 'confirm_ms', (extract(epoch from l.confirm) * 1000)::bigint,
         'heartbeat_ms', (extract(epoch from l.heartbeat) * 1000)::bigint,
         'submission_id', j.submission_id, 'language', s.language, 'source_name', s.source_name,
         'source', translate(encode(c.source, 'base64'), E'\n', ''),
         'files', (select jsonb_agg(jsonb_build_object('name', f.name, 'content', translate(encode(f.content, 'base64'), E'\n', '')) order by f.n)
                     from unnest(c.file_names, c.file_contents) with ordinality as f (name, content, n)),
         'problem', p.name,
         'package_digest', g.package_digest, 'limits', g.limits, 'stop_rule', s.stop_rule)
  from jobs j
  cross join lease_settings l
  join judgings g on g.id = j.judging_id
  join submissions s on s.id = j.submission_id
  join submission_sources c on c.submission_id = j.submission_id
  join problems p on p.id = s.problem_id
 where j.id = p_job
$$;
-- +goose StatementEnd

-- Takes expired leases back, of one worker or (null) of all. Leases that an
-- arbiter granted are its own to reclaim, as it gives them their grace when it
-- takes over; only when nobody has led for a whole TTL are they anybody's.
-- +goose StatementBegin
create function edge_reclaim_leases(p_worker bigint) returns table (requeued int, ended int) language plpgsql as $$
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
    returning j.id, j.lease_gen, j.judging_id, j.submission_id, j.worker_id
  ), judged as (
    update judgings g set state = 'system_error', lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now(),
           fault = jsonb_build_object('blame', 'host', 'message',
             format('the worker was lost while judging, %s times in a row; look at the attempts, then retry', v.attempt_cap))
      from gone e where g.id = e.judging_id and g.state = 'open'
  ), closed as (
    update attempts a set outcome = 'expired', ended_at = now()
      from gone e where a.job_id = e.id and a.lease_gen = e.lease_gen
  )
  select count(*), string_agg(pg_notify('gavel_done', g.submission_id || ' ' || g.id)::text, '') into ended, v_said from gone g;
  if requeued > 0 then
    perform pg_notify('gavel_work', '');
  end if;
  return next;
end
$$;
-- +goose StatementEnd

-- Reclaim, by every worker, every ten seconds. {worker_id} → {requeued, ended}
-- +goose StatementBegin
create function edge_reclaim(request jsonb) returns jsonb language plpgsql security definer as $$
begin
  perform edge_me(request);
  return (select jsonb_build_object('requeued', r.requeued, 'ended', r.ended) from edge_reclaim_leases(null) r);
end
$$;
-- +goose StatementEnd

-- The worker's preferred colleagues that could take work at once: what each can
-- do. A colleague counts when it is preferred, enabled, healthy, has a free slot,
-- and was seen doing what taking work consists of: a round that could look into
-- every lane, or a claim waiting at an arbiter. A heartbeat alone shows nothing
-- (the seventeenth of September).
-- +goose StatementBegin
create function edge_preferred(p_worker bigint, p_rank int, p_fresh interval) returns jsonb language sql stable as $$
select coalesce(jsonb_agg(jsonb_build_object(
         'languages', jsonb_path_query_array(w.capabilities, '$.languages[*].id'),
         'features', coalesce(w.capabilities -> 'features', '[]'), 'tags', to_jsonb(w.tags), 'lanes', to_jsonb(w.lanes),
         'memory', coalesce(nullif((w.capabilities ->> 'memory_bytes')::bigint, 0), 1::bigint << 60),
         'lacks', coalesce(e.lacks, '{}'))), '[]')
  from workers w
  left join edge_workers e on e.worker_id = w.id
  left join pools p on p.name = w.pool
 where w.id <> p_worker and not w.disabled and (w.away = '' or w.away_until <= now())
   and coalesce(p.rank, 100) < p_rank
   and case when w.session = e.session
         then e.polled_at > now() - p_fresh and e.failed_rounds < 3 and coalesce(e.aside_until <= now(), true)
         else w.last_seen_at > now() - p_fresh end
   and (select count(*) from jobs j where j.state = 'leased' and j.worker_id = w.id) < w.slots
$$;
-- +goose StatementEnd

-- Claim. {worker_id, request_id, session, previous_session, slots, total_slots,
-- capabilities, kinds, turn, lacks} → {leases, errors, failed_rounds, aside_ms, drain}
--
-- An idle poll reads, and writes once a second that it looked. Work is taken
-- under the lock of the worker's own row (I4), lane by lane, one savepoint a
-- lane: the run lane first, then the others in turn, beginning with the one
-- that the worker says. There is nothing in it that two workers share but the
-- jobs, and a job that is locked is stepped over.
-- +goose StatementBegin
create function edge_claim(request jsonb) returns jsonb language plpgsql security definer as $$
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
  v_order := array(select distinct j.lane from jobs j where j.state = 'pending' and j.kind = any (v_kinds) and j.language = any (v_languages)
                    and (v_w.lanes = '{}' or j.lane = any (v_w.lanes)));
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
                        and exists (select from workers o left join edge_workers x on x.worker_id = o.id
                                     where o.id <> v_me and not o.disabled and o.slots > 0 and o.last_seen_at > now() - interval '15 seconds'
                                       and o.capabilities -> 'languages' @> jsonb_build_array(jsonb_build_object('id', j.language))
                                       and coalesce(x.failed_rounds, 0) < 3 and coalesce(x.aside_until <= now(), true)
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
                insert into attempts (job_id, lease_gen, lease_token, judging_id, submission_id, worker_id, session, request_id, term, kind, work_id)
                select j.id, j.lease_gen, j.lease_token, j.judging_id, j.submission_id, v_me, v_session, v_request, 0, j.kind, j.work_id
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

-- Heartbeat. {worker_id, lease_token} → {ttl_ms}, or {outcome} of a dead lease.
-- +goose StatementBegin
create function edge_heartbeat(request jsonb) returns jsonb language plpgsql security definer as $$
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
    return (select jsonb_build_object('outcome', a.outcome) from attempts a where a.job_id = v_a.job_id and a.lease_gen = v_a.lease_gen);
  end if;
  update workers set last_seen_at = now() where id = v_me and coalesce(last_seen_at < now() - interval '5 seconds', true);
  return (select jsonb_build_object('ttl_ms', (extract(epoch from s.ttl) * 1000)::bigint) from lease_settings s);
end
$$;
-- +goose StatementEnd

-- Result, the ownership gate. {worker_id, lease_token, report} → {outcome, lease}
-- The job is written only while this grant of it lives: worker, token and
-- generation. That the worker is the same one is not enough, since it can have
-- lost the job and got it again.
-- +goose StatementBegin
create function edge_result(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me     bigint := edge_me(request);
  v_token  uuid := (request ->> 'lease_token')::uuid;
  v_report jsonb := request -> 'report';
  v_fault  jsonb := nullif(v_report -> 'fault', 'null');
  v_cap    int := (select attempt_cap from lease_settings);
  v_a      record;
  v_j      record;
  v_g      record;
begin
  if v_report is null or (v_fault is null) = (coalesce(v_report ->> 'verdict', '') = '') or octet_length(v_report::text) > 64 * 1024 * 1024 then
    raise exception using errcode = 'GV422', message = 'a report has either a verdict or a fault, and at most 64 MiB';
  end if;
  select a.job_id, a.lease_gen, a.outcome into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if not found then
    return jsonb_build_object('outcome', 'discarded', 'lease', 'unknown');
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
      return jsonb_build_object('outcome', 'recorded');
    elsif found then
      delete from jobs where id = v_a.job_id;
      if v_fault is null then
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
        update attempts set outcome = 'completed', ended_at = now() where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
        update edge_workers set host_faults = 0, aside_until = null where worker_id = v_me and (host_faults > 0 or aside_until is not null);
      else
        update judgings g
           set state = 'system_error', fault = v_fault, compile = v_report -> 'compile', provenance = v_report -> 'provenance',
               lease_gen = v_a.lease_gen, worker_id = v_me, finished_at = now()
         where g.id = v_j.judging_id and g.state = 'open';
        update attempts set outcome = 'failed', ended_at = now(), blame = v_fault ->> 'blame', message = v_fault ->> 'message'
         where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
        perform edge_blame(v_me, v_fault);
      end if;
      perform pg_notify('gavel_done', v_j.submission_id || ' ' || v_a.job_id);
      return jsonb_build_object('outcome', 'recorded');
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

-- Three faults of the machine in a row set a worker aside for a while, so that
-- one with a broken disk does not use up everybody's attempts.
-- +goose StatementBegin
create function edge_blame(p_worker bigint, p_fault jsonb) returns void language sql as $$
update edge_workers
   set host_faults = host_faults + 1, last_error = left(p_fault ->> 'message', 500), last_error_at = now(),
       aside_until = case when host_faults + 1 >= 3 then now() + least(host_faults - 1, 10) * interval '30 seconds' end
 where worker_id = p_worker and p_fault ->> 'blame' in ('host', 'toolchain')
$$;
-- +goose StatementEnd

-- Hand-back, the attempt refunded. {worker_id, lease_token, reason} → {outcome}
-- +goose StatementBegin
create function edge_release(request jsonb) returns jsonb language plpgsql security definer as $$
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
  return (select jsonb_build_object('outcome', a.outcome) from attempts a where a.job_id = v_a.job_id and a.lease_gen = v_a.lease_gen);
end
$$;
-- +goose StatementEnd

-- Submitting in the caller's own transaction: the submission is there when that
-- transaction commits, and never was when it does not. wake tells an arbiter at
-- once; it makes such commits wait for each other, so a busy site leaves it out
-- and is found by the next look, within two seconds.
-- +goose StatementBegin
do $$
declare
  v_schema text := current_schema();
  v_api    text := 'gavel';
  v_text   text := '(problem text, language text, source text, submitter text, source_name text, stop_rule text, wake boolean)';
  v_bytes  text := '(problem text, language text, source bytea, submitter text, source_name text, stop_rule text, wake boolean)';
  f        text;
begin
  begin
    create schema if not exists gavel;
  exception when insufficient_privilege then
    v_api := v_schema;
    raise warning 'the schema gavel was not created: the migrating user lacks CREATE on the database; submit() is in schema %', v_schema;
  end;
  if v_api <> v_schema and to_regprocedure('gavel.submit(text, text, bytea, text, text, text, boolean)') is not null then
    raise warning 'gavel.submit belongs to another gavel in this database; this one''s is %.submit', v_schema;
    v_api := v_schema;
  end if;
  execute format($f$
create function %I.submit(problem text, language text, source bytea, submitter text default '', source_name text default '',
                          stop_rule text default 'first', wake boolean default true) returns bigint
language plpgsql security definer as $body$
#variable_conflict use_column
declare
  v_problem    record;
  v_rules      record;
  v_submission bigint;
  v_judging    bigint;
begin
  select p.id, p.package_digest into v_problem from problems p where p.name = submit.problem;
  if not found then
    raise exception using errcode = 'GV404', message = 'gavel: unknown problem', hint = 'gavel problem list shows the published ones';
  end if;
  select r.limits, r.source_bytes into v_rules from package_languages r
   where r.package_digest = v_problem.package_digest and r.language = submit.language;
  if not found then
    raise exception using errcode = 'GV422', message = 'gavel: this problem does not take this language',
      hint = 'gavel language list shows the known ones; the table package_languages what the problem takes';
  end if;
  if coalesce(octet_length(submit.source), 0) = 0 then
    raise exception using errcode = 'GV422', message = 'gavel: the source is empty';
  elsif octet_length(submit.source) > v_rules.source_bytes then
    raise exception using errcode = 'GV413', message = format('gavel: the source has %%s bytes, this problem takes at most %%s', octet_length(submit.source), v_rules.source_bytes);
  elsif position('\x00'::bytea in submit.source) > 0 then
    raise exception using errcode = 'GV422', message = 'gavel: the source contains a NUL byte';
  elsif char_length(submit.submitter) > 128 or char_length(submit.source_name) > 255 then
    raise exception using errcode = 'GV422', message = 'gavel: the submitter has at most 128 characters, the name of the source at most 255';
  end if;
  insert into submissions (problem_id, language, submitter, source_name, source_bytes, stop_rule)
  values (v_problem.id, submit.language, coalesce(submit.submitter, ''), coalesce(submit.source_name, ''), octet_length(submit.source), coalesce(submit.stop_rule, 'first'))
  returning id into v_submission;
  insert into submission_sources (submission_id, source) values (v_submission, submit.source);
  insert into judgings (submission_id, kind, package_digest, limits)
  values (v_submission, 'judge', v_problem.package_digest, v_rules.limits) returning id into v_judging;
  update submissions set current_judging_id = v_judging where id = v_submission;
  insert into jobs (judging_id, submission_id, kind, lane, language, submitter, problem_id, package_digest, memory_bytes, cpu_us)
  values (v_judging, v_submission, 'judge', 'judge', submit.language, coalesce(submit.submitter, ''), v_problem.id, v_problem.package_digest,
          coalesce((v_rules.limits ->> 'memory_bytes')::bigint, 0), coalesce((v_rules.limits ->> 'cpu_us')::bigint, 0));
  if submit.wake then
    perform pg_notify('gavel_work', '');
  end if;
  return v_submission;
end
$body$
$f$, v_api);
  execute format($f$
create function %1$I.submit(problem text, language text, source text, submitter text default '', source_name text default '',
                            stop_rule text default 'first', wake boolean default true) returns bigint
language sql as $body$
select %1$I.submit($1, $2, convert_to($3, 'UTF8'), $4, $5, $6, $7)
$body$
$f$, v_api);
  execute format('create view %I.verdicts as select * from %I.submission_verdicts', v_api, v_schema);
  execute format('alter function %I.submit%s set search_path = %I, pg_temp', v_api, v_bytes, v_schema);
  foreach f in array array['edge_me(jsonb)', 'edge_hello(jsonb)', 'edge_lease(bigint)', 'edge_reclaim_leases(bigint)', 'edge_reclaim(jsonb)',
      'edge_preferred(bigint, int, interval)', 'edge_claim(jsonb)', 'edge_heartbeat(jsonb)', 'edge_result(jsonb)', 'edge_blame(bigint, jsonb)', 'edge_release(jsonb)'] loop
    execute format('revoke all on function %I.%s from public', v_schema, f);
    if f like '%(jsonb)' and f <> 'edge_me(jsonb)' then
      execute format('alter function %I.%s set search_path = %I, pg_temp', v_schema, f, v_schema);
    end if;
  end loop;
  execute format('revoke all on function %I.submit%s from public', v_api, v_bytes);
  execute format('revoke all on function %I.submit%s from public', v_api, v_text);
end
$$;
-- +goose StatementEnd

-- Roles that nobody logs in as: an edge worker's login is made a member of
-- gavel_edge, a site's of gavel_site. They have functions, and no table.
-- +goose StatementBegin
do $$
begin
  if not exists (select from pg_roles where rolname = 'gavel_edge') then
    create role gavel_edge nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'gavel_site') then
    create role gavel_site nologin;
  end if;
exception
  when insufficient_privilege then
    raise warning 'roles gavel_edge and gavel_site were not created: the migrating user lacks CREATEROLE';
  when unique_violation or duplicate_object then
    null; -- another database of the same cluster is being migrated
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
do $$
declare
  v_schema text := current_schema();
  v_api    text := (select n.nspname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                     where p.proname = 'submit' and format('search_path=%I, pg_temp', v_schema) = any (p.proconfig));
  f        text;
begin
  if exists (select from pg_roles where rolname = 'gavel_edge') then
    execute format('grant usage on schema %I to gavel_edge', v_schema);
    foreach f in array array['edge_hello', 'edge_claim', 'edge_heartbeat', 'edge_result', 'edge_release', 'edge_reclaim'] loop
      execute format('grant execute on function %I.%I(jsonb) to gavel_edge', v_schema, f);
    end loop;
  end if;
  if exists (select from pg_roles where rolname = 'gavel_site') then
    execute format('grant usage on schema %I to gavel_site', v_api);
    execute format('grant execute on function %I.submit(text, text, text, text, text, text, boolean) to gavel_site', v_api);
    execute format('grant execute on function %I.submit(text, text, bytea, text, text, text, boolean) to gavel_site', v_api);
    execute format('grant select on %I.verdicts to gavel_site', v_api);
  end if;
  -- What the functions may do is what an arbiter may do, whoever migrates.
  if exists (select from pg_roles where rolname = 'gavel_arbiter') then
    execute format('grant create on schema %I to gavel_arbiter', v_schema);
    foreach f in array array['edge_hello', 'edge_claim', 'edge_heartbeat', 'edge_result', 'edge_release', 'edge_reclaim', 'edge_me'] loop
      execute format('alter function %I.%I(jsonb) owner to gavel_arbiter', v_schema, f);
    end loop;
    foreach f in array array['edge_lease(bigint)', 'edge_reclaim_leases(bigint)', 'edge_preferred(bigint, int, interval)', 'edge_blame(bigint, jsonb)'] loop
      execute format('alter function %I.%s owner to gavel_arbiter', v_schema, f);
    end loop;
    execute format('revoke create on schema %I from gavel_arbiter', v_schema);
    execute format('grant usage, create on schema %I to gavel_arbiter', v_api);
    execute format('alter function %I.submit(text, text, bytea, text, text, text, boolean) owner to gavel_arbiter', v_api);
    execute format('revoke create on schema %I from gavel_arbiter', v_api);
  end if;
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on submission_verdicts, package_languages, lease_settings, edge_workers to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
do $$
declare
  r record;
begin
  for r in select p.oid::regprocedure as f from pg_proc p join pg_namespace n on n.oid = p.pronamespace
            where n.nspname in ('gavel', current_schema()) and (p.proname = 'submit' or n.nspname = current_schema() and p.proname like 'edge\_%') loop
    execute 'drop function ' || r.f;
  end loop;
  for r in select format('%I.verdicts', n.nspname) as v from pg_class c join pg_namespace n on n.oid = c.relnamespace
            where c.relname = 'verdicts' and n.nspname in ('gavel', current_schema()) loop
    execute 'drop view ' || r.v;
  end loop;
  if current_schema() <> 'gavel' then
    drop schema if exists gavel;
  end if;
  if exists (select from pg_roles where rolname = 'gavel_edge') then
    execute format('revoke usage on schema %I from gavel_edge', current_schema());
  end if;
end
$$;
-- +goose StatementEnd
drop view submission_verdicts;
drop table package_languages, edge_workers, lease_settings;
