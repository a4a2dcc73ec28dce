-- Edge pull: what else happens to a lease that is not reported: it is kept alive,
-- handed back, or taken back.

-- How an attempt ended, for its worker. The words are those of SupersedeOpenJobs.
create or replace function edge_ended(p_outcome text, p_message text) returns jsonb language sql immutable as $$
select jsonb_build_object('outcome', p_outcome)
       || case when p_outcome = 'cancelled' and p_message = 'superseded by a rejudge' then '{"superseded": true}' else '{}' end::jsonb
$$;

-- Heartbeat. {worker_id, lease_token} → {ttl_ms}, or {outcome} of a dead lease.
create or replace function edge_heartbeat(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me    bigint := edge_me(request);
  v_token uuid := (request ->> 'lease_token')::uuid;
  v_a     record;
begin
  select a.job_id, a.lease_gen into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if not found then
    return jsonb_build_object('outcome', 'unknown');
  end if;
  update jobs j set lease_expires_at = now() + s.ttl, confirmed = true
    from lease_settings s
   where j.id = v_a.job_id and j.state = 'leased' and j.lease_token = v_token and j.lease_gen = v_a.lease_gen and j.worker_id = v_me;
  if not found then
    return (select edge_ended(a.outcome, a.message) from attempts a where a.job_id = v_a.job_id and a.lease_gen = v_a.lease_gen);
  end if;
  update workers set last_seen_at = now() where id = v_me and coalesce(last_seen_at < now() - interval '5 seconds', true);
  return (select jsonb_build_object('ttl_ms', (extract(epoch from s.ttl) * 1000)::bigint) from lease_settings s);
end
$$;

-- Hand-back, the attempt refunded. {worker_id, lease_token, reason} → {outcome}
create or replace function edge_release(request jsonb) returns jsonb language plpgsql security definer as $$
declare
  v_me    bigint := edge_me(request);
  v_token uuid := (request ->> 'lease_token')::uuid;
  v_a     record;
begin
  select a.job_id, a.lease_gen into v_a from attempts a where a.lease_token = v_token and a.worker_id = v_me;
  if not found then
    return jsonb_build_object('outcome', 'unknown');
  end if;
  update jobs j
     set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
         worker_id = null, session = null, request_id = null, attempts = j.attempts - 1
   where j.id = v_a.job_id and j.state = 'leased' and j.lease_token = v_token and j.lease_gen = v_a.lease_gen and j.worker_id = v_me;
  if found then
    update attempts set outcome = 'released', ended_at = now(), message = left(coalesce(request ->> 'reason', ''), 200)
     where job_id = v_a.job_id and lease_gen = v_a.lease_gen;
    perform pg_notify('gavel_work', '');
  end if;
  return (select edge_ended(a.outcome, a.message) from attempts a where a.job_id = v_a.job_id and a.lease_gen = v_a.lease_gen);
end
$$;

-- Takes expired leases back, of one worker or (null) of all. Leases that an
-- arbiter granted are its own to reclaim, as it gives them their grace when it
-- takes over; only when nobody has led for a whole TTL are they anybody's. A run that is given
-- up ends here, and not when an arbiter next looks.
create or replace function edge_reclaim_leases(p_worker bigint) returns table (requeued int, ended int) language plpgsql as $$
declare
  v        lease_settings%rowtype;
  v_vacant boolean;
  v_said   text;
begin
  select * into v from lease_settings;
  v_vacant := not exists (select from leadership s where s.expires_at >= now() - v.ttl);
  with dead as (
    select j.id, j.lease_gen, j.confirmed from jobs j
      join attempts a on a.job_id = j.id and a.lease_gen = j.lease_gen
     where j.state = 'leased' and j.lease_expires_at <= now() and (p_worker is null or j.worker_id = p_worker)
       and (not j.confirmed or j.attempts < v.attempt_cap) and (a.term = 0 or v_vacant)
     order by j.id for update of j skip locked
  ), returned as (
    update jobs j
       set state = 'pending', lease_token = null, lease_expires_at = null, confirmed = false,
           worker_id = null, session = null, request_id = null,
           attempts = case when d.confirmed then j.attempts else j.attempts - 1 end
      from dead d where j.id = d.id
    returning j.id, j.lease_gen, d.confirmed
  ), closed as (
    update attempts a set outcome = case when r.confirmed then 'expired' else 'undelivered' end, ended_at = now()
      from returned r where a.job_id = r.id and a.lease_gen = r.lease_gen
  )
  select count(*) into requeued from returned;
  with dead as (
    select j.id from jobs j
      join attempts a on a.job_id = j.id and a.lease_gen = j.lease_gen
     where j.state = 'leased' and j.lease_expires_at <= now() and (p_worker is null or j.worker_id = p_worker)
       and j.confirmed and j.attempts >= v.attempt_cap and (a.term = 0 or v_vacant)
     order by j.id for update of j skip locked
  ), gone as (
    delete from jobs j using dead d where j.id = d.id
    returning j.id, j.lease_gen, j.judging_id, j.submission_id, j.worker_id, j.kind, j.work_id
  ), judged as (
    update judgings g set state = 'system_error', lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now(),
           fault = jsonb_build_object('blame', 'host', 'message',
             format('the worker was lost while judging, %s times in a row; look at the attempts, then retry', v.attempt_cap))
      from gone e where g.id = e.judging_id and g.state = 'open'
  ), ran as (
    update runs r set state = 'system_error', lease_gen = e.lease_gen, worker_id = e.worker_id, finished_at = now(), expires_at = now() + r.keep,
           fault = jsonb_build_object('blame', 'host', 'message', format('the worker was lost while running, %s times in a row', v.attempt_cap))
      from gone e where e.kind = 'run' and r.id = e.work_id and r.state = 'open'
  ), closed as (
    update attempts a set outcome = 'expired', ended_at = now()
      from gone e where a.job_id = e.id and a.lease_gen = e.lease_gen
  )
  select count(*), string_agg(pg_notify('gavel_done', edge_done(g.kind, coalesce(g.submission_id, g.work_id), g.id))::text, '') into ended, v_said from gone g;
  if requeued > 0 then
    perform pg_notify('gavel_work', '');
  end if;
  return next;
end
$$;

-- Reclaim, by every worker, every ten seconds. {worker_id} → {requeued, ended}
create or replace function edge_reclaim(request jsonb) returns jsonb language plpgsql security definer as $$
begin
  perform edge_me(request);
  return (select jsonb_build_object('requeued', r.requeued, 'ended', r.ended) from edge_reclaim_leases(null) r);
end
$$;
