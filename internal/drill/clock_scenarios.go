package drill

import (
	"fmt"
	"time"
)

// ownTime is what withoutDatabaseTime does.
const ownTime = "leases end by the arbiter's clock"

var clockScenarios = []Scenario{
	{
		Name: "a16-clock-behind", What: "arbiter an hour behind the database, worker an hour behind the arbiter", script: wrongClocks(time.Hour),
		Fires: "the database's clock for leases; monotonic clocks for workers", Sabotage: ownTime,
	},
	{
		Name: "a16-clock-ahead", What: "arbiter an hour ahead of the database, worker an hour ahead of the arbiter", script: wrongClocks(-time.Hour),
		Fires: "the database's clock for leases; monotonic clocks for workers", Sabotage: ownTime,
	},
}

// setClock makes the database's clock differ from everybody else's: a function
// now() that is found before the real one. It is there before the schema is,
// so that defaults of columns use it as well. Another machine's clock cannot be
// set from here; to be wrong about the database's time, it need not be.
func (s *stand) setClock(ahead time.Duration) {
	s.exec("create schema if not exists skew")
	s.exec("grant usage on schema skew to public")
	s.exec(fmt.Sprintf(`create or replace function skew.now() returns timestamptz language sql stable as
  $$ select pg_catalog.now() + interval '%d seconds' $$`, int(ahead.Seconds())))
	s.exec("alter database gavel set search_path = public, skew, pg_catalog")
}

func wrongClocks(away time.Duration) func(*T) {
	return func(t *T) {
		s := newStand(t)
		s.setClock(away)
		s.serve(shortTTL, shortBeat)
		s.db.Reset() // our own sessions shall see the same clock
		if t.Sabotage {
			s.withoutDatabaseTime(-away)
		}
		s.watch(calm, "", nil)
		wrong := func(w *workerSettings) { w.ClockAway = -away }
		one := s.worker("one", "", 1, wrong)
		long := s.submit("*: AC after 7s")
		s.awaitJudging(long, "one")
		s.awaitFinal(long, 30*time.Second)
		s.wantAttempts(long, "completed")
		t.did("a judging of more than two lifetimes of a lease kept it")

		id := s.submit("one: AC after 1h\n*: AC after 1ms")
		s.awaitJudging(id, "one")
		one.kill()
		due := s.number("select (extract(epoch from lease_expires_at) * 1000)::bigint from jobs where submission_id = $1", id)
		if ahead := time.UnixMilli(int64(due)).Sub(t.Clock.Now()); (ahead-away).Abs() > time.Minute && !t.Sabotage {
			t.Errorf("the lease ends in %v by this machine's clock, want about %v: the clock was not set", ahead, away)
		}
		s.worker("two", "", 1, wrong)
		sub := s.awaitFinal(id, 20*time.Second)
		s.wantAttempts(id, "expired", "completed")
		if len(sub.Detail.Attempts) == 2 {
			again := time.Duration(sub.Detail.Attempts[1].GrantedAt.UnixMilli()-int64(due)) * time.Millisecond
			t.took("expiry to new lease, clocks "+away.String()+" apart", again, time.Second)
			if again < 0 {
				t.Errorf("the lease was taken back %v early", -again)
			}
		}
		s.settle(5 * time.Second)
	}
}
