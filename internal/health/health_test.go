package health

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Date(2026, 9, 17, 20, 0, 0, 0, time.UTC)

// tale tells a fleet what happens, one second after the other.
type tale struct {
	*Fleet
	t   *testing.T
	now time.Time
	job int64
	log []string
}

func begin(t *testing.T) *tale { return &tale{Fleet: New(Default), t: t, now: start, job: 100} }

func (s *tale) tick(d time.Duration) { s.now = s.now.Add(d) }

func (s *tale) note(changes []Change) {
	for _, c := range changes {
		s.log = append(s.log, strings.Join(strings.Fields(fmt.Sprintf("%d %s %s", c.WorkerID, c.Language, c.What)), " "))
	}
	s.tick(time.Second)
}

func (s *tale) fault(worker int64, language, blame string) int64 {
	s.job++
	s.faultOn(s.job, worker, language, blame)
	return s.job
}

func (s *tale) faultOn(job, worker int64, language, blame string) {
	s.note(s.Fail(Fault{WorkerID: worker, Language: language, JobID: job, Kind: Faulted, Blame: blame, Message: "it broke", At: s.now}))
}

func (s *tale) lost(worker int64, granted time.Time) {
	s.job++
	s.note(s.Fail(Fault{WorkerID: worker, Language: "cpp17", JobID: s.job, Kind: Lost, GrantedAt: granted, At: s.now}))
}

func (s *tale) ok(worker int64, language string) {
	s.job++
	s.okOn(s.job, worker, language)
}

func (s *tale) okOn(job, worker int64, language string) {
	s.note(s.Succeed(worker, language, job, s.now))
}

// probe carries out the probe that is due; pass decides how it comes out.
func (s *tale) probe(worker int64, pass func(Order) bool) (Order, bool) {
	s.t.Helper()
	o, ok := s.Due(worker, s.now)
	if !ok {
		return o, false
	}
	s.job++
	s.Opened(worker, o, s.job, s.now)
	s.tick(time.Second)
	out := Outcome{Passed: pass(o), Message: "got RE, want " + o.Program}
	if out.Passed {
		out.CPU = 100 * time.Millisecond
	}
	s.note(s.ProbeEnded(worker, s.job, out, s.now))
	return o, true
}

// probes carries out all that are due.
func (s *tale) probes(worker int64, pass func(Order) bool) (done []string) {
	s.t.Helper()
	for range 200 {
		o, ok := s.probe(worker, pass)
		if !ok {
			return done
		}
		done = append(done, o.Language+" "+o.Program)
	}
	s.t.Fatal("probes without end")
	return nil
}

func always(Order) bool { return true }
func never(Order) bool  { return false }

func (s *tale) wantAway(worker int64, want string) {
	s.t.Helper()
	if got := s.Away(worker); got != want && (want == "" || !strings.Contains(got, want)) {
		s.t.Errorf("worker %d is away because %q, want %q", worker, got, want)
	}
}

func (s *tale) wantLog(want ...string) {
	s.t.Helper()
	if diff := cmp.Diff(want, s.log); diff != "" {
		s.t.Errorf("changes (-want +got):\n%s", diff)
	}
}

func TestThreeFaultsInARowSetAWorkerAside(t *testing.T) {
	s := begin(t)
	s.fault(1, "cpp17", BlameHost)
	s.fault(1, "cpp17", BlameHost)
	s.ok(1, "cpp17")
	s.fault(1, "cpp17", BlameHost)
	s.fault(1, "python3", BlameHost)
	s.wantAway(1, "")
	s.fault(1, "cpp17", BlameHost)
	s.wantAway(1, "set aside: 3 faults in a row, the last one: it broke")
	s.wantLog("1 set_aside")
	evidence := s.State(1).Worker.Aside.Evidence
	if len(evidence) != 3 || evidence[2].JobID != s.job || evidence[2].Message != "it broke" || !evidence[2].At.Equal(s.now.Add(-time.Second)) {
		t.Errorf("the evidence is %+v", evidence)
	}
}

func TestAToolchainIsSetAsideInItsLanguageOnly(t *testing.T) {
	s := begin(t)
	for range 3 {
		s.fault(1, "haskell", BlameToolchain)
		s.ok(1, "cpp17") // other languages do not help it
	}
	s.wantAway(1, "")
	if got := s.AsideLanguages(1); len(got) != 1 || !strings.Contains(got["haskell"], "set aside: 3 faults in a row") {
		t.Errorf("languages set aside: %v", got)
	}
	s.wantLog("1 haskell set_aside")
}

