-- What docs/migration.md tells the administrator to do in step 0.
create role gavel login password 'of-the-arbiter';
create role gavel_arbiter nologin;
create role gavel_read nologin;
create role gavel_edge nologin;
create role gavel_site nologin;
grant gavel_arbiter to gavel;
grant create on database site to gavel;
create schema gavel_tables authorization gavel;
alter role gavel in database site set search_path = gavel_tables;
