package whatif

import (
	"bytes"
	"encoding/json"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/dispatch"
)

const horizon = 24 * time.Hour

func replay(t *testing.T, policyName, trace, fleet string, seed uint64) Report {
	t.Helper()
	jobs, ok := Trace(trace, seed)
	workers, known := Fleet(fleet)
	if !ok || !known {
		t.Fatalf("no trace %s or fleet %s", trace, fleet)
	}
	out, ok := Run(policyName, jobs, workers, horizon)
	if !ok {
		t.Fatalf("no policy %s", policyName)
	}
	check(t, out, workers)
	return Summarize(policyName, out)
}

// check holds an outcome to what no policy may do.
func check(t *testing.T, out []Outcome, fleet []Worker) {
	t.Helper()
	for i := range out {
		o := &out[i]
		switch {
		case o.Done == 0:
			t.Fatalf("job %d was never judged", i)
		case o.Started < o.Job.At || o.Done < o.Started:
			t.Fatalf("job %d came at %v, began at %v and ended at %v", i, o.Job.At, o.Started, o.Done)
		case !o.Worker.offers(o.Job.Language):
			t.Fatalf("%s got a %s job", o.Worker.Name, o.Job.Language)
		}
		if _, away := o.Worker.awayAt(o.Started); away {
			t.Fatalf("job %d began on %s while it slept", i, o.Worker.Name)
		}
	}
	for w := range fleet {
		busy := 0
		type change struct {
			at time.Duration
			by int
		}
		var changes []change
		for i := range out {
			if out[i].Worker == &fleet[w] {
				changes = append(changes, change{out[i].Started, +1}, change{out[i].Done, -1})
			}
		}
		for i := range changes { // insertion by time, ends before beginnings
			for j := i; j > 0 && (changes[j].at < changes[j-1].at || changes[j].at == changes[j-1].at && changes[j].by < changes[j-1].by); j-- {
				changes[j], changes[j-1] = changes[j-1], changes[j]
			}
		}
		for _, c := range changes {
			if busy += c.by; busy > fleet[w].Slots {
				t.Fatalf("%s did %d jobs at once in %d slots", fleet[w].Name, busy, fleet[w].Slots)
			}
		}
	}
}

func group(t *testing.T, r Report, name string) Waits {
	t.Helper()
	g, ok := r.Group(name)
	if !ok {
		t.Fatalf("%s has no group %q", r.Policy, name)
	}
	return g
}

func TestWhenOneUserFloodsTheOthersWaitMuchLessThanInTheOrderOfAge(t *testing.T) {
	for seed := range uint64(4) {
		ours, fcfs := replay(t, "gavel", "contest-peak", "school", seed), replay(t, "first-come", "contest-peak", "school", seed)
		a, b := group(t, ours, "median user").P95, group(t, fcfs, "median user").P95
		if 3*a > b {
			t.Errorf("seed %d: the median user's p95 is %v, %v in the order of age: not three times better", seed, a, b)
		}
		if a, b := group(t, ours, "lane judge").P95, group(t, fcfs, "lane judge").P95; a > b {
			t.Errorf("seed %d: p95 of the lane is %v, %v in the order of age", seed, a, b)
		}
	}
}

func TestASleepingHomeMachineHoldsNobodyUp(t *testing.T) {
	ours := replay(t, "gavel", "home-sleeps", "home-sleeps", 1)
	if p99 := group(t, ours, "lane judge").P99; p99 > 90*time.Second {
		t.Errorf("p99 is %v", p99) // one minute for what it had in its hands, and a busy cloud
	}
	// Falling asleep with the lock in its hands is a matter of chance in one night;
	// the trace has five, so that who tries it with the default seed sees it.
	old := replay(t, "pull-lock", "home-sleeps", "home-sleeps", 1)
	if m := group(t, old, "lane judge").Max; m < 11*time.Minute {
		t.Errorf("in five nights with the old lock nobody waited longer than %v", m)
	}
}

func TestARejudgeDoesNotHoldUpPeople(t *testing.T) {
	ours, fcfs := replay(t, "gavel", "rejudge-storm", "school", 1), replay(t, "first-come", "rejudge-storm", "school", 1)
	if a, b := group(t, ours, "lane judge").P95, group(t, fcfs, "lane judge").P95; 10*a > b {
		t.Errorf("p95 of people is %v beside a rejudge of 5,000, %v in the order of age", a, b)
	}
	if p95 := group(t, ours, "lane run").P95; p95 > 5*time.Second {
		t.Errorf("p95 of runs is %v", p95)
	}
}