func TestPackagesAndCheckersNeverCountAgainstAWorker(t *testing.T) {
	s := begin(t)
	for range 20 {
		s.fault(1, "cpp17", "package")
		s.fault(1, "cpp17", "checker")
	}
	s.wantAway(1, "")
	s.wantLog()
}

func TestTheSameJobCountsOnce(t *testing.T) {
	s := begin(t)
	for range 5 {
		s.faultOn(7, 1, "cpp17", BlameHost)
	}
	s.wantAway(1, "")
}

func TestAWorkerThatFailsAJobAgainIsProbedBeforeItWorksOn(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.probes(1, always)
	s.faultOn(7, 1, "python3", BlameHost)
	s.wantAway(1, "")
	s.faultOn(7, 1, "python3", BlameHost)
	s.wantAway(1, "in doubt: it failed job 7 again")
	if o, ok := s.Due(1, s.now); !ok || o != (Order{Step{"python3", "AC"}, ForDoubt, true}) {
		t.Errorf("due %+v %v", o, ok)
	}
	s.probe(1, always) // the job is to blame
	s.wantAway(1, "")
	s.wantLog()
	s.faultOn(7, 1, "python3", BlameHost)
	s.probe(1, never) // the worker is
	s.wantLog("1 python3 set_aside")
	s.wantAway(1, "")
}

func TestLeasesLostTogetherAreOneIncident(t *testing.T) {
	s := begin(t)
	granted := s.now
	s.tick(time.Minute)
	for range 8 { // a machine with eight slots falls asleep
		s.lost(1, granted)
	}
	s.wantAway(1, "")
	s.lost(1, s.now)
	s.tick(time.Second)
	s.lost(1, s.now)
	s.wantAway(1, "the last one a lost lease")
}

func TestAJobThatFailsOnSeveralWorkersIsToBlame(t *testing.T) {
	s := begin(t)
	s.fault(1, "cpp17", BlameHost)
	s.fault(1, "cpp17", BlameHost)
	s.faultOn(7, 1, "cpp17", BlameHost)
	s.wantAway(1, "set aside")
	s.faultOn(7, 2, "cpp17", BlameHost)
	s.wantAway(1, "")
	s.wantLog("1 set_aside", "1 returned")
	s.fault(1, "cpp17", BlameHost) // the two before still count
	s.wantAway(1, "set aside")
}

func TestAJobThatSomebodyCanDoIsNotToBlame(t *testing.T) {
	s := begin(t)
	for job := int64(1); job <= 3; job++ { // two broken workers, and a good one
		s.faultOn(job, 1, "cpp17", BlameHost)
		s.faultOn(job, 2, "cpp17", BlameHost)
		s.okOn(job, 3, "cpp17")
	}
	s.wantAway(1, "set aside")
	s.wantAway(2, "set aside")
	s.wantAway(3, "")
}

func TestPoisonSetsNobodyAside(t *testing.T) {
	s := begin(t)
	for range 30 {
		job := s.fault(1, "cpp17", BlameHost)
		s.faultOn(job, 2, "cpp17", BlameHost)
		s.faultOn(job, 1, "cpp17", BlameHost)
	}
	s.wantAway(1, "")
	s.wantAway(2, "")
}

func joined(t *testing.T, languages ...string) *tale {
	s := begin(t)
	var offers []Offer
	for _, l := range languages {
		offers = append(offers, Offer{l, "1"})
	}
	s.Join(1, "one", offers, s.now)
	return s
}

