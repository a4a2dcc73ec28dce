-- +goose Up

-- The pool that the worker's own settings asked for when it was last moved. A worker
-- in another one was put there by an operator, whose word counts.
alter table edge_workers add column if not exists asked_pool text;
update edge_workers e set asked_pool = w.pool from workers w where w.id = e.worker_id and e.asked_pool is null;

-- +goose Down
alter table edge_workers drop column asked_pool;
