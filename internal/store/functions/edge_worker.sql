-- Edge pull: who a worker is, and who could take work at present.

-- Refuses a login that could not call any more: neither a member of gavel_edge nor
-- let in by itself. A session that took the role while it was a member keeps the
-- role's rights until it ends, whatever is revoked.
create or replace function edge_login() returns void language plpgsql stable as $$
begin
  if exists (select from pg_roles where rolname = 'gavel_edge') and not pg_has_role(session_user, 'gavel_edge', 'member')
     and not has_function_privilege(session_user, 'edge_hello(jsonb)', 'execute') then
    raise exception using errcode = 'GV403', message = format('the login %s is no member of gavel_edge any more', session_user),
      hint = format('a superuser may let it in again: grant gavel_edge to %I', session_user);
  end if;
end
$$;

-- Who calls: the worker of the request, if this login may work as it. Refuses a
-- session whose transactions could stay open: it could keep what it claimed
-- from everybody (a stopped client, the five nights).
create or replace function edge_me(request jsonb) returns bigint language plpgsql stable as $$
declare
  v_idle interval := current_setting('idle_in_transaction_session_timeout')::interval;
  v_ask  jsonb := edge_fit(request, edge_shape('lease'), 'request');
  v_id   bigint;
begin
  perform edge_login();
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

-- Enrols or greets.
-- {name, pool, rank, session, previous_session} → {worker_id, pool, kept, rank, …settings}
-- The rank asked for is that of a pool nobody has named yet. The name of a removed
-- worker is refused to its login; the pool changes only when no other live process
-- has the name, and when no operator has chosen another.
create or replace function edge_hello(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_ask   jsonb := edge_fit(request, '{"name": "text 256", "pool": "text 256", "rank": "int", "session": "uuid", "previous_session": "uuid"}', 'request');
  v_name  text := v_ask ->> 'name';
  v_pool  text := coalesce(nullif(v_ask ->> 'pool', ''), 'default');
  v_rank  bigint := coalesce((v_ask ->> 'rank')::bigint, 100);
  v_w     workers%rowtype;
  v_e     edge_workers%rowtype;
  v_gone  bigint;
  v_kept  boolean;
begin
  perform edge_login();
  if v_name is null or v_name !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' or v_pool !~ '^[A-Za-z0-9][A-Za-z0-9._-]{0,63}$' then
    raise exception using errcode = 'GV422', message = 'names of workers and pools have letters, digits, dot, dash and underscore, at most 64';
  elsif v_rank not between -1000000 and 1000000 then
    raise exception using errcode = 'GV422', message = 'a rank lies between -1000000 and 1000000';
  end if;
  select w.* into v_w from workers w where w.name = v_name;
  if not found then
    select w.id into v_gone from workers w join edge_workers e on e.worker_id = w.id
     where w.disabled and e.login = session_user and w.name = v_name || '~' || w.id order by w.id desc limit 1;
    if found then
      raise exception using errcode = 'GV403', message = format('an operator has removed worker %s', v_name),
        hint = format('to let it come back, an administrator runs on the database: delete from edge_workers where worker_id = %s', v_gone);
    end if;
    if (select count(*) from edge_workers e where e.login = session_user) >= 64 then
      raise exception using errcode = 'GV429', message = 'this login has 64 workers already';
    end if;
    insert into workers (name, pool) values (v_name, v_pool) on conflict (name) do nothing returning * into v_w;
    if found then
      insert into edge_workers (worker_id, login, asked_pool) values (v_w.id, session_user, v_pool);
    else -- two of the same name at the same instant: the other one has made it
      select w.* into v_w from workers w where w.name = v_name;
    end if;
  end if;
  select e.* into v_e from edge_workers e where e.worker_id = v_w.id;
  if v_e.login is distinct from session_user then
    raise exception using errcode = 'GV409', message = case when v_e.login is null
        then 'a worker of this name is enrolled with the arbiter' else 'a worker of this name belongs to another database login' end,
      hint = 'choose another name, or let the administrator give it to this login (table edge_workers)';
  end if;
  v_kept := v_w.pool <> v_pool and v_w.pool <> coalesce(v_e.asked_pool, v_w.pool);
  if v_w.pool <> v_pool and not v_kept
     -- Another live process has the name: the claims of this one will be refused.
     and not (v_w.session is not null and coalesce(v_w.last_seen_at > now() - interval '15 seconds', false)
              and v_w.session is distinct from (v_ask ->> 'session')::uuid and v_w.session is distinct from (v_ask ->> 'previous_session')::uuid) then
    update workers set pool = v_pool where id = v_w.id returning * into v_w;
    update edge_workers set asked_pool = v_pool where worker_id = v_w.id;
  end if;
  if v_w.pool = v_pool then -- a rank that is there is the operator's
    insert into pools (name, rank) values (v_pool, v_rank) on conflict (name) do nothing;
  end if;
  return (select jsonb_build_object('worker_id', v_w.id, 'pool', v_w.pool, 'kept', v_kept,
            'rank', coalesce((select p.rank from pools p where p.name = v_w.pool), 100),
            'ttl_ms', (extract(epoch from s.ttl) * 1000)::bigint, 'heartbeat_ms', (extract(epoch from s.heartbeat) * 1000)::bigint,
            'confirm_ms', (extract(epoch from s.confirm) * 1000)::bigint, 'attempt_cap', s.attempt_cap)
            from lease_settings s);
end
$$;

-- Whether planned hours keep a worker from beginning anything: its own plan, or
-- its pool's. The text is what internal/hours writes. Near a change of the clock
-- it may be wrong by as much as the clock is moved; a zone that this PostgreSQL
-- does not know keeps nobody from anything.
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

-- Whether a worker gets nothing at present, whatever there is: disabled, away,
-- unhealthy, set aside, asleep. What health says of it counts on the way that it
-- was last seen on.
create or replace function edge_out(p_worker bigint) returns boolean language sql stable as $$
select w.disabled or w.away <> '' and coalesce(w.away_until > now(), true)
    or case when w.session = e.session
         then e.failed_rounds >= 3 or coalesce(e.aside_until > now(), false)
         else exists (select from worker_health h where h.worker_id = w.id and h.set_aside_at is not null) end
    or edge_asleep(w.id, w.pool)
  from workers w left join edge_workers e on e.worker_id = w.id
 where w.id = p_worker
$$;

-- The languages that a worker gets work in: those that it offers, without those
-- that an arbiter has set aside on its way.
create or replace function edge_languages(p_worker bigint) returns jsonb language sql stable as $$
select jsonb_path_query_array(w.capabilities, '$.languages[*].id')
       - case when w.session = e.session then '{}' else coalesce((select array(select jsonb_object_keys(h.languages)) from worker_health h where h.worker_id = w.id), '{}') end
  from workers w left join edge_workers e on e.worker_id = w.id
 where w.id = p_worker
$$;

-- The worker's preferred colleagues that could take work at once: what each can
-- do. A colleague counts when it is preferred, enabled, healthy, has a free slot,
-- and was seen doing what taking work consists of: a round that could look into
-- every lane, or a claim waiting at an arbiter. A heartbeat alone shows nothing
-- (the seventeenth of September).
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
