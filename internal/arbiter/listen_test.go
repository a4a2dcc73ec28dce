package arbiter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
)

// owner is a pool as the site's own database user, who may submit by SQL.
func (s *stand) owner() *store.DB {
	s.t.Helper()
	db, err := store.Open(s.t.Context(), s.url, store.Options{Role: "nobody's"})
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(db.Close)
	return db
}

// withLimits publishes by way of the store, as an earlier version did, and
// starts the arbiter anew: it computes what is missing.
func (s *stand) withLimits() *stand {
	s.t.Helper()
	s.exec("delete from package_languages")
	s.stop()
	again := startOn(s.t, s.url, quick)
	again.admin = s.admin
	again.awaitReady()
	until(s.t, "the limits are computed", func() bool { return again.number("select count(*) from package_languages where language = 'c'") == 1 })
	return again
}

func TestTheLimitsInTheDatabaseAreThoseOfTheAPI(t *testing.T) {
	s := newStand(t, quick).withLimits()
	site := s.owner()
	sub := s.submit("python3")
	var id int64
	if err := site.Pool.QueryRow(t.Context(), "select gavel.submit('p', 'python3', 'int main(){}')").Scan(&id); err != nil {
		t.Fatal(err)
	}
	bySQL := s.read(id)
	if bySQL.Detail.Limits != sub.Detail.Limits || bySQL.PackageDigest != sub.PackageDigest || bySQL.SourceBytes != sub.SourceBytes || bySQL.State != sub.State {
		t.Errorf("by the API %s\nby SQL %s", asJSON(sub), asJSON(bySQL))
	}
	languages, err := s.Languages(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if n := s.number("select count(*) from package_languages"); n != len(languages.Languages) {
		t.Errorf("limits for %d languages, there are %d", n, len(languages.Languages))
	}
	// Rules that have changed since are computed again, once.
	s.exec("update package_languages set rules = 'old', limits = '{}'")
	s = s.withLimits()
	if n := s.number("select count(*) from package_languages where limits = '{}'"); n != 0 {
		t.Errorf("%d limits are still the old ones", n)
	}
}

// A note wakes the arbiter: most submissions are dispatched long before the
// scan, which comes every two seconds, would have found them.
func TestANoteWakesTheArbiter(t *testing.T) {
	s := newStand(t, quick).withLimits()
	site, w := s.owner(), s.worker("w", 1, "c")
	listening(t, site)
	var took []time.Duration
	for range 9 {
		got := make(chan gavelapi.Lease, 1)
		go func() { got <- w.claim() }()
		until(t, "a claim waits", w.waits)
		began := time.Now()
		if _, err := site.Pool.Exec(t.Context(), "select gavel.submit('p', 'c', 'int main(){}')"); err != nil {
			t.Fatal(err)
		}
		l := <-got
		took = append(took, time.Since(began))
		w.report(l.LeaseToken, verdictReport("AC"))
	}
	slices.Sort(took)
	if took[4] > 500*time.Millisecond {
		t.Errorf("the times from submit to lease were %v: nothing but the scan found them", took)
	}
	t.Logf("from submit to lease: %v", took)
}

func listening(t *testing.T, owner *store.DB) {
	t.Helper()
	until(t, "the arbiter listens", func() bool {
		var n int
		err := owner.Pool.QueryRow(t.Context(), "select count(*) from pg_stat_activity where datname = current_database() and application_name = 'gavel-listen:0' and state = 'idle' and query like 'unlisten%'").Scan(&n)
		return err == nil && n == 1
	})
}

// A21: the note is lost, or the listener's connection is cut.
func TestWithoutANoteTheScanFindsTheWork(t *testing.T) {
	s := newStand(t, quick).withLimits()
	site, w := s.owner(), s.worker("w", 1, "c")
	if _, err := site.Pool.Exec(t.Context(), "select gavel.submit('p', 'c', 'int main(){}', wake => false)"); err != nil {
		t.Fatal(err)
	}
	w.report(w.claim().LeaseToken, verdictReport("AC"))
	listening(t, site)
	for range 3 {
		if _, err := site.Pool.Exec(t.Context(), "select pg_terminate_backend(pid) from pg_stat_activity where datname = current_database() and application_name = 'gavel-listen:0'"); err != nil {
			t.Fatal(err)
		}
		if _, err := site.Pool.Exec(t.Context(), "select gavel.submit('p', 'c', 'int main(){}')"); err != nil {
			t.Fatal(err)
		}
		w.report(w.claim().LeaseToken, verdictReport("AC"))
	}
	listening(t, site) // it comes back by itself
}

// Anybody who may connect may send notes; they may cost a look and no more.
func TestNotesWithNonsenseDoNoHarm(t *testing.T) {
	s := newStand(t, quick).withLimits()
	site, w := s.owner(), s.worker("w", 1, "c")
	listening(t, site)
	sub := s.submit("c")
	for _, payload := range []string{"", "x", "1", "-1 -1", "99999999999999999999 1", strings.Repeat("9", 4000)} {
		if _, err := site.Pool.Exec(t.Context(), "select pg_notify('gavel_done', $1), pg_notify('gavel_work', $1)", payload); err != nil {
			t.Fatal(err)
		}
	}
	l := w.claim()
	if l.SubmissionID != sub.ID {
		t.Fatalf("lease %+v", l)
	}
	w.report(l.LeaseToken, verdictReport("AC"))
}

func TestAnArbitersSettingsAreTheEdgeWorkers(t *testing.T) {
	settings := lease.Settings{TTL: 90 * time.Second, Heartbeat: 9 * time.Second, Confirm: 19 * time.Second, AttemptCap: 5, Sweep: time.Second, ClaimWait: time.Second}
	s := newStand(t, settings)
	until(t, "the settings are written", func() bool {
		return s.number("select count(*) from lease_settings where ttl = '90 s' and heartbeat = '9 s' and confirm = '19 s' and attempt_cap = 5") == 1
	})
}
