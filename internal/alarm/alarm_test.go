package alarm_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

var begin = time.Date(2025, 9, 17, 1, 0, 0, 0, time.UTC)

// story looks once a second at facts that a test changes.
type story struct {
	t     *testing.T
	w     *alarm.Watch
	now   time.Time
	facts alarm.Facts
	stuck bool // the dispatch loop does not come round
	// before is done before each look.
	before func()
}

func newStory(t *testing.T) *story {
	return &story{
		t: t, w: alarm.New(alarm.Default, nil, begin), now: begin,
		facts: alarm.Facts{Board: &alarm.Board{Known: 1, Survey: dispatch.Survey{Online: 1, Working: 1}}, Oldest: []alarm.Oldest{}, LoopedAt: begin},
	}
}

// passes lets time pass, and lists what became of alarms: "kind started after 30 s".
func (s *story) passes(d time.Duration) []string {
	return s.looks(d, func(c alarm.Change) bool { return c.What != alarm.Continued })
}

// tells lets time pass, and lists whose evidence was given out anew.
func (s *story) tells(d time.Duration) []string {
	return s.looks(d, func(c alarm.Change) bool { return c.What == alarm.Continued })
}

func (s *story) looks(d time.Duration, wanted func(alarm.Change) bool) []string {
	var got []string
	from := s.now
	for until := s.now.Add(d); s.now.Before(until); {
		s.now = s.now.Add(time.Second)
		if !s.stuck {
			s.facts.LoopedAt = s.now
		}
		if s.before != nil {
			s.before()
		}
		for _, c := range s.w.Look(s.now, s.facts) {
			if !wanted(c) {
				continue
			}
			name := strings.TrimSuffix(fmt.Sprintf("%s/%s", c.Alarm.Kind, c.Alarm.Subject), "/")
			got = append(got, fmt.Sprintf("%s %s after %d s", name, c.What, int(s.now.Sub(from).Seconds())))
		}
		s.facts.Events = nil
	}
	return got
}

func (s *story) want(d time.Duration, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.passes(d)); diff != "" {
		s.t.Errorf("alarms (-want +got):\n%s", diff)
	}
}

// waiting is a group that able workers are busy with.
func waiting() dispatch.Group {
	return dispatch.Group{Lane: dispatch.Judge, Language: "cpp17", Jobs: 3, First: 7, Able: true}
}

