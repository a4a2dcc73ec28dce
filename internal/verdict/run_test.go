package verdict

import (
	"fmt"
	"testing"
	"time"

	"pgregory.net/rapid"
)

const (
	ms  = time.Millisecond
	mib = int64(1) << 20
)

// clean is a run that kept every limit; the cases below change one thing.
func clean(change func(*Run)) Run {
	r := Run{
		CPU: 10 * ms, CPULimit: 1000 * ms,
		Wall: 12 * ms, WallLimit: 3000 * ms,
		MemoryBytes: 2 * mib, MemoryLimit: 64 * mib,
		OutputBytes: 10, OutputLimit: mib,
	}
	if change != nil {
		change(&r)
	}
	return r
}

func TestOfRun(t *testing.T) {
	t.Parallel()
	const sigkill, sigsegv, sigxcpu, sigxfsz = 9, 11, 24, 25
	tests := []struct {
		name   string
		run    Run
		want   Verdict
		reason Reason
	}{
		{"exit 0 within limits is for the checker", clean(nil), AC, ReasonNone},
		{"exactly at every limit is within it", clean(func(r *Run) {
			r.CPU, r.Wall, r.MemoryBytes, r.OutputBytes = r.CPULimit, r.WallLimit, r.MemoryLimit, r.OutputLimit
		}), AC, ReasonNone},
		{"killed for CPU", clean(func(r *Run) { r.Fired, r.CPU, r.Signal = LimitCPU, 1001*ms, sigkill }), TLE, ReasonCPU},
		{"ended by itself with more CPU than the limit", clean(func(r *Run) { r.CPU = 1001 * ms }), TLE, ReasonCPU},
		{"over CPU and exit code 1", clean(func(r *Run) { r.CPU, r.ExitCode = 1001*ms, 1 }), TLE, ReasonCPU},
		{"over CPU and crashed", clean(func(r *Run) { r.CPU, r.Signal = 1001*ms, sigsegv }), TLE, ReasonCPU},
		{"killed for wall while working", clean(func(r *Run) { r.Fired, r.CPU, r.Wall = LimitWall, 600*ms, 3001*ms }), TLE, ReasonWall},
		{"killed for wall while asleep", clean(func(r *Run) { r.Fired, r.CPU, r.Wall = LimitWall, 5*ms, 3001*ms }), TLE, ReasonIdle},
		{"killed for wall with CPU over as well", clean(func(r *Run) { r.Fired, r.CPU, r.Wall = LimitWall, 1001*ms, 3001*ms }), TLE, ReasonCPU},
		{"slept past the wall limit and ended by itself", clean(func(r *Run) { r.Wall = 3001 * ms }), TLE, ReasonIdle},
		{"killed by the memory controller", clean(func(r *Run) { r.OOMKills, r.Signal = 1, sigkill }), MLE, ReasonMemory},
		{"child killed by the memory controller, parent ends with 0", clean(func(r *Run) { r.OOMKills = 1 }), MLE, ReasonMemory},
		{"supervisor saw the memory limit", clean(func(r *Run) { r.Fired, r.Signal = LimitMemory, sigkill }), MLE, ReasonMemory},
		{"peak over the limit", clean(func(r *Run) { r.MemoryBytes = r.MemoryLimit + 1 }), MLE, ReasonMemory},
		{"too much output", clean(func(r *Run) { r.Fired, r.Signal = LimitOutput, sigkill }), OLE, ReasonOutput},
		{"one byte too much output, ended by itself", clean(func(r *Run) { r.OutputBytes = r.OutputLimit + 1 }), OLE, ReasonOutput},
		{"exit code", clean(func(r *Run) { r.ExitCode = 3 }), RE, ReasonExit},
		{"exit code 255", clean(func(r *Run) { r.ExitCode = 255 }), RE, ReasonExit},
		{"exit code 137 is a code, not a kill", clean(func(r *Run) { r.ExitCode = 137 }), RE, ReasonExit},
		{"segmentation fault", clean(func(r *Run) { r.Signal = sigsegv }), RE, ReasonSignal},
		{"kills itself", clean(func(r *Run) { r.Signal = sigkill }), RE, ReasonSignal},
		{"raises SIGXCPU at 0 ms", clean(func(r *Run) { r.CPU, r.Signal = 0, sigxcpu }), RE, ReasonSignal},
		{"raises SIGXFSZ without having written", clean(func(r *Run) { r.Signal = sigxfsz }), RE, ReasonSignal},
		{"real-time signal", clean(func(r *Run) { r.Signal = 64 }), RE, ReasonSignal},
		{"a limit of zero decides nothing", Run{CPU: time.Hour, Wall: time.Hour, MemoryBytes: 1 << 40, OutputBytes: 1 << 40}, AC, ReasonNone},
		{"a limit that nobody knows is the system's fault", clean(func(r *Run) { r.Fired = "moon" }), SE, ReasonNone},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if v, reason := OfRun(tt.run); v != tt.want || reason != tt.reason {
				t.Errorf("OfRun = %s %q, want %s %q", v, reason, tt.want, tt.reason)
			}
		})
	}
}

