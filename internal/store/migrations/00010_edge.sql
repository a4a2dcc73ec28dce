-- Edge pull: workers straight on the database, and submitting from a site's own
-- transaction. Both are interfaces of functions, which are in ../functions, so that
-- who uses them needs no right to any table (docs/adr/0009-edge-workers-call-functions.md).

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
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on submission_verdicts, package_languages, lease_settings, edge_workers to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop view submission_verdicts;
drop table package_languages, edge_workers, lease_settings;
