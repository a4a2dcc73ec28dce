-- What was done to a submission is part of its explanation.

-- +goose Up
create index audit_by_subject on audit (subject, id);

-- +goose Down
drop index audit_by_subject;
