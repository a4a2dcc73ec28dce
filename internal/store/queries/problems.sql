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

-- name: PublishedProblem :one
-- API, for each submission.
select id, name, package_digest from problems where name = @name;

-- name: ListProblems :many
-- API. Names come from the published ones and from those that may yet be; what
-- the newest import of each is at stands beside it.
select n.name::text as name, coalesce(p.title, r.title, '') as title, coalesce(p.version, 0)::int as version, coalesce(p.package_digest, '') as package_digest,
       p.published_at, k.manifest, k.size_bytes, coalesce(r.id, 0)::bigint as preparation_id
  from (select a.name from problems a where a.name > sqlc.arg(after)::text
        union
        select b.problem from preparations b where b.problem > sqlc.arg(after)::text and b.state in ('preparing', 'failed')) n
  left join problems p on p.name = n.name
  left join lateral (select q.id, q.title, q.package_digest from preparations q where q.problem = n.name order by q.id desc limit 1) r on true
  join packages k on k.digest = coalesce(p.package_digest, r.package_digest)
 order by n.name limit sqlc.arg(page)::int;

-- name: PackageManifest :one
select manifest from packages where digest = @digest;
