-- The facts. Wide tables are written once or twice in a row's life; everything
-- that changes with a lease lives in the narrow table "jobs", which holds open
-- work only (docs/adr/0002-open-work-in-a-narrow-table.md).

-- +goose Up

-- One row a shard: who leads, in which term, until when by this database's
-- clock. Every granting and reclaiming write carries the term it believes in (I8).
create table leadership (
  shard      int         primary key,
  term       bigint      not null,
  holder     text        not null,
  expires_at timestamptz not null
);
insert into leadership (shard, term, holder, expires_at) values (0, 0, '', now());

create table workers (
  id           bigint      generated always as identity primary key,
  name         text        not null unique,
  pool         text        not null default 'default',
  disabled     boolean     not null default false,
  session      uuid,
  slots        int         not null default 0,
  capabilities jsonb       not null default '{}',
  enrolled_at  timestamptz not null default now(),
  last_seen_at timestamptz
);

-- Secrets are stored as SHA-256 of the token and shown once.
create table tokens (
  id         bigint      generated always as identity primary key,
  kind       text        not null check (kind in ('admin', 'site', 'worker', 'invitation')),
  hash       bytea       not null unique check (length(hash) = 32),
  note       text        not null default '',
  worker_id  bigint      references workers (id),
  pool       text        not null default 'default',
  created_at timestamptz not null default now(),
  expires_at timestamptz,
  used_at    timestamptz,
  revoked_at timestamptz,
  check ((kind = 'worker') = (worker_id is not null))
);

-- A package is immutable; its digest covers every byte of it.
create table packages (
  digest     text        primary key check (digest ~ '^sha256:[0-9a-f]{64}$'),
  manifest   jsonb       not null,
  size_bytes bigint      not null,
  created_at timestamptz not null default now()
);

create table problems (
  id             bigint      generated always as identity primary key,
  name           text        not null unique,
  title          text        not null,
  version        int         not null,
  package_digest text        not null references packages (digest),
  published_at   timestamptz not null default now()
);

create table problem_versions (
  problem_id     bigint      not null references problems (id),
  version        int         not null,
  package_digest text        not null references packages (digest),
  published_at   timestamptz not null default now(),
  published_by   bigint      references tokens (id),
  primary key (problem_id, version)
);

create table submissions (
  id                 bigint      generated always as identity primary key,
  problem_id         bigint      not null references problems (id),
  language           text        not null,
  submitter          text        not null default '',
  source_name        text        not null default '',
  source_bytes       bigint      not null,
  stop_rule          text        not null default 'first' check (stop_rule in ('first', 'all')),
  current_judging_id bigint,     -- exactly one judging is current (I3)
  created_by         bigint      references tokens (id),
  created_at         timestamptz not null default now()
) with (fillfactor = 85);
create index submissions_by_problem on submissions (problem_id, id desc);
create index submissions_by_submitter on submissions (submitter, id desc);

-- Immutable and apart, so that no status change ever copies a source.
create table submission_sources (
  submission_id bigint primary key references submissions (id),
  source        bytea  not null
);

create table judgings (
  id             bigint      generated always as identity primary key,
  submission_id  bigint      not null references submissions (id),
  kind           text        not null check (kind in ('judge', 'rejudge')),
  package_digest text        not null references packages (digest),
  limits         jsonb       not null,
  state          text        not null default 'open' check (state in ('open', 'done', 'system_error', 'cancelled')),
  verdict        text        check (verdict in ('AC', 'WA', 'TLE', 'MLE', 'OLE', 'RE', 'CE')),
  cpu_us         bigint      not null default 0,
  wall_us        bigint      not null default 0,
  memory_bytes   bigint      not null default 0,
  compile        jsonb,
  tests          jsonb,      -- packed, one value a judging; the view judging_tests unrolls it
  fault          jsonb,
  provenance     jsonb,
  lease_gen      bigint,     -- the generation whose report was recorded
  worker_id      bigint      references workers (id),
  created_at     timestamptz not null default now(),
  finished_at    timestamptz,
  check ((state = 'done') = (verdict is not null)),
  check ((state = 'open') = (finished_at is null))
) with (fillfactor = 85);
create index judgings_by_submission on judgings (submission_id);
alter table submissions add foreign key (current_judging_id) references judgings (id) deferrable initially deferred;

