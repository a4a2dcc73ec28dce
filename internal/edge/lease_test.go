package edge_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

func TestAClaimCarriesEverythingAJudgingNeeds(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	a := s.agent("home", made{})
	got := a.claim()
	want := gavelapi.Lease{
		JobID: got.JobID, Kind: "judge", Attempt: 1, LeaseToken: got.LeaseToken, LeaseGen: 1,
		TTLMS: 60_000, ConfirmMS: 10_000, HeartbeatMS: 5_000,
		SubmissionID: id, Language: "c", SourceName: "a.c", Source: []byte("int main(){}"), Problem: "p", PackageDigest: s.digest, StopRule: "first",
		Limits: gavelapi.Limits{CPUUS: 1_000_000, WallUS: 3_000_000, MemoryBytes: 256 << 20, OutputBytes: 8 << 20, Processes: 64},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("lease (-want +got):\n%s", diff)
	}
	if n := s.number("select count(*) from attempts where lease_token = $1 and term = 0 and outcome = 'running'", got.LeaseToken); n != 1 {
		t.Errorf("%d rows in the history", n)
	}
	if again := a.poll(); len(again) != 0 {
		t.Errorf("leased again: %+v", again)
	}
}

func TestALongSourceArrivesWhole(t *testing.T) {
	s := newStand(t)
	s.exec("update package_languages set source_bytes = 300000")
	source := strings.Repeat("\\'é☃\n", 30_000)
	s.number("select gavel.submit('p', 'c', $1::text)", source)
	if got := s.agent("home", made{}).claim(); string(got.Source) != source {
		t.Errorf("%d bytes arrived of %d", len(got.Source), len(source))
	}
}

// The question that the account leaves open: is "the worker is still me" enough
// to know that this is the latest attempt? It is not. A worker loses a job and
// gets the same one again; its first, slow execution then reports.
func TestThatTheWorkerIsStillMeIsNotEnough(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	a := s.agent("home", made{slots: 2})
	first := a.claim()
	if err := a.beat(first.LeaseToken); err != nil {
		t.Fatal(err)
	}
	s.expire(first.LeaseToken)
	if n, _, err := a.Reclaim(t.Context()); err != nil || n != 1 {
		t.Fatalf("reclaimed %d, error %v", n, err)
	}
	second := a.claim()
	if second.JobID != first.JobID || second.LeaseGen != first.LeaseGen+1 || second.LeaseToken == first.LeaseToken {
		t.Fatalf("the second grant is %+v", second)
	}
	// The old gate, as it was: does the row say judging, and is it mine?
	if n := s.number("select count(*) from jobs j join workers w on w.id = j.worker_id where j.id = $1 and j.state = 'leased' and w.name = 'home'", first.JobID); n != 1 {
		t.Fatalf("the old gate lets %d through: this test shows nothing", n)
	}
	if err := a.beat(first.LeaseToken); err == nil {
		t.Error("the old lease still heartbeats")
	} else {
		wantStatus(t, err, http.StatusGone, "expired")
	}
	if got := a.report(first.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != "expired" {
		t.Errorf("the old execution's report: %+v", got)
	}
	if rel, err := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: first.LeaseToken, Reason: "shutdown"}); err != nil || rel.Released {
		t.Errorf("the old execution could hand the job back: %+v, %v", rel, err)
	}
	if got := a.report(second.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeRecorded {
		t.Errorf("the live report: %+v", got)
	}
	if got := s.text("select verdict || ' ' || state from submission_verdicts where submission_id = $1", id); got != "AC done" {
		t.Errorf("the submission is %s", got)
	}
	if got := s.text("select late_report ->> 'verdict' from attempts where lease_token = $1", first.LeaseToken); got != "WA" {
		t.Errorf("the late report is kept as %q", got)
	}
}

