-- Rejudging: new judgings beside the old ones, applied when they are wanted.
-- Accounting: what a participant has solved is a view of the current judgings,
-- so repeating, reordering or rejudging anything cannot make it wrong (I5).

-- +goose Up
create table rejudges (
  id          bigint      generated always as identity primary key,
  reason      text        not null,
  filter      jsonb       not null,
  auto_apply  boolean     not null,
  -- running: judgings are open; ready: all final, waiting to be applied or
  -- discarded; applied also when only a part was.
  state       text        not null default 'running' check (state in ('running', 'ready', 'applied', 'discarded', 'cancelled')),
  total       int         not null default 0,
  skipped     jsonb       not null default '[]',
  created_by  bigint      references tokens (id),
  created_at  timestamptz not null default now(),
  finished_at timestamptz, -- the last judging became final, or it was cancelled
  decided_at  timestamptz  -- applied or discarded
);

alter table judgings
  add column rejudge_id          bigint  references rejudges (id),
  add column previous_judging_id bigint  references judgings (id), -- current when this one was made
  add column auto_apply          boolean not null default false;
create index judgings_by_rejudge on judgings (rejudge_id) where rejudge_id is not null;

-- One open job a submission: a rejudge supersedes what is open. The index also
-- serves every read of a submission; updates stay HOT, since they never touch
-- the column.
create unique index jobs_by_submission on jobs (submission_id);

alter table problems add column points int not null default 1 check (points >= 0);

-- First solve of each user and problem: the earliest submission whose current
-- judging is AC.
create view solves as
select distinct on (s.submitter, s.problem_id)
       s.submitter, s.problem_id, p.name as problem, p.points, s.id as submission_id, s.created_at as solved_at
  from submissions s
  join judgings g on g.id = s.current_judging_id
  join problems p on p.id = s.problem_id
 where g.verdict = 'AC' and s.submitter <> ''
 order by s.submitter, s.problem_id, s.id;

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on rejudges, solves to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop view solves;
alter table problems drop column points;
drop index jobs_by_submission;
alter table judgings drop column rejudge_id, drop column previous_judging_id, drop column auto_apply;
drop table rejudges;
