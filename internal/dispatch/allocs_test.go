package dispatch

import (
	"testing"
	"time"
)

// What a decision allocates is the same beside few and beside many: a job
// arrives, is given away and ends, beside jobs and workers that do not match.
func TestADecisionAllocatesSoMuchHoweverMuchWaits(t *testing.T) {
	for _, size := range []struct{ jobs, workers int }{{100, 100}, {20_000, 2_000}} {
		board, id, now := crowd(size.jobs, size.workers), int64(1_000_000), start
		got := testing.AllocsPerRun(2000, func() {
			id++
			now = now.Add(time.Millisecond)
			board.AddJob(Job{ID: id, Lane: Judge, Submitter: "somebody", Language: "haskell", Needs: Needs{MemoryBytes: 256 << 20}, Package: "sha256:0"})
			grants, _ := board.Match(now, 200)
			if len(grants) != 1 {
				t.Fatalf("%d grants", len(grants))
			}
			worker := board.claims[grants[0].Claim].worker.ID
			board.RemoveClaim(grants[0].Claim, now)
			board.Release(id, 0, now)
			board.AddClaim(Claim{ID: id, Worker: worker, Slots: 4}, now)
		})
		t.Logf("beside %d jobs and %d workers: %.0f allocations", size.jobs, size.workers, got)
		if most := 12.0; got > most {
			t.Errorf("a decision beside %d jobs and %d workers allocates %.0f times, at most %.0f are allowed", size.jobs, size.workers, got, most)
		}
	}
}
