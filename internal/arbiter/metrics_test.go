package arbiter_test

import (
	"context"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// Each worker that is enrolled counts once, as what it is doing.
func TestWorkersAreCountedByWhatTheyAreDoing(t *testing.T) {
	t.Parallel()
	s := newStand(t, quick)
	states := []string{"idle", "busy", "set_aside", "draining", "paused", "asleep", "offline", "on_database"}
	want := func(step string, want map[string]float64, keep func()) {
		t.Helper()
		got := map[string]float64{}
		until(t, step, func() bool {
			keep()
			clear(got)
			g := s.gauges()
			for _, state := range states {
				n, there := g["gavel_workers "+state]
				if !there {
					return false // memory could not be looked at, or a state is missing
				}
				if n > 0 {
					got[state] = n
				}
			}
			return cmp.Equal(got, want)
		})
	}
	s.worker("never", 1, "c")
	edge := s.worker("edge", 1, "c")
	session := uuid.New()
	s.exec("insert into edge_workers (worker_id, login, session) values ($1, current_user, $2)", edge.p.WorkerID, session)
	s.exec("update workers set session = $2, last_seen_at = now() + interval '1 hour' where id = $1", edge.p.WorkerID, session)
	w := s.worker("w", 1, "cpp17")
	s.submit("cpp17")
	held := w.hold().LeaseToken
	beat := func() {
		if err := w.beat(held); err != nil {
			t.Fatal(err)
		}
	}
	want("one is busy, one straight on the database, one was never here", map[string]float64{"busy": 1, "on_database": 1, "offline": 1}, beat)
	if _, err := s.ChangeWorker(t.Context(), s.admin, "w", gavelapi.WorkerChange{Action: "drain"}); err != nil {
		t.Fatal(err)
	}
	want("it is drained", map[string]float64{"draining": 1, "on_database": 1, "offline": 1}, beat)
	if _, err := s.ChangeWorker(t.Context(), s.admin, "w", gavelapi.WorkerChange{Action: "resume"}); err != nil {
		t.Fatal(err)
	}
	w.report(held, verdictReport("AC"))
	if err := s.RemoveWorker(t.Context(), s.admin, "never", ""); err != nil {
		t.Fatal(err)
	}
	want("it is idle, and who was removed counts no more", map[string]float64{"idle": 1, "on_database": 1}, func() {
		if _, err := w.tryClaim(0); err != nil {
			t.Fatal(err)
		}
	})
}

// What was recorded counts by the kind of work, what the system failed by who
// is to blame, and what was discarded as neither.
func TestResultsAreCountedByKindAndBlame(t *testing.T) {
	t.Parallel()
	s := newStand(t, quick)
	w := s.worker("w", 1, "cpp17")
	counts := func() map[string]float64 {
		got, g := map[string]float64{}, s.gauges()
		for _, name := range []string{"gavel_results_recorded_total judge", "gavel_results_recorded_total run", "gavel_attempts_failed_total package", "gavel_attempts_failed_total host"} {
			n, there := g[name]
			if !there {
				t.Errorf("%s is missing", name)
			}
			got[name] = n
		}
		return got
	}
	counts() // each is there from the start
	s.submit("cpp17")
	w.report(w.hold().LeaseToken, faultReport(gavelapi.BlamePackage))
	again := w.hold().LeaseToken
	w.report(again, verdictReport("AC"))
	w.report(again, verdictReport("AC")) // recorded already
	s.submit("cpp17")
	late := w.hold().LeaseToken
	s.expire(late)
	w.report(late, verdictReport("AC"))
	want := map[string]float64{
		"gavel_results_recorded_total judge": 1, "gavel_results_recorded_total run": 0,
		"gavel_attempts_failed_total package": 1, "gavel_attempts_failed_total host": 0,
	}
	if diff := cmp.Diff(want, counts()); diff != "" {
		t.Errorf("counted (-want +got):\n%s", diff)
	}
}

// A leader that cannot look for alarms raises none: only its metrics say so.
func TestALeaderThatDoesNotLookForAlarmsIsSeen(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	before := s.gauges()["gavel_leader_term"]
	s.stop()
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(context.WithoutCancel(t.Context())) }()
	tx, err := conn.Begin(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if _, err := tx.Exec(t.Context(), "lock table alarms in access exclusive mode"); err != nil {
		t.Fatal(err)
	}
	heir := startWith(t, s.url, quick, func(c *arbiter.Config) { c.Alarms = soon })
	until(t, "another leads, and has not looked for 5 s", func() bool {
		g := heir.gauges()
		return g["gavel_leader"] == 1 && g["gavel_leader_term"] > before && g["gavel_alarm_look_age_seconds"] > 5
	})
	if err := tx.Rollback(t.Context()); err != nil {
		t.Fatal(err)
	}
	until(t, "it has looked", func() bool {
		age, leads := heir.gauges()["gavel_alarm_look_age_seconds"]
		return leads && age < 3
	})
}
