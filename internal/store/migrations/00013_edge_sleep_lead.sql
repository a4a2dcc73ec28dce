-- Edge pull: how long before planned hours nothing is begun any more.

-- +goose Up
alter table lease_settings add column if not exists sleep_lead interval not null default '5 minutes';

-- +goose Down
alter table lease_settings drop column sleep_lead;
