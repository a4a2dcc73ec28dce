package arbiter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

func (s *stand) change(name string, c gavelapi.WorkerChange) gavelapi.WorkerInfo {
	s.t.Helper()
	w, err := s.ChangeWorker(s.t.Context(), s.admin, name, c)
	if err != nil {
		s.t.Fatal(err)
	}
	return w
}

// nothing says that a claim gets nothing for a moment.
func (f *fake) nothing(why string) {
	f.s.t.Helper()
	if leases, err := f.tryClaim(300 * time.Millisecond); err != nil || len(leases) != 0 {
		f.s.t.Fatalf("%s, yet the claim got %d leases, error %v", why, len(leases), err)
	}
}

func (s *stand) waitsBecause(id int64, want string) {
	s.t.Helper()
	until(s.t, "the submission waits because "+want, func() bool { return strings.Contains(s.read(id).Waiting, want) })
}

func TestADrainedWorkerGetsNothingUntilItIsResumedWhoeverRestarts(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	w.nothing("nothing waits")
	got := s.change("w", gavelapi.WorkerChange{Action: "drain", Note: "new disk"})
	if got.State != "draining" || !strings.Contains(got.Away, "new disk") {
		t.Errorf("it is %s, away: %q", got.State, got.Away)
	}
	sub := s.submit("c")
	w.nothing("the worker drains")
	s.waitsBecause(sub.ID, "an operator drains it: new disk")
	s.stop()
	next := startOn(t, s.url, quick) // another arbiter, and another process of the worker
	next.admin = s.admin
	next.awaitReady()
	w.s, w.previous = next, w.session
	w.session = "3b241101-e2bb-4255-8caf-4136c566a962"
	w.nothing("the worker drains, after a restart of both")
	next.change("w", gavelapi.WorkerChange{Action: "resume"})
	if l := w.claim(); l.SubmissionID != sub.ID {
		t.Errorf("after the resume it got submission %d", l.SubmissionID)
	}
}

func TestAPauseEndsByItself(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	s.submit("c")
	soon := time.Now().Add(time.Hour)
	s.change("w", gavelapi.WorkerChange{Action: "pause", Until: &soon})
	w.nothing("it is paused")
	s.exec("update workers set away_until = now() + interval '10 milliseconds'")
	w.claim()
}

func TestARemovedWorkerIsRefusedAndWhatItHeldGoesToOthersAtOnce(t *testing.T) {
	settings := quick
	settings.Sweep = time.Minute // nothing but the removal brings the job back in time
	s := newStand(t, settings)
	w, other := s.worker("w", 2, "c"), s.worker("other", 1, "c")
	sub := s.submit("c")
	held := w.hold()
	ended := make(chan int, 1)
	go func() {
		leases, _ := w.tryClaim(20 * time.Second)
		ended <- len(leases)
	}()
	until(t, "it asks for more", w.waits)
	if err := s.RemoveWorker(t.Context(), s.admin, "w", "sold"); err != nil {
		t.Fatal(err)
	}
	if w.waits() {
		t.Error("its claim still waits")
	}
	if n := <-ended; n != 0 {
		t.Errorf("its claim got %d leases", n)
	}
	if _, err := s.Authenticate(t.Context(), w.token); apperr.CodeOf(err) != apperr.Unauthorized {
		t.Errorf("its token is answered with %v", err)
	}
	if l := other.claim(); l.SubmissionID != sub.ID || l.Attempt != 2 {
		t.Errorf("the other got %+v", l)
	}
	s.submit("c")
	w.nothing("it was removed, and only another arbiter still knows its token") // as for a call that was let in just before
	if got := w.report(held.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("the removed worker's report was %s", got.Outcome)
	}
	if list, err := s.Workers(t.Context()); err != nil || len(list.Workers) != 1 {
		t.Errorf("the fleet is %+v, %v", list, err)
	}
	s.worker("w", 1, "c") // the name is free
	if a := s.read(sub.ID).Detail.Attempts; len(a) != 2 || a[0].Worker != "w (removed)" || a[1].Worker != "other" {
		t.Errorf("its work was given to %s", asJSON(a))
	}
	if err := s.RemoveWorker(t.Context(), s.admin, "nobody", ""); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("removing nobody: %v", err)
	}
	if n := s.number("select count(*) from tokens where revoked_at is not null and kind = 'worker'"); n != 1 {
		t.Errorf("%d tokens are revoked", n)
	}
}