// breach makes one limit be broken, without saying that it fired.
type breach struct {
	fired   Limit
	verdict Verdict
	apply   func(*Run)
}

// breaches are in the order of the tie rule.
var breaches = []breach{
	{LimitOutput, OLE, func(r *Run) { r.OutputBytes = r.OutputLimit + 1 }},
	{LimitMemory, MLE, func(r *Run) { r.OOMKills = 1 }},
	{LimitCPU, TLE, func(r *Run) { r.CPU = r.CPULimit + 1 }},
	{LimitWall, TLE, func(r *Run) { r.Wall = r.WallLimit + 1 }},
	{LimitNone, RE, func(r *Run) { r.Signal = 11 }},
	{LimitNone, RE, func(r *Run) { r.ExitCode = 1 }},
}

func TestOfRunOnEachPairOfSimultaneousLimits(t *testing.T) {
	t.Parallel()
	for i, a := range breaches {
		for j, b := range breaches {
			both := func(r *Run) { a.apply(r); b.apply(r) }
			t.Run(fmt.Sprintf("%s%d and %s%d, ended by itself", a.verdict, i, b.verdict, j), func(t *testing.T) {
				t.Parallel()
				want := breaches[min(i, j)].verdict
				if v, _ := OfRun(clean(both)); v != want {
					t.Errorf("OfRun = %s, want %s", v, want)
				}
			})
			if a.fired == LimitNone {
				continue
			}
			t.Run(fmt.Sprintf("%s%d fired before %s%d", a.verdict, i, b.verdict, j), func(t *testing.T) {
				t.Parallel()
				want := a.verdict
				if a.verdict == TLE && b.verdict == MLE {
					want = MLE // the controller's kill has no place in the supervisor's order: a tie
				}
				run := clean(both)
				run.Fired = a.fired
				if v, _ := OfRun(run); v != want {
					t.Errorf("OfRun = %s, want %s", v, want)
				}
			})
		}
	}
}

func drawRun(t *rapid.T) Run {
	around := func(name string, limit int64) int64 {
		return rapid.OneOf(rapid.Int64Range(0, 2*limit), rapid.Int64Range(limit-1, limit+1)).Draw(t, name)
	}
	return clean(func(r *Run) {
		r.Fired = rapid.SampledFrom([]Limit{LimitNone, LimitNone, LimitCPU, LimitWall, LimitMemory, LimitOutput}).Draw(t, "fired")
		r.CPU = time.Duration(around("cpu", int64(r.CPULimit)))
		r.Wall = time.Duration(around("wall", int64(r.WallLimit)))
		r.MemoryBytes = around("memory", r.MemoryLimit)
		r.OutputBytes = around("output", r.OutputLimit)
		r.OOMKills = rapid.SampledFrom([]int{0, 0, 0, 1, 5}).Draw(t, "oom kills")
		r.Signal = rapid.SampledFrom([]int{0, 0, 6, 9, 11, 24, 25}).Draw(t, "signal")
		r.ExitCode = rapid.SampledFrom([]int{0, 0, 1, 42, 255}).Draw(t, "exit code")
	})
}

func TestOfRunProperties(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		r := drawRun(t)
		v, reason := OfRun(r)

		broke := r.Fired != LimitNone || r.OOMKills > 0 || r.CPU > r.CPULimit || r.Wall > r.WallLimit ||
			r.MemoryBytes > r.MemoryLimit || r.OutputBytes > r.OutputLimit || r.Signal != 0 || r.ExitCode != 0
		if (v == AC) == broke {
			t.Fatalf("%s although broke=%t: %+v", v, broke, r)
		}
		switch v {
		case AC, TLE, MLE, OLE, RE:
		default:
			t.Fatalf("a run can not lead to %s: %+v", v, r)
		}
		if (reason == ReasonNone) != (v == AC) {
			t.Fatalf("%s with reason %q", v, reason)
		}
		if v == RE && r.Fired != LimitNone {
			t.Fatalf("RE although %s fired", r.Fired)
		}
		// What decides is never how the program died once a limit is broken.
		other := r
		other.Signal, other.ExitCode = 0, 0
		if w, _ := OfRun(other); v != RE && w != v {
			t.Fatalf("the way of dying turned %s into %s", w, v)
		}
	})
}
