package linuxbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestCPUsAreOrderedByCore(t *testing.T) {
	t.Parallel()
	type cpus = []sandbox.CPU
	tests := []struct {
		name    string
		files   map[string]string
		allowed []int
		want    cpus
	}{
		{
			"hyper-threads numbered after the cores",
			map[string]string{
				"cpu0": "0,2", "cpu1": "1,3", "cpu2": "0,2", "cpu3": "1,3",
			},
			[]int{0, 1, 2, 3},
			cpus{{ID: 0}, {ID: 1}, {ID: 2, Sibling: true}, {ID: 3, Sibling: true}},
		},
		{
			"hyper-threads side by side",
			map[string]string{
				"cpu0": "0-1", "cpu1": "0-1", "cpu2": "2-3", "cpu3": "2-3",
			},
			[]int{0, 1, 2, 3},
			cpus{{ID: 0}, {ID: 2}, {ID: 1, Sibling: true}, {ID: 3, Sibling: true}},
		},
		{
			"only what is allowed counts",
			map[string]string{
				"cpu0": "0-1", "cpu1": "0-1", "cpu2": "2-3", "cpu3": "2-3",
			},
			[]int{1, 2},
			cpus{{ID: 1}, {ID: 2}},
		},
		{
			"isolated CPUs are said to be so",
			map[string]string{"cpu4": "4", "cpu5": "5", "isolated": "5-7"},
			[]int{4, 5},
			cpus{{ID: 4}, {ID: 5, Isolated: true}},
		},
		{"nothing is known", nil, []int{0, 1}, cpus{{ID: 0}, {ID: 1}}},
		{"nonsense is nothing", map[string]string{"cpu0": "many", "isolated": "a-b"}, []int{0, 1}, cpus{{ID: 0}, {ID: 1}}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			dir := t.TempDir()
			for name, text := range tt.files {
				file := filepath.Join(dir, name)
				if strings.HasPrefix(name, "cpu") {
					file = filepath.Join(dir, name, "topology", "thread_siblings_list")
				}
				if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
					t.Fatal(err)
				}
				if err := os.WriteFile(file, []byte(text+"\n"), 0o600); err != nil {
					t.Fatal(err)
				}
			}
			if diff := cmp.Diff(tt.want, describeCPUs(dir, tt.allowed)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

// ownCPUs are those that this test may use.
func ownCPUs(t testing.TB, need int) []sandbox.CPU {
	t.Helper()
	cpus, err := CPUs()
	if err != nil {
		t.Fatal(err)
	}
	if len(cpus) < need {
		testkit.Missing(t, testkit.Cgroup, "%d CPUs, %d are needed", len(cpus), need)
	}
	return cpus
}

const allowedCPUs = "grep Cpus_allowed_list /proc/self/status | cut -f2"

func TestPinnedBoxStaysOnItsCPU(t *testing.T) {
	p := open(t, Config{MaxRuns: 2, noProof: true})
	defer p.Close()
	for _, cpu := range ownCPUs(t, 2) {
		b, err := p.OpenOn(t.Context(), cpu.ID)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		want := fmt.Sprintf("%d\n", cpu.ID)
		for run := range 3 { // the last in another slot
			if _, out := runFor(t, b, shell(allowedCPUs)); out != want {
				t.Errorf("run %d may use the CPUs %q, want %q", run, out, want)
			}
		}
		// What watches the program and what cleans up after it stay with it:
		// they must not take time from the neighbours. The rest of the init
		// must not take any from the program.
		b.(*box).mu.Lock()
		tasks, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/status", b.(*box).slot.proc.Pid))
		b.(*box).mu.Unlock()
		pinned := 0
		for _, task := range tasks {
			status, err := os.ReadFile(task)
			if err == nil && strings.Contains(string(status), "Cpus_allowed_list:\t"+want) {
				pinned++
			}
		}
		if pinned != 2 || len(tasks) == 2 {
			t.Errorf("%d of %d threads of the init are pinned to %s, want the forker and the janitor", pinned, len(tasks), want)
		}
	}
	free, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer free.Close()
	own, err := os.ReadFile("/proc/self/status")
	if err != nil {
		t.Fatal(err)
	}
	if _, out := runFor(t, free, shell(allowedCPUs)); !strings.Contains(string(own), "Cpus_allowed_list:\t"+out) {
		t.Errorf("a box that is not pinned may use the CPUs %q: a pinned one before it left its mark", out)
	}
}

// TestProgramsCannotLeaveTheirCPU holds the filter to it: without it the same
// program gets away.
func TestProgramsCannotLeaveTheirCPU(t *testing.T) {
	cpus := ownCPUs(t, 2)
	leave := shell(fmt.Sprintf("taskset -pc %d $$ >/dev/null; %s", cpus[1].ID, allowedCPUs))
	for _, c := range []struct {
		weak []string
		want int
	}{{nil, cpus[0].ID}, {[]string{weakSeccomp}, cpus[1].ID}} {
		p := open(t, Config{weak: c.weak, noProof: true})
		b, err := p.OpenOn(t.Context(), cpus[0].ID)
		if err != nil {
			t.Fatal(err)
		}
		if _, out := runFor(t, b, leave); out != fmt.Sprintf("%d\n", c.want) {
			t.Errorf("without %v: the program runs on CPU %q, want %d", c.weak, out, c.want)
		}
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestPinningToACPUThatIsNotThereIsAFault(t *testing.T) {
	p := open(t, Config{noProof: true})
	defer p.Close()
	cpus := ownCPUs(t, 1)
	none := slices.MaxFunc(cpus, func(a, b sandbox.CPU) int { return a.ID - b.ID }).ID + 500
	_, err := p.OpenOn(t.Context(), none)
	f, ok := err.(*sandbox.Fault) //nolint:errorlint // the fault itself is promised
	if !ok || f.Op != "pin" || f.Hint == "" {
		t.Errorf("error %v", err)
	}
	b, err := p.OpenOn(t.Context(), cpus[0].ID)
	if err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	defer b.Close()
}
