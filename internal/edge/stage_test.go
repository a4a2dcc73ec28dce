package edge_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/edge"
)

// A deployment is walked up all four stages and down again; at each step the
// facts alone tell where it stands and what is left.
func TestTheStagesOfASwitch(t *testing.T) {
	s := newStand(t)
	options := edge.StageOptions{Since: time.Hour, OldTable: "judge_dispatch_state", OldRole: "gavel_test_old_judge", OldLock: 0x4f4a5343484544}
	stage := func() edge.Stage {
		t.Helper()
		got, err := edge.ReadStage(t.Context(), s.db, options)
		if err != nil {
			t.Fatal(err)
		}
		return got
	}
	want := func(step string, number int, left, next string) {
		t.Helper()
		got := stage()
		if got.Stage != number || got.Name == "" {
			t.Errorf("%s: stage %d (%s), want %d: %+v", step, got.Stage, got.Name, number, got.Workers)
		}
		if text := strings.Join(got.Left, "; "); left == "" && text != "" || !strings.Contains(text, left) {
			t.Errorf("%s: left to do is %q, want %q", step, text, left)
		}
		if text := strings.Join(got.Next, "; "); !strings.Contains(text, next) {
			t.Errorf("%s: next is %q, want %q", step, text, next)
		}
	}
	lead := func(valid string) {
		s.exec("update leadership set holder = 'arbiter-1', expires_at = now() + $1::interval", valid)
	}
	// How a worker's signs of life by way of an arbiter look in the tables.
	byArbiter := func(names ...string) {
		s.exec("update workers set session = gen_random_uuid(), last_seen_at = now() where name = any($1)", names)
	}
	byEdge := func(names ...string) {
		s.exec("update workers w set session = e.session, last_seen_at = now() from edge_workers e where e.worker_id = w.id and name = any($1)", names)
	}

	for _, l := range stage().Logins { // those that other tests have made
		s.exec("drop owned by " + l.Login + "; drop role " + l.Login)
	}
	want("at first", 0, "no arbiter leads", "start the workers")
	s.agent("home-1", made{pool: "home", rank: 10}).poll()
	s.agent("home-2", made{pool: "home", rank: 10}).poll()
	s.agent("server", made{pool: "server", rank: 20}).poll()
	want("edge workers only", 1, "", "start gavel serve")
	lead("1 hour")
	want("an arbiter beside them", 1, "", "home-1")
	byArbiter("home-1")
	want("one home worker over HTTP", 2, "", "home-2")
	lead("-1 second")
	want("and the arbiter gone", 2, "no arbiter leads", "home-2")
	lead("1 hour")
	byArbiter("home-1", "home-2")
	want("all home workers over HTTP", 3, "", "server")
	s.login("gavel_test_home")
	want("with a login that nobody needs", 3, "drop role gavel_test_home", "server")
	byArbiter("home-1", "home-2", "server")
	want("all over HTTP", 4, "drop role gavel_test_home", "")
	s.exec("drop role gavel_test_home; create table judge_dispatch_state (turn int); create role gavel_test_old_judge")
	want("with what the old way shared", 4, "drop table judge_dispatch_state", "")
	want("and its login", 4, "drop role gavel_test_old_judge", "")
	old, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := old.Exec(t.Context(), "select pg_advisory_lock($1)", options.OldLock); err != nil {
		t.Fatal(err)
	}
	want("and somebody who still takes its lock", 4, "1 sessions hold or want the old site-wide lock", "")
	// Given back in so many words: the end of a session is noticed in its own time.
	if _, err := old.Exec(t.Context(), "select pg_advisory_unlock($1)", options.OldLock); err != nil {
		t.Fatal(err)
	}
	_ = old.Close(context.WithoutCancel(t.Context()))
	s.exec("drop table judge_dispatch_state; drop role gavel_test_old_judge")
	want("at the end", 4, "", "")

	byEdge("server")
	want("the server back on the database", 3, "", "server")
	byEdge("home-2")
	want("home-2 too", 2, "", "home-2")
	byEdge("home-1")
	want("and home-1", 1, "", "home-1")
	s.exec("update workers set last_seen_at = now() - interval '3 minutes' where name = 'home-1'")
	want("with one that was killed", 1, "home-1 is dead: no sign of life since", "(home-2)")
	byArbiter("home-2")
	want("while the other goes over", 3, "home-1 is dead", "server")
	byEdge("home-2")
	s.exec("update workers set disabled = true, name = name || '~' || id where name = 'home-1'")
	if got := stage(); len(got.Workers) != 2 || len(got.Left) != 0 {
		t.Errorf("a removed worker counts: %+v", got)
	}
	s.exec("update edge_workers set failed_rounds = 3 where worker_id = (select id from workers where name = 'server')")
	want("with one that cannot work", 1, "server is unhealthy", "")
	s.exec("delete from package_languages")
	want("with a problem without limits", 1, "1 published problems", "")
	s.exec("insert into package_languages select digest, 'c', '{}', 1, 'test' from packages")
	s.exec("update workers set last_seen_at = now() - interval '2 hours'")
	want("and all asleep", 0, "", "start the workers")
}
