package linuxbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// The benchmarks that `make bench-box` prints. Whatever is compared is run in
// turn, one of each, so that what else the machine does falls on all of them;
// figures are medians. Each operation of a benchmark is a round of such turns.

// benchBox is a warm box with one program of testdata, compiled statically so
// that the loader's work is not part of a figure.
type benchBox struct {
	dir string
	p   *Provider
	box sandbox.Box
}

func newBenchBox(b *testing.B, program string) *benchBox {
	needBoxes(b)
	dir := b.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		b.Fatal(err)
	}
	if out, err := exec.CommandContext(b.Context(), "gcc", "-O2", "-static", "-o", filepath.Join(dir, "p"), "testdata/"+program+".c").CombinedOutput(); err != nil {
		b.Fatalf("gcc: %v\n%s", err, out)
	}
	p, err := Open(Config{noProof: true})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { p.Close() })
	box, err := p.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	return &benchBox{dir: dir, p: p, box: box}
}

func (x *benchBox) spec(args ...string) *sandbox.Spec {
	return &sandbox.Spec{
		Argv:    append([]string{"/box/p"}, args...),
		Mounts:  []sandbox.Mount{{Host: x.dir, Box: sandbox.ProgramDir}},
		Limits:  roomyLimits(),
		Profile: sandbox.ProfileRun,
	}
}

func (x *benchBox) run(b *testing.B, spec *sandbox.Spec) sandbox.Result {
	return x.runIn(b, x.box, spec)
}

func (x *benchBox) runIn(b *testing.B, box sandbox.Box, spec *sandbox.Spec) sandbox.Result {
	res, err := box.Run(b.Context(), spec)
	if err != nil || res.Fired == sandbox.LimitNone && (res.ExitCode != 0 || res.Signal != 0) {
		b.Fatalf("%+v, %v", res, err)
	}
	return res
}

// bare runs the program without a box and returns what the kernel accounts to it.
func (x *benchBox) bare(b *testing.B, stdout *os.File, argv ...string) (used unix.Rusage) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	if stdout == nil {
		stdout = null
	}
	pid, err := syscall.ForkExec(argv[0], argv, &syscall.ProcAttr{Env: []string{}, Files: []uintptr{null.Fd(), stdout.Fd(), null.Fd()}})
	if err != nil {
		b.Fatal(err)
	}
	var ws unix.WaitStatus
	if _, err := unix.Wait4(pid, &ws, 0, &used); err != nil || ws.ExitStatus() != 0 {
		b.Fatal(argv, err, ws)
	}
	return used
}

// BenchmarkReturnZero is a program that does nothing, from the call to its
// result: with posix_spawn (what the standard library does is the same), in a
// warm box, in one that is pinned to a CPU as a worker's are, and with
// bubblewrap where that is installed. Runs of a judge are
// not back to back; some ways of entering a cgroup cost 6 to 14 ms when the
// last time is more than 20 ms ago.
func BenchmarkReturnZero(b *testing.B) {
	for _, bench := range []struct {
		name          string
		turns, inTurn int
		pause         time.Duration
	}{{"back-to-back", 20, 20, 0}, {"100ms-apart", 10, 1, 100 * time.Millisecond}} {
		b.Run(bench.name, func(b *testing.B) {
			x := newBenchBox(b, "return0")
			spec := x.spec()
			pinned, err := x.p.OpenOn(b.Context(), ownCPUs(b, 1)[0].ID)
			if err != nil {
				b.Fatal(err)
			}
			var inside []time.Duration
			ways := []*way{
				{name: "posix_spawn", run: func() { x.bare(b, nil, x.dir+"/p") }},
				{name: "box", run: func() { inside = append(inside, x.run(b, spec).Wall) }},
				{name: "pinned-box", run: func() { x.runIn(b, pinned, spec) }},
			}
			if bwrap, err := exec.LookPath("bwrap"); err == nil {
				ways = append(ways, &way{name: "bwrap", run: func() {
					x.bare(b, nil, bwrap, "--unshare-all", "--ro-bind", "/usr", "/usr", "--symlink", "usr/lib64", "/lib64",
						"--ro-bind", x.dir, "/box", "--proc", "/proc", "--dev", "/dev", "--tmpfs", "/w", "--chdir", "/w", "/box/p")
				}})
			}
			for _, w := range ways { // the first of each is colder than any that count
				w.run()
			}
			for b.Loop() {
				for range bench.turns {
					for _, w := range ways {
						for range bench.inTurn {
							if bench.pause > 0 {
								<-time.After(bench.pause)
							}
							w.time()
						}
					}
				}
			}
			base := median(ways[0].took)
			for _, w := range ways {
				b.ReportMetric(us(median(w.took)), "µs-"+w.name)
				if w != ways[0] {
					b.ReportMetric(float64(median(w.took))/float64(base), "×-"+w.name)
				}
			}
			b.ReportMetric(us(median(ways[1].took)-base), "µs-added-by-box")
			b.ReportMetric(us(median(ways[2].took)-base), "µs-added-by-pinned-box")
			// From the fork to the end of the program; the rest is before and after.
			b.ReportMetric(us(median(inside)), "µs-inside-box")
		})
	}
}

