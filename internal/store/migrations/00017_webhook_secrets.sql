-- A secret that was replaced goes on signing beside the new one for a while, so
-- that an endpoint can change over without losing a message.

-- +goose Up
create table webhook_old_secrets (
  webhook_id bigint      not null references webhooks (id) on delete cascade,
  secret     text        not null, -- not for reports
  until      timestamptz not null
);
create index webhook_old_secrets_by_webhook on webhook_old_secrets (webhook_id);

-- +goose Down
drop table webhook_old_secrets;
