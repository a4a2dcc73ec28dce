package arbiter_test

import (
	"fmt"
	"io"
	"log/slog"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// What went wrong in other judges and queues, where no other test asks for it.
// docs/design/leases.md lists all of it with the tests.

// Work that was handed in while nobody was there goes to the first who comes;
// nothing else has to happen.
func TestWorkThatWaitedForAWorkerIsDoneWhenOneComes(t *testing.T) {
	s := newStand(t, quick)
	var ids []int64
	for range 3 {
		ids = append(ids, s.submit("c").ID)
	}
	until(t, "the arbiter has seen that nobody is there", func() bool {
		return s.read(ids[2]).Waiting == "no worker is online"
	})
	w := s.worker("w", 1, "c")
	for _, id := range ids {
		if l := w.judge("AC"); l.SubmissionID != id {
			t.Errorf("got submission %d, want %d", l.SubmissionID, id)
		}
	}
	for _, id := range ids {
		if got := s.read(id); got.Verdict != "AC" {
			t.Errorf("submission %d is %s %s", id, got.State, got.Verdict)
		}
	}
}

// A rejudge whose worker has died is not taken for one that runs: asked for
// again it is the same one, and it is judged when the lease is over.
func TestARejudgeIsNotSwallowedByItsDeadLease(t *testing.T) {
	s := newStand(t, quick)
	w, other := s.worker("w", 1, "c"), s.worker("other", 1, "c")
	sub := s.submit("c")
	w.judge("AC")
	first, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "again")
	if err != nil {
		t.Fatal(err)
	}
	dead := w.hold()
	again, err := s.RejudgeSubmission(t.Context(), s.admin, sub.ID, "again")
	if err != nil || again.ID != first.ID {
		t.Fatalf("asked again: rejudge %d after %d, %v", again.ID, first.ID, err)
	}
	s.expire(dead.LeaseToken)
	if l := other.judge("WA"); l.SubmissionID != sub.ID || l.Attempt != 2 {
		t.Errorf("the lease was %s", asJSON(l))
	}
	if r := s.awaitRejudge(first.ID, gavelapi.RejudgeApplied); r.Done != 1 {
		t.Errorf("%s", asJSON(r))
	}
	if got := s.read(sub.ID); got.Verdict != "WA" || len(got.Detail.Judgings) != 2 {
		t.Errorf("%s", asJSON(got))
	}
}

// A broken checker or package is the fault of its problem, and of one submission
// at a time: the next one, other problems and the worker go on as before.
func TestAFaultOfAProblemHoldsUpNobodyElse(t *testing.T) {
	for _, blame := range []string{gavelapi.BlamePackage, gavelapi.BlameChecker} {
		t.Run(blame, func(t *testing.T) {
			s := healthStand(t, nil)
			s.publish("q")
			w := s.worker("w", 1, "cpp17")
			w.passes(1, usual)
			judge := func(problem string, r gavelapi.Report) int64 {
				sub, _, err := s.CreateSubmission(t.Context(), s.admin, "", nil, gavelapi.NewSubmission{Problem: problem, Language: "cpp17", Source: "int main(){}"})
				if err != nil {
					t.Fatal(err)
				}
				for {
					l := w.work()
					if l.SubmissionID != sub.ID {
						t.Fatalf("the worker got submission %d, want %d", l.SubmissionID, sub.ID)
					}
					if got := w.report(l.LeaseToken, r); got.Outcome != gavelapi.OutcomeRecorded {
						t.Fatalf("%+v", got)
					}
					if r.Fault == nil || l.Attempt == quick.AttemptCap {
						return sub.ID
					}
				}
			}
			for range 4 { // more jobs than set a worker aside for its own faults
				id := judge("p", faultReport(blame))
				if got := s.read(id); got.State != gavelapi.StateSystemError || got.Fault == nil || got.Fault.Message != "broken" {
					t.Errorf("%s", asJSON(got))
				}
			}
			for _, problem := range []string{"p", "q"} {
				if got := s.read(judge(problem, verdictReport("AC"))); got.Verdict != "AC" {
					t.Errorf("the next one of %s is %s %s", problem, got.State, got.Verdict)
				}
			}
			if h := s.health("w"); len(h.SetAside)+len(h.Faults)+len(h.Changes) != 0 {
				t.Errorf("the worker is blamed: %s", asJSON(h))
			}
		})
	}
}

// countingLog counts messages.
type countingLog struct {
	mu   sync.Mutex
	text strings.Builder
}

func (c *countingLog) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.text.Write(p)
}

func (c *countingLog) count(text string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Count(c.text.String(), text)
}