// The timeline of the account: cut off at 10 s, reclaimed at 70 s and judged AC
// elsewhere, the late WA arrives at 90 s.
func TestALateResultAfterReclaimIsDiscarded(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	home, server := s.agent("home", made{}), s.agent("server", made{})
	slow := home.claim()
	_ = home.beat(slow.LeaseToken)
	s.expire(slow.LeaseToken)
	if _, _, err := server.Reclaim(t.Context()); err != nil {
		t.Fatal(err)
	}
	quick := server.claim()
	server.report(quick.LeaseToken, verdictReport("AC"))
	if got := home.report(slow.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("the late report: %+v", got)
	}
	if got := s.text("select verdict from submission_verdicts where submission_id = $1", id); got != "AC" {
		t.Errorf("the verdict is %s", got)
	}
}

func TestAReportTwiceIsRecordedOnce(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	a := s.agent("home", made{})
	l := a.claim()
	if got := a.report(l.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeRecorded {
		t.Fatalf("first: %+v", got)
	}
	before := s.text("select j::text || a::text from judgings j join attempts a on a.judging_id = j.id where j.submission_id = $1", id)
	for _, verdict := range []string{"AC", "WA"} {
		if got := a.report(l.LeaseToken, verdictReport(verdict)); got.Outcome != gavelapi.OutcomeAlreadyRecorded {
			t.Errorf("again with %s: %+v", verdict, got)
		}
	}
	if after := s.text("select j::text || a::text from judgings j join attempts a on a.judging_id = j.id where j.submission_id = $1", id); after != before {
		t.Errorf("the rows changed:\n%s\n%s", before, after)
	}
	if n := s.number("select count(*) from solves where submitter = 'alice'"); n != 1 {
		t.Errorf("%d solves", n)
	}
}

func TestTwoReportsAtTheSameInstantRecordOne(t *testing.T) {
	s := newStand(t)
	a, b := s.agent("home", made{}), s.agent("server", made{})
	for range 30 {
		id := s.submit("c")
		old := a.claim()
		_ = a.beat(old.LeaseToken)
		s.expire(old.LeaseToken)
		if _, _, err := b.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		live := b.claim()
		var wg sync.WaitGroup
		outcomes := make([]string, 3)
		for i, who := range []struct {
			*agent
			token, verdict string
		}{{a, old.LeaseToken, "WA"}, {b, live.LeaseToken, "AC"}, {b, live.LeaseToken, "AC"}} {
			wg.Go(func() {
				got, err := who.Result(t.Context(), gavelapi.ResultRequest{LeaseToken: who.token, Report: verdictReport(who.verdict)})
				if err != nil {
					t.Error(err)
					return
				}
				outcomes[i] = got.Outcome
			})
		}
		wg.Wait()
		recorded := 0
		for _, o := range outcomes {
			if o == gavelapi.OutcomeRecorded {
				recorded++
			}
		}
		if recorded != 1 || outcomes[0] != gavelapi.OutcomeDiscarded {
			t.Fatalf("outcomes %v", outcomes)
		}
		if got := s.text("select verdict from submission_verdicts where submission_id = $1", id); got != "AC" {
			t.Fatalf("verdict %s", got)
		}
	}
}

func TestAHandBackCostsNoAttempt(t *testing.T) {
	s := newStand(t)
	s.submit("c")
	a := s.agent("home", made{})
	for range 5 { // more often than the cap allows attempts
		l := a.claim()
		if l.Attempt != 1 {
			t.Fatalf("attempt %d", l.Attempt)
		}
		_ = a.beat(l.LeaseToken)
		if got, err := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: "shutdown"}); err != nil || !got.Released {
			t.Fatalf("hand-back: %+v, %v", got, err)
		}
		if got, err := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: "shutdown"}); err != nil || !got.Released {
			t.Fatalf("hand-back again: %+v, %v", got, err)
		}
	}
	if n := s.number("select count(*) from attempts where outcome = 'released'"); n != 5 {
		t.Errorf("%d released attempts", n)
	}
}

