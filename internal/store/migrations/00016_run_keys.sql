-- An idempotency key can be of a run. It goes with the run.

-- +goose Up
alter table idempotency_keys
  alter column submission_id drop not null,
  add column run_id bigint references runs (id) on delete cascade,
  add constraint idempotency_keys_one check (num_nonnulls(submission_id, run_id) = 1);
create index idempotency_keys_by_run on idempotency_keys (run_id) where run_id is not null;

-- +goose Down
delete from idempotency_keys where run_id is not null;
alter table idempotency_keys drop column run_id, alter column submission_id set not null;
