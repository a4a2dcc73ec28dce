-- References that are right by how they are written: within one transaction,
-- to rows that the same transaction has made or locked, and never deleted.
-- Checking them again was half of the database's work for a rejudge of
-- thousands.

-- +goose Up
alter table judgings drop constraint judgings_rejudge_id_fkey, drop constraint judgings_previous_judging_id_fkey;
alter table jobs drop constraint jobs_judging_id_fkey;

-- +goose Down
alter table jobs add constraint jobs_judging_id_fkey foreign key (judging_id) references judgings (id);
alter table judgings
  add constraint judgings_rejudge_id_fkey foreign key (rejudge_id) references rejudges (id),
  add constraint judgings_previous_judging_id_fkey foreign key (previous_judging_id) references judgings (id);
