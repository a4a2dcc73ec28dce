// Command benchratio runs the benchmarks and prints each beside its base.
//
//	go run ./scripts/benchratio [-bench REGEXP] [-count N] [-benchtime T] [PACKAGES]
//
// Absolute figures of a shared machine mean little and change from day to day;
// what two things cost in the same run can be compared. Among sub-benchmarks
// of one benchmark, the one whose name starts with "base=" is the base:
//
//	BenchmarkRun/base=posix_spawn    370 µs
//	BenchmarkRun/box                 490 µs     1.32 ×
//
// Figures are medians of -count runs. All units are compared, those of
// b.ReportMetric included; the runs of one count are not interleaved with those
// of the next, so a spread over 20 % is marked with "±".
package main

import (
	"bufio"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
)

func main() {
	bench := flag.String("bench", ".", "run the benchmarks matching this `regexp`")
	count := flag.Int("count", 3, "times each benchmark is run")
	benchtime := flag.String("benchtime", "1s", "how long, or how often (100x), each runs")
	flag.Parse()

	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	packages := flag.Args()
	if len(packages) == 0 {
		var err error
		if packages, err = withBenchmarks("."); err != nil {
			fail(err)
		}
	}
	if len(packages) == 0 {
		fail(errors.New("there are no benchmarks"))
	}

	args := append([]string{"test", "-run=^$", "-bench=" + *bench, "-count=" + strconv.Itoa(*count), "-benchtime=" + *benchtime, "-p=1"}, packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Stderr = os.Stderr
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		fail(err)
	}
	if err := cmd.Start(); err != nil {
		fail(err)
	}
	// What go test prints is shown as it comes (on stderr: the table is the result), since this takes minutes.
	results, err := parse(io.TeeReader(stdout, os.Stderr))
	if err != nil {
		fail(err)
	}
	failed := cmd.Wait()
	if err := report(os.Stdout, results); err != nil {
		fail(err)
	}
	if failed != nil {
		fail(fmt.Errorf("go test: %w", failed))
	}
}

func fail(err error) {
	fmt.Fprintln(os.Stderr, "benchratio:", err)
	os.Exit(1)
}

var declares = regexp.MustCompile(`(?m)^func Benchmark\w+\(\w+ \*testing\.B\)`)

// withBenchmarks finds the folders whose tests declare benchmarks: building
// the tests of all others would take longer than the benchmarks.
func withBenchmarks(root string) ([]string, error) {
	var dirs []string
	err := filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != root && (d.Name() == "testdata" || strings.HasPrefix(d.Name(), ".")) {
			return filepath.SkipDir
		}
		dir := "./" + filepath.ToSlash(filepath.Dir(path))
		if !strings.HasSuffix(path, "_test.go") || slices.Contains(dirs, dir) {
			return nil
		}
		text, err := os.ReadFile(path)
		if err == nil && declares.Match(text) {
			dirs = append(dirs, dir)
		}
		return err
	})
	return dirs, err
}

// result is one benchmark: its figures by unit, one per run.
type result struct {
	pkg, name string
	values    map[string][]float64
	units     []string
}

var line = regexp.MustCompile(`^Benchmark(\S+?)(?:-\d+)?\s+\d+\s+(.*)$`)

func parse(r io.Reader) ([]*result, error) {
	var results []*result
	pkg := ""
	lines := bufio.NewScanner(r)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		if p, ok := strings.CutPrefix(lines.Text(), "pkg: "); ok {
			pkg = p
			continue
		}
		m := line.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		i := slices.IndexFunc(results, func(r *result) bool { return r.pkg == pkg && r.name == m[1] })
		if i < 0 {
			i = len(results)
			results = append(results, &result{pkg: pkg, name: m[1], values: map[string][]float64{}})
		}
		fields := strings.Fields(m[2])
		for k := 0; k+1 < len(fields); k += 2 {
			v, err := strconv.ParseFloat(fields[k], 64)
			if err != nil {
				break // a line that only looks like a result
			}
			unit := fields[k+1]
			if !slices.Contains(results[i].units, unit) {
				results[i].units = append(results[i].units, unit)
			}
			results[i].values[unit] = append(results[i].values[unit], v)
		}
	}
	return results, lines.Err()
}

// report prints one line per benchmark and unit, with the ratio to the base.
func report(out io.Writer, results []*result) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	pkg := ""
	for _, r := range results {
		if r.pkg != pkg {
			pkg = r.pkg
			fmt.Fprintf(w, "%s\n", pkg)
		}
		base := baseOf(results, r)
		for _, unit := range r.units {
			mid, spread := median(r.values[unit])
			mark, ratio := "", ""
			if spread > 0.2 {
				mark = fmt.Sprintf("±%.0f%%", spread*100)
			}
			if base != nil && base != r {
				if b, _ := median(base.values[unit]); b != 0 {
					ratio = fmt.Sprintf("%.2f ×", mid/b)
				}
			}
			fmt.Fprintf(w, "  %s\t%s\t%s\t%s\t\n", r.name, figure(mid, unit), mark, ratio)
		}
	}
	return w.Flush()
}

// baseOf finds the sibling whose name starts with "base=".
func baseOf(results []*result, r *result) *result {
	i := strings.LastIndexByte(r.name, '/')
	if i < 0 {
		return nil
	}
	for _, other := range results {
		if other.pkg == r.pkg && strings.HasPrefix(other.name, r.name[:i+1]+"base=") {
			return other
		}
	}
	return nil
}

// median returns the middle value and how far the extremes lie apart, as a
// part of it.
func median(values []float64) (mid, spread float64) {
	if len(values) == 0 {
		return 0, 0
	}
	s := slices.Sorted(slices.Values(values))
	mid = s[len(s)/2]
	if len(s)%2 == 0 {
		mid = (s[len(s)/2-1] + mid) / 2
	}
	if mid != 0 {
		spread = (s[len(s)-1] - s[0]) / mid
	}
	return mid, spread
}

// figure writes nanoseconds in the unit a person would use.
func figure(v float64, unit string) string {
	name, isTime := strings.CutSuffix(unit, "ns/op")
	if !isTime {
		return fmt.Sprintf("%.4g %s", v, unit)
	}
	name = strings.TrimRight(name, "-")
	if name != "" {
		name = " " + name
	}
	switch {
	case v >= 1e9:
		return fmt.Sprintf("%.2f s%s", v/1e9, name)
	case v >= 1e6:
		return fmt.Sprintf("%.2f ms%s", v/1e6, name)
	case v >= 1e3:
		return fmt.Sprintf("%.1f µs%s", v/1e3, name)
	}
	return fmt.Sprintf("%.1f ns%s", v, name)
}
