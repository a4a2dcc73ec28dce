package arbiter_test

import (
	"context"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

func TestASubmissionGoesThroughToItsVerdict(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	if sub.State != gavelapi.StatePending {
		t.Fatalf("a new submission is %s", sub.State)
	}
	l := w.claim()
	if l.SubmissionID != sub.ID || l.Attempt != 1 || l.LeaseGen != 1 || string(l.Source) != "int main(){}" ||
		l.Limits.CPUUS != 1_000_000 || l.Limits.WallUS != 3_000_000 {
		t.Errorf("the lease is %s", asJSON(l))
	}
	if err := w.beat(l.LeaseToken); err != nil {
		t.Fatal(err)
	}
	if got := s.read(sub.ID); got.State != gavelapi.StateJudging || got.Worker != "w" {
		t.Errorf("while judging it reads %s by %q", got.State, got.Worker)
	}
	if got := w.report(l.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeRecorded {
		t.Errorf("the report was %s", got.Outcome)
	}
	got := s.read(sub.ID)
	if got.State != gavelapi.StateDone || got.Verdict != "WA" || got.FinishedAt == nil || len(got.Detail.Tests) != 1 ||
		len(got.Detail.Attempts) != 1 || got.Detail.Attempts[0].Outcome != "completed" {
		t.Errorf("the submission ended as %s", asJSON(got))
	}
	if n := s.number("select count(*) from jobs"); n != 0 {
		t.Errorf("%d jobs are still open", n)
	}
}

func TestAReaderIsWokenByTheVerdict(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.claim()
	read := make(chan gavelapi.Submission)
	go func() {
		got, err := s.Submission(t.Context(), sub.ID, 20*time.Second)
		if err != nil {
			t.Error(err)
		}
		read <- got
	}()
	w.report(l.LeaseToken, verdictReport("AC"))
	if got := <-read; got.Verdict != "AC" {
		t.Errorf("the waiting reader got %s %q", got.State, got.Verdict)
	}
}

func TestARepeatedRequestGetsTheSameLease(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 2, "c")
	s.submit("c")
	req := w.request(uuid.NewString(), time.Second)
	first, err := s.Claim(t.Context(), w.p, req)
	if err != nil || len(first.Leases) != 1 {
		t.Fatalf("%d leases, %v", len(first.Leases), err)
	}
	s.submit("c") // waiting work must not be granted to a repetition
	again, err := s.Claim(t.Context(), w.p, req)
	if err != nil || len(again.Leases) != 1 || again.Leases[0].LeaseToken != first.Leases[0].LeaseToken {
		t.Fatalf("the repetition got %s, %v", asJSON(again.Leases), err)
	}
	// The id is stored with the grant: an arbiter that has just started knows it.
	s.stop()
	after := startOn(t, s.url, quick)
	after.awaitReady()
	again, err = after.Claim(t.Context(), w.p, req)
	if err != nil || len(again.Leases) != 1 || again.Leases[0].LeaseToken != first.Leases[0].LeaseToken {
		t.Fatalf("after a restart the repetition got %s, %v", asJSON(again.Leases), err)
	}
	if got := after.read(first.Leases[0].SubmissionID); len(got.Detail.Attempts) != 1 {
		t.Errorf("there are %d attempts", len(got.Detail.Attempts))
	}
}

func TestAGrantThatNobodyTookComesBackForNothing(t *testing.T) {
	settings := quick
	settings.Confirm = 100 * time.Millisecond
	s := newStand(t, settings)
	w, other := s.worker("w", 1, "c"), s.worker("other", 1, "c")
	sub := s.submit("c")
	w.claim() // and is never heard of again
	l := other.claim()
	if l.SubmissionID != sub.ID || l.Attempt != 1 || l.LeaseGen != 2 {
		t.Errorf("the second grant is %s", asJSON(l))
	}
	if err := other.beat(l.LeaseToken); err != nil {
		t.Error(err)
	}
	if got := s.read(sub.ID).Detail.Attempts; len(got) != 2 || got[0].Outcome != "undelivered" {
		t.Errorf("the attempts are %s", asJSON(got))
	}
}

// What a program deserves is final: trying it again would find the same, and
// cost a site its machines.
func TestNoVerdictIsTriedAgain(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	for _, v := range []string{"AC", "WA", "TLE", "MLE", "OLE", "RE", "CE"} {
		sub := s.submit("c")
		r := verdictReport(v)
		if v == "CE" {
			r.Tests = nil
		}
		w.report(w.hold().LeaseToken, r)
		if got := s.read(sub.ID); got.State != gavelapi.StateDone || got.Verdict != v || len(got.Detail.Attempts) != 1 {
			t.Errorf("%s: %s", v, asJSON(got))
		}
	}
	if n := s.number("select count(*) from jobs"); n != 0 {
		t.Errorf("%d jobs wait for another attempt", n)
	}
}

func TestALateReportOfADeadLeaseChangesNothing(t *testing.T) {
	s := newStand(t, quick)
	slow, quickOne := s.worker("slow", 1, "c"), s.worker("quick", 1, "c")
	sub := s.submit("c")
	dead := slow.hold()
	s.expire(dead.LeaseToken)
	wantGone(t, slow.beat(dead.LeaseToken), gavelapi.LeaseExpired)
	live := quickOne.claim()
	if live.Attempt != 2 {
		t.Errorf("the lost lease did not cost an attempt: %d", live.Attempt)
	}
	quickOne.report(live.LeaseToken, verdictReport("AC"))
	for range 2 { // also when it is repeated
		got := slow.report(dead.LeaseToken, verdictReport("WA"))
		if got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseExpired {
			t.Errorf("the late report was %+v", got)
		}
	}
	got := s.read(sub.ID)
	if got.Verdict != "AC" || got.Worker != "quick" || got.Detail.Attempts[0].LateReport != "WA" {
		t.Errorf("after the late report: %s", asJSON(got))
	}
}

func TestTheSameWorkersOldReportChangesNothing(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	old := w.hold()
	s.expire(old.LeaseToken)
	live := w.claim() // alone, so it gets the job again in spite of having lost it
	if got := w.report(old.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("the old report was %s", got.Outcome)
	}
	if got := s.read(sub.ID); got.State != gavelapi.StateJudging {
		t.Errorf("the old report moved the submission to %s", got.State)
	}
	w.report(live.LeaseToken, verdictReport("AC"))
	if got := s.read(sub.ID); got.Verdict != "AC" {
		t.Errorf("the verdict is %q", got.Verdict)
	}
}

func TestAReportSentManyTimesIsRecordedOnce(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.claim()
	outcomes := map[string]int{}
	var mu sync.Mutex
	var wg sync.WaitGroup
	for range 50 {
		wg.Go(func() {
			for {
				got, err := s.Result(t.Context(), w.p, gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("RE")})
				if apperr.CodeOf(err) == apperr.Unavailable && err != nil {
					continue // asked to repeat itself
				}
				if err != nil {
					t.Error(err)
				}
				mu.Lock()
				outcomes[got.Outcome]++
				mu.Unlock()
				return
			}
		})
	}
	wg.Wait()
	if outcomes[gavelapi.OutcomeRecorded] != 1 || outcomes[gavelapi.OutcomeAlreadyRecorded] != 49 {
		t.Errorf("50 equal reports were answered %v", outcomes)
	}
	if got := s.read(sub.ID); got.Verdict != "RE" || len(got.Detail.Tests) != 1 {
		t.Errorf("the submission is %s", asJSON(got))
	}
}

