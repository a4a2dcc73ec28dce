package sim

import (
	"flag"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"
)

var (
	seedFlag      = flag.Uint64("sim.seed", 0, "replay this seed (TestReplay)")
	stepsFlag     = flag.Int("sim.steps", 6000, "events with faults in a history")
	withoutFlag   = flag.String("sim.without", "", "parts of the history to leave out (TestReplay)")
	bugFlag       = flag.String("sim.bug", "", "a bug to put into the model (TestReplay)")
	budgetFlag    = flag.Int("sim.budget", 1_500_000, "events to run in all")
	traceFlag     = flag.Bool("sim.trace", false, "tell what happens (TestReplay)")
	bugBudgetFlag = flag.Int("sim.bugbudget", 2_000_000, "events within which each known bug must be found")
)

// replay is the one line that makes a history again.
func replay(cfg Config, steps int, without string) string {
	line := fmt.Sprintf("go test ./internal/sim -run TestReplay -sim.seed=%d -sim.steps=%d", cfg.Seed, steps)
	if without != "" {
		line += " -sim.without=" + without
	}
	if cfg.Bugs != 0 {
		line += " -sim.bug=" + cfg.Bugs.String()
	}
	return line
}

// TestReplay makes one history again, as the line says that a failing one
// prints. Without -sim.seed it has nothing to do.
func TestReplay(t *testing.T) {
	if *seedFlag == 0 {
		t.Skip("no -sim.seed given")
	}
	cfg := NewConfig(*seedFlag)
	bugs, known := ParseBugs(*bugFlag)
	if !known {
		t.Fatalf("unknown bug in -sim.bug=%s", *bugFlag)
	}
	cfg.Bugs = bugs
	cfg, err := cfg.Without(*withoutFlag)
	if err != nil {
		t.Fatal(err)
	}
	line := func(string) {}
	if *traceFlag {
		line = func(s string) { t.Log(s) }
	}
	r := Trace(cfg, *stepsFlag, line)
	t.Logf("%d steps, %v, %d jobs, %d attempts, %d terms", r.Steps, r.VirtualTime.Round(time.Second), r.Jobs, r.Attempts, r.Terms)
	if r.Violation != nil {
		t.Error(r.Violation)
	}
}

// TestHistories runs the same seeds each time, and as many fresh ones.
func TestHistories(t *testing.T) {
	fresh := rand.Uint64() >> 16
	t.Logf("fresh seeds start at %d", fresh)
	var sum Report
	histories, began := 0, time.Now()
	for n := uint64(1); sum.Steps < *budgetFlag; n++ {
		for _, seed := range []uint64{n, fresh + n} {
			cfg := NewConfig(seed)
			r := Run(cfg, *stepsFlag)
			histories++
			sum.Steps += r.Steps
			sum.VirtualTime += r.VirtualTime
			sum.Jobs += r.Jobs
			sum.Attempts += r.Attempts
			sum.Terms += r.Terms
			if r.Violation != nil {
				without, steps := Shrink(cfg, min(*stepsFlag, r.Violation.Step), r.Violation.Rule, 200)
				t.Fatalf("%v\n%s", r.Violation, replay(cfg, steps, without))
			}
		}
	}
	took := time.Since(began)
	t.Logf("%d histories, %d steps, %.0f steps/s; %.0f h of virtual time, %d jobs, %d attempts, %d terms; 0 lost, 0 doubled, 0 stale",
		histories, sum.Steps, float64(sum.Steps)/took.Seconds(), sum.VirtualTime.Hours(), sum.Jobs, sum.Attempts, sum.Terms)
}
