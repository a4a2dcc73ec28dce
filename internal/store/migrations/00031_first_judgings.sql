-- A rejudge that is cancelled gives the first judgings that it took over back to
-- the lane judge, with the priority that they had.

-- +goose Up

-- Of a rejudge's job that took an open first judging over: what priority that
-- had. Null: it took none over, and ends with the rejudge.
alter table jobs add column if not exists first_priority smallint;

-- What was taken over by rejudges that run, when this was not written down. A
-- judging that ended in the very transaction that made the next was taken over.
update jobs j set first_priority = 1
  from judgings g
  join judgings o on o.id = g.previous_judging_id
  join rejudges r on r.id = g.rejudge_id
 where j.first_priority is null and g.id = j.judging_id and r.state = 'running' and o.state = 'cancelled' and o.finished_at = g.created_at;

-- What rejudges that were cancelled before have left in their lane.
update jobs j set lane = 'judge', priority = least(j.priority, 1::smallint), batch_id = null, batch_budget = 0
  from judgings g
  join rejudges r on r.id = g.rejudge_id
 where g.id = j.judging_id and r.state = 'cancelled';

-- +goose Down
alter table jobs drop column first_priority;