func TestAHandedBackLeaseCostsNothing(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	s.submit("c")
	for range 5 { // more often than the attempt cap
		l := w.claim()
		if l.Attempt != 1 {
			t.Fatalf("attempt %d after hand-backs only", l.Attempt)
		}
		if got := w.release(l.LeaseToken); !got.Released {
			t.Fatalf("not released: %+v", got)
		}
		if got := w.release(l.LeaseToken); !got.Released {
			t.Fatalf("repeating a release: %+v", got)
		}
		wantGone(t, w.beat(l.LeaseToken), gavelapi.LeaseReleased)
	}
}

// A worker that stops hands its work back while its last claim still waits: the
// job must not be granted to that closing connection.
func TestWhatAStoppingWorkerHandsBackIsNotGrantedToIt(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 2, "c")
	sub := s.submit("c")
	l := w.claim()
	waiting := make(chan []gavelapi.Lease, 1)
	go func() {
		got, err := w.tryClaim(10 * time.Second)
		if err != nil {
			t.Error(err)
		}
		waiting <- got
	}()
	until(t, "its next claim waits", func() bool { return w.waits() })
	w.release(l.LeaseToken)
	if got := <-waiting; len(got) != 0 {
		t.Errorf("it got its own job back: %s", asJSON(got))
	}
	if got := s.read(sub.ID); got.State != gavelapi.StatePending || len(got.Detail.Attempts) != 1 {
		t.Errorf("the job is %s", asJSON(got))
	}
}

