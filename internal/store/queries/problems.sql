-- name: InsertPackage :execrows
insert into packages (digest, manifest, size_bytes) values (@digest, @manifest, @size_bytes) on conflict do nothing;

-- name: LockProblem :one
-- Importer: serialises publications of one problem.
select id, version, package_digest from problems where name = @name for update;

-- name: InsertProblem :one
insert into problems (name, title, version, package_digest) values (@name, @title, 1, @package_digest)
on conflict (name) do nothing returning id;

-- name: PublishProblem :exec
update problems set title = @title, version = @version, package_digest = @package_digest, published_at = now() where id = @id;

-- name: InsertProblemVersion :exec
insert into problem_versions (problem_id, version, package_digest, published_by)
values (@problem_id, @version, @package_digest, @published_by);

-- name: ProblemByName :one
select p.id, p.name, p.title, p.version, p.package_digest, p.published_at, k.manifest, k.size_bytes
  from problems p join packages k on k.digest = p.package_digest where p.name = @name;

-- name: ListProblems :many
select p.id, p.name, p.title, p.version, p.package_digest, p.published_at, k.manifest, k.size_bytes
  from problems p join packages k on k.digest = p.package_digest
 where p.name > sqlc.arg(after)::text order by p.name limit sqlc.arg(page)::int;

-- name: PackageManifest :one
select manifest from packages where digest = @digest;
