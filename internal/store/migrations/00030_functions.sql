-- +goose Up

-- Which ../functions the database has: they are made anew when the program that
-- migrates has others, and need no migration when they change.
create table schema_functions (
  one          boolean     primary key default true check (one),
  digest       text        not null,
  installed_at timestamptz not null default now()
);

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
drop table schema_functions;
