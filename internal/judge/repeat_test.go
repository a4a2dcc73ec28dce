package judge_test

import (
	"context"
	"io"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// pinnable is a fakeProvider whose boxes can be pinned.
type pinnable struct {
	*fakeProvider

	mu   sync.Mutex
	cpus map[int]int // boxes by CPU
}

func (p *pinnable) OpenOn(ctx context.Context, cpu int) (sandbox.Box, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.cpus == nil {
		p.cpus = map[int]int{}
	}
	p.cpus[cpu]++
	return p.Open(ctx)
}

// TestTimesNearTheLimitAreMeasuredAgain has a limit of 500 ms of CPU and 20 s
// of wall time.
func TestTimesNearTheLimitAreMeasuredAgain(t *testing.T) {
	t.Parallel()
	cpu := func(ms int) sandbox.Result { return sandbox.Result{CPU: time.Duration(ms) * time.Millisecond} }
	killed := func(ms int) sandbox.Result {
		r := cpu(ms)
		r.Fired, r.Signal = sandbox.LimitCPU, 9
		return r
	}
	wall := func(ms int) sandbox.Result {
		r := cpu(ms)
		r.Fired, r.Signal, r.Wall = sandbox.LimitWall, 9, 20*time.Second
		return r
	}
	with := func(r sandbox.Result, change func(*sandbox.Result)) sandbox.Result {
		change(&r)
		return r
	}
	const exact, allowed = 500, 575
	tests := []struct {
		name     string
		own      bool // the CPU runs nothing else
		results  []sandbox.Result
		killAt   []int // of each run, in ms
		want     verdict.Verdict
		reason   verdict.Reason
		cpuMS    int
		attempts []int // CPU in ms; nil when the test ran once
	}{
		{"within the limit", false, []sandbox.Result{cpu(400)}, []int{allowed}, verdict.AC, "", 400, nil},
		{"exactly at the limit", false, []sandbox.Result{cpu(500)}, []int{allowed}, verdict.AC, "", 500, nil},
		{"killed above the allowance: an endless loop is not repeated", false, []sandbox.Result{killed(576)}, []int{allowed}, verdict.TLE, "cpu", 576, nil},
		{"ended by itself above the allowance", false, []sandbox.Result{cpu(501), cpu(499)}, []int{allowed, allowed}, verdict.AC, "", 499, []int{501, 499}},
		{"good at the third try", false, []sandbox.Result{cpu(520), cpu(510), cpu(490)}, []int{allowed, allowed, allowed}, verdict.AC, "", 490, []int{520, 510, 490}},
		{"never good: the best counts", false, []sandbox.Result{cpu(520), cpu(505), cpu(510)}, []int{allowed, allowed, allowed}, verdict.TLE, "cpu", 505, []int{520, 505, 510}},
		{"the second is an endless loop", false, []sandbox.Result{cpu(520), killed(577)}, []int{allowed, allowed}, verdict.TLE, "cpu", 520, []int{520, 577}},
		{"a crash in the allowance is over the limit first", false, []sandbox.Result{with(cpu(520), func(r *sandbox.Result) { r.Signal = 11 }), cpu(480)}, []int{allowed, allowed}, verdict.AC, "", 480, []int{520, 480}},
		{"a crash within the limit at the second try", false, []sandbox.Result{cpu(520), with(cpu(480), func(r *sandbox.Result) { r.Signal = 11 })}, []int{allowed, allowed}, verdict.RE, "signal", 480, []int{520, 480}},
		{"memory runs out in the allowance: what comes first?", false, []sandbox.Result{with(killed(520), func(r *sandbox.Result) { r.Fired = sandbox.LimitMemory }), killed(501)}, []int{allowed, exact}, verdict.TLE, "cpu", 501, []int{520, 501}},
		{"the same, and memory comes first", false, []sandbox.Result{with(killed(520), func(r *sandbox.Result) { r.OOMKills = 1 }), with(killed(490), func(r *sandbox.Result) { r.Fired = sandbox.LimitMemory })}, []int{allowed, exact}, verdict.MLE, "memory", 490, []int{520, 490}},
		{"output runs over in the allowance at the second try", false, []sandbox.Result{cpu(510), with(killed(520), func(r *sandbox.Result) { r.Fired = sandbox.LimitOutput })}, []int{allowed, allowed}, verdict.TLE, "cpu", 510, []int{510, 520}},
		{"memory within the limit", false, []sandbox.Result{with(killed(400), func(r *sandbox.Result) { r.Fired = sandbox.LimitMemory })}, []int{allowed}, verdict.MLE, "memory", 400, nil},
		{"out of wall time once: the machine was busy", false, []sandbox.Result{wall(300), cpu(310)}, []int{allowed, allowed}, verdict.AC, "", 310, []int{300, 310}},
		{"out of wall time twice", false, []sandbox.Result{wall(300), wall(310)}, []int{allowed, allowed}, verdict.TLE, "wall", 300, []int{300, 310}},
		{"asleep", false, []sandbox.Result{wall(1), wall(2)}, []int{allowed, allowed}, verdict.TLE, "idle", 1, []int{1, 2}},
		{"out of wall time with too much CPU", false, []sandbox.Result{wall(510)}, []int{allowed}, verdict.TLE, "cpu", 510, nil},
		{"out of wall time, then near the limit", false, []sandbox.Result{wall(300), cpu(510), cpu(495)}, []int{allowed, allowed, allowed}, verdict.AC, "", 495, []int{300, 510, 495}},
		{"a CPU of its own: killed at the limit", true, []sandbox.Result{killed(501)}, []int{exact}, verdict.TLE, "cpu", 501, nil},
		{"a CPU of its own: just over the limit", true, []sandbox.Result{cpu(501)}, []int{exact}, verdict.TLE, "cpu", 501, nil},
		{"a CPU of its own: asleep", true, []sandbox.Result{wall(1)}, []int{exact}, verdict.TLE, "idle", 1, nil},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			results, killAt := tt.results, []int(nil)
			p := &pinnable{fakeProvider: &fakeProvider{run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
				killAt = append(killAt, int(spec.Limits.CPU.Milliseconds()))
				if len(results) == 0 {
					t.Error("one run too many")
					return sandbox.Result{}, nil
				}
				res := results[0]
				results = results[1:]
				_, err := io.WriteString(spec.Stdout, "1")
				return res, err
			}}}
			e := newEngineWith(t, judge.Config{Provider: p, Slots: 1, CPUs: []sandbox.CPU{{ID: 3, Isolated: tt.own}}})
			task := newTask(newPackage(t, "", "1"), "c", "")
			r, err := e.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			got := r.Tests[0]
			if r.Verdict != tt.want || got.Verdict != tt.want || got.Reason != tt.reason || got.CPU.Milliseconds() != int64(tt.cpuMS) {
				t.Errorf("verdict %s: %+v", r.Verdict, got)
			}
			if diff := cmp.Diff(tt.killAt, killAt); diff != "" {
				t.Errorf("CPU limits of the runs: %s", diff)
			}
			var attempts []int
			for _, a := range got.Attempts {
				attempts = append(attempts, int(a.CPU.Milliseconds()))
			}
			if diff := cmp.Diff(tt.attempts, attempts); diff != "" {
				t.Errorf("attempts: %s", diff)
			}
			if p.cpus[3] == 0 {
				t.Error("the box was not pinned")
			}
		})
	}
}

