-- Endpoints that are told of alarms, and what was sent to them.

-- name: InsertWebhook :one
-- API; no row when the name is taken.
insert into webhooks (name, url, secret, kinds, created_by) values (@name, @url, @secret, @kinds, @created_by)
    on conflict (name) do nothing returning *;

-- name: ListWebhooks :many
select w.id, w.name, w.url, w.kinds, w.created_at,
       (select count(*) from webhook_deliveries d where d.webhook_id = w.id and d.state = 'waiting') as waiting,
       (select count(*) from webhook_deliveries d where d.webhook_id = w.id and d.state = 'failed') as failed
  from webhooks w order by w.name;

-- name: WebhookByName :one
select * from webhooks where name = $1;

-- name: DropWebhook :execrows
-- What was sent to it, and what was to be, goes with it.
delete from webhooks where name = $1;

-- name: LockWebhook :one
-- API, before its secret is replaced: one change after the other.
select * from webhooks where name = $1 for update;

-- name: ReplaceSecret :one
-- API: the one before signs beside it for a while. Returns until when.
with old as (
  insert into webhook_old_secrets (webhook_id, secret, until)
  select w.id, w.secret, now() + sqlc.arg(keep)::interval from webhooks w where w.id = sqlc.arg(id)::bigint
  returning until
)
update webhooks w set secret = @secret from old where w.id = sqlc.arg(id)::bigint returning old.until;

-- name: EndOldSecrets :execrows
-- API: none but the newest signs from here on.
delete from webhook_old_secrets where webhook_id = $1;

-- name: CountOldSecrets :one
select count(*) from webhook_old_secrets where webhook_id = $1 and until > now();

-- name: OldSecretEnds :many
-- API: until when each endpoint has an old secret that signs.
select webhook_id, max(until)::timestamptz as until from webhook_old_secrets where until > now() group by webhook_id;

-- name: DropOldSecrets :execrows
-- Leader, once an hour: those that sign no more.
delete from webhook_old_secrets where until <= now();

-- name: EnqueueAlarm :execrows
-- With the start or the end of an alarm, in its transaction: a message for each
-- endpoint that wants to know of its kind.
insert into webhook_deliveries (webhook_id, message_id, event, alarm_id, payload)
select w.id, @message_id, @event, sqlc.arg(alarm_id)::bigint, @payload from webhooks w
 where w.kinds = '{}' or sqlc.arg(kind)::text = any (w.kinds);

-- name: EnqueueTest :one
insert into webhook_deliveries (webhook_id, message_id, event, payload) values (@webhook_id, @message_id, 'test', @payload) returning *;

-- name: BeginAttempts :many
-- Leader: what is due, counted as tried from here on; of each endpoint as many
-- as it may have under way, of which the busy ones have some already. The row
-- lock, the term and the time until which an attempt may last keep two arbiters
-- from making the same one. Index: webhook_deliveries_due_each.
with term_holds as (
  select 1 from leadership s where s.shard = @shard and s.term = sqlc.arg(term)::bigint for key share
), busy as (
  select unnest(@busy_ids::bigint[]) as webhook_id, unnest(@busy_attempts::int[]) as attempts
), due as (
  select d.id from term_holds, webhooks w left join busy b on b.webhook_id = w.id cross join lateral (
    select d.id, d.next_at from webhook_deliveries d
     where d.webhook_id = w.id and d.state = 'waiting' and d.next_at <= now()
     order by d.next_at, d.id limit greatest(sqlc.arg(each)::int - coalesce(b.attempts, 0), 0) for update skip locked
  ) d order by d.next_at, d.id limit sqlc.arg(most)::int
), begun as (
  update webhook_deliveries d set attempts = d.attempts + 1, next_at = now() + sqlc.arg(lasts)::interval
    from due where d.id = due.id
  returning d.id, d.webhook_id, d.message_id, d.payload, d.attempts
), noted as (
  insert into webhook_attempts (delivery_id, attempt, term) select b.id, b.attempts, sqlc.arg(term)::bigint from begun b
)
select b.id, b.webhook_id, b.message_id, b.payload, b.attempts, w.name, w.url, w.secret,
       array(select o.secret from webhook_old_secrets o where o.webhook_id = w.id and o.until > now() order by o.until desc)::text[] as old_secrets
  from begun b join webhooks w on w.id = b.webhook_id order by b.id;

-- name: EndAttempt :execrows
-- Leader: what came of an attempt. A success counts whatever happened since; a
-- failure only when no later attempt has begun.
with ended as (
  update webhook_attempts a set ended_at = now(), status = @status, error = @error
   where a.delivery_id = sqlc.arg(delivery_id)::bigint and a.attempt = sqlc.arg(attempt)::int and a.ended_at is null
)
update webhook_deliveries d
   set state = sqlc.arg(state)::text, next_at = now() + sqlc.arg(pause)::interval,
       finished_at = case when sqlc.arg(state)::text = 'waiting' then null else now() end
 where d.id = sqlc.arg(delivery_id)::bigint and d.state = 'waiting'
   and (sqlc.arg(state)::text = 'delivered' or d.attempts = sqlc.arg(attempt)::int);

-- name: Redeliver :execrows
-- API: once more, and as often as a new one if that fails and attempts are left.
update webhook_deliveries set state = 'waiting', next_at = now(), finished_at = null where id = $1 and state <> 'waiting';

-- name: DeliveriesOf :many
-- API: newest first, each with what came of its last attempt that has ended.
select d.id, d.message_id, d.event, coalesce(d.alarm_id, 0)::bigint as alarm_id, d.state, d.attempts, d.next_at, d.created_at, d.finished_at,
       coalesce(a.status, 0)::int as status, coalesce(a.error, '') as error
  from webhook_deliveries d left join lateral (
       select t.status, t.error from webhook_attempts t where t.delivery_id = d.id and t.ended_at is not null order by t.attempt desc limit 1) a on true
 where d.webhook_id = @webhook_id and d.id < sqlc.arg(before)::bigint order by d.id desc limit sqlc.arg(page)::int;

-- name: WebhookBacklog :one
select count(*) from webhook_deliveries where state = 'waiting';

-- name: DropOldDeliveries :execrows
-- Leader, once an hour.
delete from webhook_deliveries where finished_at < now() - sqlc.arg(kept)::interval;
