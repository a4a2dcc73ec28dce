package alarm_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

// now is an instant at which facts are looked at.
var now = begin.Add(time.Hour)

// holding lists what holds at now: "kind/subject".
func holding(f alarm.Facts) []string {
	var got []string
	holds, _ := alarm.Conditions(f, alarm.Default, now)
	for _, c := range holds {
		got = append(got, strings.TrimSuffix(string(c.Kind)+"/"+c.Subject, "/"))
	}
	return got
}

func board(b alarm.Board) alarm.Facts {
	return alarm.Facts{LoopedAt: now, Board: &b, Oldest: []alarm.Oldest{}}
}

// group is waiting() with something else about it.
func group(change func(*dispatch.Group)) dispatch.Group {
	g := waiting()
	change(&g)
	return g
}

func TestWhoIsThereDecidesWhatWaitingWorkMeans(t *testing.T) {
	able := waiting()
	unable := group(func(g *dispatch.Group) { g.Able, g.Refusal = false, "it does not offer cpp17" })
	held := group(func(g *dispatch.Group) { g.Held, g.Able = true, false })
	asleep := []alarm.Sleeper{{Name: "home", Languages: []string{"java"}}}
	for _, c := range []struct {
		what  string
		board alarm.Board
		want  []string
	}{
		{"nobody was ever enrolled", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}}}, []string{"judge_down"}},
		{"nobody is there", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}}, Known: 2}, []string{"judge_down"}},
		{"one is asleep as planned, the other is away", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}}, Known: 2, Asleep: asleep}, []string{"judge_down"}},
		{"all are asleep as planned", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}}, Known: 1, Asleep: asleep}, nil},
		{"somebody able is there and gets nothing", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{able}, Online: 1, Working: 1}, Known: 1}, []string{"judge_down"}},
		{"somebody able is there and works", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{able}, Online: 1, Working: 1, Out: 1}, Known: 1}, nil},
		{"nobody who is there can do it", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}, Online: 1, Working: 1}, Known: 1}, []string{"no_capable_worker/cpp17"}},
		{"all are there and asleep as planned", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}, Online: 1}, Known: 1, Asleep: asleep}, nil},
		{"all who are there are away", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}, Online: 2}, Known: 2}, []string{"judge_down", "no_capable_worker/cpp17"}},
		{"who could do it is asleep, in a language that is not known", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}, Online: 1, Working: 1}, Known: 2, Asleep: []alarm.Sleeper{{Name: "home"}}}, nil},
		{"who is asleep could not do it either", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}, Online: 1, Working: 1}, Known: 2, Asleep: asleep}, []string{"no_capable_worker/cpp17"}},
		{"an operator holds it", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{held}, Online: 1, Working: 1}, Known: 1}, nil},
		{"nobody is there, but others work on the database", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{able}}, Known: 2, Elsewhere: true}, nil},
		{"nobody can do it, but others work on the database", alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{unable}, Online: 1, Working: 1}, Known: 2, Elsewhere: true}, nil},
	} {
		if diff := cmp.Diff(c.want, holding(board(c.board))); diff != "" {
			t.Errorf("%s (-want +got):\n%s", c.what, diff)
		}
	}
}

// Whoever reads the alarm is told whom to bring back, and how.
func TestTheAlarmNamesWhoLacksNothingButToBeBack(t *testing.T) {
	g := group(func(g *dispatch.Group) {
		g.Able, g.Refusal = false, "an operator drains it"
		g.Back = []dispatch.WorkerReason{{ID: 1, Name: "aside", Reason: "set aside"}, {ID: 2, Name: "drained", Reason: "an operator drains it"}}
	})
	holds, _ := alarm.Conditions(board(alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{g}, Online: 2}, Known: 2}), alarm.Default, now)
	want := "3 jobs in cpp17 wait and no worker online can do them: aside could, but set aside; " +
		"drained could, but an operator drains it; gavel worker resume drained brings it back"
	if !slices.ContainsFunc(holds, func(c alarm.Condition) bool { return c.Kind == alarm.NoCapableWorker && c.Summary == want }) {
		t.Errorf("holds %+v, want %q", holds, want)
	}
}

