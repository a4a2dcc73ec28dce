package judge_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// realCPUs are at least two, to run things beside each other.
func realCPUs(t testing.TB) []sandbox.CPU {
	t.Helper()
	cpus, err := linuxbox.CPUs()
	if err != nil {
		t.Fatal(err)
	}
	cpus = slices.DeleteFunc(cpus, func(c sandbox.CPU) bool { return c.Sibling })
	if len(cpus) < 2 {
		testkit.Missing(t, testkit.Cgroup, "%d physical cores, two are needed", len(cpus))
	}
	return cpus
}

// spin burns a fixed amount of work, not of time.
const spin = "#include <stdio.h>\nint main(void){unsigned x=1;for(long i=0;i<%d;i++){x=x*1664525u+1013904223u;__asm__ volatile(\"\":\"+r\"(x));}puts(\"1\");return x==7;}"

// TestTimesAreNotDisturbedByTestsBeside measures the same work alone and with
// a test on every core. Of several measures on each side the least counts: what
// else the machine does now is not the subject.
func TestTimesAreNotDisturbedByTestsBeside(t *testing.T) {
	p, cpus := realProvider(t), realCPUs(t)
	source := fmt.Sprintf(spin, 100_000_000)
	least := func(e *judge.Engine, tests int) time.Duration {
		pairs := slices.Repeat([]string{"", "1"}, tests)
		task := newTask(newPackage(t, pairs...), "c", source)
		task.Limits.CPU = 5 * time.Second
		best := time.Hour
		for range 3 {
			r, err := e.Judge(t.Context(), task, quiet)
			if err != nil || r.Verdict != verdict.AC {
				t.Fatalf("%+v, %v", r, err)
			}
			for _, test := range r.Tests {
				best = min(best, test.CPU)
			}
		}
		return best
	}
	alone := least(newEngineWith(t, judge.Config{Provider: p, Slots: 1, CPUs: cpus[:1]}), 3)
	beside := least(newEngineWith(t, judge.Config{Provider: p, Slots: 1, CPUs: cpus}), 3*len(cpus))
	t.Logf("alone %v, beside %v", alone, beside)
	if beside > alone+max(alone/10, 2*time.Millisecond) {
		t.Errorf("CPU time %v alone, %v beside others", alone, beside)
	}
}

// TestParallelTestsInRealBoxes wants the same of one core and of all.
func TestParallelTestsInRealBoxes(t *testing.T) {
	p, cpus := realProvider(t), realCPUs(t)
	pkg := newPackage(t, "1 2", "3", "2 2", "4", "3 3", "6", "4 4", "9", "5 0", "5", "6 0", "7", "7 0", "7")
	one := newEngineWith(t, judge.Config{Provider: p, Slots: 1, CPUs: cpus[:1]})
	all := newEngineWith(t, judge.Config{Provider: p, Slots: 1, CPUs: cpus})
	crash := "a, b = map(int, input().split())\nif a == 5: raise SystemExit(3)\nprint(a + b)\n"
	for _, source := range []string{pythonSum, crash} {
		for _, stop := range []judge.StopRule{judge.StopFirst, judge.StopAll} {
			task := newTask(pkg, "python3", source)
			task.Stop = stop
			want, err := one.Judge(t.Context(), task, quiet)
			if err != nil {
				t.Fatal(err)
			}
			for range 3 {
				got, err := all.Judge(t.Context(), task, quiet)
				if err != nil {
					t.Fatal(err)
				}
				measured := cmpopts.IgnoreFields(judge.Test{}, "CPU", "Wall", "MemoryBytes", "Attempts")
				if diff := cmp.Diff(want.Tests, got.Tests, measured); diff != "" || got.Verdict != verdict.WA {
					t.Errorf("%s: verdict %s, tests on one core and on all: %s", stop, got.Verdict, diff)
				}
			}
		}
	}
}

// TestRealTimesNearTheLimitAreMeasuredAgain has a program that ends by itself
// just above its limit, and one that does not end.
func TestRealTimesNearTheLimitAreMeasuredAgain(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	const until = "#include <time.h>\n#include <stdio.h>\nint main(void){while(clock()<%d*1000L);puts(\"1\");}"
	task := newTask(newPackage(t, "", "1"), "c", fmt.Sprintf(until, 520))
	r, err := e.Judge(t.Context(), task, quiet)
	if err != nil {
		t.Fatal(err)
	}
	if got := r.Tests[0]; got.Verdict != verdict.TLE || got.Reason != verdict.ReasonCPU || len(got.Attempts) != 3 || got.Signal != 0 {
		t.Errorf("near the limit: %+v", got)
	}
	task.Source = []byte("int main(void){for(volatile int i=0;;i++);}")
	if r, err = e.Judge(t.Context(), task, quiet); err != nil {
		t.Fatal(err)
	}
	got := r.Tests[0]
	if got.Verdict != verdict.TLE || got.Attempts != nil || got.Signal != 9 || got.CPU < 575*time.Millisecond || got.CPU > 600*time.Millisecond {
		t.Errorf("without end: %+v", got)
	}
}
