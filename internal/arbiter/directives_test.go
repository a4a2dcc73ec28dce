package arbiter_test

import (
	"slices"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

// A worker hears of a lease that was ended in the answer that comes first: of
// a claim that waits, at once, or of a heartbeat or result of another lease.
func TestACancelIsToldWithTheNextAnswer(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 5, "c")
	var leases []gavelapi.Lease
	for range 4 {
		s.submit("c")
	}
	for len(leases) < 4 {
		got, err := w.tryClaim(10 * time.Second)
		if err != nil {
			t.Fatal(err)
		}
		leases = append(leases, got...)
	}
	slices.SortFunc(leases, func(x, y gavelapi.Lease) int { return int(x.JobID - y.JobID) })
	cancel := func(l gavelapi.Lease) {
		t.Helper()
		if _, err := s.CancelSubmission(t.Context(), s.admin, l.SubmissionID, ""); err != nil {
			t.Fatal(err)
		}
	}
	want := func(what string, d gavelapi.Directives, jobs ...int64) {
		t.Helper()
		if !slices.Equal(d.Cancel, jobs) || d.Drain {
			t.Errorf("%s carries %+v, want to cancel %v", what, d, jobs)
		}
	}

	claimed := make(chan gavelapi.ClaimResponse, 1)
	go func() {
		got, err := s.Claim(t.Context(), w.p, w.request(uuid.NewString(), 10*time.Second))
		if err != nil || len(got.Leases) != 0 {
			t.Errorf("%+v, %v", got, err)
		}
		claimed <- got
	}()
	until(t, "a claim waits", w.waits)
	began := time.Now()
	cancel(leases[0])
	want("a claim that waited", (<-claimed).Directives, leases[0].JobID)
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it was answered after %v", took)
	}

	beat := func() gavelapi.Directives {
		t.Helper()
		got, err := s.Heartbeat(t.Context(), w.p, gavelapi.HeartbeatRequest{LeaseToken: leases[3].LeaseToken})
		if err != nil {
			t.Fatal(err)
		}
		return got.Directives
	}
	want("a heartbeat when nothing is new", beat())
	if _, err := s.RejudgeSubmission(t.Context(), s.admin, leases[1].SubmissionID, "again"); err != nil {
		t.Fatal(err)
	}
	want("a heartbeat after a rejudge", beat(), leases[1].JobID)
	want("the one after it", beat())
	cancel(leases[2])
	want("a result", w.report(leases[3].LeaseToken, verdictReport("AC")).Directives, leases[2].JobID)
	wantGone(t, w.beat(leases[2].LeaseToken), gavelapi.LeaseCancelled)
}
