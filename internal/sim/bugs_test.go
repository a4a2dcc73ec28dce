package sim

import "testing"

// Each protection has a history that needs it: without it the checks find a
// violation within the budget of events.
func TestEachKnownBugIsFound(t *testing.T) {
	for _, bug := range AllBugs() {
		t.Run(bug.String(), func(t *testing.T) {
			steps := 0
			for seed := uint64(1); steps < *bugBudgetFlag; seed++ {
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
