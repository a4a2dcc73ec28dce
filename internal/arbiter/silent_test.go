package arbiter_test

import (
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

// A worker that stops asking is not busy: it is told of as one that does not
// ask, and then as one that is gone, with when it was last heard of.
func TestAWorkerThatFallsSilentIsNotCalledBusy(t *testing.T) {
	t.Parallel()
	s := newStand(t, quick)
	if leases, err := s.worker("home-pc", 1, "c").tryClaim(0); err != nil || len(leases) > 0 {
		t.Fatalf("claimed %v, %v", leases, err)
	}
	sub := s.submit("c")
	s.awaitStored(sub.ID, dispatch.Queued, "the one able worker has asked for no work since ")
	e, err := s.Explain(t.Context(), sub.ID)
	if err != nil || len(e.Workers) != 1 || !strings.HasPrefix(e.Workers[0].Reason, "it has asked for no work since ") ||
		!strings.Contains(e.Workers[0].Reason, "last heard of at ") || strings.Contains(e.Summary, "busy") {
		t.Errorf("explained by %s, error %v", asJSON(e), err)
	}
	s.awaitStored(sub.ID, dispatch.NobodyOnline, "no worker is online; the last to be heard of was home-pc, at ")
	e, err = s.Explain(t.Context(), sub.ID)
	if err != nil || len(e.Workers) != 1 || !strings.HasPrefix(e.Workers[0].Reason, "it is offline: last heard of at ") {
		t.Errorf("explained by %s, error %v", asJSON(e), err)
	}
}