// way is one of several to run a program.
type way struct {
	name string
	run  func()
	took []time.Duration
}

func (w *way) time() {
	from := monotonic()
	w.run()
	w.took = append(w.took, monotonic()-from)
}

// BenchmarkCPUTime is the same work twenty times: what a box says it took
// beside what the kernel accounts to the bare program, and beside what the
// kernel tells the very same run of itself at its end. The first two are
// different runs, which on a machine that is shared take different times.
func BenchmarkCPUTime(b *testing.B) {
	const runs, steps = 20, "150"
	x := newBenchBox(b, "spin")
	spec := x.spec(steps)
	var off, boxSpread, bareSpread, offOwn, offOwnMost, addedSpread []float64
	var boxed []time.Duration
	for b.Loop() {
		var inBox, bare []time.Duration
		var overOwn []time.Duration
		for range runs {
			used := x.bare(b, nil, x.dir+"/p", steps)
			bare = append(bare, time.Duration(used.Utime.Nano()+used.Stime.Nano()))
			var out strings.Builder
			spec.Stdout = &out
			cpu := x.run(b, spec).CPU
			own, err := strconv.ParseInt(strings.TrimSpace(out.String()), 10, 64)
			if err != nil {
				b.Fatal(err)
			}
			inBox, overOwn = append(inBox, cpu), append(overOwn, cpu-time.Duration(own))
		}
		off = append(off, ms(median(inBox)-median(bare)))
		offOwn, offOwnMost = append(offOwn, ms(median(overOwn))), append(offOwnMost, ms(slices.Max(overOwn)))
		addedSpread = append(addedSpread, float64(slices.Max(overOwn)-slices.Min(overOwn))/float64(median(inBox)))
		boxSpread, bareSpread = append(boxSpread, spread(inBox)), append(bareSpread, spread(bare))
		boxed = append(boxed, median(inBox))
	}
	b.ReportMetric(ms(median(boxed)), "ms-box")
	b.ReportMetric(median(off), "ms-box-minus-bare")
	b.ReportMetric(100*median(off)/ms(median(boxed)), "%-box-minus-bare")
	b.ReportMetric(median(offOwn), "ms-box-minus-own")
	b.ReportMetric(slices.Max(offOwnMost), "ms-box-minus-own-at-most")
	b.ReportMetric(100*median(addedSpread), "%-spread-added")
	b.ReportMetric(100*median(boxSpread), "%-spread-box")
	b.ReportMetric(100*median(bareSpread), "%-spread-bare")
}