func TestAFailedJobGoesToSomebodyElseAndEndsAtTheCap(t *testing.T) {
	s := newStand(t, quick)
	bad, other := s.worker("bad", 1, "c"), s.worker("other", 1, "c")
	if _, err := other.tryClaim(0); err != nil { // it is online from now on
		t.Fatal(err)
	}
	sub := s.submit("c")
	l := bad.claim()
	if got := bad.report(l.LeaseToken, faultReport(gavelapi.BlameHost)); got.Outcome != gavelapi.OutcomeRecorded {
		t.Fatalf("the fault was %+v", got)
	}
	if got := bad.report(l.LeaseToken, faultReport(gavelapi.BlameHost)); got.Outcome != gavelapi.OutcomeAlreadyRecorded {
		t.Fatalf("the repeated fault was %+v", got)
	}
	// Both wait now; the one that failed it must not get it while the other could.
	taken := make(chan []gavelapi.Lease, 1)
	go func() {
		leases, _ := bad.tryClaim(300 * time.Millisecond)
		taken <- leases
	}()
	second := other.claim()
	if got := <-taken; len(got) != 0 {
		t.Errorf("the worker that failed the job got it again at once")
	}
	other.report(second.LeaseToken, faultReport(gavelapi.BlameChecker))
	third := bad.claim()
	if third.Attempt != 3 {
		t.Fatalf("attempt %d", third.Attempt)
	}
	bad.report(third.LeaseToken, faultReport(gavelapi.BlameChecker))
	got := s.read(sub.ID)
	if got.State != gavelapi.StateSystemError || got.Verdict != "SE" || got.Fault == nil || got.Fault.Blame != gavelapi.BlameChecker {
		t.Errorf("after three faults: %s", asJSON(got))
	}
	next := s.submit("c")
	if l := other.claim(); l.SubmissionID != next.ID {
		t.Error("the next submission of the same problem was not judged")
	}
}

func TestAJobThatKillsItsWorkersEndsAtTheCap(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	for range 3 {
		l := w.hold()
		s.expire(l.LeaseToken)
	}
	got := s.read(sub.ID)
	if got.State != gavelapi.StateSystemError || got.Fault == nil || !strings.Contains(got.Fault.Message, "lost") {
		t.Errorf("after three lost leases: %s", asJSON(got))
	}
	if leases, err := w.tryClaim(0); err != nil || len(leases) != 0 {
		t.Errorf("it was granted again: %v %v", leases, err)
	}
}

func TestAWorkerNeverHoldsMoreThanItsSlots(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 3, "c")
	for range 12 {
		s.submit("c")
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	held := 0
	for range 8 { // a confused worker: many claims at once, each for all slots
		wg.Go(func() {
			leases, err := w.tryClaim(200 * time.Millisecond)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			held += len(leases)
			mu.Unlock()
		})
	}
	wg.Wait()
	if n := s.number("select count(*) from jobs where state = 'leased'"); n != 3 || held != 3 {
		t.Errorf("a worker with 3 slots holds %d leases and was told of %d", n, held)
	}
}