func TestALostJobEndsAsSystemErrorAfterThreeAttempts(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	a := s.agent("home", made{slots: 4})
	for i := range 3 {
		l := a.claim()
		if l.Attempt != i+1 {
			t.Fatalf("attempt %d, want %d", l.Attempt, i+1)
		}
		_ = a.beat(l.LeaseToken)
		s.expire(l.LeaseToken)
		if _, _, err := a.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if got := s.text("select state || ' ' || verdict from submission_verdicts where submission_id = $1", id); got != "system_error SE" {
		t.Errorf("the submission is %s", got)
	}
	if leases := a.poll(); len(leases) != 0 {
		t.Errorf("leased again: %+v", leases)
	}
}

func TestAGrantThatNobodyConfirmedCostsNoAttempt(t *testing.T) {
	s := newStand(t)
	s.submit("c")
	a := s.agent("home", made{slots: 4})
	for range 4 {
		l := a.claim()
		if l.Attempt != 1 {
			t.Fatalf("attempt %d", l.Attempt)
		}
		s.expire(l.LeaseToken) // no heartbeat came
		if _, _, err := a.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	if n := s.number("select count(*) from attempts where outcome = 'undelivered'"); n != 4 {
		t.Errorf("%d undelivered attempts", n)
	}
}

// A machine that fails everything is set aside and does not use up the attempts
// of jobs that others could do.
func TestFaultsOfTheMachineSetItAside(t *testing.T) {
	s := newStand(t)
	broken, fine := s.agent("broken", made{slots: 9}), s.agent("fine", made{})
	broken.poll()
	fine.poll() // seen, so that there is somebody else
	broken.slots = 1
	for range 5 {
		s.submit("c")
	}
	for range 3 {
		l := broken.claim()
		if got := broken.report(l.LeaseToken, faultReport("host")); got.Outcome != gavelapi.OutcomeRecorded {
			t.Fatalf("fault: %+v", got)
		}
	}
	if n := s.number("select count(distinct job_id) from attempts where outcome = 'failed' and blame = 'host'"); n != 3 {
		t.Errorf("the three faults hit %d jobs: it took what it had failed again, with somebody else there", n)
	}
	if leases := broken.poll(); len(leases) != 0 {
		t.Errorf("set aside, and yet it got %+v", leases)
	}
	for range 5 {
		fine.report(fine.claim().LeaseToken, verdictReport("AC"))
	}
	if n := s.number("select count(*) from submission_verdicts where verdict = 'AC'"); n != 5 {
		t.Errorf("%d of 5 judged", n)
	}
	s.exec("update edge_workers set aside_until = now()") // its time is over
	s.submit("c")
	l := broken.claim()
	broken.report(l.LeaseToken, verdictReport("AC"))
	if n := s.number("select host_faults from edge_workers e join workers w on w.id = e.worker_id where name = 'broken'"); n != 0 {
		t.Errorf("%d faults are still counted after a verdict", n)
	}
}

func TestAFaultAtTheCapIsASystemError(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	a := s.agent("home", made{slots: 1})
	for range 3 {
		a.report(a.claim().LeaseToken, faultReport("package"))
	}
	if got := s.text("select state from submission_verdicts where submission_id = $1", id); got != "system_error" {
		t.Errorf("the submission is %s", got)
	}
}

func TestARepeatedClaimGetsTheSameLeasesAndNoMore(t *testing.T) {
	s := newStand(t)
	for range 10 {
		s.submit("c")
	}
	a := s.agent("home", made{slots: 2})
	id := uuid.NewString()
	var wg sync.WaitGroup
	answers := make([][]gavelapi.Lease, 8)
	for i := range answers { // retries that overtake each other
		wg.Go(func() {
			got, err := a.Claim(t.Context(), a.request(id, 0))
			if err != nil {
				t.Error(err)
				return
			}
			answers[i] = got.Leases
		})
	}
	wg.Wait()
	for i := range answers {
		if diff := cmp.Diff(answers[0], answers[i]); diff != "" || len(answers[i]) != 2 {
			t.Errorf("answer %d (-first +this):\n%s", i, diff)
		}
	}
	if n := s.number("select count(*) from attempts"); n != 2 {
		t.Errorf("%d grants", n)
	}
}

func TestAWorkerNeverHoldsMoreThanItsSlots(t *testing.T) {
	s := newStand(t)
	for range 20 {
		s.submit("c")
	}
	a := s.agent("home", made{slots: 3})
	var wg sync.WaitGroup
	for range 8 { // claims with ids of their own, as no well-behaved agent makes
		wg.Go(func() {
			if _, err := a.Claim(t.Context(), a.request(uuid.NewString(), 0)); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if n := s.number("select count(*) from jobs where state = 'leased'"); n != 3 {
		t.Errorf("%d leases, 3 slots", n)
	}
}

func TestManyWorkersTakeEachJobOnce(t *testing.T) {
	s := newStand(t)
	const jobs = 60
	for range jobs {
		s.submit("c")
	}
	var wg sync.WaitGroup
	for i := range 6 {
		a := s.agent("w"+string(rune('a'+i)), made{})
		wg.Go(func() {
			for {
				got, err := a.Claim(t.Context(), a.request(uuid.NewString(), 0))
				if err != nil {
					t.Error(err)
					return
				}
				if len(got.Leases) == 0 {
					return
				}
				a.report(got.Leases[0].LeaseToken, verdictReport("AC"))
			}
		})
	}
	wg.Wait()
	if n := s.number("select count(*) from attempts"); n != jobs {
		t.Errorf("%d grants for %d jobs", n, jobs)
	}
	if n := s.number("select count(*) from judgings where state = 'done'"); n != jobs {
		t.Errorf("%d judged of %d", n, jobs)
	}
}

func TestASecondProcessOfAWorkerIsRefusedAndASuccessorIsNot(t *testing.T) {
	s := newStand(t)
	s.submit("c")
	first := s.agent("home", made{})
	l := first.claim()
	_ = first.beat(l.LeaseToken)
	second := s.agent("home", made{})
	if _, err := second.Claim(t.Context(), second.request(uuid.NewString(), 0)); err == nil {
		t.Fatal("two live processes of one worker")
	} else {
		wantStatus(t, err, http.StatusConflict, "another live session")
	}
	second.previous = first.session // it found that in the state directory: the first is dead
	got := second.claim()
	if got.JobID != l.JobID || got.Attempt != 2 {
		t.Errorf("the successor got %+v: the dead process's lease should have ended at once", got)
	}
	if outcome := s.text("select outcome from attempts where lease_token = $1", l.LeaseToken); outcome != "expired" {
		t.Errorf("the dead process's attempt is %s", outcome)
	}
}

// A login that says it has more slots than edge_slots gets no more than that, in one
// claim or in several; an arbiter beside it believes the smaller number as well.
func TestNobodyHoldsMoreThanEdgeSlots(t *testing.T) {
	s := newStand(t)
	s.exec("update lease_settings set edge_slots = 3")
	for range 8 {
		s.submit("c")
	}
	a := s.agent("home", made{slots: 1024})
	held := a.poll()
	if len(held) != 3 {
		t.Fatalf("%d leases at once, want 3", len(held))
	}
	if more := a.poll(); len(more) != 0 {
		t.Errorf("%d leases more", len(more))
	}
	if n := s.number("select slots from workers"); n != 3 {
		t.Errorf("the database believes %d slots", n)
	}
	a.report(held[0].LeaseToken, verdictReport("AC"))
	if more := a.poll(); len(more) != 1 {
		t.Errorf("%d leases for the one that is done", len(more))
	}
}

func TestEdgeSlotsAre64AsShipped(t *testing.T) {
	if n := newStand(t).number("select edge_slots from lease_settings"); n != 64 {
		t.Errorf("edge_slots is %d; docs/reference/edge-worker.md says 64", n)
	}
}