create view judging_tests as
select g.id as judging_id, g.submission_id, t.position::int as position,
       t.item ->> 'name' as name, coalesce((t.item ->> 'sample')::boolean, false) as sample,
       t.item ->> 'verdict' as verdict, coalesce(t.item ->> 'reason', '') as reason,
       (t.item ->> 'cpu_us')::bigint as cpu_us, (t.item ->> 'wall_us')::bigint as wall_us,
       (t.item ->> 'memory_bytes')::bigint as memory_bytes,
       (t.item ->> 'output_bytes')::bigint as output_bytes,
       (t.item ->> 'exit_code')::int as exit_code, coalesce((t.item ->> 'signal')::int, 0) as signal
  from judgings g
 cross join lateral jsonb_array_elements(g.tests) with ordinality as t (item, position)
 where g.tests is not null;

-- Open work only: a job leaves this table in the transaction that makes its
-- judging final. No index but the primary key: order and expiry are kept in
-- the leader's memory, a scan reads a tiny table, and updates stay HOT.
create table jobs (
  id               bigint      generated always as identity primary key,
  judging_id       bigint      not null references judgings (id),
  submission_id    bigint      not null,
  kind             text        not null check (kind in ('judge', 'rejudge')),
  lane             text        not null check (lane in ('run', 'judge', 'prepare', 'rejudge')),
  language         text        not null,
  submitter        text        not null default '',
  state            text        not null default 'pending' check (state in ('pending', 'leased')),
  attempts         int         not null default 0,
  lease_gen        bigint      not null default 0, -- only ever grows
  lease_token      uuid,
  lease_expires_at timestamptz,
  confirmed        boolean     not null default false, -- the worker has shown that it got the grant
  worker_id        bigint,
  session          uuid,
  request_id       uuid,
  created_at       timestamptz not null default now(),
  check ((state = 'leased') = (lease_token is not null)),
  check ((state = 'leased') = (lease_expires_at is not null))
) with (fillfactor = 50, autovacuum_vacuum_scale_factor = 0, autovacuum_vacuum_threshold = 2000,
        autovacuum_vacuum_cost_delay = 0, autovacuum_analyze_scale_factor = 0, autovacuum_analyze_threshold = 2000);

-- One row a grant, kept for ever. The unique token makes a report idempotent.
create table attempts (
  job_id        bigint      not null,
  lease_gen     bigint      not null,
  lease_token   uuid        not null unique,
  judging_id    bigint      not null references judgings (id),
  submission_id bigint      not null,
  worker_id     bigint      not null references workers (id),
  session       uuid        not null,
  request_id    uuid        not null,
  term          bigint      not null,
  granted_at    timestamptz not null default now(),
  ended_at      timestamptz,
  outcome       text        not null default 'running' check (outcome in
                  ('running', 'completed', 'failed', 'expired', 'undelivered', 'released', 'cancelled')),
  blame         text        not null default '',
  message       text        not null default '',
  late_report   jsonb,      -- a report that came after the lease was dead: evidence, never applied
  late_at       timestamptz,
  primary key (job_id, lease_gen),
  check ((outcome = 'running') = (ended_at is null))
);
create index attempts_by_submission on attempts (submission_id);

create table idempotency_keys (
  token_id      bigint      not null references tokens (id),
  key           text        not null,
  body_hash     bytea       not null,
  submission_id bigint      not null references submissions (id),
  created_at    timestamptz not null default now(),
  primary key (token_id, key)
);
create index idempotency_keys_by_age on idempotency_keys (created_at);

-- +goose Down
drop table idempotency_keys, attempts, jobs cascade;
drop view judging_tests;
alter table submissions drop column current_judging_id;
drop table judgings, submission_sources, submissions, problem_versions, problems, packages, tokens, workers, leadership;
