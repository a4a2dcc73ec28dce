-- Sources of several files. The main one stays where it was; the others lie in
-- two arrays beside it, null for the many that have none: reading a source is
-- one row by primary key either way, and no single file pays for the others.

-- +goose Up
alter table submissions add column source_files int not null default 1 check (source_files between 1 and 64);

alter table submission_sources
  add column file_names    text[],
  add column file_contents bytea[],
  add constraint submission_sources_files check (
    case when file_names is null then file_contents is null
         else file_contents is not null and cardinality(file_names) >= 1
          and cardinality(file_contents) = cardinality(file_names) end);

-- +goose Down
alter table submission_sources drop constraint submission_sources_files, drop column file_names, drop column file_contents;
alter table submissions drop column source_files;