func TestOnePairALaneIsEnough(t *testing.T) {
	free := func(lane dispatch.Lane, first int64) dispatch.Group {
		return group(func(g *dispatch.Group) { g.Lane, g.First, g.Free = lane, first, 4 })
	}
	f := board(alarm.Board{Survey: dispatch.Survey{
		Groups: []dispatch.Group{free(dispatch.Run, 9), free(dispatch.Judge, 7), free(dispatch.Judge, 8)}, Out: 1, Online: 1, Working: 1,
	}, Known: 1})
	if diff := cmp.Diff([]string{"unmatched/run", "unmatched/judge"}, holding(f)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Where people wait two minutes are long, in the other lanes an hour is.
func TestEachLaneHasItsPatience(t *testing.T) {
	for _, c := range []struct {
		age  time.Duration
		want []string
	}{
		{2 * time.Minute, nil},
		{121 * time.Second, []string{"oldest_waiting/judge", "oldest_waiting/run"}},
		{time.Hour, []string{"oldest_waiting/judge", "oldest_waiting/run"}},
		{61 * time.Minute, []string{"oldest_waiting/judge", "oldest_waiting/prepare", "oldest_waiting/rejudge", "oldest_waiting/run"}},
	} {
		f := board(alarm.Board{})
		for _, lane := range []string{"run", "judge", "prepare", "rejudge"} {
			f.Oldest = append(f.Oldest, alarm.Oldest{Lane: lane, Jobs: 1, JobID: 7, Age: c.age})
		}
		got := holding(f)
		slices.Sort(got)
		if diff := cmp.Diff(c.want, got); diff != "" {
			t.Errorf("after %v (-want +got):\n%s", c.age, diff)
		}
	}
}

// What was not seen is said to be unseen, so that nothing ends for it.
func TestWhatCannotBeSeenIsUnseen(t *testing.T) {
	memory := []alarm.Kind{alarm.Unmatched, alarm.JudgeDown, alarm.NoCapableWorker, alarm.WorkerSetAside}
	for _, c := range []struct {
		what string
		f    alarm.Facts
		want []alarm.Kind
	}{
		{"all was seen", board(alarm.Board{}), nil},
		{"memory is locked", alarm.Facts{LoopedAt: now, Oldest: []alarm.Oldest{}}, memory},
		{"the database is away", alarm.Facts{LoopedAt: now, Board: &alarm.Board{}}, []alarm.Kind{alarm.OldestWaiting}},
		{"both", alarm.Facts{LoopedAt: now}, append([]alarm.Kind{alarm.OldestWaiting}, memory...)},
	} {
		if _, unseen := alarm.Conditions(c.f, alarm.Default, now); !cmp.Equal(c.want, unseen) {
			t.Errorf("%s: unseen is %v, want %v", c.what, unseen, c.want)
		}
	}
}

// Whoever is woken sees since when, and what was seen.
func TestEachConditionCarriesItsBeginningAndItsEvidence(t *testing.T) {
	one := func(f alarm.Facts, kind alarm.Kind) alarm.Condition {
		t.Helper()
		holds, _ := alarm.Conditions(f, alarm.Default, now)
		i := slices.IndexFunc(holds, func(c alarm.Condition) bool { return c.Kind == kind })
		if i < 0 {
			t.Fatalf("%s does not hold: %+v", kind, holds)
		}
		return holds[i]
	}
	for _, locked := range []bool{true, false} {
		f := board(alarm.Board{})
		f.LoopedAt = now.Add(-20 * time.Second)
		if locked {
			f.Board = nil
		}
		if c := one(f, alarm.DispatchStuck); !c.Since.Equal(f.LoopedAt) || c.Evidence["memory_locked"] != locked {
			t.Errorf("a stuck loop, locked %v: %+v", locked, c)
		}
	}
	f := board(alarm.Board{Aside: []alarm.Aside{{Worker: "home", Since: begin, Reason: "3 faults", Evidence: []string{"a", "b"}}}})
	f.Oldest = []alarm.Oldest{{Lane: "judge", Jobs: 2, JobID: 7, Age: 10 * time.Minute}}
	if c := one(f, alarm.OldestWaiting); !c.Since.Equal(now.Add(-10*time.Minute)) || c.Evidence["job_id"] != int64(7) || c.Evidence["jobs"] != int64(2) {
		t.Errorf("old work: %+v", c)
	}
	if c := one(f, alarm.WorkerSetAside); c.Subject != "home" || !c.Since.Equal(begin) || !cmp.Equal(c.Evidence["faults"], []string{"a", "b"}) {
		t.Errorf("a worker that is set aside: %+v", c)
	}
}

// Work of one language is one alarm, with the reason of what goes first; work
// without a language goes by its lane.
func TestWorkThatNobodyCanDoIsGatheredByLanguage(t *testing.T) {
	lacks := func(lane dispatch.Lane, language, refusal string, jobs int) dispatch.Group {
		return dispatch.Group{Lane: lane, Language: language, Jobs: jobs, First: 1, Refusal: refusal}
	}
	f := board(alarm.Board{Survey: dispatch.Survey{Groups: []dispatch.Group{
		lacks(dispatch.Judge, "rust", "it does not offer rust", 3),
		lacks(dispatch.Judge, "c", "it lacks memory", 1),
		lacks(dispatch.Rejudge, "rust", "it lacks the tag fast", 2),
		lacks(dispatch.Prepare, "", "it does not prepare", 4),
	}, Online: 1, Working: 1, Out: 1}, Known: 1})
	// Often, because what is gathered in a map comes in any order.
	for range 20 {
		var got []string
		holds, _ := alarm.Conditions(f, alarm.Default, now)
		for _, c := range holds {
			got = append(got, fmt.Sprint(c.Subject, " ", c.Evidence["jobs"], ": ", c.Evidence["reason"]))
		}
		want := []string{"c 1: it lacks memory", "prepare 4: it does not prepare", "rust 5: it does not offer rust"}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Fatalf("(-want +got):\n%s", diff)
		}
	}
}