// Every alarm starts for its reason, after its time, and ends when the reason is gone.
func TestEachAlarmStartsAndEnds(t *testing.T) {
	tests := []struct {
		kind       alarm.Kind
		severity   alarm.Severity
		begin, end func(*story)
		starts     string
		ends       string
	}{
		{
			kind: alarm.Unmatched, severity: alarm.Page,
			begin: func(s *story) {
				g := waiting()
				g.Free, g.FreeName = 4, "home"
				s.facts.Board.Groups, s.facts.Board.Out = []dispatch.Group{g}, 1
			},
			end:    func(s *story) { s.facts.Board.Groups = nil },
			starts: "unmatched/judge started after 31 s", ends: "unmatched/judge ended after 6 s",
		},
		{
			kind: alarm.DispatchStuck, severity: alarm.Page,
			begin:  func(s *story) { s.stuck = true },
			end:    func(s *story) { s.stuck = false },
			starts: "dispatch_stuck started after 16 s", ends: "dispatch_stuck ended after 6 s",
		},
		{
			kind: alarm.JudgeDown, severity: alarm.Page,
			begin:  func(s *story) { s.facts.Board.Groups, s.facts.Board.Working = []dispatch.Group{waiting()}, 0 },
			end:    func(s *story) { s.facts.Board.Out = 1 },
			starts: "judge_down started after 61 s", ends: "judge_down ended after 6 s",
		},
		{
			kind: alarm.OldestWaiting, severity: alarm.Page,
			begin: func(s *story) {
				s.facts.Oldest = []alarm.Oldest{{Lane: "judge", Jobs: 2, JobID: 7, Age: 121 * time.Second}, {Lane: "rejudge", Jobs: 9, JobID: 1, Age: 50 * time.Minute}}
			},
			end: func(s *story) {
				s.facts.Oldest = []alarm.Oldest{{Lane: "judge", Jobs: 1, JobID: 9, Age: 119 * time.Second}}
			},
			starts: "oldest_waiting/judge started after 1 s", ends: "oldest_waiting/judge ended after 6 s",
		},
		{
			kind: alarm.NoCapableWorker, severity: alarm.Page,
			begin: func(s *story) {
				g := waiting()
				g.Able, g.Refusal, g.Language = false, "it does not offer java", "java"
				s.facts.Board.Groups, s.facts.Board.Out = []dispatch.Group{g}, 1
			},
			end:    func(s *story) { s.facts.Board.Groups[0].Able = true },
			starts: "no_capable_worker/java started after 11 s", ends: "no_capable_worker/java ended after 6 s",
		},
		{
			kind: alarm.WorkerSetAside, severity: alarm.Ticket,
			begin: func(s *story) {
				s.facts.Board.Aside = []alarm.Aside{{Worker: "home", Language: "java", Since: begin, Reason: "3 faults"}}
			},
			end:    func(s *story) { s.facts.Board.Aside = nil },
			starts: "worker_set_aside/home/java started after 1 s", ends: "worker_set_aside/home/java ended after 1 s",
		},
		{
			kind: alarm.AttemptCap, severity: alarm.Ticket,
			begin:  func(s *story) { s.facts.Events = []alarm.Event{{Kind: alarm.AttemptCap, Summary: "submission 5"}} },
			end:    func(*story) {},
			starts: "attempt_cap started after 1 s", ends: "attempt_cap ended after 420 s",
		},
		{
			kind: alarm.ResultDiscarded, severity: alarm.Info,
			begin:  func(s *story) { s.facts.Events = []alarm.Event{{Kind: alarm.ResultDiscarded, Summary: "job 5"}} },
			end:    func(*story) {},
			starts: "result_discarded started after 1 s", ends: "result_discarded ended after 420 s",
		},
		{
			kind: alarm.LeaderChanged, severity: alarm.Info,
			begin:  func(s *story) { s.facts.Events = []alarm.Event{{Kind: alarm.LeaderChanged, Summary: "term 2"}} },
			end:    func(*story) {},
			starts: "leader_changed started after 1 s", ends: "leader_changed ended after 420 s",
		},
	}
	tested := map[alarm.Kind]bool{}
	for _, c := range tests {
		tested[c.kind] = true
		t.Run(string(c.kind), func(t *testing.T) {
			s := newStory(t)
			s.want(10 * time.Minute)
			c.begin(s)
			s.want(182*time.Second, c.starts)
			if open := s.w.Open(); len(open) != 1 || open[0].Severity != c.severity {
				t.Errorf("open: %+v, want one that is a %s", open, c.severity)
			}
			c.end(s)
			s.want(15*time.Minute, c.ends)
		})
	}
	for _, k := range alarm.Kinds() {
		if !tested[k] {
			t.Errorf("%s has no test", k)
		}
	}
}

func TestAPairThatIsBrokenUpBeginsAnew(t *testing.T) {
	s := newStory(t)
	g := waiting()
	g.Free = 4
	s.facts.Board.Groups, s.facts.Board.Out = []dispatch.Group{g}, 1
	s.want(25 * time.Second)
	s.facts.Board.Groups[0].First = 8 // job 7 went, so matching works
	s.want(30 * time.Second)
	s.facts.Board.Groups[0].Free = 5 // the worker got something
	s.want(30 * time.Second)
	s.want(5*time.Second, "unmatched/judge started after 1 s")
}

