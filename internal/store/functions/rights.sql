-- Who may call the edge functions, and whose rights they have. Those with rights of
-- their own (security definer) are what an edge worker calls; the others are parts
-- of them, which nobody calls.
do $$
declare
  v_schema text := current_schema();
  v_owner  text := (select rolname from pg_roles where rolname = 'gavel_arbiter');
  f        record;
begin
  if v_owner is not null then -- what they may do is what an arbiter may do, whoever migrates
    execute format('grant create on schema %I to gavel_arbiter', v_schema);
  end if;
  for f in select p.oid::regprocedure as name, p.prosecdef as entry
             from pg_proc p join pg_namespace n on n.oid = p.pronamespace where n.nspname = v_schema and p.proname like 'edge\_%' loop
    execute format('revoke all on function %s from public', f.name);
    if f.entry then
      execute format('alter function %s set search_path = %I, pg_temp', f.name, v_schema);
    end if;
    if v_owner is not null then
      execute format('alter function %s owner to gavel_arbiter', f.name);
    end if;
  end loop;
  if v_owner is not null then
    execute format('revoke create on schema %I from gavel_arbiter', v_schema);
  end if;
  if exists (select from pg_roles where rolname = 'gavel_edge') then
    execute format('grant usage on schema %I to gavel_edge', v_schema);
    grant execute on function edge_hello(jsonb), edge_claim(jsonb), edge_heartbeat(jsonb), edge_result(jsonb), edge_release(jsonb), edge_reclaim(jsonb) to gavel_edge;
  end if;
end
$$;
