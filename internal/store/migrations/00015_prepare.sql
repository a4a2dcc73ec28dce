-- Preparing a package: workers build and verify it before it is published.

-- +goose Up

-- One import each. The newest of a problem decides; an older one that is still
-- at work then is superseded. No reference to problems: a problem begins to be
-- there when its first version is published.
create table preparations (
  id             bigint      generated always as identity primary key,
  problem        text        not null, -- name
  title          text        not null,
  package_digest text        not null references packages (digest),
  verify         text        not null check (verify in ('all', 'data', 'none')),
  state          text        not null check (state in ('preparing', 'published', 'failed', 'superseded')),
  message        text        not null default '', -- why it was not published
  fault          jsonb,                           -- when the system failed, and not the package
  version        int,                             -- of the problem, as which it was published
  created_by     bigint      references tokens (id),
  created_at     timestamptz not null default now(),
  finished_at    timestamptz,
  check ((state = 'preparing') = (finished_at is null)),
  check ((state = 'published') = (version is not null))
);
create unique index preparations_at_work on preparations (problem) where state = 'preparing';
create index preparations_by_problem on preparations (problem, id desc);

-- A step is a job of kind "prepare" whose work_id is the id here, small enough
-- that a submission can wait for it.
create table preparation_steps (
  id             bigint      generated always as identity primary key,
  preparation_id bigint      not null references preparations (id) on delete cascade,
  n              int         not null, -- its place in the report
  kind           text        not null check (kind in ('checker', 'validator', 'submission')),
  path           text        not null default '', -- of the program, in the package
  language       text        not null default '', -- '' needs none
  expected       text        not null default '', -- of a submission: verdicts that were declared, with spaces
  limits         jsonb,                           -- of a submission's runs
  state          text        not null default 'waiting' check (state in ('waiting', 'open', 'done', 'system_error', 'skipped')),
  failed         boolean     not null default false, -- the package's fault
  findings       jsonb       not null default '[]',
  fault          jsonb,
  lease_gen      bigint,     -- the generation whose report was recorded
  worker_id      bigint      references workers (id),
  finished_at    timestamptz,
  unique (preparation_id, n)
);

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on preparations, preparation_steps to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
delete from attempts where kind = 'prepare';
delete from jobs where kind = 'prepare';
drop table preparation_steps, preparations;