func TestWorkGoesToThePreferredPool(t *testing.T) {
	s := newStand(t, quick)
	cloud, home := s.worker("cloud", 1, "c"), s.worker("home", 1, "c")
	if _, err := s.LabelWorker(t.Context(), s.admin, "home", gavelapi.WorkerLabels{Pool: "home"}); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetPool(t.Context(), s.admin, "home", gavelapi.PoolSettings{Rank: 1}); err != nil {
		t.Fatal(err)
	}
	type got struct {
		who    string
		leases []gavelapi.Lease
	}
	ch := make(chan got, 2)
	for name, w := range map[string]*fake{"cloud": cloud, "home": home} {
		go func() {
			leases, _ := w.tryClaim(10 * time.Second)
			ch <- got{name, leases}
		}()
	}
	until(t, "both wait", func() bool {
		list, err := s.Workers(t.Context())
		return err == nil && list.Workers[0].State == "idle" && list.Workers[1].State == "idle" && list.Workers[1].Rank == 1
	})
	s.submit("c")
	if g := <-ch; g.who != "home" || len(g.leases) != 1 {
		t.Errorf("%s got it", g.who)
	}
	s.submit("c") // home is busy now
	if g := <-ch; g.who != "cloud" || len(g.leases) != 1 {
		t.Errorf("%s got the second", g.who)
	}
}

