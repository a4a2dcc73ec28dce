-- What programs wrote in tests that they failed, for the jury. Apart from
-- judgings, because it can show the tests: gavel_read gets no right to it, and
-- it is dropped after a time.

-- +goose Up
create table judging_outputs (
  judging_id bigint      primary key references judgings (id) on delete cascade,
  outputs    jsonb       not null, -- as reported, at most 32 KiB of text
  created_at timestamptz not null default now()
);
create index judging_outputs_by_age on judging_outputs (created_at);

-- +goose Down
drop table judging_outputs;