func TestWhileSomethingIsGivenOutJudgingIsNotDown(t *testing.T) {
	s := newStory(t)
	s.facts.Board.Groups = []dispatch.Group{waiting()}
	for range 10 { // nothing is out at any look, but every 50 s something was granted between two
		s.want(50 * time.Second)
		s.facts.Board.Grants++
	}
}

func TestAbsenceThatIsPlannedIsNoAlarm(t *testing.T) {
	s := newStory(t)
	b := s.facts.Board
	b.Groups, b.Online, b.Working = []dispatch.Group{waiting()}, 0, 0
	b.Groups[0].Able = false
	b.Asleep = []alarm.Sleeper{{Name: "home", Languages: []string{"cpp17"}}}
	s.want(5 * time.Minute) // the only worker there is sleeps as planned
	b.Known, b.Online, b.Working = 2, 1, 1
	s.want(5 * time.Minute) // another is there, that cannot do it; the one that can is asleep
	b.Asleep = nil
	s.want(time.Minute, "no_capable_worker/cpp17 started after 11 s")
}

func TestWorkThatAnOperatorHoldsRaisesNothing(t *testing.T) {
	s := newStory(t)
	g := waiting()
	g.Held = true
	s.facts.Board.Groups, s.facts.Board.Working = []dispatch.Group{g}, 0
	s.want(10 * time.Minute)
}

// An arbiter that was frozen with a pair in sight has not watched it meanwhile.
func TestTimeInWhichNobodyLookedDoesNotCount(t *testing.T) {
	s := newStory(t)
	g := waiting()
	g.Free = 4
	s.facts.Board.Groups, s.facts.Board.Out = []dispatch.Group{g}, 1
	s.want(5 * time.Second)
	s.now = s.now.Add(time.Hour)
	s.want(30 * time.Second)
	s.want(5*time.Second, "unmatched/judge started after 1 s")
}

func TestAnAlarmDoesNotFlapNorEndUnseen(t *testing.T) {
	s := newStory(t)
	s.facts.Board.Groups, s.facts.Board.Working = []dispatch.Group{waiting()}, 0
	s.want(61*time.Second, "judge_down started after 61 s")
	for range 20 { // gone for less than Clear each time
		s.facts.Board.Out = 1
		s.want(4 * time.Second)
		s.facts.Board.Out = 0
		s.want(2 * time.Second)
	}
	board := s.facts.Board
	s.facts.Board, s.facts.Oldest = nil, nil
	s.want(10 * time.Minute)
	s.facts.Board = board
	s.facts.Board.Groups = nil
	s.want(time.Minute, "judge_down ended after 6 s")
}

func TestASuccessorTakesOpenAlarmsOver(t *testing.T) {
	s := newStory(t)
	old := alarm.Alarm{Kind: alarm.JudgeDown, Severity: alarm.Page, Since: begin.Add(-time.Hour), Started: begin.Add(-time.Minute)}
	s.w = alarm.New(alarm.Default, []alarm.Alarm{old}, begin)
	s.facts.Board.Groups, s.facts.Board.Working = []dispatch.Group{waiting()}, 0
	s.want(2 * time.Minute) // it goes on and does not start a second time
	if open := s.w.Open(); len(open) != 1 || !open[0].Since.Equal(old.Since) {
		t.Errorf("open: %+v, want the one that began an hour ago", open)
	}
	s.facts.Board.Groups = nil
	s.want(time.Minute, "judge_down ended after 6 s")

	s.w = alarm.New(alarm.Default, []alarm.Alarm{old}, s.now)
	s.want(time.Minute, "judge_down ended after 5 s") // what was mended between two leaders ends
}

// What was gone for a moment when nobody looked any more must be gone anew.
func TestAnEndThatNobodyWatchedBeginsAnew(t *testing.T) {
	s := newStory(t)
	s.facts.Board.Groups, s.facts.Board.Working = []dispatch.Group{waiting()}, 0
	s.want(61*time.Second, "judge_down started after 61 s")
	s.facts.Board.Groups = nil
	s.want(4 * time.Second)
	s.now = s.now.Add(time.Hour)
	s.want(time.Minute, "judge_down ended after 6 s")
}

