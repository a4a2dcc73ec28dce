-- What deserves a person's attention, and who is told of it.

-- +goose Up

-- One row an alarm, from its start to its end and after. The rules are
-- internal/alarm's; only the leader writes.
create table alarms (
  id          bigint      generated always as identity primary key,
  kind        text        not null,
  subject     text        not null default '', -- what of the kind, e.g. a lane
  severity    text        not null check (severity in ('page', 'ticket', 'info')),
  summary     text        not null,
  evidence    jsonb       not null default '{}',
  occurrences bigint      not null default 0,  -- of what happens now and then
  since       timestamptz not null,            -- when what it tells of began
  started_at  timestamptz not null default now(),
  changed_at  timestamptz not null default now(),
  ended_at    timestamptz
);
-- Two arbiters that both believe to lead cannot start the same alarm twice.
create unique index alarms_open on alarms (kind, subject) where ended_at is null;

create table webhooks (
  id         bigint      generated always as identity primary key,
  name       text        not null unique,
  url        text        not null,
  secret     text        not null, -- signs what is sent; not for reports
  kinds      text[]      not null default '{}', -- of alarms; empty is all
  created_by bigint      references tokens (id),
  created_at timestamptz not null default now()
);

-- One row a message and endpoint. An attempt is begun by one conditional
-- update, which counts it, so that no two arbiters make the same one.
create table webhook_deliveries (
  id          bigint      generated always as identity primary key,
  webhook_id  bigint      not null references webhooks (id) on delete cascade,
  message_id  text        not null, -- the same at every attempt and endpoint
  event       text        not null, -- e.g. alarm.started
  alarm_id    bigint      references alarms (id) on delete set null,
  payload     text        not null, -- the body as it is sent and signed
  state       text        not null default 'waiting' check (state in ('waiting', 'delivered', 'failed')),
  attempts    int         not null default 0,
  next_at     timestamptz not null default now(), -- of the next attempt; during one: when it counts as lost
  created_at  timestamptz not null default now(),
  finished_at timestamptz,
  check ((state = 'waiting') = (finished_at is null))
);
create index webhook_deliveries_due on webhook_deliveries (next_at) where state = 'waiting';
create index webhook_deliveries_by_webhook on webhook_deliveries (webhook_id, id desc);

create table webhook_attempts (
  delivery_id bigint      not null references webhook_deliveries (id) on delete cascade,
  attempt     int         not null,
  term        bigint      not null, -- of the leader that made it
  started_at  timestamptz not null default now(),
  ended_at    timestamptz, -- null: under way, or lost with its arbiter
  status      int         not null default 0, -- of the answer; 0 is none
  error       text        not null default '',
  primary key (delivery_id, attempt)
);

-- +goose StatementBegin
do $$
begin
  if exists (select from pg_roles where rolname = 'gavel_read') then
    execute 'grant select on alarms, webhook_attempts to gavel_read';
    execute 'grant select (id, name, kinds, created_by, created_at) on webhooks to gavel_read';
    execute 'grant select (id, webhook_id, message_id, event, alarm_id, state, attempts, next_at, created_at, finished_at) on webhook_deliveries to gavel_read';
  end if;
end
$$;
-- +goose StatementEnd

-- +goose Down
drop table webhook_attempts, webhook_deliveries, webhooks, alarms;
