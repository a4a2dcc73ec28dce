-- What operators do beside judging: brakes on what waits, and who did what, when and why.

-- +goose Up
create table brakes (
  kind       text        not null check (kind in ('lane', 'language', 'problem')),
  name       text        not null, -- a lane, a language id or a problem's name
  problem_id bigint      references problems (id),
  reason     text        not null check (reason <> ''),
  created_by bigint      references tokens (id),
  created_at timestamptz not null default now(),
  primary key (kind, name),
  check ((kind = 'problem') = (problem_id is not null))
);

create table audit (
  id       bigint      generated always as identity primary key,
  at       timestamptz not null default now(),
  token_id bigint      references tokens (id),
  action   text        not null, -- e.g. worker.drain
  subject  text        not null, -- what it was done to, e.g. a worker's name
  reason   text        not null default '',
  details  jsonb       not null default '{}'
);

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on brakes, audit to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop table brakes, audit;
