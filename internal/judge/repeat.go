package judge

import (
	"context"
	"os"

	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// On a machine that a program shares, its CPU time differs from run to run by
// what the neighbours do to caches and memory, so a single run near the limit
// decides nothing. There the limit that kills is set a little above the one
// that counts: a program that ends by itself in between is near the limit and
// gets another chance, one that is killed up there is not and gets none. So an
// endless loop costs allowance more, not two more runs.
// docs/adr has the reasons.
const (
	allowancePercent = 15 // of the CPU limit
	maxRunsPerTest   = 3
	maxWallRuns      = 2 // of which so many may end at the wall limit
)

// ran is one run of a test.
type ran struct {
	test   Test
	fired  sandbox.Limit
	output *os.File // nil when an interactor has read it
	stderr *stderrOf
}

func (r *ran) close() { closeAll(r.output) }

// measure runs a test until its time is known well enough. The first run that
// is not TLE counts; if there is none, the one with the least CPU time.
func (a *attempt) measure(ctx context.Context, t *problem.Test) (best *ran, err error) {
	limit := a.task.Limits.CPU
	killAt := limit
	if !a.core.own {
		killAt += limit * allowancePercent / 100
	}
	var attempts []Attempt
	defer func() {
		if err != nil && best != nil {
			best.close()
		}
	}()
	for wallRuns := 0; ; {
		r, err := a.once(ctx, t, killAt)
		if err != nil {
			return best, err
		}
		attempts = append(attempts, Attempt{CPU: r.test.CPU, Wall: r.test.Wall})
		// A limit fired in the allowance, where the CPU limit, the first one
		// that was reached, did not fire yet.
		mixed := r.test.CPU > limit && r.test.Verdict != verdict.TLE
		switch {
		case best == nil:
			best = r
		case mixed || best.test.Verdict == verdict.TLE && r.test.Verdict == verdict.TLE && r.test.CPU >= best.test.CPU:
			r.close()
		default:
			best.close()
			best = r
		}
		switch {
		case a.core.own || len(attempts) == maxRunsPerTest:
		case mixed && len(attempts) == 1:
			// Only a run without the allowance tells what comes first; it is
			// the one that counts.
			return a.settled(ctx, t, best, attempts)
		case mixed:
		case r.test.Verdict != verdict.TLE:
		case r.test.Reason == verdict.ReasonCPU && r.fired == sandbox.LimitNone:
			continue
		case r.test.Reason != verdict.ReasonCPU:
			if wallRuns++; wallRuns < maxWallRuns {
				continue
			}
		}
		if len(attempts) > 1 {
			best.test.Attempts = attempts
		}
		return best, nil
	}
}

// settled replaces a first run with one that is killed at the limit itself.
func (a *attempt) settled(ctx context.Context, t *problem.Test, first *ran, attempts []Attempt) (*ran, error) {
	r, err := a.once(ctx, t, a.task.Limits.CPU)
	if err != nil {
		return first, err
	}
	first.close()
	r.test.Attempts = append(attempts, Attempt{CPU: r.test.CPU, Wall: r.test.Wall})
	return r, nil
}
