-- Submitting by SQL refuses a stop rule that there is not as it refuses other bad
-- arguments, and its hints name nothing that a site cannot read.

-- +goose Up
-- +goose StatementBegin
do $$
declare
  v_schema text := current_schema();
  v_bytes  text := '(problem text, language text, source bytea, submitter text, source_name text, stop_rule text, wake boolean)';
  v_api    text := (select n.nspname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                     where p.proname = 'submit' and format('search_path=%I, pg_temp', v_schema) = any (p.proconfig));
begin
  execute format($f$
create or replace function %I.submit(problem text, language text, source bytea, submitter text default '', source_name text default '',
                          stop_rule text default 'first', wake boolean default true) returns bigint
language plpgsql security definer as $body$
#variable_conflict use_column
declare
  v_problem    record;
  v_prepared   record;
  v_rules      record;
  v_submission bigint;
  v_judging    bigint;
begin
  select p.id, p.package_digest into v_problem from problems p where p.name = submit.problem;
  if not found then
    select r.state, r.message, (select count(*) from preparation_steps s where s.preparation_id = r.id) as steps,
           (select count(*) from preparation_steps s where s.preparation_id = r.id and s.state not in ('waiting', 'open')) as steps_done
      into v_prepared from preparations r where r.problem = submit.problem order by r.id desc limit 1;
    if v_prepared.state = 'preparing' then
      raise exception using errcode = 'GV409', hint = 'submit when it is published; gavel problem report shows how far it is',
        message = format('gavel: this problem is not published yet: it is being prepared (%%s of %%s steps are done)', v_prepared.steps_done, v_prepared.steps);
    elsif v_prepared.state = 'failed' then
      raise exception using errcode = 'GV409', hint = 'gavel problem report says what was found; correct the package and import it again',
        message = format('gavel: this problem is not published: its last version failed: %%s', v_prepared.message);
    end if;
    raise exception using errcode = 'GV404', message = 'gavel: unknown problem', hint = 'gavel problem list shows the published ones';
  end if;
  select r.limits, r.source_bytes into v_rules from package_languages r
   where r.package_digest = v_problem.package_digest and r.language = submit.language;
  if not found then
    raise exception using errcode = 'GV422', message = 'gavel: this problem does not take this language',
      hint = coalesce((select 'it takes ' || string_agg(r.language, ', ' order by r.language) from package_languages r
                        where r.package_digest = v_problem.package_digest),
                      'it takes none yet: an arbiter of this version has to lead once');
  end if;
  if coalesce(octet_length(submit.source), 0) = 0 then
    raise exception using errcode = 'GV422', message = 'gavel: the source is empty';
  elsif octet_length(submit.source) > v_rules.source_bytes then
    raise exception using errcode = 'GV413', message = format('gavel: the source has %%s bytes, this problem takes at most %%s', octet_length(submit.source), v_rules.source_bytes);
  elsif position('\x00'::bytea in submit.source) > 0 then
    raise exception using errcode = 'GV422', message = 'gavel: the source contains a NUL byte';
  elsif char_length(submit.submitter) > 128 or char_length(submit.source_name) > 255 then
    raise exception using errcode = 'GV422', message = 'gavel: the submitter has at most 128 characters, the name of the source at most 255';
  elsif coalesce(submit.stop_rule, 'first') not in ('first', 'all') then
    raise exception using errcode = 'GV422', message = 'gavel: there is no such stop rule',
      hint = 'stop_rule is first (stop at the first test that fails) or all (run every test)';
  end if;
  insert into submissions (problem_id, language, submitter, source_name, source_bytes, stop_rule)
  values (v_problem.id, submit.language, coalesce(submit.submitter, ''), coalesce(submit.source_name, ''), octet_length(submit.source), coalesce(submit.stop_rule, 'first'))
  returning id into v_submission;
  insert into submission_sources (submission_id, source) values (v_submission, submit.source);
  insert into judgings (submission_id, kind, package_digest, limits)
  values (v_submission, 'judge', v_problem.package_digest, v_rules.limits) returning id into v_judging;
  update submissions set current_judging_id = v_judging where id = v_submission;
  insert into jobs (judging_id, submission_id, kind, lane, language, submitter, problem_id, package_digest, memory_bytes, cpu_us)
  values (v_judging, v_submission, 'judge', 'judge', submit.language, coalesce(submit.submitter, ''), v_problem.id, v_problem.package_digest,
          coalesce((v_rules.limits ->> 'memory_bytes')::bigint, 0), coalesce((v_rules.limits ->> 'cpu_us')::bigint, 0));
  if submit.wake then
    perform pg_notify('gavel_work', '');
  end if;
  return v_submission;
end
$body$
$f$, v_api);
  execute format('alter function %I.submit%s set search_path = %I, pg_temp', v_api, v_bytes, v_schema);
end
$$;
-- +goose StatementEnd

-- +goose Down
-- The function stays as it is here: it refuses what it refused.
select 1;
