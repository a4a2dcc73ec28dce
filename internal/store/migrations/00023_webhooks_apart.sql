-- An endpoint that does not answer keeps no other one waiting: what is due is
-- looked for endpoint by endpoint.

-- +goose Up
create index webhook_deliveries_due_each on webhook_deliveries (webhook_id, next_at, id) where state = 'waiting';
drop index webhook_deliveries_due;

-- +goose Down
create index webhook_deliveries_due on webhook_deliveries (next_at) where state = 'waiting';
drop index webhook_deliveries_due_each;