func TestCancelIsFinalAtEveryMoment(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	pending := s.submit("c")
	if got, err := s.CancelSubmission(t.Context(), s.admin, pending.ID, ""); err != nil || got.State != gavelapi.StateCancelled {
		t.Fatalf("cancelling a pending one: %s, %v", got.State, err)
	}
	if leases, err := w.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("a cancelled submission was granted: %v, %v", leases, err)
	}
	leased := s.submit("c")
	l := w.claim()
	for range 2 { // repeating it is fine
		if got, err := s.CancelSubmission(t.Context(), s.admin, leased.ID, ""); err != nil || got.State != gavelapi.StateCancelled {
			t.Fatalf("cancelling a leased one: %s, %v", got.State, err)
		}
	}
	wantGone(t, w.beat(l.LeaseToken), gavelapi.LeaseCancelled)
	if got := w.report(l.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseCancelled {
		t.Errorf("the report after the cancel was %+v", got)
	}
	done := s.submit("c")
	l = w.claim() // its slot is free again
	w.report(l.LeaseToken, verdictReport("AC"))
	got, err := s.CancelSubmission(t.Context(), s.admin, done.ID, "")
	if apperr.CodeOf(err) != apperr.Conflict || got.Verdict != "AC" {
		t.Errorf("cancelling a judged one: %q, %v", got.Verdict, err)
	}
}

func TestAnotherWorkersLeaseIsOutOfReach(t *testing.T) {
	s := newStand(t, quick)
	w, thief := s.worker("w", 1, "c"), s.worker("thief", 1, "python3")
	sub := s.submit("c")
	l := w.claim()
	ctx := t.Context()
	if err := thief.beat(l.LeaseToken); apperr.CodeOf(err) != apperr.Forbidden {
		t.Errorf("heartbeat: %v", err)
	}
	if _, err := s.Result(ctx, thief.p, gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("AC")}); apperr.CodeOf(err) != apperr.Forbidden {
		t.Errorf("result: %v", err)
	}
	if _, err := s.Release(ctx, thief.p, gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken}); apperr.CodeOf(err) != apperr.Forbidden {
		t.Errorf("release: %v", err)
	}
	if _, err := s.OpenPackage(ctx, thief.p, l.PackageDigest); apperr.CodeOf(err) != apperr.Forbidden {
		t.Errorf("package: %v", err)
	}
	if got := s.read(sub.ID); got.State != gavelapi.StateJudging {
		t.Errorf("the submission is %s", got.State)
	}
	nobodys := uuid.NewString()
	wantGone(t, w.beat(nobodys), gavelapi.LeaseUnknown)
	if got := w.report(nobodys, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("a report for no lease was %+v", got)
	}
}

func TestOnlyOneLiveSessionOfAWorkerClaims(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	ctx, hangUp := context.WithCancel(t.Context())
	waiting := make(chan error, 1)
	go func() {
		_, err := s.Claim(ctx, w.p, w.request(uuid.NewString(), 10*time.Second))
		waiting <- err
	}()
	until(t, "the first session waits", func() bool {
		list, err := s.Workers(t.Context())
		return err == nil && list.Workers[0].State == "idle"
	})
	stranger := *w
	stranger.session = uuid.NewString()
	if _, err := stranger.tryClaim(0); apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("a second live session: %v, want a conflict", err)
	}
	// The restarted process names the session it succeeds; the old one is sent away.
	successor := *w
	successor.session, successor.previous = uuid.NewString(), w.session
	if _, err := successor.tryClaim(0); err != nil {
		t.Errorf("the successor: %v", err)
	}
	if err := <-waiting; apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("the replaced session's claim ended with %v", err)
	}
	hangUp()
}

func TestASuccessorNeedNotWaitForTheDeadSessionsLeases(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.hold()
	w.previous, w.session = w.session, uuid.NewString() // killed and started again
	again := w.claim()
	if again.SubmissionID != sub.ID || again.Attempt != 2 {
		t.Errorf("the successor got %s", asJSON(again))
	}
	if got := w.report(l.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("the dead session's report was %+v", got)
	}
}

