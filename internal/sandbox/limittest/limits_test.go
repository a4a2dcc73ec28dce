package limittest

import (
	"fmt"
	"math/rand/v2"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/verdict"
)

func TestMain(m *testing.M) {
	linuxbox.Init()
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println("goroutines left:", err)
		code = 1
	}
	os.Exit(code)
}

// repetitions of everything that is near a limit.
const repetitions = 20

// rig is the boxes that runs are dealt out to, one for each CPU.
type rig struct {
	boxes    chan sandbox.Box
	programs string
}

func newRig(t *testing.T) *rig {
	t.Helper()
	p, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	n := runtime.GOMAXPROCS(0)
	r := &rig{boxes: make(chan sandbox.Box, n), programs: boxtest.Programs(t)}
	for range n {
		b, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		r.boxes <- b
	}
	return r
}

// roomy limits are far from what any program here does; each test lowers the
// ones it is about. Time is for a machine that is busy with other things.
func roomy() sandbox.Limits {
	return sandbox.Limits{
		CPU: time.Minute, Wall: 10 * time.Minute, MemoryBytes: 64 << 20,
		StdoutBytes: 1 << 20, StderrBytes: 1 << 16, FileBytes: 1 << 20,
		DiskBytes: 8 << 20, DiskInodes: 64, Processes: 8, OpenFiles: 32,
	}
}

// judged is one run with its verdict.
type judged struct {
	sandbox.Result
	limits  sandbox.Limits
	verdict verdict.Verdict
	reason  verdict.Reason
}

func (j judged) String() string {
	return fmt.Sprintf("%s %s: fired %q, cpu %v of %v, wall %v of %v, memory %d of %d, %d kills, output %d, exit code %d, signal %d",
		j.verdict, j.reason, j.Fired, j.CPU, j.limits.CPU, j.Wall, j.limits.Wall, j.MemoryBytes, j.limits.MemoryBytes, j.OOMKills, j.StdoutBytes, j.ExitCode, j.Signal)
}

// run runs a program and checks what holds for every run, whatever it did:
// there is a result (a fault would be the machine's), and what it says of
// limits agrees with its own figures.
func (r *rig) run(t *testing.T, limits sandbox.Limits, args ...string) judged {
	t.Helper()
	b := <-r.boxes
	defer func() { r.boxes <- b }()
	res, err := b.Run(t.Context(), &sandbox.Spec{
		Argv:   append([]string{sandbox.ProgramDir + "/hostile"}, args...),
		Mounts: []sandbox.Mount{{Host: r.programs, Box: sandbox.ProgramDir}},
		Limits: limits, Profile: sandbox.ProfileRun,
	})
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	j := judged{Result: res, limits: limits}
	j.verdict, j.reason = verdict.OfRun(verdict.Run{
		Fired: verdict.Limit(res.Fired), CPU: res.CPU, CPULimit: limits.CPU, Wall: res.Wall, WallLimit: limits.Wall,
		MemoryBytes: res.MemoryBytes, MemoryLimit: limits.MemoryBytes, OutputBytes: res.StdoutBytes, OutputLimit: limits.StdoutBytes,
		OOMKills: res.OOMKills, ExitCode: res.ExitCode, Signal: res.Signal,
	})
	contradiction := ""
	switch {
	case res.Fired == sandbox.LimitCPU && res.CPU < limits.CPU:
		contradiction = "the CPU limit fired below it"
	case res.Fired == sandbox.LimitWall && res.Wall < limits.Wall:
		contradiction = "the wall limit fired below it"
	case res.Fired == sandbox.LimitMemory && res.OOMKills == 0:
		contradiction = "the memory limit fired without a kill"
	case res.MemoryBytes > limits.MemoryBytes:
		contradiction = "more memory than there may be"
	case j.verdict == verdict.RE && (res.CPU > limits.CPU || res.OOMKills > 0 || res.StdoutBytes > limits.StdoutBytes):
		contradiction = "RE though a limit was passed"
	case j.verdict == verdict.TLE && res.OOMKills > 0:
		contradiction = "TLE though memory ran out"
	case j.verdict == verdict.TLE && res.CPU <= limits.CPU && res.Wall <= limits.Wall && res.Fired == sandbox.LimitNone:
		contradiction = "TLE within the limits"
	}
	if contradiction != "" {
		t.Errorf("%v: %s: %v", args, contradiction, j)
	}
	return j
}