// TestRepeatedTestIsCheckedOnItsOwnOutput holds output and measures together:
// those of the run that counts.
func TestRepeatedTestIsCheckedOnItsOwnOutput(t *testing.T) {
	t.Parallel()
	run := 0
	p := &fakeProvider{run: func(_ context.Context, spec *sandbox.Spec) (sandbox.Result, error) {
		run++
		if run == 1 {
			_, err := io.WriteString(spec.Stdout, "wrong")
			return sandbox.Result{CPU: 510 * time.Millisecond, StdoutBytes: 5}, err
		}
		_, err := io.WriteString(spec.Stdout, "1")
		return sandbox.Result{CPU: 490 * time.Millisecond, StdoutBytes: 1}, err
	}}
	r, err := newEngine(t, p, 1).Judge(t.Context(), newTask(newPackage(t, "", "1"), "c", ""), quiet)
	if err != nil || r.Verdict != verdict.AC || r.Tests[0].OutputBytes != 1 || len(r.Tests[0].Attempts) != 2 {
		t.Errorf("%+v, %v", r, err)
	}
}

func TestWrongOutputIsHandedOver(t *testing.T) {
	t.Parallel()
	p := &fakeProvider{}
	task := newTask(newPackage(t, "1", "1", "2", "3", "4", "4"), "c", "")
	task.Stop = judge.StopAll
	var seen []string
	task.Wrong = func(test int, output io.ReadSeeker) {
		text, err := io.ReadAll(output)
		if err != nil {
			t.Error(err)
		}
		seen = append(seen, strings.Join([]string{task.Package.Manifest.Tests[test].Name, string(text)}, " "))
	}
	if _, err := newEngine(t, p, 1).Judge(t.Context(), task, quiet); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"secret/2 2"}, seen); diff != "" {
		t.Error(diff)
	}
}
