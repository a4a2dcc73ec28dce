select format('UNITS last submission=%s gen=%s %s: now %s, %s attempts', a.submission_id, a.lease_gen, a.outcome, coalesce(j.state, 'done'), coalesce(j.attempts, 0))
from gavel_tables.attempts a left join gavel_tables.jobs j on j.id = a.job_id
order by a.granted_at desc limit 1;
