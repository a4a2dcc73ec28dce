-- Health from outcomes: what is known of each worker, the known-answer probes
-- and their results, the history of its speed, and planned hours.

-- +goose Up

-- One row a worker. The state is internal/health's own; the columns beside it
-- are for people and reports.
create table worker_health (
  worker_id    bigint      primary key references workers (id),
  state        jsonb       not null,
  set_aside_at timestamptz,
  reason       text        not null default '',
  languages    jsonb       not null default '{}', -- set aside, with the reason
  speed_factor float8      not null default 1,
  updated_at   timestamptz not null default now()
);

-- What has happened to whose health, for people; never read to decide.
create table health_changes (
  id        bigint      generated always as identity primary key,
  worker_id bigint      not null references workers (id),
  language  text        not null default '', -- '' is the whole worker
  what      text        not null,
  reason    text        not null default '',
  evidence  jsonb       not null default '[]',
  at        timestamptz not null default now()
);
create index health_changes_by_worker on health_changes (worker_id, id desc);

-- A probe is a job of kind "probe" whose work_id is the id here. It is never a
-- submission and counts in no account.
create table probes (
  id             bigint      generated always as identity primary key,
  worker_id      bigint      not null references workers (id),
  job_id         bigint,
  language       text        not null,
  program        text        not null check (program in ('AC', 'WA', 'TLE', 'CE')), -- the verdict that is expected
  purpose        text        not null check (purpose in ('join', 'return', 'speed', 'doubt')),
  source         bytea       not null,
  package_digest text        not null references packages (digest),
  limits         jsonb       not null,
  created_at     timestamptz not null default now(),
  finished_at    timestamptz,
  outcome        text        check (outcome in ('passed', 'failed', 'lost', 'dropped')),
  verdict        text        not null default '',
  message        text        not null default '',
  cpu_us         bigint      not null default 0,
  wall_us        bigint      not null default 0,
  took_us        bigint      not null default 0, -- from the grant to the answer
  check ((outcome is null) = (finished_at is null))
);
create index probes_by_worker on probes (worker_id, id desc);

create table worker_speeds (
  worker_id bigint      not null references workers (id),
  at        timestamptz not null,
  language  text        not null,
  cpu_us    bigint      not null, -- of the AC probe
  factor    float8      not null, -- 1 is the fleet's median
  primary key (worker_id, at)
);

-- Planned absence of a worker, or of every worker of a pool.
create table planned_hours (
  worker_id  bigint      references workers (id),
  pool       text,
  hours      text        not null,
  zone       text        not null,
  changed_by bigint      references tokens (id),
  changed_at timestamptz not null default now(),
  check ((worker_id is null) <> (pool is null)),
  unique (worker_id),
  unique (pool)
);

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on worker_health, health_changes, worker_speeds, planned_hours to gavel_read';
    execute 'grant select (id, worker_id, job_id, language, program, purpose, package_digest, limits, created_at, finished_at, outcome, verdict, message, cpu_us, wall_us, took_us) on probes to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
delete from attempts where kind = 'probe';
delete from jobs where kind = 'probe';
drop table planned_hours, worker_speeds, probes, health_changes, worker_health;
