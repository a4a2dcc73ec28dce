package drill

import (
	"context"
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/internal/timeline"
)

// ReplayOptions say how an incident is replayed.
type ReplayOptions struct {
	Options // Gavel, Worker, Seed and Rounds are not used; Sabotage as below

	// Factor is how much quicker than the incident it goes; see Factors.
	Factor float64
	// Slack is how much this machine may add to any time, as measured.
	Slack time.Duration
}

// Factors are the factors that make sense: with lower ones nothing is gained by
// waiting, with higher ones the machine's own delays are all that is seen.
var Factors = [2]float64{1, 200}

// Replay acts an incident out in four ways, one after the other: on the claim
// path of that time, on the same with what was shipped then, on edge pull and
// on the arbiter. With Sabotage it is the counter-test: the old way without
// what went wrong, and edge pull with what gavel left out; the result must then
// complain of both. The verdict is one of a Result.
//
// Each way has a PostgreSQL and processes of its own, and all of it is gone
// when Replay returns, also when ctx ends first.
func Replay(ctx context.Context, s Story, o ReplayOptions) (r timeline.Replay, verdict string) {
	r = timeline.Replay{Story: s.Name, Title: s.What, Factor: o.Factor, Clock: timeline.Offset(s.clock), Ways: []timeline.Way{}, Why: []string{}}
	ways := []string{timeline.Old, timeline.Fix, timeline.Edge, timeline.Arbiter}
	if o.Sabotage {
		ways = []string{timeline.Old, timeline.Edge}
		s.most = min(s.most, 20*time.Minute) // by then it is plain
	}
	verdict = OK
	var want []timeline.Expectation
	for _, name := range ways {
		want = append(want, s.expect[name])
		a := &act{story: s, scale: compression(o.Factor), slack: o.Slack}
		a.way = timeline.Way{Name: name, What: s.ways[name]}
		result := Run(ctx, Scenario{
			Name: s.Name + "/" + name, Fires: "-", limit: a.scale.of(s.most) + 3*time.Minute,
			script: func(t *T) { a.t(t).play() },
		}, o.Options)
		switch result.Verdict {
		case Interrupted, Skipped:
			r.Why = append(r.Why, result.Why...)
			return r, result.Verdict
		case Failed:
			r.Why = append(r.Why, fmt.Sprintf("%s could not be acted out: %q; its logs are in %s", name, result.Why, result.Dir))
			return r, Failed
		}
		r.Ways = append(r.Ways, a.way)
	}
	r.Why = append(r.Why, r.Check(want, time.Duration(float64(o.Slack)*o.Factor))...)
	if len(r.Why) > 0 {
		verdict = Failed
	}
	return r, verdict
}

// Noticed says whether a counter-test was noticed in both of its ways.
func Noticed(r *timeline.Replay, s Story, slack time.Duration) bool {
	for _, name := range []string{timeline.Old, timeline.Edge} {
		if len(r.Check([]timeline.Expectation{s.expect[name]}, time.Duration(float64(slack)*r.Factor))) == 0 {
			return false
		}
	}
	return true
}
