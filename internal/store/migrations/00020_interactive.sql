-- What a package asks of a worker: an interactor runs beside the program, and
-- inputs that are not valid are tried before it is published.

-- +goose Up

-- Read off the manifest once, so that a submission does not have to. What an
-- interactor may use is in memory at the same time as the program.
alter table packages
  add column features text[] not null generated always as
    (case when manifest #>> '{checker,kind}' = 'interactor' then array['interactive'] else array[]::text[] end) stored,
  add column beside_bytes bigint not null generated always as
    (case when manifest #>> '{checker,kind}' = 'interactor' then coalesce((manifest #>> '{limits,validation_memory_bytes}')::bigint, 0) else 0 end) stored;

-- Jobs come from the API, from a site's own transaction, from rejudges and from
-- preparations; here is the one place that none of them passes by.
-- +goose StatementBegin
create function job_beside_interactor() returns trigger language plpgsql as $$
declare
  v_features text[];
  v_beside   bigint;
begin
  select k.features, k.beside_bytes into v_features, v_beside from packages k where k.digest = new.package_digest;
  if cardinality(v_features) > 0 then
    new.features := coalesce(new.features, '{}') || v_features;
    if new.memory_bytes > 0 then -- 0 is unknown
      new.memory_bytes := new.memory_bytes + v_beside;
    end if;
  end if;
  return new;
end
$$;
-- +goose StatementEnd
revoke all on function job_beside_interactor() from public; -- a trigger's call asks for no right
-- Of the steps of a preparation only a submission has a limit, and only it runs.
create trigger job_beside_interactor before insert on jobs for each row
  when (new.package_digest is not null and (new.kind in ('judge', 'rejudge') or new.kind = 'prepare' and new.memory_bytes > 0))
  execute function job_beside_interactor();

update jobs j
   set features = coalesce(j.features, '{}') || k.features,
       memory_bytes = case when j.memory_bytes > 0 then j.memory_bytes + k.beside_bytes else 0 end
  from packages k
 where k.digest = j.package_digest and cardinality(k.features) > 0
   and (j.kind in ('judge', 'rejudge') or j.kind = 'prepare' and j.memory_bytes > 0);

alter table preparation_steps drop constraint preparation_steps_kind_check;
alter table preparation_steps add constraint preparation_steps_kind_check check (kind in ('checker', 'validator', 'refusal', 'submission'));

-- +goose Down
delete from attempts where job_id in (select j.id from jobs j join preparation_steps s on s.id = j.work_id where j.kind = 'prepare' and s.kind = 'refusal');
delete from jobs where kind = 'prepare' and work_id in (select id from preparation_steps where kind = 'refusal');
delete from preparation_steps where kind = 'refusal';
alter table preparation_steps drop constraint preparation_steps_kind_check;
alter table preparation_steps add constraint preparation_steps_kind_check check (kind in ('checker', 'validator', 'submission'));
update jobs j
   set features = array_remove(j.features, 'interactive'),
       memory_bytes = case when j.memory_bytes > 0 then j.memory_bytes - k.beside_bytes else 0 end
  from packages k
 where k.digest = j.package_digest and cardinality(k.features) > 0
   and (j.kind in ('judge', 'rejudge') or j.kind = 'prepare' and j.memory_bytes > 0);
drop trigger job_beside_interactor on jobs;
drop function job_beside_interactor();
alter table packages drop column features, drop column beside_bytes;