func TestTagsAndLanesDecideWhoMayTakeWork(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	if _, err := s.LabelWorker(t.Context(), s.admin, "w", gavelapi.WorkerLabels{Lanes: []string{"rejudge"}}); err != nil {
		t.Fatal(err)
	}
	w.nothing("nothing waits")
	sub := s.submit("c")
	w.nothing("it takes rejudges only")
	s.waitsBecause(sub.ID, "it does not take the judge lane")
	if w, err := s.LabelWorker(t.Context(), s.admin, "w", gavelapi.WorkerLabels{Tags: []string{"exam", "fast", "exam"}}); err != nil || !slices.Equal(w.Tags, []string{"exam", "fast"}) {
		t.Errorf("tags %q, %v", w.Tags, err)
	}
	if _, err := s.LabelWorker(t.Context(), s.admin, "w", gavelapi.WorkerLabels{Lanes: []string{}}); err != nil {
		t.Fatal(err)
	}
	w.claim()
	for _, bad := range []gavelapi.WorkerLabels{{Lanes: []string{"fast"}}, {Tags: []string{"a b"}}, {Pool: "?"}} {
		if _, err := s.LabelWorker(t.Context(), s.admin, "w", bad); apperr.CodeOf(err) != apperr.Invalid {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestABrakeHoldsWhatWaitsAndSaysWhy(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	for _, b := range []gavelapi.Brake{{Kind: "lane", Name: "judge"}, {Kind: "language", Name: "c"}, {Kind: "problem", Name: "p"}} {
		t.Run(b.Kind, func(t *testing.T) {
			b.Reason = "the tests of " + b.Kind + " are wrong"
			if err := s.SetBrake(t.Context(), s.admin, b); err != nil {
				t.Fatal(err)
			}
			sub := s.submit("c")
			w.nothing("the " + b.Kind + " is held")
			s.waitsBecause(sub.ID, b.Reason)
			if q, err := s.Queue(t.Context()); err != nil || len(q.Brakes) != 1 || len(q.Waiting) != 1 || q.Waiting[0].Jobs != 1 {
				t.Errorf("the queue is %+v, %v", q, err)
			}
			if err := s.ReleaseBrake(t.Context(), s.admin, b.Kind, b.Name, ""); err != nil {
				t.Fatal(err)
			}
			w.report(w.claim().LeaseToken, verdictReport("AC"))
			if err := s.ReleaseBrake(t.Context(), s.admin, b.Kind, b.Name, ""); apperr.CodeOf(err) != apperr.NotFound {
				t.Errorf("releasing it twice: %v", err)
			}
		})
	}
	for _, bad := range []gavelapi.Brake{{Kind: "lane", Name: "fast"}, {Kind: "lane", Name: "probe"}, {Kind: "language", Name: "cobol"}, {Kind: "problem", Name: "nosuch"}} {
		if err := s.SetBrake(t.Context(), s.admin, bad); apperr.CodeOf(err) != apperr.Invalid && apperr.CodeOf(err) != apperr.NotFound {
			t.Errorf("%+v: %v", bad, err)
		}
	}
}

func TestContestGoesBeforePracticeAndABumpBeforeBoth(t *testing.T) {
	s := newStand(t, quick)
	var ids []int64
	for _, priority := range []string{"", gavelapi.PriorityContest, ""} {
		sub, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, gavelapi.NewSubmission{Problem: "p", Language: "c", Source: "int main(){}", Priority: priority})
		if err != nil {
			t.Fatal(err)
		}
		ids = append(ids, sub.ID)
	}
	if _, err := s.BumpSubmission(t.Context(), s.admin, ids[2], "finals"); err != nil {
		t.Fatal(err)
	}
	until(t, "the bump is known", func() bool {
		e, err := s.Explain(t.Context(), ids[2])
		return err == nil && e.Priority == "bumped" && e.Position == 1
	})
	w := s.worker("w", 1, "c")
	for _, want := range []int64{ids[2], ids[1], ids[0]} {
		if l := w.judge("AC"); l.SubmissionID != want {
			t.Errorf("got submission %d, want %d", l.SubmissionID, want)
		}
	}
	if _, err := s.BumpSubmission(t.Context(), s.admin, ids[0], ""); apperr.CodeOf(err) != apperr.Conflict {
		t.Errorf("bumping what is judged: %v", err)
	}
	if _, err := s.BumpSubmission(t.Context(), s.admin, 12345, ""); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("bumping what is not there: %v", err)
	}
}

func TestExplainTellsWhyItWaitsAndHowItWent(t *testing.T) {
	s := newStand(t, quick)
	sub := s.submit("c")
	w := s.worker("w", 1, "python3")
	w.nothing("it does not offer C")
	e, err := s.Explain(t.Context(), sub.ID)
	if err != nil || len(e.Workers) != 1 || e.Workers[0].Worker != "w" || e.Workers[0].Reason != "it does not offer c" || e.Lane != "judge" {
		t.Fatalf("explained by %+v, %v", e, err)
	}
	able := s.worker("able", 1, "c")
	able.report(able.claim().LeaseToken, faultReport(gavelapi.BlameHost))
	able.judge("WA")
	e, err = s.Explain(t.Context(), sub.ID)
	if err != nil {
		t.Fatal(err)
	}
	var texts []string
	for _, h := range e.History {
		texts = append(texts, h.Text)
	}
	want := "handed in; given to able; it failed, to blame: host: broken; given to able; the result was recorded"
	if got := strings.Join(texts, "; "); got != want || !strings.HasPrefix(e.Summary, "done with WA") {
		t.Errorf("history %q, summary %q", got, e.Summary)
	}
}

func TestExplainTellsOfAWorkerThatIsSilent(t *testing.T) {
	s := newStand(t, quick)
	sub := s.submit("c")
	s.worker("w", 1, "c").hold()
	for left, want := range map[string]string{"58 s": "being judged by w", "19.8 s": "being judged by w, who was not heard of for 40s; in 20s its lease ends and others may have the job"} {
		s.exec("update jobs set lease_expires_at = now() + interval '" + left + "'")
		if e, err := s.Explain(t.Context(), sub.ID); err != nil || e.Summary != want {
			t.Errorf("with %s left: %q, %v", left, e.Summary, err)
		}
	}
}

func TestWhatOperatorsDoIsWrittenDownWithWhoAndWhy(t *testing.T) {
	s := newStand(t, quick)
	s.worker("w", 1, "c")
	s.change("w", gavelapi.WorkerChange{Action: "pause", Note: "games"})
	if _, err := s.ChangeWorker(t.Context(), s.admin, "nobody", gavelapi.WorkerChange{Action: "pause"}); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("pausing nobody: %v", err)
	}
	past := time.Now().Add(-time.Minute)
	if _, err := s.ChangeWorker(t.Context(), s.admin, "w", gavelapi.WorkerChange{Action: "pause", Until: &past}); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("pausing until a minute ago: %v", err)
	}
	s.change("w", gavelapi.WorkerChange{Action: "resume"})
	list, err := s.Audit(t.Context(), "w", "", 10)
	if err != nil || len(list.Entries) != 2 {
		t.Fatalf("the audit trail is %+v, %v; what failed is not in it", list, err)
	}
	if e := list.Entries[1]; e.Action != "worker.pause" || e.Reason != "games" || e.TokenID != s.admin.TokenID || e.Token != "test" {
		t.Errorf("the pause is noted as %+v", e)
	}
	page, err := s.Audit(t.Context(), "", "", 1)
	if err != nil || len(page.Entries) != 1 || page.Next == "" {
		t.Errorf("the first page is %+v, %v", page, err)
	}
}
