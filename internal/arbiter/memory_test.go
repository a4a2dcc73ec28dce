package arbiter

import (
	"log/slog"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/dispatch"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
)

// remembering is a leadership that holds two grants of job 1 to worker 7, of
// which the older is dead already.
func remembering(t *testing.T) (l *leadership, dead, live uuid.UUID) {
	t.Helper()
	a, err := New(Config{DB: &store.DB{}, Lease: lease.DefaultSettings, Clock: clock.System{}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	l = newLeadership(a, nil, 1, time.Time{})
	dead, live = uuid.New(), uuid.New()
	job := dispatch.Job{ID: 1, Lane: dispatch.Judge, Language: "c"}
	l.hold(&held{jobID: 1, gen: 1, token: dead, workerID: 7, job: job})
	job.Gen = 1
	l.hold(&held{jobID: 1, gen: 2, token: live, workerID: 7, job: job})
	l.board.Hold(job, 7, time.Time{})
	return l, dead, live
}

// I4: the answer that ends an old lease can come after the job was granted to
// the same worker again; the new lease still fills a slot.
func TestAnOldLeaseDoesNotTakeItsSuccessorOutOfTheCount(t *testing.T) {
	l, dead, live := remembering(t)
	l.letGo(dead)
	if len(l.holders[7]) != 1 || l.board.Held(7) != 1 || l.byJob[1] == nil || l.byJob[1].token != live {
		t.Errorf("the worker holds %d leases in memory, want 1", len(l.holders[7]))
	}
}

// I4: so can the answer of a reclaim.
func TestALateReclaimDoesNotForgetTheNextLease(t *testing.T) {
	l, _, live := remembering(t)
	l.takenBack(t.Context(), &storedb.RequeueExpiredRow{JobID: 1, LeaseGen: 1, Confirmed: true})
	if l.held[live] == nil || len(l.holders[7]) != 1 || l.board.Held(7) != 1 {
		t.Error("the live lease was forgotten")
	}
	if l.board.HasJob(1) {
		t.Error("a leased job was put into the queue")
	}
	l.takenBack(t.Context(), &storedb.RequeueExpiredRow{JobID: 1, LeaseGen: 2, Confirmed: true})
	if l.held[live] != nil || l.board.Held(7) != 0 || !l.board.HasJob(1) {
		t.Error("an expired lease was kept")
	}
}

// The alarm judge_down looks at whether anything is granted: probes alone must
// not keep it from starting.
func TestAProbeIsNoSignThatAnybodyJudges(t *testing.T) {
	l, _, _ := remembering(t)
	w := &waiter{id: 1, workerID: 7, inFlight: 2, done: make(chan struct{})}
	plan := []plannedGrant{
		{job: dispatch.Job{ID: 2, Lane: dispatch.Probe, Target: 7}, waiter: w, token: uuid.New()},
		{job: dispatch.Job{ID: 3, Lane: dispatch.Judge}, waiter: w, token: uuid.New()},
	}
	l.settle(plan[:1], []*storedb.GrantLeasesRow{{JobID: 2, LeaseGen: 1, Kind: kindProbe}}, payloads{})
	if l.grants != 0 {
		t.Errorf("%d grants, of a probe", l.grants)
	}
	l.settle(plan[1:], []*storedb.GrantLeasesRow{{JobID: 3, LeaseGen: 1, Kind: kindProbe}}, payloads{})
	if l.grants != 1 {
		t.Errorf("%d grants, want 1", l.grants)
	}
}
