package sim

import "testing"

// A failing history can be made smaller, and the smaller one fails alike; a
// part that it needs is not taken away.
func TestAShrunkHistoryBreaksTheSameRule(t *testing.T) {
	for seed := uint64(1); ; seed++ {
		cfg := NewConfig(seed)
		cfg.Bugs = GrantWithoutTerm
		whole := Run(cfg, 6000)
		if whole.Violation == nil {
			continue
		}
		without, steps := Shrink(cfg, min(6000, whole.Violation.Step), whole.Violation.Rule, 200)
		less, err := cfg.Without(without)
		if err != nil {
			t.Fatal(err)
		}
		r := Run(less, steps)
		if r.Violation == nil || r.Violation.Rule != whole.Violation.Rule {
			t.Fatalf("the smaller history ended with %v, the whole one with %v\n%s", r.Violation, whole.Violation, replay(cfg, steps, without))
		}
		if 2*len(less.Faults) > len(cfg.Faults) || steps > whole.Violation.Step {
			t.Errorf("%d strikes and %d steps became %d and %d", len(cfg.Faults), whole.Violation.Step, len(less.Faults), steps)
		}
		t.Logf("%d strikes and %d steps became %d and %d: %v\n%s", len(cfg.Faults), whole.Violation.Step, len(less.Faults), steps, r.Violation, replay(cfg, steps, without))
		if _, err := cfg.Without("nonsense"); err == nil {
			t.Error("a part that is none was accepted")
		}
		return
	}
}

func TestBugsAreNamed(t *testing.T) {
	for _, b := range AllBugs() {
		if got, known := ParseBugs(b.String()); b.String() == "" || !known || got != b {
			t.Errorf("bug %d is named %q and read as %d", b, b, got)
		}
	}
	if _, known := ParseBugs("nonsense"); known {
		t.Error("an unknown name was read")
	}
}
