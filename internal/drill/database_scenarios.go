package drill

import (
	"os"
	"strconv"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

var databaseScenarios = []Scenario{
	{
		Name: "a8-postgres-killed", What: "PostgreSQL is killed and starts again", script: postgresKilled, Mixed: true,
		Fires: "503, outboxes, grace of the next leadership", Sabotage: "there is no grace, and it comes back when the leases are over",
	},
	{
		Name: "a8-postgres-read-only", What: "PostgreSQL is read-only for longer than a lease lives", script: postgresReadOnly,
		Fires: "503, outboxes, grace of the next leadership", Sabotage: "there is no grace",
	},
	{
		Name: "a8-sessions-terminated", What: "every session is terminated, ten times", script: sessionsTerminated, Mixed: true,
		Fires: "reconnecting; memory rebuilt after uncertain commits", Sabotage: "what is waiting is not seen when memory is rebuilt",
	},
	{
		Name: "a18-session-stops", What: "a session of gavel's own stops in mid-transaction, holding the locks of a reclaim", script: sessionStops,
		Fires: "idle_in_transaction_session_timeout (6 s); SKIP LOCKED", Sabotage: "that guard is off",
	},
}

// outage is the longest that a bystander may wait when the database is away: as
// long as it is, and until workers dare to ask again.
const outage = time.Minute

// during has five workers judge while harm is done, and checks that nobody
// needs an operator afterwards. Verdicts fall while the database is away.
func (s *stand) during(harm, mend func()) {
	for _, n := range []string{"w1", "w2", "w3", "w4", "w5"} {
		s.worker(n, "", 2)
	}
	s.watch(outage, "", nil)
	var held, quick []int64
	for range 10 {
		held = append(held, s.submit("*: AC when finish"))
	}
	for _, id := range held {
		s.awaitJudging(id, "")
	}
	for range 10 {
		quick = append(quick, s.submit("*: AC after 10ms"))
	}
	harm()
	s.open("finish")
	mend()
	patience := 60 * time.Second
	if s.Sabotage {
		patience /= 3 // in vain
	}
	began := s.Clock.Now()
	for _, id := range held {
		s.awaitFinal(id, patience)
	}
	s.took("mended to the last held verdict", s.Clock.Now().Sub(began), 45*time.Second)
	for _, id := range held {
		s.wantAttempts(id, "completed")
	}
	for _, id := range quick {
		s.awaitFinal(id, patience)
	}
	s.until(30*time.Second, "the outboxes are empty", func() bool { return len(s.outbox("w?")) == 0 })
	s.settle(30 * time.Second)
}

func postgresKilled(t *T) {
	s := newStand(t)
	ttl := 6 * time.Second
	s.serve(ttl, shortBeat)
	s.during(func() {
		if t.Sabotage {
			s.withoutGrace()
		}
		pid := s.pg.Pid()
		// A backend first: PostgreSQL then restarts all of them by itself. And
		// the postmaster, which pgserver starts again.
		if backend := s.number("select pid from pg_stat_activity where application_name = 'gavel' limit 1"); backend > 0 {
			_ = syscall.Kill(backend, syscall.SIGKILL)
		}
		t.wait(time.Second)
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.did("killed a backend of PostgreSQL, then the postmaster (process %s)", strconv.Itoa(pid))
		if t.Sabotage {
			s.keepDown(ttl + time.Second)
		}
	}, func() {
		s.until(60*time.Second, "PostgreSQL is back", func() bool { return s.pg.Pid() != 0 && s.db.Ping(t.ctx) == nil })
	})
}

// keepDown kills every postmaster that is started within a time.
func (s *stand) keepDown(d time.Duration) {
	for end := s.Clock.Now().Add(d); s.Clock.Now().Before(end) && s.ctx.Err() == nil; {
		if pid := s.pg.Pid(); pid != 0 {
			_ = syscall.Kill(pid, syscall.SIGKILL)
		}
		s.wait(5 * time.Millisecond)
	}
}

func postgresReadOnly(t *T) {
	s := newStand(t)
	// The grace is one TTL, and what waits in outboxes is sent within it only
	// if it is longer than workers pause between tries.
	const ttl = 5 * time.Second
	s.serve(ttl, shortBeat)
	read := func(only string) {
		s.exec("alter system set default_transaction_read_only = " + only)
		s.exec("select pg_reload_conf()")
	}
	s.during(func() {
		if t.Sabotage {
			s.withoutGrace()
		}
		read("on")
		s.until(10*time.Second, "calls are answered 503", func() bool {
			sub, err := s.api.SubmissionCreate(t.ctx, gavelapi.NewSubmission{Problem: "p", Language: language, Source: "*: AC after 1ms"}, "")
			if err == nil {
				s.owe(sub.ID, nil)
			}
			return client.StatusOf(err) == 503
		})
		t.did("made PostgreSQL read-only: calls get 503")
		s.open("finish")
		s.until(15*time.Second, "results wait in outboxes", func() bool { return len(s.outbox("w?")) > 0 })
		t.wait(2 * ttl)
		t.did("%d results wait in outboxes; every lease is past its time", len(s.outbox("w?")))
	}, func() { read("off") })
}

func sessionsTerminated(t *T) {
	s := newStand(t)
	s.serve(6*time.Second, shortBeat)
	s.during(func() {
		if t.Sabotage {
			s.withoutScan()
		}
		term := s.number("select term from leadership")
		rounds := t.rounds(10)
		for range rounds {
			s.exec("select pg_terminate_backend(pid) from pg_stat_activity where application_name like 'gavel%'")
			t.wait(time.Duration(t.rand.IntN(400)) * time.Millisecond)
			s.submitPatiently("*: AC after 1ms")
		}
		// Until the leader has noticed, all may be judged out of its memory.
		s.until(20*time.Second, "leadership is taken anew", func() bool { return s.number("select term from leadership") > term })
		t.did("terminated every session %d times", rounds)
	}, func() {})
}

// submitPatiently hands in across outages; the key makes it one submission.
func (s *stand) submitPatiently(script string) {
	key := "drill-" + strconv.Itoa(s.rand.Int())
	s.until(30*time.Second, "a submission is taken", func() bool {
		sub, err := s.api.SubmissionCreate(s.ctx, gavelapi.NewSubmission{Problem: "p", Language: language, Source: script}, key)
		if err == nil {
			s.owe(sub.ID, nil)
		}
		return err == nil
	})
}

// sessionStops freezes a session that holds what a reclaim holds: the row of
// leadership for key share and the row of an expired job.
func sessionStops(t *T) {
	s := newStand(t)
	s.serve(shortTTL, shortBeat)
	s.watch(calm, "", nil)
	hand := s.caller("hand", "", 1)
	id := s.submit("by hand")
	l := hand.take(10 * time.Second)
	ready := t.path("locked")
	locker := t.role("locker", "locker", lockerSettings{DatabaseURL: s.url, JobID: l.JobID, Unguarded: t.Sabotage, Ready: ready}, nil)
	s.until(15*time.Second, "the locks are held", func() bool { _, err := os.Stat(ready); return err == nil })
	locker.freeze()
	began := t.Clock.Now()
	t.did("froze a session in mid-transaction that holds an expiring job and the row of leadership")
	s.until(20*time.Second, "the database ends the session", func() bool {
		return s.number("select count(*) from pg_stat_activity where application_name = 'gavel-locker'") == 0
	})
	t.took("stopped to ended by the database", t.Clock.Now().Sub(began), 7*time.Second)
	next := hand.take(10 * time.Second)
	hand.wantReport(next.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	s.wantAttempts(id, "expired", "completed")
	s.settle(10 * time.Second)
}