func TestAJoiningWorkerIsProbedBeforeItWorks(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.wantAway(1, "joining")
	if o, ok := s.Due(1, s.now); !ok || !o.Urgent || o.Purpose != ForJoin {
		t.Errorf("due: %+v %v", o, ok)
	}
	if _, ok := s.probe(1, always); !ok {
		t.Fatal("no probe")
	}
	s.wantAway(1, "") // the rest waits for an idle moment
	if o, ok := s.Due(1, s.now); !ok || o.Urgent {
		t.Errorf("due: %+v %v", o, ok)
	}
	got := s.probes(1, always)
	want := []string{"cpp17 WA", "cpp17 TLE", "cpp17 CE", "python3 AC", "python3 WA", "python3 TLE", "python3 CE"}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheGateOpensByItself(t *testing.T) {
	s := joined(t, "cpp17")
	o, _ := s.Due(1, s.now)
	s.Opened(1, o, 1, s.now)
	s.tick(Default.Gate)
	s.Due(1, s.now)
	s.wantAway(1, "")
}

func TestAFailedProbeAtJoinSetsItsLanguageAside(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.probe(1, never)
	if got := s.AsideLanguages(1)["cpp17"]; !strings.Contains(got, "probe cpp17 AC failed: got RE, want AC") {
		t.Errorf("cpp17: %q", got)
	}
	s.wantAway(1, "joining") // by the next language
	s.probes(1, always)
	s.wantAway(1, "")
	if got := s.AsideLanguages(1); len(got) != 1 {
		t.Errorf("set aside: %v", got)
	}
}

func TestAWorkerThatFailsEveryProbeIsSetAsideWhole(t *testing.T) {
	s := joined(t, "c", "cpp17", "python3")
	for range 3 {
		o, ok := s.Due(1, s.now)
		if !ok {
			t.Fatal("no probe")
		}
		s.job++
		s.Opened(1, o, s.job, s.now)
		s.note(s.ProbeEnded(1, s.job, Outcome{Message: "no space left", Blame: BlameHost}, s.now))
	}
	s.wantAway(1, "set aside: 3 faults in a row, the last one: no space left")
}

func TestANewSessionAndAChangedToolchainAreProbed(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.probes(1, always)
	same := []Offer{{"cpp17", "1"}, {"python3", "1"}}
	s.Join(1, "one", same, s.now)
	if o, ok := s.Due(1, s.now); ok {
		t.Errorf("nothing is new, yet due is %+v", o)
	}
	s.Join(1, "one", []Offer{{"cpp17", "1"}, {"python3", "2"}, {"rust", "1"}}, s.now)
	s.wantAway(1, "") // it works on meanwhile
	got := strings.Join(s.probes(1, always), ",")
	if want := "python3 AC,python3 WA,python3 TLE,python3 CE,rust AC,rust WA,rust TLE,rust CE"; got != want {
		t.Errorf("probed %s", got)
	}
	s.Join(1, "two", same, s.now)
	s.wantAway(1, "joining")
	if got := len(s.probes(1, always)); got != 8 {
		t.Errorf("%d probes of a new session", got)
	}
}

func TestReturningTakesTheBackOffAndItsProbes(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.probes(1, always)
	s.log = nil
	for range 3 {
		s.fault(1, "cpp17", BlameHost)
	}
	if o, ok := s.Due(1, s.now.Add(Default.Backoff-10*time.Second)); ok {
		t.Errorf("probed before its back-off is over: %+v", o)
	}
	s.tick(Default.Backoff)
	s.probe(1, never) // a round ends with the first failure
	s.wantAway(1, "set aside")
	if e := s.State(1).Worker.Aside.Evidence; len(e) != 4 || e[3].Kind != Probed {
		t.Errorf("what keeps it away: %+v", e)
	}
	if o, ok := s.Due(1, s.now.Add(2*Default.Backoff-10*time.Second)); ok {
		t.Errorf("the back-off has not doubled: %+v", o)
	}
	s.tick(2 * Default.Backoff)
	got := strings.Join(s.probes(1, always), ",")
	if got != "cpp17 AC,cpp17 WA,cpp17 TLE,cpp17 CE" {
		t.Errorf("probed %s", got)
	}
	s.wantAway(1, "")
	s.wantLog("1 set_aside", "1 probe_failed", "1 cpp17 set_aside", "1 cpp17 returned", "1 returned")
	if m := s.State(1).Worker; m.Level != 2 {
		t.Errorf("level %d right after the return", m.Level)
	}
	s.tick(time.Hour)
	s.ok(1, "cpp17")
	if m := s.State(1).Worker; m.Level != 0 {
		t.Errorf("level %d after a good hour", m.Level)
	}
}

func TestALanguageReturnsByItsOwnProbes(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	s.probes(1, always)
	for range 3 {
		s.fault(1, "python3", BlameToolchain)
	}
	s.tick(Default.Backoff)
	o, ok := s.Due(1, s.now)
	if !ok || o.Step != (Step{"python3", "AC"}) || !o.Urgent {
		t.Errorf("due: %+v %v", o, ok)
	}
	s.probes(1, always)
	if got := s.AsideLanguages(1); got != nil {
		t.Errorf("still aside: %v", got)
	}
}

// One compiler that breaks may be that of several languages.
func TestLanguagesThatDoNotReturnLeaveTheWorkerItsOthers(t *testing.T) {
	s := joined(t, "cpp17", "cpp20", "cpp23", "python3")
	s.probes(1, always)
	for _, l := range []string{"cpp17", "cpp20", "cpp23"} {
		for range 3 {
			s.fault(1, l, BlameToolchain)
		}
	}
	s.tick(Default.Backoff)
	if done := s.probes(1, never); len(done) != 3 {
		t.Errorf("probed %s", done)
	}
	s.wantAway(1, "")
	if got := s.AsideLanguages(1); len(got) != 3 {
		t.Errorf("set aside: %v", got)
	}
}

func TestAProbeThatNobodyPassesIsToBlame(t *testing.T) {
	s := joined(t, "haskell")
	s.Join(2, "x", []Offer{{"haskell", "1"}}, s.now)
	s.probe(1, never)
	if s.AsideLanguages(1) == nil {
		t.Error("not set aside by its failed probe")
	}
	s.probe(2, never)
	if a, b := s.AsideLanguages(1), s.AsideLanguages(2); a != nil || b != nil {
		t.Errorf("still aside: %v %v", a, b)
	}
	// A third worker passes it: so it can be done.
	s.Join(3, "y", []Offer{{"haskell", "1"}}, s.now)
	s.probe(3, always)
	if a, b := s.AsideLanguages(1), s.AsideLanguages(2); a == nil || b == nil {
		t.Errorf("not aside again: %v %v", a, b)
	}
}

func TestAProbeOfAnEndedRoundDecidesNothing(t *testing.T) {
	s := joined(t, "cpp17")
	s.probes(1, always)
	for range 3 {
		s.fault(1, "cpp17", BlameHost)
	}
	s.tick(Default.Backoff)
	for range 3 {
		s.probe(1, always)
	}
	o, _ := s.Due(1, s.now) // the last of the round
	s.Opened(1, o, 999, s.now)
	s.note(s.Reset(1, "", s.now))
	for range 3 {
		s.fault(1, "cpp17", BlameHost)
	}
	s.note(s.ProbeEnded(1, 999, Outcome{Passed: true}, s.now))
	s.wantAway(1, "set aside")
}

func TestALostProbeIsTriedAgainAndCounts(t *testing.T) {
	s := joined(t, "cpp17")
	for i := range 3 {
		s.wantAway(1, "joining")
		o, ok := s.Due(1, s.now)
		if !ok || o.Program != "AC" {
			t.Fatalf("try %d: due %+v %v", i, o, ok)
		}
		s.job++
		s.Opened(1, o, s.job, s.now)
		granted := s.now
		s.tick(time.Second)
		s.note(s.ProbeLost(1, s.job, granted, s.now))
	}
	s.wantAway(1, "set aside")
}

func TestADroppedProbeIsAskedForAgain(t *testing.T) {
	s := joined(t, "cpp17")
	o, _ := s.Due(1, s.now)
	s.Opened(1, o, 5, s.now)
	s.ProbeDropped(1, 6)
	if _, ok := s.Due(1, s.now); ok {
		t.Error("another job's end closed it")
	}
	s.ProbeDropped(1, 5)
	if again, ok := s.Due(1, s.now); !ok || again != o {
		t.Errorf("due %+v %v, want %+v", again, ok, o)
	}
}

func TestAnOperatorResetsAtOnce(t *testing.T) {
	s := joined(t, "cpp17", "python3")
	for range 3 {
		s.fault(1, "cpp17", BlameHost)
		s.fault(1, "python3", BlameToolchain)
	}
	s.wantAway(1, "set aside")
	s.note(s.Reset(1, "python3", s.now))
	s.wantAway(1, "set aside")
	s.note(s.Reset(1, "", s.now))
	s.wantAway(1, "")
	s.wantLog("1 set_aside", "1 python3 set_aside", "1 python3 returned", "1 returned")
	if s.Reset(99, "", s.now) != nil {
		t.Error("a worker that nobody knows was reset")
	}
}

func TestWithoutSettingsNobodyIsJudged(t *testing.T) {
	f := New(Settings{})
	f.Join(1, "one", []Offer{{"cpp17", "1"}}, start)
	for job := range int64(10) {
		f.Fail(Fault{WorkerID: 1, Language: "cpp17", JobID: job, Kind: Faulted, Blame: BlameHost, At: start})
	}
	if _, due := f.Due(1, start); due || f.Away(1) != "" || f.AsideLanguages(1) != nil {
		t.Error("somebody was judged")
	}
}

func TestMessagesAreCut(t *testing.T) {
	s := begin(t)
	s.note(s.Fail(Fault{WorkerID: 1, JobID: 1, Kind: Faulted, Blame: BlameHost, Message: strings.Repeat("é\n", 1000) + "\xff", At: s.now}))
	if got := s.State(1).Worker.Streak[0].Message; len(got) > maxMessageBytes+3 || strings.Contains(got, "\n") {
		t.Errorf("%d bytes: %q", len(got), got)
	}
}