// each calls f with 0 to n-1, as many at once as there are boxes.
func (r *rig) each(n int, f func(i int)) {
	var wg sync.WaitGroup
	next := make(chan int)
	for range cap(r.boxes) {
		wg.Go(func() {
			for i := range next {
				f(i)
			}
		})
	}
	for i := range n {
		next <- i
	}
	close(next)
	wg.Wait()
}

// TestTimesNearTheLimit runs programs that stop by themselves up to 10 ms
// before and after the limit, as they count it, and some that never stop.
func TestTimesNearTheLimit(t *testing.T) {
	r := newRig(t)
	for _, ms := range []int{100, 999, 1000, 1001, 1500, 2000} {
		t.Run(fmt.Sprintf("%d ms", ms), func(t *testing.T) {
			n := repetitions
			if testing.Short() {
				n = 4
			}
			limits := roomy()
			limits.CPU = time.Duration(ms) * time.Millisecond
			r.each(n, func(i int) {
				off := 20*i/n - 10
				args := []string{"burn", strconv.FormatFloat(float64(ms+off)/1000, 'f', 3, 64)}
				if i%4 == 3 {
					args = []string{"cpu_loop"}
				}
				got := r.run(t, limits, args...)
				past := args[0] == "cpu_loop" || off > 0
				switch {
				case got.verdict != verdict.TLE && got.verdict != verdict.AC:
					t.Errorf("%v: %v", args, got)
				case past && got.verdict != verdict.TLE:
					t.Errorf("%v used more than it may: %v", args, got)
				case got.verdict == verdict.TLE && got.reason != verdict.ReasonCPU:
					t.Errorf("%v: another limit than that of CPU: %v", args, got)
				}
			})
		})
	}
}

// TestMemoryNearTheLimit touches memory around limits, page by page, with a
// limit that is a page's multiple and one byte less and more.
func TestMemoryNearTheLimit(t *testing.T) {
	r := newRig(t)
	page := int64(os.Getpagesize())
	for _, limit := range []int64{2 << 20, 16 << 20, 64 << 20} {
		step := max(64<<10, limit/128) // what the kernel keeps for it grows with the limit, and varies
		for _, off := range []int64{-1, 0, 1} {
			t.Run(fmt.Sprintf("%d bytes", limit+off), func(t *testing.T) {
				limits := roomy()
				limits.MemoryBytes = limit + off
				seen := map[verdict.Verdict]int{}
				var mu sync.Mutex
				r.each(repetitions, func(i int) {
					// From well below to above: the program's own pages and what
					// the kernel keeps for it come in addition.
					touched := limit + (int64(i)-repetitions+3)*step
					got := r.run(t, limits, "touch_then_burn", strconv.FormatInt(touched/1024, 10), "0")
					mu.Lock()
					seen[got.verdict]++
					mu.Unlock()
					switch {
					case got.verdict != verdict.AC && got.verdict != verdict.MLE:
						t.Errorf("touching %d: %v", touched, got)
					case (got.OOMKills > 0) != (got.verdict == verdict.MLE):
						t.Errorf("touching %d: kills and verdict disagree: %v", touched, got)
					case touched > limit+off && got.verdict != verdict.MLE:
						t.Errorf("touching %d: more than there may be: %v", touched, got)
					case got.MemoryBytes > (limit+off)/page*page:
						t.Errorf("touching %d: more than whole pages of the limit: %v", touched, got)
					}
				})
				if seen[verdict.AC] == 0 || seen[verdict.MLE] == 0 {
					t.Errorf("verdicts %v: this is not near the limit", seen)
				}
			})
		}
	}
}

