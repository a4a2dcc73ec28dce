-- Submitting from a site's own transaction: gavel.submit for bytes and for text, and
-- the verdicts beside it (docs/adr/0010-submitting-by-sql.md). They are in a schema
-- of their own, gavel, unless this login may not make one, or another gavel of this
-- database has it: then they are where the tables are.
do $$
declare
  v_schema text := current_schema();
  v_api    text := (select n.nspname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
                     where p.proname = 'submit' and format('search_path=%I, pg_temp', v_schema) = any (p.proconfig));
  v_text   text := '(problem text, language text, source text, submitter text, source_name text, stop_rule text, wake boolean)';
  v_bytes  text := '(problem text, language text, source bytea, submitter text, source_name text, stop_rule text, wake boolean)';
begin
  if v_api is null then
    v_api := 'gavel';
    begin
      create schema if not exists gavel;
    exception when insufficient_privilege then
      v_api := v_schema;
      raise warning 'the schema gavel was not created: the migrating user lacks CREATE on the database; submit() is in schema %', v_schema;
    end;
    if v_api <> v_schema and to_regprocedure('gavel.submit(text, text, bytea, text, text, text, boolean)') is not null then
      raise warning 'gavel.submit belongs to another gavel in this database; this one''s is %.submit', v_schema;
      v_api := v_schema;
    end if;
  end if;

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
  execute format($f$
create or replace function %1$I.submit(problem text, language text, source text, submitter text default '', source_name text default '',
                            stop_rule text default 'first', wake boolean default true) returns bigint
language sql as $body$
select %1$I.submit($1, $2, convert_to($3, 'UTF8'), $4, $5, $6, $7)
$body$
$f$, v_api);
  execute format('create or replace view %I.verdicts as select * from %I.submission_verdicts', v_api, v_schema);

  execute format('revoke all on function %I.submit%s, %I.submit%s from public', v_api, v_bytes, v_api, v_text);
  if exists (select from pg_roles where rolname = 'gavel_site') then
    execute format('grant usage on schema %I to gavel_site', v_api);
    execute format('grant execute on function %I.submit%s, %I.submit%s to gavel_site', v_api, v_bytes, v_api, v_text);
    execute format('grant select on %I.verdicts to gavel_site', v_api);
  end if;
  -- What it may do is what an arbiter may do, whoever migrates.
  if exists (select from pg_roles where rolname = 'gavel_arbiter') then
    execute format('grant usage, create on schema %I to gavel_arbiter', v_api);
    execute format('alter function %I.submit%s owner to gavel_arbiter', v_api, v_bytes);
    execute format('revoke create on schema %I from gavel_arbiter', v_api);
  end if;
end
$$;
