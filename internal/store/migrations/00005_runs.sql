-- Runs: a program on inputs of its author's choosing, without a problem. They
-- are no submissions, count for nobody, and are gone after their time.

-- +goose Up
create table runs (
  id            bigint      generated always as identity primary key,
  language      text        not null,
  submitter     text        not null default '',
  source_name   text        not null default '',
  source        bytea       not null,
  file_names    text[],     -- further files, as in submission_sources
  file_contents bytea[],
  inputs        bytea[]     not null check (cardinality(inputs) >= 1),
  limits        jsonb       not null,
  state         text        not null default 'open' check (state in ('open', 'done', 'system_error', 'cancelled')),
  compile       jsonb,
  compiled      boolean,    -- null until it is done
  results       jsonb,      -- one element an input, without the bytes
  outputs       bytea[],    -- standard output of each, as far as it was kept
  errors        bytea[],    -- standard error of each
  fault         jsonb,
  provenance    jsonb,
  lease_gen     bigint,     -- the generation whose report was recorded
  worker_id     bigint      references workers (id),
  created_by    bigint      references tokens (id),
  keep          interval    not null, -- how long the result is kept
  created_at    timestamptz not null default now(),
  finished_at   timestamptz,
  expires_at    timestamptz,
  check (case when file_names is null then file_contents is null
         else cardinality(file_contents) = cardinality(file_names) end),
  check ((state = 'done') = (compiled is not null)),
  check ((state = 'done') = (results is not null)),
  check ((state = 'open') = (finished_at is null)),
  check ((state = 'open') = (expires_at is null))
);
create index runs_by_expiry on runs (expires_at) where expires_at is not null;

-- One open job each; updates of jobs never touch these columns and stay HOT.
create unique index jobs_by_work on jobs (work_id, kind) where work_id is not null;
-- How much a user has waiting. A site without users has none to count.
create index jobs_by_submitter on jobs (submitter) where submitter <> '';
create index attempts_by_work on attempts (work_id, kind) where work_id is not null;

-- +goose Down
delete from attempts where kind = 'run';
delete from jobs where kind = 'run';
drop index attempts_by_work;
drop index jobs_by_submitter;
drop index jobs_by_work;
drop table runs;
