package lease

import (
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

func TestApplyFollowsTheStatePicture(t *testing.T) {
	const limit = 3
	leased := func(attempts int, confirmed bool) Job {
		return Job{State: Leased, Gen: 7, Attempts: attempts, Confirmed: confirmed}
	}
	pending := func(attempts int) Job { return Job{State: Pending, Gen: 7, Attempts: attempts} }
	for _, c := range []struct {
		name    string
		from    Job
		event   Event
		want    Job
		outcome Outcome
		ok      bool
	}{
		{"a grant raises generation and attempts", pending(0), Grant, Job{State: Leased, Gen: 8, Attempts: 1}, Running, true},
		{"a leased job is not granted again", leased(1, true), Grant, leased(1, true), Running, false},
		{"a heartbeat confirms", leased(1, false), Heartbeat, leased(1, true), Running, true},
		{"a result ends the job", leased(1, true), Result, Job{State: Done, Gen: 7, Attempts: 1, Confirmed: true}, Completed, true},
		{"an unconfirmed lease may report", leased(1, false), Result, Job{State: Done, Gen: 7, Attempts: 1}, Completed, true},
		{"a release refunds the attempt", leased(2, true), Release, pending(1), Released, true},
		{"a fault below the cap is tried again", leased(2, true), Fault, pending(2), Failed, true},
		{"a fault at the cap is a system error", leased(3, true), Fault, Job{State: SystemError, Gen: 7, Attempts: 3, Confirmed: true}, Failed, true},
		{"expiry below the cap is tried again", leased(2, true), Expire, pending(2), Expired, true},
		{"expiry at the cap is a system error", leased(3, true), Expire, Job{State: SystemError, Gen: 7, Attempts: 3, Confirmed: true}, Expired, true},
		{"an undelivered grant costs nothing", leased(3, false), Expire, pending(2), Undelivered, true},
		{"a pending job can be cancelled", pending(1), Cancel, Job{State: Cancelled, Gen: 7, Attempts: 1}, Running, true},
		{"a leased job can be cancelled", leased(1, true), Cancel, Job{State: Cancelled, Gen: 7, Attempts: 1, Confirmed: true}, WasCancelled, true},
		{"a pending job has no lease to report on", pending(1), Result, pending(1), Running, false},
		{"a final job stays", Job{State: Done, Gen: 7}, Cancel, Job{State: Done, Gen: 7}, Running, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, outcome, ok := Apply(c.from, c.event, limit)
			if got != c.want || outcome != c.outcome || ok != c.ok {
				t.Errorf("Apply(%+v, %s) = %+v, %s, %v; want %+v, %s, %v", c.from, c.event, got, outcome, ok, c.want, c.outcome, c.ok)
			}
		})
	}
}

// Whatever happens in whatever order: generations only grow, a final job stays
// final, and the attempts never pass the cap.
func TestAnyHistoryKeepsTheInvariants(t *testing.T) {
	events := []Event{Grant, Heartbeat, Result, Fault, Release, Expire, Cancel}
	rapid.Check(t, func(t *rapid.T) {
		limit := rapid.IntRange(1, 5).Draw(t, "cap")
		j := Job{State: Pending}
		for _, e := range rapid.SliceOf(rapid.SampledFrom(events)).Draw(t, "events") {
			next, outcome, ok := Apply(j, e, limit)
			switch {
			case !ok && next != j:
				t.Fatalf("%s was refused but changed %+v to %+v", e, j, next)
			case ok && j.State.Final():
				t.Fatalf("%s changed the final job %+v", e, j)
			case next.Gen < j.Gen, e == Grant && ok && next.Gen != j.Gen+1:
				t.Fatalf("%s: generation went from %d to %d", e, j.Gen, next.Gen)
			case next.Attempts < 0 || next.Attempts > limit:
				t.Fatalf("%s: %d attempts with a cap of %d", e, next.Attempts, limit)
			case ok && j.State == Leased && next.State != Leased && outcome == Running:
				t.Fatalf("%s ended the lease of %+v but left its attempt open", e, j)
			}
			j = next
		}
	})
}

func TestSettingsThatWouldRerunRunningWorkAreRefused(t *testing.T) {
	if err := DefaultSettings.Validate(); err != nil {
		t.Fatalf("the defaults are refused: %v", err)
	}
	s := DefaultSettings
	s.Heartbeat = 21 * time.Second
	err := s.Validate()
	if err == nil || !strings.Contains(err.Error(), "21s") || !strings.Contains(err.Error(), "1m0s") {
		t.Errorf("3 × heartbeat > ttl: error %v does not name both values", err)
	}
	s = DefaultSettings
	s.AttemptCap = 0
	if s.Validate() == nil {
		t.Error("an attempt cap of 0 is accepted")
	}
	s = DefaultSettings
	s.Confirm = 2 * s.TTL
	if s.Validate() == nil {
		t.Error("a confirmation time beyond the ttl is accepted")
	}
}