// TestMemoryAndTimeRunOutTogether goes up to both limits in one program.
func TestMemoryAndTimeRunOutTogether(t *testing.T) {
	r := newRig(t)
	limits := roomy()
	limits.CPU, limits.MemoryBytes = 60*time.Millisecond, 16<<20
	r.each(repetitions, func(i int) {
		kib := 16<<10 - 640 + 64*i
		got := r.run(t, limits, "touch_then_burn", strconv.Itoa(kib), fmt.Sprintf("0.0%d", 50+i))
		switch got.verdict {
		case verdict.AC, verdict.TLE, verdict.MLE:
		default:
			t.Errorf("touching %d KiB: %v", kib, got)
		}
	})
}

// kinds of breaches, with the verdict of each and the limit that is lowered to
// make it one.
var kinds = []struct {
	name  string
	want  verdict.Verdict
	lower func(*sandbox.Limits)
}{
	{"cpu", verdict.TLE, func(l *sandbox.Limits) { l.CPU = 50 * time.Millisecond }},
	{"wall", verdict.TLE, func(l *sandbox.Limits) { l.Wall = 50 * time.Millisecond }},
	{"memory", verdict.MLE, func(l *sandbox.Limits) { l.MemoryBytes = 8 << 20 }},
	{"output", verdict.OLE, func(l *sandbox.Limits) { l.StdoutBytes = 1 << 18 }},
	{"exit", verdict.RE, func(*sandbox.Limits) {}},
	{"signal", verdict.RE, func(*sandbox.Limits) {}},
}

// TestTheFirstOfTwoBreachesDecides has each pair in both orders.
func TestTheFirstOfTwoBreachesDecides(t *testing.T) {
	r := newRig(t)
	for _, a := range kinds {
		for _, b := range kinds {
			t.Run(a.name+" then "+b.name, func(t *testing.T) {
				limits := roomy()
				a.lower(&limits)
				if got := r.run(t, limits, "breach_then", a.name, b.name); got.verdict != a.want {
					t.Errorf("want %s: %v", a.want, got)
				}
			})
		}
	}
	for _, b := range kinds {
		t.Run("file then "+b.name, func(t *testing.T) {
			limits := roomy()
			limits.FileBytes = 1 << 19
			want := verdict.OLE // of two that nobody enforced, output comes first
			if b.want != verdict.RE {
				b.lower(&limits)
				want = b.want
			}
			if b.name == "wall" {
				limits.Wall = 2 * time.Second // it has to come to it
			}
			if got := r.run(t, limits, "file_then", b.name); got.verdict != want && (b.name != "wall" && b.name != "cpu" || got.verdict != verdict.TLE) {
				t.Errorf("want %s: %v", want, got)
			}
		})
	}
}

// TestOneOfTwoBreachesAtOnceDecides has two threads break a limit each as fast
// as they can: whichever comes first, it is one of the two that is told.
func TestOneOfTwoBreachesAtOnceDecides(t *testing.T) {
	r := newRig(t)
	for i, a := range kinds {
		for _, b := range kinds[i+1:] {
			t.Run(a.name+" and "+b.name, func(t *testing.T) {
				limits := roomy()
				a.lower(&limits)
				b.lower(&limits)
				n := repetitions
				if a.want == verdict.RE || b.want == verdict.RE {
					n = 3 // the end of a program is no race between limits
				}
				var mu sync.Mutex
				var seen []string
				r.each(n, func(int) {
					args := []string{"breach_both", a.name, b.name}
					if rand.IntN(2) == 0 {
						args = []string{"breach_both", b.name, a.name}
					}
					got := r.run(t, limits, args...)
					if got.verdict != a.want && got.verdict != b.want {
						t.Errorf("neither %s nor %s: %v", a.want, b.want, got)
					}
					mu.Lock()
					defer mu.Unlock()
					if !slices.Contains(seen, string(got.verdict)) {
						seen = append(seen, string(got.verdict))
					}
				})
				t.Logf("seen: %s", strings.Join(seen, ", "))
			})
		}
	}
}
