-- Edge pull: a removed worker stays removed, and a pool changes only with the worker
-- that is accepted, and not against an operator.

-- +goose Up

-- The pool that the worker's own settings asked for when it was last moved. A worker
-- in another one was put there by an operator, whose word counts.
alter table edge_workers add column if not exists asked_pool text;
update edge_workers e set asked_pool = w.pool from workers w where w.id = e.worker_id and e.asked_pool is null;

-- As in 00010, but: the name of a removed worker is refused to its login; the pool
-- changes only when no other live process has the name, and when no operator has
-- chosen another.
-- {name, pool, rank, session, previous_session} → {worker_id, pool, kept, rank, …settings}
-- +goose StatementBegin
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
-- +goose StatementEnd

-- +goose StatementBegin
do $$
begin
  execute format('alter function %1$I.edge_hello(jsonb) set search_path = %1$I, pg_temp', current_schema());
end
$$;
-- +goose StatementEnd

-- +goose Down
-- The function stays as it is here, with the column that it reads.
select 1;
