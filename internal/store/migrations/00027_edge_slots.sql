-- +goose Up

-- How many jobs one edge worker may hold at once, whatever slots it claims to have.
alter table lease_settings add column if not exists edge_slots int not null default 64 check (edge_slots between 1 and 1024);

-- What edge workers said of themselves before it was looked at; they say it again
-- with their next claim.
update workers w set capabilities = '{}' from edge_workers e where e.worker_id = w.id;

-- +goose Down
alter table lease_settings drop column edge_slots;
