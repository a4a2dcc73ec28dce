package alarm_test

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

func (s *story) wantTold(d time.Duration, want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.tells(d)); diff != "" {
		s.t.Errorf("told (-want +got):\n%s", diff)
	}
}

// unable is a story of work that nobody can do, in which nothing changes.
func unable(t *testing.T) *story {
	s := newStory(t)
	s.facts.Board.Out = 1
	s.facts.Board.Groups = []dispatch.Group{group(func(g *dispatch.Group) { g.Able, g.Refusal = false, "no" })}
	s.want(11*time.Second, "no_capable_worker/cpp17 started after 11 s")
	return s
}

// What an open alarm says is given out anew when it has changed, and not more
// often than every ten seconds.
func TestChangedEvidenceIsToldNowAndThen(t *testing.T) {
	s := unable(t)
	s.wantTold(time.Minute) // nothing new is not told
	s.facts.Board.Groups[0].Jobs++
	s.wantTold(time.Minute, "no_capable_worker/cpp17 continued after 1 s")
	s.before = func() { s.facts.Board.Groups[0].Jobs++ }
	s.wantTold(35*time.Second,
		"no_capable_worker/cpp17 continued after 1 s", "no_capable_worker/cpp17 continued after 11 s",
		"no_capable_worker/cpp17 continued after 21 s", "no_capable_worker/cpp17 continued after 31 s")
}

// Words and evidence count alike: some things are in one of them only.
func TestAChangeOfWordsOrOfEvidenceAloneIsTold(t *testing.T) {
	s := unable(t)
	s.facts.Board.Online++ // in the evidence alone
	s.wantTold(20*time.Second, "no_capable_worker/cpp17 continued after 10 s")
	stuck := newStory(t)
	stuck.stuck = true
	stuck.want(16*time.Second, "dispatch_stuck started after 16 s")
	stuck.wantTold(11*time.Second, "dispatch_stuck continued after 10 s") // its words have the seconds, its evidence stays
}

// What came in the last moment is told even when nothing follows; that it came
// again is news, in the same words too.
func TestTheLastOfSeveralEventsIsTold(t *testing.T) {
	s := newStory(t)
	event := []alarm.Event{{Kind: alarm.ResultDiscarded, Summary: "job 5"}}
	s.facts.Events = event
	s.want(3*time.Second, "result_discarded started after 1 s")
	s.facts.Events = event
	s.wantTold(time.Minute, "result_discarded continued after 8 s")
	if open := s.w.Open(); len(open) != 1 || open[0].Count != 2 {
		t.Errorf("open: %+v, want one that counts 2", open)
	}
}

// A successor takes its time as well: what was told before was just told.
func TestASuccessorDoesNotTellAtOnce(t *testing.T) {
	s := unable(t)
	s.w = alarm.New(alarm.Default, s.w.Open(), s.now)
	s.facts.Board.Groups[0].Jobs++
	s.wantTold(time.Minute, "no_capable_worker/cpp17 continued after 10 s")
}

// What it tells of began before it was raised, and is not forgotten by what
// begins later.
func TestAnAlarmKnowsSinceWhen(t *testing.T) {
	s := newStory(t)
	s.facts.Oldest = []alarm.Oldest{{Lane: "judge", Jobs: 1, JobID: 7, Age: 10 * time.Minute}}
	s.want(time.Second, "oldest_waiting/judge started after 1 s")
	since := s.now.Add(-10 * time.Minute)
	s.facts.Oldest = []alarm.Oldest{{Lane: "judge", Jobs: 1, JobID: 8, Age: 3 * time.Minute}}
	s.want(time.Minute)
	if open := s.w.Open(); len(open) != 1 || !open[0].Since.Equal(since) {
		t.Errorf("open: %+v, want one since %v", open, since)
	}
}
