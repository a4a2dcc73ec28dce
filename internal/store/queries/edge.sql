-- Edge pull: each statement is one call of a function of ../functions, runs as
-- the role gavel_edge, and is a transaction of its own. Requests and answers are
-- jsonb in the words of the worker protocol.

-- name: EdgeHello :one
-- At start, and again after the database was away.
select edge_hello(sqlc.arg(request)::jsonb)::jsonb as answer;

-- name: EdgeClaim :one
-- Twice a second while a slot is free: the whole of a claim, payload included.
select edge_claim(sqlc.arg(request)::jsonb)::jsonb as answer;

-- name: EdgeHeartbeat :one
-- Every five seconds for each lease.
select edge_heartbeat(sqlc.arg(request)::jsonb)::jsonb as answer;

-- name: EdgeResult :one
-- The ownership gate.
select edge_result(sqlc.arg(request)::jsonb)::jsonb as answer;

-- name: EdgeRelease :one
-- Hand-back.
select edge_release(sqlc.arg(request)::jsonb)::jsonb as answer;

-- name: EdgeReclaim :one
-- Every ten seconds, by every worker.
select edge_reclaim(sqlc.arg(request)::jsonb)::jsonb as answer;

-- name: SaveLeaseSettings :exec
-- Arbiter, at the beginning of a leadership: edge workers grant by its settings.
update lease_settings set ttl = @ttl, heartbeat = @heartbeat, confirm = @confirm, attempt_cap = @attempt_cap, sleep_lead = @sleep_lead
 where (ttl, heartbeat, confirm, attempt_cap, sleep_lead)
       is distinct from (sqlc.arg(ttl)::interval, sqlc.arg(heartbeat)::interval, sqlc.arg(confirm)::interval, sqlc.arg(attempt_cap)::int, sqlc.arg(sleep_lead)::interval);

-- name: PackagesWithOtherRules :many
-- Arbiter, at the beginning of a leadership: live packages whose limits were
-- computed by other rules, or never.
select k.digest, k.manifest from problems p join packages k on k.digest = p.package_digest
 where not exists (select from package_languages l where l.package_digest = k.digest and l.rules = sqlc.arg(rules)::text);

-- name: SavePackageLanguages :exec
-- Importer, before it publishes, and the arbiter for the packages of the query above.
insert into package_languages (package_digest, language, limits, source_bytes, rules)
select sqlc.arg(package_digest)::text, unnest(@languages::text[]), unnest(@limits::jsonb[]), unnest(@source_bytes::bigint[]), sqlc.arg(rules)::text
on conflict (package_digest, language) do update
   set limits = excluded.limits, source_bytes = excluded.source_bytes, rules = excluded.rules;

-- name: DropOtherPackageLanguages :exec
delete from package_languages where package_digest = @package_digest and rules <> @rules;
