-- Two roles that nobody logs in as. gavel_arbiter is what the arbiter becomes
-- with SET ROLE: it may change rows, never the schema. gavel_read is for
-- reports: everything but sources and token hashes. A migrating user who may not
-- create roles finds them made by somebody who may, and is a member of
-- gavel_arbiter already (roles.go).

-- +goose Up
-- +goose StatementBegin
do $$
begin
  if not exists (select from pg_roles where rolname = 'gavel_arbiter') then
    create role gavel_arbiter nologin;
  end if;
  if not exists (select from pg_roles where rolname = 'gavel_read') then
    create role gavel_read nologin;
  end if;
exception
  when insufficient_privilege then
    raise warning 'roles gavel_arbiter and gavel_read were not created: the migrating user lacks CREATEROLE';
  when unique_violation or duplicate_object then
    null; -- another database of the same cluster is being migrated
end
$$;
-- +goose StatementEnd

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_arbiter') then
    begin
      execute format('grant gavel_arbiter to %I', current_user);
    exception
      when insufficient_privilege then
        if not pg_has_role(current_user, 'gavel_arbiter', 'member') then
          raise;
        end if;
    end;
    execute format('grant usage on schema %I to gavel_arbiter', current_schema());
    execute format('grant select, insert, update, delete on all tables in schema %I to gavel_arbiter', current_schema());
    execute format('grant usage on all sequences in schema %I to gavel_arbiter', current_schema());
    execute format('alter default privileges in schema %I grant select, insert, update, delete on tables to gavel_arbiter', current_schema());
    execute format('alter default privileges in schema %I grant usage on sequences to gavel_arbiter', current_schema());
  end if;
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute format('grant usage on schema %I to gavel_read', current_schema());
    execute 'grant select on leadership, workers, packages, problems, problem_versions, submissions, judgings, judging_tests, jobs, attempts to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_arbiter') then
    execute format('alter default privileges in schema %I revoke select, insert, update, delete on tables from gavel_arbiter', current_schema());
    execute format('alter default privileges in schema %I revoke usage on sequences from gavel_arbiter', current_schema());
    execute format('revoke all on all tables in schema %I from gavel_arbiter', current_schema());
    execute format('revoke all on all sequences in schema %I from gavel_arbiter', current_schema());
    execute format('revoke usage on schema %I from gavel_arbiter', current_schema());
  end if;
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute format('revoke all on all tables in schema %I from gavel_read', current_schema());
    execute format('revoke usage on schema %I from gavel_read', current_schema());
  end if;
end
$$;
-- +goose StatementEnd
