-- And in step 1.
create role home login password 'of-home' connection limit 10 in role gavel_edge;
alter role home set idle_in_transaction_session_timeout = '6s';
alter role home in database site set search_path = gavel_tables;
