-- Alarms. The leader alone writes them, about once a second and only when
-- something has changed; each write carries its term (I8).

-- name: OpenAlarms :many
-- Leader, when a term begins: what goes on. Index: alarms_open.
select * from alarms where ended_at is null order by id;

-- name: StartAlarm :many
-- No row: the term is over, or the alarm is open already.
with term_holds as (
  select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share
)
insert into alarms (kind, subject, severity, summary, evidence, occurrences, since)
select @kind, @subject, @severity, @summary, @evidence, @occurrences, now() - sqlc.arg(held)::interval from term_holds
    on conflict (kind, subject) where ended_at is null do nothing
returning *;

-- name: ContinueAlarm :execrows
with term_holds as (
  select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share
)
update alarms a set summary = @summary, evidence = @evidence, occurrences = @occurrences, changed_at = now()
  from term_holds where a.kind = @kind and a.subject = @subject and a.ended_at is null;

-- name: EndAlarm :many
with term_holds as (
  select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share
)
update alarms a set ended_at = now(), changed_at = now(), summary = @summary, evidence = @evidence, occurrences = @occurrences
  from term_holds where a.kind = @kind and a.subject = @subject and a.ended_at is null
returning a.*;

-- name: ListAlarms :many
-- API: newest first from a cursor.
select * from alarms
 where id < sqlc.arg(before)::bigint and (not sqlc.arg(only_open)::bool or ended_at is null)
   and (sqlc.arg(kind)::text = '' or kind = sqlc.arg(kind)::text)
 order by id desc limit sqlc.arg(page)::int;

-- name: AlarmByID :one
select * from alarms where id = $1;

-- name: DropOldAlarms :execrows
-- Leader, once an hour.
delete from alarms where ended_at < now() - sqlc.arg(kept)::interval;

-- name: OldestPending :many
-- Leader, every few seconds, beside the dispatch loop: the oldest waiting work
-- of each lane, without what operators hold. One pass over the narrow table.
select j.lane, count(*) as jobs, min(j.id)::bigint as job_id, extract(epoch from now() - min(j.created_at))::float8 as age_s
  from jobs j
 where j.state = 'pending' and j.lane <> 'probe'
   and not exists (select from brakes b where b.kind = 'lane' and b.name = j.lane or b.kind = 'language' and b.name = j.language
                      or b.kind = 'problem' and b.problem_id = j.problem_id)
 group by j.lane;

-- name: EdgeWorkersPresent :many
-- Leader, every few seconds: the workers straight on the database that are there.
select w.id from workers w join edge_workers e on e.worker_id = w.id
 where w.session = e.session and w.last_seen_at > now() - interval '15 seconds' and not w.disabled;