// BenchmarkMemory is what a box says of a program that uses nothing and of one
// that uses 100 MiB, beside the peak that the kernel shows the bare program of
// itself.
func BenchmarkMemory(b *testing.B) {
	const mib = 1 << 20
	x := newBenchBox(b, "touch")
	figures := map[string][]float64{}
	for b.Loop() {
		for range 10 {
			for _, size := range []string{"0", "100"} {
				out, err := os.Create(filepath.Join(x.dir, "out"))
				if err != nil {
					b.Fatal(err)
				}
				x.bare(b, out, x.dir+"/p", size)
				text, err := os.ReadFile(out.Name())
				out.Close()
				if err != nil {
					b.Fatal(err)
				}
				kib, err := strconv.ParseFloat(strings.TrimSpace(string(text)), 64)
				if err != nil {
					b.Fatal(err)
				}
				figures["bare"+size] = append(figures["bare"+size], kib/1024)
				figures["box"+size] = append(figures["box"+size], float64(x.run(b, x.spec(size)).MemoryBytes)/mib)
			}
		}
	}
	empty, full := median(figures["box0"]), median(figures["box100"])
	b.ReportMetric(empty, "MiB-empty-box")
	b.ReportMetric(median(figures["bare0"]), "MiB-empty-bare")
	b.ReportMetric(full, "MiB-100MiB-box")
	b.ReportMetric(median(figures["bare100"]), "MiB-100MiB-bare")
	b.ReportMetric(full-100, "%-100MiB-box-minus-asked")
	b.ReportMetric(100*(full/median(figures["bare100"])-1), "%-100MiB-box-minus-bare")
}

// BenchmarkOvershoot is how far a program gets beyond a limit before it is
// stopped: an endless loop beyond its CPU limit, by its own CPU time, and a
// program that waits beyond its wall limit. The box is pinned to a CPU, as a
// worker's are; in one that is not, the kernel's account of a program that runs
// is as old as its last tick.
func BenchmarkOvershoot(b *testing.B) {
	const limit = 200 * time.Millisecond
	x := newBenchBox(b, "spin")
	pinned, err := x.p.OpenOn(b.Context(), 1)
	if err != nil {
		b.Fatal(err)
	}
	loop := x.spec()
	loop.Limits.CPU = limit
	wait := x.spec()
	wait.Argv, wait.Limits.Wall = []string{"/bin/sleep", "60"}, limit
	var cpu, unpinned, wall []time.Duration
	run := func(box sandbox.Box, spec *sandbox.Spec, fired sandbox.Limit) sandbox.Result {
		res, err := box.Run(b.Context(), spec)
		if err != nil || res.Fired != fired {
			b.Fatalf("%+v, %v", res, err)
		}
		return res
	}
	for b.Loop() {
		for range 10 {
			cpu = append(cpu, run(pinned, loop, sandbox.LimitCPU).CPU-limit)
			unpinned = append(unpinned, run(x.box, loop, sandbox.LimitCPU).CPU-limit)
			wall = append(wall, run(pinned, wait, sandbox.LimitWall).Wall-limit)
		}
	}
	b.ReportMetric(ms(median(cpu)), "ms-over-CPU")
	b.ReportMetric(ms(slices.Max(cpu)), "ms-over-CPU-at-most")
	b.ReportMetric(ms(median(unpinned)), "ms-over-CPU-unpinned")
	b.ReportMetric(ms(median(wall)), "ms-over-wall")
	b.ReportMetric(ms(slices.Max(wall)), "ms-over-wall-at-most")
}

func us(d time.Duration) float64 { return float64(d) / float64(time.Microsecond) }

func ms(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

func median[T float64 | time.Duration](values []T) T {
	return slices.Sorted(slices.Values(values))[len(values)/2]
}

// spread is how far the extremes lie apart, as a part of the median.
func spread(values []time.Duration) float64 {
	return float64(slices.Max(values)-slices.Min(values)) / float64(median(values))
}