func TestTracesAndRunsAreFunctionsOfTheSeed(t *testing.T) {
	for _, name := range Traces() {
		a, _ := Trace(name, 7)
		b, _ := Trace(name, 7)
		c, _ := Trace(name, 8)
		if !cmp.Equal(a, b) || cmp.Equal(a, c) {
			t.Errorf("%s: the same seed must give the same trace, another one another", name)
		}
		var file bytes.Buffer
		if err := WriteTrace(&file, a); err != nil {
			t.Fatal(err)
		}
		read, err := ReadTrace(&file)
		if err != nil || len(read) != len(a) || read[3].User != a[3].User || read[3].Lane != a[3].Lane || read[3].Takes != a[3].Takes.Truncate(time.Millisecond) {
			t.Errorf("%s: written and read it is %+v, %v", name, read[3], err)
		}
	}
}

func TestFaultyFilesAreRefusedWithLineAndColumn(t *testing.T) {
	head := strings.Join(traceColumns, ",") + "\n"
	for text, want := range map[string]string{
		"":                            "line 1: the columns must be at_ms,user,lane",
		head + "x,a,judge,,c,p,1,1\n": `line 2, at_ms: "x" is not a whole number`,
		head + "1,a,judge,,c,p,1,1\n1,a,slow,,c,p,1,1\n": `line 3, lane: "slow" is none of`,
		head + "1,a,judge,now,c,p,1,1\n":                 `line 2, priority: "now" is neither`,
		head + "1,a\n":                                   "line 2",
	} {
		if _, err := ReadTrace(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	head = strings.Join(fleetColumns, ",") + "\n"
	for text, want := range map[string]string{
		head:                           "the fleet is empty",
		head + "a,p,1,0,c,1,1,1,\n":    `line 2, slots: "0" is not at least 1`,
		head + "a,p,1,1,c,1,fast,1,\n": `line 2, speed: "fast"`,
		head + "a,p,1,1,c,1,NaN,1,\n":  `line 2, speed: "NaN"`,
		head + "a,p,1,1,c,1,1,1,\na,q,1,1,c,1,1,1,\n": `line 3, name: "a"`,
		head + "a,p,1,1,c,1,1,1,60m-10m\n":            `line 2, away: "60m-10m" is not like`,
	} {
		if _, err := ReadFleet(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: error %v, want %q", text, err, want)
		}
	}
	fleet, err := ReadFleet(strings.NewReader(head + "a,p,1,2,c cpp17,64,1.5,3,60m-480m\n"))
	want := []Worker{{Name: "a", Pool: "p", Rank: 1, Slots: 2, Languages: []string{"c", "cpp17"}, Memory: 64 << 20, Speed: 1.5, RoundTrip: 3 * time.Millisecond, Away: []Interval{{time.Hour, 8 * time.Hour}}}}
	if err != nil || !cmp.Equal(want, fleet) {
		t.Errorf("the fleet is %+v, %v", fleet, err)
	}
}

func TestAFastWorkerAndWhatNobodyCanDo(t *testing.T) {
	jobs := []Job{{At: 0, Lane: dispatch.Judge, Language: "c", Takes: time.Second}, {At: 0, Lane: dispatch.Judge, Language: "cobol", Takes: time.Second}}
	fleet := []Worker{{Name: "a", Slots: 1, Languages: []string{"c"}, Speed: 2}}
	for _, name := range Policies() {
		out, _ := Run(name, jobs, fleet, time.Minute)
		if took := out[0].Done - out[0].Started; took != 500*time.Millisecond || out[1].Done != 0 {
			t.Errorf("%s: the first took %v, the second ended at %v", name, took, out[1].Done)
		}
		r := Summarize(name, out)
		g := group(t, r, "lane judge")
		if g.Never != 1 || short(g.Max) != "never" {
			t.Errorf("%s: %+v", name, g)
		}
		if text, err := json.Marshal(g); err != nil || !strings.Contains(string(text), `"never":1`) || !strings.Contains(string(text), `"max_ns":null`) {
			t.Errorf("%s: %s, %v", name, text, err)
		}
	}
}

func TestThePlotIsAnImageWithALineForEachPolicy(t *testing.T) {
	jobs, _ := Trace("home-sleeps", 1)
	fleet, _ := Fleet("home-and-cloud")
	var all [][]Outcome
	for _, name := range Policies() {
		out, _ := Run(name, jobs, fleet, horizon)
		all = append(all, out)
	}
	var svg bytes.Buffer
	if err := WriteSVG(&svg, "home <sleeps>", Policies(), all); err != nil {
		t.Fatal(err)
	}
	lines := 0
	for d := xml.NewDecoder(&svg); ; {
		token, err := d.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatal(err)
		}
		if e, ok := token.(xml.StartElement); ok && e.Name.Local == "polyline" {
			lines++
		}
	}
	if lines != len(Policies()) {
		t.Errorf("%d lines", lines)
	}
}
