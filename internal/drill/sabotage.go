package drill

// The ways of switching a protection of the arbiter off from outside: triggers
// and policies that make the database do what an arbiter without it would. They
// know the statements by the names that their texts begin with.

// lateReportsCount is what withoutFencing does.
const lateReportsCount = "late reports are applied"

// withoutGrace undoes the grace that a new leadership gives to live leases.
func (s *stand) withoutGrace() {
	s.trigger("jobs", "before update", `if current_query() like '%GrantGrace%' then return null; end if; return new;`)
}

// withoutExpiry makes leadership last for ever, as a lock alone does.
func (s *stand) withoutExpiry() {
	s.trigger("leadership", "before update", `new.expires_at := now() + interval '1 day'; return new;`)
}

// withoutFencing applies the reports of dead leases.
func (s *stand) withoutFencing() {
	s.trigger("attempts", "after update", `if new.late_report is not null and old.late_report is null then
    update judgings set verdict = new.late_report ->> 'verdict', lease_gen = new.lease_gen where id = new.judging_id and state = 'done';
    update judgings set state = 'done', verdict = new.late_report ->> 'verdict', tests = new.late_report -> 'tests',
           lease_gen = new.lease_gen, worker_id = new.worker_id, finished_at = now() where id = new.judging_id and state = 'open';
  end if; return new;`)
}

// withoutScan hides waiting jobs from the catch-up scan.
func (s *stand) withoutScan() {
	s.exec("alter table jobs enable row level security")
	s.exec("create policy sabotage on jobs using (current_query() not like '%PendingJobs%') with check (true)")
}

func (s *stand) trigger(table, when, body string) {
	s.exec("create function sabotage_" + table + "() returns trigger language plpgsql security definer as $$ begin " + body + " end $$")
	s.exec("create trigger sabotage " + when + " on " + table + " for each row execute function sabotage_" + table + "()")
}
