package drill

import (
	"fmt"
	"time"
)

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

// withoutScan hides waiting jobs from the catch-up scan, and from edge workers,
// whose every claim is such a scan.
func (s *stand) withoutScan() {
	s.exec("alter table jobs enable row level security")
	s.exec("create policy sabotage on jobs using (current_query() not like '%PendingJob%') with check (true)")
	if s.Fleet == FleetMixed {
		s.trigger("jobs", "before update", `if new.state = 'leased' and current_query() like '%EdgeClaim%' then return null; end if; return new;`)
	}
}

// withoutConditions makes rows that are leased look free again, as for grants
// that do not ask whether a row is still theirs to give.
func (s *stand) withoutConditions() {
	s.trigger("jobs", "after update", `if new.state = 'leased' and old.state = 'pending' then
    update jobs set state = 'pending', lease_token = null, lease_expires_at = null, worker_id = null, session = null, request_id = null where id = new.id;
  end if; return new;`)
}

// withoutDatabaseTime writes ends of leases by a clock that is ahead of the
// database's by so much, as an arbiter does that reckons with its own.
func (s *stand) withoutDatabaseTime(ahead time.Duration) {
	s.trigger("jobs", "before update", fmt.Sprintf(`if new.lease_expires_at is distinct from old.lease_expires_at then
    new.lease_expires_at := new.lease_expires_at + interval '%d seconds';
  end if; return new;`, int(ahead.Seconds())))
}

// withoutFreeing has a session of ours queue for the lock of leadership: it has
// the lock when the leader's session ends, as if that one had not. It returns
// when the session waits.
func (s *stand) withoutFreeing() {
	s.aside(func() {
		_, _ = s.db.Exec(s.ctx, `select pg_advisory_lock(l.classid::int, l.objid::int), pg_sleep(60)
  from pg_locks l join pg_stat_activity a using (pid)
 where l.locktype = 'advisory' and l.granted and a.application_name like 'gavel-leader%'`) // the standby ends it at last
	})
	s.until(10*time.Second, "a session queues for the lock", func() bool {
		return s.number("select count(*) from pg_locks where locktype = 'advisory' and not granted") == 1
	})
}

func (s *stand) trigger(table, when, body string) {
	s.exec("create function sabotage_" + table + "() returns trigger language plpgsql security definer as $$ begin " + body + " end $$")
	s.exec("create trigger sabotage " + when + " on " + table + " for each row execute function sabotage_" + table + "()")
}
