package arbiter_test

import (
	"context"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// locked keeps a table from being written until it is let go.
func (s *stand) locked(table string) (letGo func()) {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) })
	tx, err := conn.Begin(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	if _, err := tx.Exec(s.t.Context(), "lock table "+table+" in share mode"); err != nil {
		s.t.Fatal(err)
	}
	return func() {
		if err := tx.Rollback(s.t.Context()); err != nil {
			s.t.Error(err)
		}
	}
}

// What cannot be written down at once is on /metrics meanwhile, and written
// down later: all of it, and in order.
func TestAlarmsAreWrittenDownWhenTheDatabaseTakesThem(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	letGo := s.locked("alarms")
	s.submit("cpp17")
	until(t, "both are on /metrics", func() bool {
		g := s.gauges()
		return g["gavel_alarms judge_down"] == 1 && g["gavel_alarms oldest_waiting"] == 1
	})
	until(t, "writing has failed", func() bool { return s.gauges()["gavel_alarm_look_age_seconds"] > 1.5 })
	letGo()
	down, oldest := s.starts(alarm.JudgeDown), s.starts(alarm.OldestWaiting)
	if down.ID > oldest.ID {
		t.Errorf("judge_down has id %d, oldest_waiting %d", down.ID, oldest.ID)
	}
}

// An arbiter that lost its leadership and leads again knows nothing of what it
// saw before.
func TestAnArbiterThatLeadsAgainWatchesAnew(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.Holder = "first" })
	unstick := s.StickLoop()
	stuck := s.starts(alarm.DispatchStuck)
	heir := startWith(t, s.url, quick, func(c *arbiter.Config) { c.Alarms, c.Holder = soon, "heir" })
	until(t, "another arbiter leads", func() bool { _, ok := heir.Ready(t.Context()); return ok })
	unstick()
	heir.ends(stuck)
	until(t, "the first one stands by", func() bool { return s.gauges()["gavel_leader"] == 0 })
	heir.stop()
	until(t, "the first one leads again, and shows no alarm of its term before", func() bool {
		g := s.gauges()
		return g["gavel_leader"] == 1 && g["gavel_alarms dispatch_stuck"] == 0
	})
	until(t, "it sees what happens in its new term", func() bool {
		list, err := s.Alarms(t.Context(), false, string(alarm.LeaderChanged), "", 1)
		if err != nil {
			t.Fatal(err)
		}
		if len(list.Alarms) == 0 {
			return false
		}
		e := evidenceOf(t, s.reread(list.Alarms[0]))
		return e["leader"] == "first" && e["leader_before"] == "heir"
	})
}

// reread reads an alarm with its evidence.
func (s *stand) reread(al gavelapi.Alarm) gavelapi.Alarm {
	s.t.Helper()
	al, err := s.Alarm(s.t.Context(), al.ID)
	if err != nil {
		s.t.Fatal(err)
	}
	return al
}

// What was counted goes on being counted by the next leader.
func TestASuccessorCountsOn(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	w := s.worker("w", 1, "cpp17")
	s.submit("cpp17")
	late := w.hold()
	s.expire(late.LeaseToken)
	s.stop()
	heir := startWith(t, s.url, quick, func(c *arbiter.Config) {
		c.Alarms = soon
		c.Alarms.Quiet = 1 << 60
	})
	heir.exec("insert into alarms (kind, severity, summary, since, occurrences) values ('result_discarded', 'info', '', now(), 5)")
	second := startWith(t, s.url, quick, func(c *arbiter.Config) {
		c.Alarms = soon
		c.Alarms.Quiet = 1 << 60
	})
	heir.stop()
	second.awaitReady()
	again := *w
	again.s = second
	if got := again.report(late.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Fatalf("a late report: %+v", got)
	}
	until(t, "the sixth is counted", func() bool {
		return second.number("select occurrences from alarms where kind = 'result_discarded' and ended_at is null") == 6
	})
}

