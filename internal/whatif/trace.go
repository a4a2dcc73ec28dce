package whatif

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

// Job is one arrival.
type Job struct {
	At       time.Duration // since the beginning of the trace
	User     string
	Lane     dispatch.Lane
	Class    int
	Language string
	Package  string
	Memory   int64         // bytes
	Takes    time.Duration // on a worker of speed 1
}

// Columns of a trace file, which is CSV with this header.
var traceColumns = []string{"at_ms", "user", "lane", "priority", "language", "package", "memory_mib", "takes_ms"}

// ReadTrace reads a trace. Its errors name the line and the column.
func ReadTrace(r io.Reader) ([]Job, error) {
	var jobs []Job
	err := readCSV(r, traceColumns, func(get func(string) string, number func(string) int64, wrong func(column, format string, args ...any)) {
		j := Job{
			At: time.Duration(number("at_ms")) * time.Millisecond, User: get("user"), Language: get("language"), Package: get("package"),
			Memory: number("memory_mib") << 20, Takes: time.Duration(number("takes_ms")) * time.Millisecond,
		}
		var ok bool
		if j.Lane, ok = dispatch.ParseLane(get("lane")); !ok {
			wrong("lane", "is none of run, judge, prepare, rejudge")
		}
		switch get("priority") {
		case "contest":
			j.Class = dispatch.ClassContest
		case "practice", "":
			j.Class = dispatch.ClassPractice
		default:
			wrong("priority", "is neither contest nor practice")
		}
		jobs = append(jobs, j)
	})
	slices.SortStableFunc(jobs, func(x, y Job) int { return int(x.At - y.At) })
	return jobs, err
}

// WriteTrace writes what ReadTrace reads.
func WriteTrace(w io.Writer, jobs []Job) error {
	out := csv.NewWriter(w)
	rows := [][]string{traceColumns}
	for _, j := range jobs {
		priority := "practice"
		if j.Class == dispatch.ClassContest {
			priority = "contest"
		}
		rows = append(rows, []string{
			fmt.Sprint(j.At.Milliseconds()), j.User, j.Lane.String(), priority, j.Language, j.Package,
			fmt.Sprint(j.Memory >> 20), fmt.Sprint(j.Takes.Milliseconds()),
		})
	}
	return out.WriteAll(rows)
}

// readCSV calls row for each line with ways to read its columns.
func readCSV(r io.Reader, columns []string, row func(get func(string) string, number func(string) int64, wrong func(column, format string, args ...any))) error {
	in := csv.NewReader(r)
	head, err := in.Read()
	if err != nil || !slices.Equal(head, columns) {
		return fmt.Errorf("line 1: the columns must be %s", strings.Join(columns, ","))
	}
	for {
		fields, err := in.Read()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err // names the line itself
		}
		line, _ := in.FieldPos(0)
		var fault error
		get := func(column string) string { return fields[slices.Index(columns, column)] }
		wrong := func(column, format string, args ...any) {
			if fault == nil {
				fault = fmt.Errorf("line %d, %s: %q %s", line, column, get(column), fmt.Sprintf(format, args...))
			}
		}
		number := func(column string) int64 {
			n, err := strconv.ParseInt(get(column), 10, 64)
			if err != nil || n < 0 || n > 1<<40 {
				wrong(column, "is not a whole number of 0 or more")
				return 0
			}
			return n
		}
		row(get, number, wrong)
		if fault != nil {
			return fault
		}
	}
}

// The nights of home-sleeps, and the hours of each that are acted out.
const (
	nights = 5
	night  = 3 * time.Hour
)

// Traces are the ones that come with the program, by name.
func Traces() []string { return []string{"contest-peak", "home-sleeps", "rejudge-storm"} }

// Trace makes one of them; the same seed gives the same.
func Trace(name string, seed uint64) ([]Job, bool) {
	g := &generator{rng: rand.New(rand.NewPCG(seed, 0x6a7564676573))}
	switch name {
	case "contest-peak":
		// Two hundred people for half an hour, most in the last ten minutes;
		// one of them floods with a hundred and twenty in a minute.
		for i := range 2500 {
			at := time.Duration(g.rng.Float64() * float64(30*time.Minute))
			if i%3 > 0 {
				at = 20*time.Minute + time.Duration(g.rng.Float64()*float64(10*time.Minute))
			}
			g.add(at, fmt.Sprintf("user-%03d", g.rng.IntN(200)), dispatch.Judge, dispatch.ClassContest)
		}
		for range 120 {
			g.add(21*time.Minute+time.Duration(g.rng.Float64()*float64(time.Minute)), "flooder", dispatch.Judge, dispatch.ClassContest)
		}
		for range 300 {
			g.add(time.Duration(g.rng.Float64()*float64(30*time.Minute)), fmt.Sprintf("user-%03d", g.rng.IntN(200)), dispatch.Run, dispatch.ClassContest)
		}
	case "home-sleeps":
		// Quiet hours from midnight to three, night after night; the home machine
		// sleeps from one o'clock (see the fleet of that name). In one night it is
		// a matter of chance whether it falls asleep with something in its hands.
		at := func(i int) time.Duration {
			return time.Duration(i%nights)*night + time.Duration(g.rng.Float64()*float64(night))
		}
		for i := range 900 * nights {
			g.add(at(i), fmt.Sprintf("user-%03d", g.rng.IntN(40)), dispatch.Judge, dispatch.ClassPractice)
		}
		for i := range 100 * nights {
			g.add(at(i), fmt.Sprintf("user-%03d", g.rng.IntN(40)), dispatch.Run, dispatch.ClassPractice)
		}
	case "rejudge-storm":
		// Five thousand are judged again while people work.
		for range 5000 {
			g.add(5*time.Minute, "", dispatch.Rejudge, dispatch.ClassPractice)
		}
		for range 1200 {
			g.add(time.Duration(g.rng.Float64()*float64(40*time.Minute)), fmt.Sprintf("user-%03d", g.rng.IntN(80)), dispatch.Judge, dispatch.ClassPractice)
		}
		for range 200 {
			g.add(time.Duration(g.rng.Float64()*float64(40*time.Minute)), fmt.Sprintf("user-%03d", g.rng.IntN(80)), dispatch.Run, dispatch.ClassPractice)
		}
	default:
		return nil, false
	}
	slices.SortStableFunc(g.jobs, func(x, y Job) int { return int(x.At - y.At) })
	return g.jobs, true
}

type generator struct {
	rng  *rand.Rand
	jobs []Job
}

func (g *generator) add(at time.Duration, user string, lane dispatch.Lane, class int) {
	languages := []string{"cpp17", "cpp17", "cpp20", "python3", "java"}
	takes := time.Duration(g.rng.ExpFloat64()*1500)*time.Millisecond + 400*time.Millisecond
	if lane == dispatch.Run {
		takes = time.Duration(g.rng.ExpFloat64()*300)*time.Millisecond + 300*time.Millisecond
	}
	g.jobs = append(g.jobs, Job{
		At: at, User: user, Lane: lane, Class: class, Language: languages[g.rng.IntN(len(languages))],
		Package: fmt.Sprintf("problem-%d", g.rng.IntN(12)), Memory: int64(128<<g.rng.IntN(3)) << 20, Takes: min(takes, 20*time.Second),
	})
}
