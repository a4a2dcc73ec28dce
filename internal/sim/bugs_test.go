package sim

import "testing"

// Rare bugs are looked for from a seed near one that shows them; from seed 1
// they take tens of millions of events.
var rare = map[Bugs]uint64{ResultTrustsMemory: 965, WorkerTrustsTTL: 11969}

// Each protection has a history that needs it: without it the checks find a
// violation within the budget of events.
func TestEachKnownBugIsFound(t *testing.T) {
	for _, bug := range AllBugs() {
		t.Run(bug.String(), func(t *testing.T) {
			steps := 0
			for seed := max(1, rare[bug]); steps < *bugBudgetFlag; seed++ {
				cfg := NewConfig(seed)
				cfg.Bugs = bug
				r := Run(cfg, *stepsFlag)
				steps += r.Steps
				if v := r.Violation; v != nil {
					t.Logf("found after %d steps, by %s: %s\n%s", steps, v.Rule, v.Text, replay(cfg, min(v.Step, *stepsFlag), ""))
					return
				}
			}
			t.Errorf("not found in %d steps", steps)
		})
	}
}
