package edge_test

import (
	"net/http"
	"strings"
	"testing"

	"github.com/google/uuid"
)

// A worker that an operator removes neither goes on nor comes back by itself,
// under whatever program, until an administrator says so.
func TestARemovedWorkerStaysRemoved(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{})
	a.poll()
	if err := b.api.WorkerRemove(t.Context(), "home", "hostile"); err != nil {
		t.Fatal(err)
	}
	_, err := a.Claim(t.Context(), a.request(uuid.NewString(), 0))
	wantStatus(t, err, http.StatusForbidden, "disabled")
	id := b.text("select id::text from workers where name like 'home~%'")
	for range 2 { // started again, and again
		next := b.agent("home", made{})
		_, err := next.Claim(t.Context(), next.request(uuid.NewString(), 0))
		wantStatus(t, err, http.StatusForbidden, "an operator has removed worker home")
	}
	if n := b.number("select count(*) from workers"); n != 1 {
		t.Errorf("there are %d workers", n)
	}
	b.exec("delete from edge_workers where worker_id = $1::bigint", id) // as the hint says
	b.agent("home", made{}).poll()
	if n := b.number("select count(*) from workers where name = 'home' and id <> $1::bigint", id); n != 1 {
		t.Errorf("%d workers have come back", n)
	}
}

// A process that will be refused moves nobody.
func TestASecondProcessDoesNotMoveALiveWorker(t *testing.T) {
	s := newStand(t)
	live := s.agent("home", made{pool: "home", rank: 10})
	live.poll()
	second := s.agent("home", made{})
	_, err := second.Claim(t.Context(), second.request(uuid.NewString(), 0))
	wantStatus(t, err, http.StatusConflict, "another live session")
	if got := s.text("select pool from workers") + " " + s.text("select string_agg(name, ',') from pools"); got != "home home" {
		t.Errorf("worker and pools are now %s", got)
	}
	// The process that succeeds it may choose another one.
	next := s.agent("home", made{pool: "attic"})
	next.previous = live.session
	next.poll()
	if got := s.text("select pool from workers"); got != "attic" {
		t.Errorf("its successor is in %s", got)
	}
}

// What an operator labels outlives restarts, until he takes it back.
func TestAnOperatorsPoolOutlivesRestarts(t *testing.T) {
	s := newStand(t)
	var last *agent
	restart := func(pool string) string {
		t.Helper()
		a := s.agent("home", made{pool: pool})
		if last != nil {
			a.previous = last.session
		}
		a.poll()
		last = a
		return s.text("select pool from workers")
	}
	label := func(pool string) { s.exec("update workers set pool = $1", pool) } // as gavel worker label does
	var seen []string
	seen = append(seen, restart("home"), restart("home"))
	label("vip")
	seen = append(seen, restart("home"), restart("cellar"))
	label("home")
	seen = append(seen, restart("cellar"))
	if got := strings.Join(seen, " "); got != "home home vip vip cellar" {
		t.Errorf("pools after each start: %s", got)
	}
}
