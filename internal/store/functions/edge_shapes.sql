-- What comes through a database login is as strictly looked at as what comes over
-- HTTPS. Requests are brought into the shapes of gavelapi, as decoding into its
-- types does: unknown fields are dropped, null is nothing, another type is refused.

-- The beginning of a text that fits, whole characters only.
create or replace function edge_cut(p_text text, p_bytes int) returns text language plpgsql immutable as $$
declare
  v_raw  bytea;
  v_last int := p_bytes;
begin
  if octet_length(p_text) <= p_bytes then
    return p_text;
  end if;
  v_raw := convert_to(p_text, 'UTF8');
  while v_last > 0 and v_last < octet_length(v_raw) and get_byte(v_raw, v_last) between 128 and 191 loop
    v_last := v_last - 1;
  end loop;
  return convert_from(substring(v_raw for v_last), 'UTF8');
end
$$;

-- Brings a value into a shape. A shape is "int", "bool", "uuid", "base64", "text" (with the
-- bytes at which it is cut, if any), [shape] of a list, {"*": shape} of a map by
-- names of any kind, else an object by its fields.
create or replace function edge_fit(p_value jsonb, p_shape jsonb, p_at text) returns jsonb language plpgsql immutable as $$
declare
  v_type text := coalesce(jsonb_typeof(p_value), 'null');
  v_kind text := jsonb_typeof(p_shape);
  v_most text;
  v_text text;
  v_out  jsonb;
  v_fits boolean;
begin
  if v_kind = 'string' then
    v_kind := split_part(p_shape #>> '{}', ' ', 1);
    v_most := split_part(p_shape #>> '{}', ' ', 2);
  elsif p_shape ? '*' then
    v_kind := 'map';
  end if;
  if v_type = 'null' then
    return case v_kind when 'int' then '0' when 'bool' then 'false' when 'array' then '[]' when 'map' then '{}' when 'object' then '{}' else '""' end::jsonb;
  end if;
  v_text := p_value #>> '{}';
  v_fits := case v_kind
    when 'text' then v_type = 'string'
    when 'uuid' then v_type = 'string' and v_text ~ '^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$'
    when 'base64' then v_type = 'string' and v_text ~ '^[A-Za-z0-9+/=[:space:]]*$'
    when 'bool' then v_type = 'boolean'
    when 'int' then v_type = 'number' and v_text ~ '^-?[0-9]{1,19}$' and v_text::numeric between -9223372036854775808 and 9223372036854775807
    when 'array' then v_type = 'array' and jsonb_array_length(case v_type when 'array' then p_value else '[]' end) <= 10000
    else v_type = 'object' end;
  if not v_fits then
    raise exception using errcode = 'GV422', message = format('%s must be %s', p_at, case v_kind
        when 'text' then 'a text' when 'base64' then 'base64' when 'uuid' then 'a UUID' when 'bool' then 'true or false' when 'int' then 'a whole number of 64 bits'
        when 'array' then 'a list of at most 10000' else 'an object' end),
      hint = 'the shapes are those of the worker protocol, over HTTPS as well';
  end if;
  case v_kind
    when 'text' then
      return case when v_most = '' or octet_length(v_text) <= v_most::int then p_value else to_jsonb(edge_cut(v_text, v_most::int)) end;
    when 'array' then
      select jsonb_agg(edge_fit(i.value, p_shape -> 0, p_at || '[' || i.n - 1 || ']') order by i.n) into v_out
        from jsonb_array_elements(p_value) with ordinality i (value, n);
      return coalesce(v_out, '[]');
    when 'map' then
      select jsonb_object_agg(edge_cut(f.key, 256), edge_fit(f.value, p_shape -> '*', p_at || '.' || left(f.key, 40))) into v_out from jsonb_each(p_value) f;
      return coalesce(v_out, '{}');
    when 'object' then
      -- Plain fields that fit need no call each: a report may have thousands of them.
      select jsonb_object_agg(s.key, case
               when jsonb_typeof(s.value) = 'string' and case jsonb_typeof(f.value)
                      when 'number' then s.value = '"int"' and f.value::text ~ '^-?[0-9]{1,18}$'
                      when 'string' then s.value #>> '{}' like 'text%' and octet_length(f.value::text) <= 200
                      else false end then f.value
               else edge_fit(f.value, s.value, p_at || '.' || s.key) end) into v_out
        from jsonb_each(p_value) f join jsonb_each(p_shape) s using (key) where jsonb_typeof(f.value) <> 'null';
      return coalesce(v_out, '{}');
    else
      return p_value;
  end case;
end
$$;

-- The shapes of gavelapi.Report (without what was written in failed tests, which is
-- not kept on this way) and gavelapi.Capabilities, with the bounds of
-- internal/report; and of what every request has beside.
create or replace function edge_shape(p_of text) returns jsonb language sql immutable as $$
select case p_of
  when 'report' then jsonb '{
    "verdict": "text 256", "cpu_us": "int", "wall_us": "int", "memory_bytes": "int",
    "fault": {"blame": "text 256", "message": "text 4096"},
    "compile": {"log": "text 65536", "log_cut": "bool", "reason": "text 256", "cpu_us": "int", "wall_us": "int", "cached": "bool", "precompiled": "bool", "header": "text 256"},
    "tests": [{"name": "text 256", "sample": "bool", "verdict": "text 256", "reason": "text 256", "cpu_us": "int", "wall_us": "int",
               "memory_bytes": "int", "output_bytes": "int", "exit_code": "int", "signal": "int", "message": "text 4096",
               "attempts": [{"cpu_us": "int", "wall_us": "int"}]}],
    "run": {"compiled": "bool", "results": [{"ended": "text", "exit_code": "int", "signal": "int", "cpu_us": "int", "wall_us": "int", "memory_bytes": "int",
            "stdout": "text", "stdout_base64": "base64", "stdout_cut": "bool", "stderr": "text", "stderr_base64": "base64", "stderr_cut": "bool",
            "message": "text 4096"}]},
    "prepare": {"verdict": "text", "findings": [{"step": "text", "what": "text", "outcome": "text", "detail": "text", "took_us": "int"}]},
    "limits": {"cpu_us": "int", "wall_us": "int", "memory_bytes": "int", "output_bytes": "int", "processes": "int"},
    "provenance": {"worker_build": "text 256", "kernel": "text 256", "memory_meter": "text 256", "cpu_meter": "text 256", "toolchain": "text 256",
                   "checker_toolchain": "text 256", "package_digest": "text 256", "stages_us": {"*": "int"}}}'
  when 'capabilities' then jsonb '{
    "languages": [{"id": "text 256", "version": "text 256"}], "features": ["text 256"], "memory_bytes": "int", "cores": "int", "arch": "text 256",
    "build": "text 256", "kernel": "text 256", "memory_meter": "text 256", "sandbox": "text 256", "weaker": ["text 256"]}'
  when 'claim' then jsonb '{
    "request_id": "uuid", "session": "uuid", "previous_session": "uuid", "slots": "int", "total_slots": "int",
    "kinds": ["text 64"], "turn": "int", "lacks": ["text 256"]}'
  when 'lease' then jsonb '{"worker_id": "int", "lease_token": "uuid", "reason": "text 200"}'
  when 'hello' then jsonb '{"name": "text 256", "pool": "text 256", "rank": "int"}' end
$$;
