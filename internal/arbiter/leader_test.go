package arbiter_test

import (
	"context"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

func TestAStandbySendsWorkersAwayAndTakesOver(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.hold()
	standby := startOn(t, s.url, quick)
	if _, err := standby.Claim(t.Context(), w.p, w.request(uuid.NewString(), 0)); apperr.CodeOf(err) != apperr.Unavailable {
		t.Fatalf("a standby answered a claim with %v", err)
	}
	if got := standby.read(sub.ID); got.State != gavelapi.StateJudging { // reading needs no leader
		t.Errorf("on the standby the submission is %s", got.State)
	}
	until(t, "a standby knows the leader's workers", func() bool {
		got, err := standby.Worker(t.Context(), "w")
		return err == nil && got.State == "busy"
	})
	languages, err := standby.Languages(t.Context())
	if err != nil || !slices.ContainsFunc(languages.Languages, func(l gavelapi.LanguageInfo) bool { return l.ID == "c" && len(l.Versions) == 1 }) {
		t.Errorf("a standby offers %+v, %v", languages, err)
	}
	before := s.number("select term from leadership")
	s.exec("update jobs set lease_expires_at = now() + interval '1 second'") // nearly over when the leader stops
	s.stop()
	standby.awaitReady()
	if after := standby.number("select term from leadership"); after != before+1 {
		t.Errorf("the term went from %d to %d", before, after)
	}
	// Grace: the lease got a full TTL, so its holder can still report.
	if n := standby.number("select count(*) from jobs where lease_expires_at > now() + interval '30 seconds'"); n != 1 {
		t.Error("the live lease got no grace")
	}
	w.s = standby
	if got := w.report(l.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeRecorded {
		t.Errorf("the report to the new leader was %+v", got)
	}
}

// A leader whose session is gone must neither grant nor answer, although its
// pool still works; and it stands for leadership again by itself.
func TestALeaderThatLostItsSessionIsReplaced(t *testing.T) {
	s := newStand(t, quick)
	term := s.number("select term from leadership")
	endLeaderSession(t, s.url)
	until(t, "a new term begins", func() bool { return s.number("select term from leadership") > term })
	s.awaitReady()
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	if l := w.claim(); l.SubmissionID != sub.ID {
		t.Error("the leader of the new term does not grant")
	}
}

// The lock alone never notices a frozen leader: its session looks alive. A
// session that holds the lock and does not renew is ended by the standby.
func TestAFrozenLeaderIsReplaced(t *testing.T) {
	s := newStand(t, quick)
	s.stop()
	frozen, err := pgx.Connect(t.Context(), s.url) // holds the lock and says nothing more
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = frozen.Close(t.Context()) }()
	if _, err := frozen.Exec(t.Context(), "select pg_advisory_lock(1734440556, 0)"); err != nil {
		t.Fatal(err)
	}
	if _, err := frozen.Exec(t.Context(), "update leadership set term = term + 1, holder = 'frozen', expires_at = now() + interval '500 ms'"); err != nil {
		t.Fatal(err)
	}
	standby := startOn(t, s.url, quick)
	standby.awaitReady()
	if _, err := frozen.Exec(t.Context(), "select 1"); err == nil {
		t.Error("the frozen leader's session still lives")
	}
}

// Any login of the server can take the leader's lock. It keeps nobody from
// leading: without it the row decides.
func TestALeaderLockThatIsNoArbitersDecidesNothing(t *testing.T) {
	s := newStand(t, quick)
	login := "nobody_" + strings.ReplaceAll(uuid.NewString(), "-", "")
	root, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = root.Close(context.WithoutCancel(t.Context())) }()
	if _, err := root.Exec(t.Context(), "create role "+login+" login password 'x'"); err != nil {
		t.Fatal(err)
	}
	before := s.number("select term from leadership")
	cfg, err := pgx.ParseConfig(s.url)
	if err != nil {
		t.Fatal(err)
	}
	cfg.User, cfg.Password = login, "x"
	foreign, err := pgx.ConnectConfig(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = foreign.Close(context.WithoutCancel(t.Context())) }()
	s.stop()
	if _, err := foreign.Exec(t.Context(), "select pg_advisory_lock(1734440556, 0)"); err != nil {
		t.Fatal(err)
	}
	one := startOn(t, s.url, quick)
	one.awaitReady()
	if after := one.number("select term from leadership"); after != before+1 {
		t.Errorf("the term went from %d to %d", before, after)
	}
	// It is not ours to end, and once it is free the leader takes it.
	if _, err := foreign.Exec(t.Context(), "select pg_advisory_unlock(1734440556, 0)"); err != nil {
		t.Fatal(err)
	}
	until(t, "the leader holds the lock", func() bool {
		return one.number(`select count(*) from pg_locks l join pg_stat_activity a using (pid)
			where l.locktype = 'advisory' and l.classid = 1734440556 and l.granted and a.datname = current_database()
			  and a.application_name like 'gavel-leader:%'`) == 1
	})
	if after := one.number("select term from leadership"); after != before+1 {
		t.Errorf("with the lock it began a new term: %d after %d", after, before)
	}
	if _, err := root.Exec(t.Context(), "drop role "+login); err != nil {
		t.Error(err)
	}
}

func endLeaderSession(t *testing.T, url string) {
	t.Helper()
	conn, err := pgx.Connect(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	var n int
	err = conn.QueryRow(t.Context(), `select count(pg_terminate_backend(pid)) from pg_stat_activity
		where datname = current_database() and application_name like 'gavel-leader:%'`).Scan(&n)
	if err != nil || n != 1 {
		t.Fatalf("ended %d leader sessions, %v", n, err)
	}
}

func TestEverySessionEndedAtOnceNeedsNoOperator(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.claim()
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close(t.Context()) }()
	if _, err := conn.Exec(t.Context(), `select pg_terminate_backend(pid) from pg_stat_activity
		where datname = current_database() and pid <> pg_backend_pid()`); err != nil {
		t.Fatal(err)
	}
	until(t, "the report is recorded", func() bool {
		got, err := s.Result(t.Context(), w.p, gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("AC")})
		if err != nil && apperr.CodeOf(err) != apperr.Unavailable {
			t.Fatalf("want only 503 until then, got %v", err)
		}
		return err == nil && got.Outcome != gavelapi.OutcomeDiscarded
	})
	until(t, "the verdict is read", func() bool { // by a session of its own, which may have been ended, too
		got, err := s.Submission(t.Context(), sub.ID, 0)
		if err == nil && got.Verdict != "AC" {
			t.Fatalf("the verdict is %q", got.Verdict)
		}
		return err == nil
	})
	s.awaitReady()
}

func TestOrderSurvivesARestart(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c", "python3")
	var want []int64
	for i := range 20 {
		want = append(want, s.submit([]string{"c", "python3"}[i%2]).ID)
	}
	s.stop()
	s2 := startOn(t, s.url, quick)
	s2.awaitReady()
	w.s = s2
	for i, id := range want {
		l := w.claim()
		if l.SubmissionID != id {
			t.Fatalf("claim %d got submission %d, want %d", i, l.SubmissionID, id)
		}
		w.report(l.LeaseToken, verdictReport("AC"))
	}
}

func TestSettingsThatContradictAreRefused(t *testing.T) {
	bad := quick
	bad.Heartbeat = 25 * time.Second
	_, err := newArbiter(t, bad)
	if apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("3 × heartbeat > ttl: %v", err)
	}
}