// Who is away as planned, and who works elsewhere, is no reason to wake anybody;
// who was removed counts for nothing.
func TestWhoIsAwayAsPlannedIsNoReason(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	home := s.worker("home", 1, "python3")
	if _, err := home.tryClaim(0); err != nil { // it was here in this term, so its languages are known
		t.Fatal(err)
	}
	s.worker("gone", 1, "cpp17")
	if err := s.RemoveWorker(t.Context(), s.admin, "gone", ""); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetWorkerHours(t.Context(), s.admin, "home", gavelapi.NewHours{Hours: "daily 00:00-24:00"}); err != nil {
		t.Fatal(err)
	}
	until(t, "it is asleep, and nobody else is there", func() bool {
		g := s.gauges()
		return g["gavel_workers asleep"] == 1 && g["gavel_workers offline"] == 0
	})
	s.submit("cpp17")
	s.starts(alarm.OldestWaiting) // later than judge_down would be
	if diff := cmp.Diff([]string{"oldest_waiting"}, s.openKinds()); diff != "" {
		t.Errorf("all are asleep as planned (-want +got):\n%s", diff)
	}

	other := s.worker("other", 1, "java")
	s.submit("java")
	other.hold()
	unserved := s.starts(alarm.NoCapableWorker) // who is asleep could not do it either
	if unserved.Subject != "cpp17" {
		t.Errorf("raised: %s", asJSON(unserved))
	}
}

// Workers straight on the database work where the leader does not see it.
func TestWhoWorksOnTheDatabaseIsNotDown(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	edge, session := s.worker("edge", 1, "cpp17"), uuid.New()
	s.exec("insert into edge_workers (worker_id, login, session) values ($1, current_user, $2)", edge.p.WorkerID, session)
	s.exec("update workers set session = $2, last_seen_at = now() + interval '1 hour' where id = $1", edge.p.WorkerID, session)
	until(t, "it is known", func() bool { return s.gauges()["gavel_workers on_database"] == 1 })
	s.submit("cpp17")
	s.starts(alarm.OldestWaiting) // later than judge_down would be
	if diff := cmp.Diff([]string{"oldest_waiting"}, s.openKinds()); diff != "" {
		t.Errorf("while it is there (-want +got):\n%s", diff)
	}
	s.exec("update workers set last_seen_at = now() - interval '1 hour'")
	s.starts(alarm.JudgeDown)
}

// openKinds are the kinds of the alarms that are open, without those of the start.
func (s *stand) openKinds() (kinds []string) {
	s.t.Helper()
	list, err := s.Alarms(s.t.Context(), true, "", "", 50)
	if err != nil {
		s.t.Fatal(err)
	}
	for _, al := range list.Alarms {
		if al.Kind != string(alarm.LeaderChanged) {
			kinds = append(kinds, al.Kind)
		}
	}
	return kinds
}

// What a stuck loop keeps waiting is bounded, and goes when the loop goes on.
func TestLooksAtStuckMemoryAreBounded(t *testing.T) {
	t.Parallel()
	s := newStandWith(t, quick, func(c *arbiter.Config) { c.Alarms = alarm.Default }) // stuck for less than it takes to lose the leadership
	unstick := s.StickLoop()
	var scrapes sync.WaitGroup
	for range 20 {
		scrapes.Go(func() { s.gauges() })
	}
	scrapes.Wait()
	if n := s.LooksWaiting(); n > 4 || n == 0 {
		t.Errorf("%d looks wait", n)
	}
	unstick()
	until(t, "none waits", func() bool { return s.LooksWaiting() == 0 && s.gauges()["gavel_leases_active"] == 0 })
}

func TestEventsBetweenTwoLooksAreBounded(t *testing.T) {
	if next, after := arbiter.Remembered(5000); next != 1000 || after != 0 {
		t.Errorf("%d are kept for the next look, %d for the one after it", next, after)
	}
}