// The last two results of a rejudge arrive at once, many times over: each
// rejudge ends, and ends once.
func TestTheLastTwoResultsOfARejudgeEndItOnce(t *testing.T) {
	const rounds = 40
	log := &countingLog{}
	s := newStandWith(t, quick, func(c *arbiter.Config) {
		c.Logger = slog.New(slog.NewTextHandler(io.MultiWriter(log, t.Output()), nil))
	})
	w := s.worker("w", 8, "c") // a rejudge gets a part of the slots only
	var rejudges []int64
	round := func() {
		t.Helper()
		ids := []int64{s.submit("c").ID, s.submit("c").ID}
		for done := 0; done < len(ids); {
			done += w.judgeAny("AC")
		}
		rejudges = append(rejudges, s.rejudge(gavelapi.RejudgeFilter{Submissions: ids}, "at_once").ID)
		var pair []gavelapi.Lease
		for len(pair) < len(ids) {
			req := w.request(uuid.NewString(), 10*time.Second)
			req.Slots = len(ids) - len(pair)
			got, err := s.Claim(t.Context(), w.p, req)
			if err != nil || len(got.Leases) == 0 {
				t.Fatalf("%d leases, %v", len(got.Leases), err)
			}
			pair = append(pair, got.Leases...)
		}
		var both sync.WaitGroup
		for _, l := range pair {
			both.Go(func() { w.report(l.LeaseToken, verdictReport("WA")) })
		}
		both.Wait()
	}
	ended := func() {
		t.Helper()
		for _, id := range rejudges {
			if r := s.awaitRejudge(id, gavelapi.RejudgeApplied); r.Done != 2 || r.Changed != 2 {
				t.Errorf("%s", asJSON(r))
			}
		}
	}
	for range rounds {
		round()
	}
	ended()
	round() // after it the leader looks again at all of them
	ended()
	for _, id := range rejudges {
		if n := log.count(fmt.Sprintf("msg=\"rejudge is done\" rejudge_id=%d ", id)); n != 1 {
			t.Errorf("rejudge %d ended %d times", id, n)
		}
	}
}

// New submissions arrive while a large rejudge is applied: applying touches
// verdicts and no work, so each of them is judged, and once.
func TestWorkThatArrivesWhileARejudgeIsAppliedIsJudged(t *testing.T) {
	const old, fresh = 200, 30
	s := newStand(t, quick)
	s.exec(`insert into submissions (problem_id, language, source_bytes) select id, 'c', 1 from problems, generate_series(1, $1)`, old)
	s.exec(`insert into submission_sources select id, 'x' from submissions`)
	s.exec(`insert into judgings (submission_id, kind, package_digest, limits, state, verdict, tests, finished_at)
	        select s.id, 'judge', p.package_digest, '{}', 'done', 'AC', '[]', now() from submissions s join problems p on p.id = s.problem_id`)
	s.exec(`update submissions s set current_judging_id = g.id from judgings g where g.submission_id = s.id`)
	w := s.worker("w", 20, "c")
	r := s.rejudge(gavelapi.RejudgeFilter{All: true}, "later")
	for done := 0; done < old; {
		done += w.judgeAny("WA")
	}
	s.awaitRejudge(r.ID, gavelapi.RejudgeReady)

	var handing sync.WaitGroup
	ids := make([]int64, fresh)
	handing.Go(func() {
		for i := range ids {
			ids[i] = s.submit("c").ID
		}
	})
	handing.Go(func() {
		if _, err := s.ApplyRejudge(t.Context(), s.admin, r.ID, nil, ""); err != nil {
			t.Error(err)
		}
	})
	for done := 0; done < fresh && !t.Failed(); {
		done += w.judgeAny("AC")
	}
	handing.Wait()
	for _, id := range ids {
		if got := s.read(id); got.Verdict != "AC" || len(got.Detail.Attempts) != 1 {
			t.Errorf("%s", asJSON(got))
		}
	}
	if n := s.number("select count(*) from submissions s join judgings g on g.id = s.current_judging_id where g.rejudge_id = $1 and g.verdict = 'WA'", r.ID); n != old {
		t.Errorf("%d of %d new verdicts are current", n, old)
	}
}

// judgeAny gives whatever the next claim brings a verdict, and says how much it was.
func (f *fake) judgeAny(verdict string) int {
	f.s.t.Helper()
	leases, err := f.tryClaim(10 * time.Second)
	if err != nil {
		f.s.t.Fatal(err)
	}
	for _, l := range leases {
		f.report(l.LeaseToken, verdictReport(verdict))
	}
	return len(leases)
}