// The leader and the worker die together, as with gavel up: the new leader has
// never heard of the worker, whose new process names the old one all the same.
func TestASuccessorNeedNotWaitForTheDeadSessionsLeasesInANewTerm(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.hold()
	s.stop()
	next := startOn(t, s.url, quick)
	next.awaitReady()
	w.s = next
	w.previous, w.session = w.session, uuid.NewString()
	again := w.claim()
	if again.SubmissionID != sub.ID || again.Attempt != 2 {
		t.Errorf("the successor got %s", asJSON(again))
	}
	if got := w.report(l.LeaseToken, verdictReport("WA")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("the dead session's report was %+v", got)
	}
}

// A reader who waits must not take a dead worker's lease for progress.
func TestASilentWorkerIsSaidToBeSilent(t *testing.T) {
	settings := quick
	settings.Heartbeat = 100 * time.Millisecond
	s := newStand(t, settings)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.hold()
	until(t, "the silence shows", func() bool {
		got := s.read(sub.ID)
		return got.State == gavelapi.StateJudging && strings.Contains(got.Waiting, "nothing was heard of w")
	})
	if err := w.beat(l.LeaseToken); err != nil {
		t.Fatal(err)
	}
	until(t, "a heartbeat ends it", func() bool {
		if err := w.beat(l.LeaseToken); err != nil {
			t.Fatal(err)
		}
		return s.read(sub.ID).Waiting == ""
	})
}

// An orderly stop must not last as long as its readers are patient.
func TestAStopAnswersReadersThatWait(t *testing.T) {
	s := newStand(t, quick)
	sub := s.submit("c")
	ended := make(chan error, 1)
	go func() {
		_, err := s.Submission(t.Context(), sub.ID, time.Hour)
		ended <- err
	}()
	s.stop()
	select {
	case err := <-ended:
		if apperr.CodeOf(err) != apperr.Unavailable {
			t.Errorf("the reader got %v", err)
		}
	case <-time.After(30 * time.Second):
		t.Fatal("the reader still waits")
	}
}

func TestWorkThatNobodyCanDoSaysSo(t *testing.T) {
	s := newStand(t, quick)
	sub := s.submit("python3")
	if got := s.read(sub.ID); got.Waiting != "no worker is online" {
		t.Errorf("waiting: %q", got.Waiting)
	}
	w := s.worker("w", 1, "c")
	if leases, err := w.tryClaim(0); err != nil || len(leases) != 0 {
		t.Fatalf("%v %v", leases, err)
	}
	if got := s.read(sub.ID); !strings.Contains(got.Waiting, "none of the 1 online offers python3") || len(got.Detail.Attempts) != 0 {
		t.Errorf("waiting: %q, attempts %d", got.Waiting, len(got.Detail.Attempts))
	}
	able := s.worker("able", 1, "python3")
	if l := able.claim(); l.SubmissionID != sub.ID {
		t.Error("a worker that can do it did not get it")
	}
}

// An attempt whose job is gone can never be recorded. Its worker is told so, and
// does not go on reporting for ever.
func TestAReportOfAnAttemptThatItsJobLeftBehindIsDiscarded(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	s.submit("c")
	l := w.claim()
	s.exec("delete from jobs where id = $1", l.JobID)
	got, err := s.Result(t.Context(), w.p, gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("AC")})
	if err != nil || got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseCancelled {
		t.Errorf("%+v, %v", got, err)
	}
	if n := s.number("select count(*) from attempts where outcome = 'cancelled' and late_report is not null"); n != 1 {
		t.Errorf("%d attempts were ended and have the report as evidence", n)
	}
}

func TestWorkInsertedBehindTheArbitersBackIsFound(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	first := w.claim()
	w.report(first.LeaseToken, verdictReport("AC"))
	// As another arbiter or a site's own transaction would: no poke.
	s.exec(`insert into judgings (submission_id, kind, package_digest, limits)
	        select submission_id, 'rejudge', package_digest, limits from judgings where submission_id = $1`, sub.ID)
	s.exec(`insert into jobs (judging_id, submission_id, kind, lane, language)
	        select max(id), $1, 'rejudge', 'rejudge', 'c' from judgings`, sub.ID)
	if l := w.claim(); l.Kind != "rejudge" {
		t.Errorf("the lease is %s", asJSON(l))
	}
}
