-- What dispatch looks at, in the narrow row itself, so that a leader that
-- begins reads one small table; kinds of work beside judging; pools and what an
-- operator says of a worker.

-- +goose Up
create table pools (
  name       text        primary key,
  rank       int         not null default 100, -- a lower one is preferred
  note       text        not null default '',
  created_at timestamptz not null default now()
);

alter table workers
  add column tags       text[]      not null default '{}',
  add column lanes      text[]      not null default '{}', -- the only ones it takes; empty is all
  add column away       text        not null default '' check (away in ('', 'draining', 'paused')),
  add column away_note  text        not null default '',
  add column away_until timestamptz,
  add column away_at    timestamptz;

-- Work that is no judging has neither judging nor submission, but an id in the
-- table of its kind.
alter table jobs
  drop constraint jobs_kind_check,
  drop constraint jobs_lane_check,
  alter column judging_id drop not null,
  alter column submission_id drop not null,
  add column work_id          bigint,
  add column priority         smallint not null default 1, -- lower goes first: -1 bumped, 0 contest, 1 practice
  add column problem_id       bigint,
  add column package_digest   text,
  add column features         text[],
  add column tags             text[],
  add column memory_bytes     bigint   not null default 0, -- its limit; 0 is unknown
  add column cpu_us           bigint   not null default 0, -- its limit; 0 is unknown
  add column batch_id         bigint,                      -- the rejudge it belongs to
  add column batch_budget     int      not null default 0, -- of its slots; 0 is the default share
  add column target_worker_id bigint,                      -- the only worker that may take it
  add constraint jobs_kind_check check (kind in ('judge', 'rejudge', 'run', 'prepare', 'probe')),
  add constraint jobs_lane_check check (lane in ('probe', 'run', 'judge', 'prepare', 'rejudge')),
  add constraint jobs_subject_check check (
    case when kind in ('judge', 'rejudge') then judging_id is not null and submission_id is not null and work_id is null
         else judging_id is null and submission_id is null and work_id is not null end);
update jobs j
   set problem_id = s.problem_id, package_digest = g.package_digest, batch_id = g.rejudge_id,
       memory_bytes = coalesce((g.limits ->> 'memory_bytes')::bigint, 0), cpu_us = coalesce((g.limits ->> 'cpu_us')::bigint, 0)
  from judgings g join submissions s on s.id = g.submission_id
 where g.id = j.judging_id;

alter table attempts
  alter column judging_id drop not null,
  alter column submission_id drop not null,
  add column kind    text not null default 'judge',
  add column work_id bigint;

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on pools to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
delete from attempts where judging_id is null;
alter table attempts drop column kind, drop column work_id, alter column judging_id set not null, alter column submission_id set not null;
delete from jobs where judging_id is null;
alter table jobs
  drop constraint jobs_kind_check, drop constraint jobs_lane_check, drop constraint jobs_subject_check,
  drop column work_id, drop column priority, drop column problem_id, drop column package_digest, drop column features,
  drop column tags, drop column memory_bytes, drop column cpu_us, drop column batch_id, drop column batch_budget,
  drop column target_worker_id,
  alter column judging_id set not null, alter column submission_id set not null,
  add constraint jobs_kind_check check (kind in ('judge', 'rejudge')),
  add constraint jobs_lane_check check (lane in ('run', 'judge', 'prepare', 'rejudge'));
alter table workers drop column tags, drop column lanes, drop column away, drop column away_note, drop column away_until, drop column away_at;
drop table pools;