func TestAConditionThatWasGoneForALookBeginsAnew(t *testing.T) {
	s := newStory(t)
	g := waiting()
	g.Free = 4
	s.facts.Board.Out = 1
	s.facts.Board.Groups = []dispatch.Group{g}
	s.want(25 * time.Second)
	s.facts.Board.Groups = nil
	s.want(time.Second)
	s.facts.Board.Groups = []dispatch.Group{g}
	s.want(30 * time.Second)
	s.want(5*time.Second, "unmatched/judge started after 1 s")
}

func TestEventsAreCountedInOneAlarm(t *testing.T) {
	s := newStory(t)
	discarded := func(n int) {
		for i := range n {
			s.facts.Events = append(s.facts.Events, alarm.Event{Kind: alarm.ResultDiscarded, Summary: fmt.Sprint("job ", i)})
		}
	}
	discarded(3)
	s.want(9*time.Minute, "result_discarded started after 1 s")
	discarded(2)
	s.want(9 * time.Minute)
	if open := s.w.Open(); len(open) != 1 || open[0].Count != 5 || open[0].Summary != "job 1" {
		t.Errorf("open: %+v, want one with 5 and the latest in words", open)
	}
	s.want(2*time.Minute, "result_discarded ended after 62 s")
}

// For any facts: an alarm starts once before it ends, never twice, and what is
// told agrees with what is open.
func TestAnyFactsGiveAlarmsThatStartAndEndInTurn(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		now := begin
		w := alarm.New(alarm.Default, nil, now)
		open := map[string]bool{}
		for range rapid.IntRange(1, 60).Draw(t, "looks") {
			now = now.Add(time.Duration(rapid.IntRange(1, 15).Draw(t, "pause")) * time.Second)
			f := alarm.Facts{LoopedAt: now.Add(-time.Duration(rapid.IntRange(0, 30).Draw(t, "away")) * time.Second)}
			if rapid.Bool().Draw(t, "board") {
				f.Board = &alarm.Board{Known: 2, Grants: rapid.Int64Range(0, 1).Draw(t, "grants")}
				f.Board.Online, f.Board.Working = 2, rapid.IntRange(0, 2).Draw(t, "working")
				for i := range rapid.IntRange(0, 3).Draw(t, "groups") {
					f.Board.Groups = append(f.Board.Groups, dispatch.Group{
						Lane: dispatch.Judge, Language: rapid.SampledFrom([]string{"c", "java"}).Draw(t, "language"), Jobs: 1,
						First: int64(i + 1), Able: rapid.Bool().Draw(t, "able"), Free: rapid.Int64Range(0, 1).Draw(t, "free"),
					})
				}
			}
			if rapid.Bool().Draw(t, "oldest") {
				f.Oldest = []alarm.Oldest{{Lane: "run", Age: time.Duration(rapid.IntRange(100, 140).Draw(t, "age")) * time.Second}}
			}
			for _, c := range w.Look(now, f) {
				k := string(c.Alarm.Kind) + "/" + c.Alarm.Subject
				if want := c.What != alarm.Started; open[k] != want {
					t.Fatalf("%s %s while open is %v", k, c.What, open[k])
				}
				open[k] = c.What != alarm.Ended
				if c.Alarm.Since.After(c.Alarm.Started) || c.Alarm.Started.After(now) {
					t.Fatalf("%s: began %v, started %v, now %v", k, c.Alarm.Since, c.Alarm.Started, now)
				}
			}
			n := 0
			for _, is := range open {
				if is {
					n++
				}
			}
			if len(w.Open()) != n {
				t.Fatalf("%d are open, told of %d", len(w.Open()), n)
			}
		}
	})
}
