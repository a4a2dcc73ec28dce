package arbiter_test

import (
	"context"
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
)

// soon are settings under which alarms start and end within a second or two. A
// loop that has nothing to do comes round every two seconds, so "stuck" is not sooner.
var soon = alarm.Settings{
	Waiting: time.Second, Batch: time.Hour, Down: time.Second, Unmatched: time.Second, Unserved: time.Second,
	Stuck: 6 * time.Second, Clear: 0, Quiet: 3 * time.Second,
}

func newWatched(t *testing.T, change func(*arbiter.Config)) *stand {
	t.Helper()
	return newStandWith(t, quick, func(c *arbiter.Config) {
		c.Alarms = soon
		change(c)
	})
}

// starts waits for an open alarm, and ends for its end.
func (s *stand) starts(kind alarm.Kind) (found gavelapi.Alarm) {
	s.t.Helper()
	until(s.t, string(kind)+" is raised", func() bool {
		list, err := s.Alarms(s.t.Context(), true, string(kind), "", 10)
		if err != nil {
			s.t.Fatal(err)
		}
		if len(list.Alarms) > 0 {
			found = list.Alarms[0]
		}
		return len(list.Alarms) > 0
	})
	if found.EndedAt != nil || found.StartedAt.Before(found.Since) || found.Summary == "" {
		s.t.Errorf("an open alarm: %s", asJSON(found))
	}
	return found
}

func (s *stand) ends(al gavelapi.Alarm) {
	s.t.Helper()
	until(s.t, al.Kind+" ends", func() bool {
		now, err := s.Alarm(s.t.Context(), al.ID)
		if err != nil {
			s.t.Fatal(err)
		}
		if now.EndedAt != nil && (now.LastedMS <= 0 || now.EndedAt.Before(now.StartedAt)) {
			s.t.Fatalf("an alarm that has ended: %s", asJSON(now))
		}
		return now.EndedAt != nil
	})
}

// gauges are a scrape: by name, and by "name label" for what has labels.
func (s *stand) gauges() map[string]float64 {
	ch := make(chan prometheus.Metric)
	go func() {
		defer close(ch)
		s.Collect(ch)
	}()
	got := map[string]float64{}
	for m := range ch {
		var out dto.Metric
		if m.Write(&out) != nil {
			continue
		}
		_, name, _ := strings.Cut(m.Desc().String(), `fqName: "`)
		name, _, _ = strings.Cut(name, `"`)
		for _, l := range out.GetLabel() {
			if l.GetName() != "severity" {
				name += " " + l.GetValue()
			}
		}
		got[name] = out.GetGauge().GetValue() + out.GetCounter().GetValue()
	}
	return got
}

func evidenceOf(t *testing.T, al gavelapi.Alarm) (e map[string]any) {
	t.Helper()
	if err := json.Unmarshal(al.Evidence, &e); err != nil {
		t.Fatal(err)
	}
	return e
}

func evidenceList(v any) []any {
	list, _ := v.([]any)
	return list
}

// Work waits, a worker that can do it asks for work, and a matching that is
// broken on purpose gives it nothing.
func TestABrokenMatchingIsSeen(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	mend := s.BreakMatching()
	w := s.worker("w", 1, "cpp17")
	sub := s.submit("cpp17")
	got := make(chan []gavelapi.Lease, 1)
	go func() {
		for t.Context().Err() == nil { // claims end by themselves; a worker asks again
			leases, err := w.tryClaim(5 * time.Second)
			if err != nil || len(leases) > 0 {
				got <- leases
				return
			}
		}
	}()
	al := s.starts(alarm.Unmatched)
	if e := evidenceOf(t, al); e["worker"] != "w" || e["language"] != "cpp17" {
		t.Errorf("evidence: %s", al.Evidence)
	}
	if s.gauges()["gavel_alarms unmatched"] != 1 {
		t.Errorf("the alarm is not on /metrics: %v", s.gauges())
	}
	mend()
	if leases := <-got; len(leases) != 1 || leases[0].SubmissionID != sub.ID {
		t.Errorf("after the mending the worker got %+v", leases)
	}
	s.ends(al)
	if s.gauges()["gavel_alarms unmatched"] != 0 {
		t.Error("the alarm is still on /metrics")
	}
}

// A loop that hangs in the middle of a decision, with everything that is
// decided under its lock: readiness, the metrics and the alarm see it all the
// same. Then the term ends and another arbiter leads; what the first one held
// changes nothing any more.
func TestAStuckDispatchLoopIsSeenAndReplaced(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(c *arbiter.Config) { c.Holder = "stuck" })
	unstick := s.StickLoop()
	defer unstick()
	until(t, "readiness says so", func() bool {
		checks, ok := s.Ready(t.Context())
		return !ok && strings.Contains(checks["dispatch"], "the dispatch loop has not come round for")
	})
	al := s.starts(alarm.DispatchStuck)
	if e := evidenceOf(t, al); e["memory_locked"] != true {
		t.Errorf("evidence: %s", al.Evidence)
	}
	g := s.gauges()
	if _, memory := g["gavel_leases_active"]; memory || g["gavel_alarms dispatch_stuck"] != 1 || g["gavel_dispatch_loop_age_seconds"] < soon.Stuck.Seconds() {
		t.Errorf("metrics of a stuck loop: %v", g)
	}
	heir := startWith(t, s.url, quick, func(c *arbiter.Config) { c.Alarms, c.Holder = soon, "heir" })
	until(t, "another arbiter leads", func() bool { _, ok := heir.Ready(t.Context()); return ok })
	heir.ends(al)
	if e := evidenceOf(t, heir.starts(alarm.LeaderChanged)); e["leader"] != "heir" || e["leader_before"] != "stuck" {
		t.Errorf("the change of leader: %v", e)
	}
}

func TestJudgeDownStartsAndEndsWithItsDuration(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	s.submit("cpp17")
	down, oldest := s.starts(alarm.JudgeDown), s.starts(alarm.OldestWaiting)
	if down.Severity != "page" || oldest.Subject != "judge" {
		t.Errorf("raised: %s %s", asJSON(down), asJSON(oldest))
	}
	if down.StartedAt.Sub(down.Since) < soon.Down {
		t.Errorf("it knows since %v, and was raised at %v", down.Since, down.StartedAt)
	}
	if age := s.gauges()["gavel_queue_oldest_age_seconds judge"]; age < soon.Waiting.Seconds() {
		t.Errorf("the oldest is %v s old on /metrics", age)
	}
	until(t, "what is known of it is written down anew", func() bool {
		now, err := s.Alarm(t.Context(), oldest.ID)
		if err != nil {
			t.Fatal(err)
		}
		return string(now.Evidence) != string(oldest.Evidence)
	})
	s.worker("w", 1, "cpp17").hold()
	s.ends(down)
	s.ends(oldest)
}

func TestWorkThatNobodyCanDoIsSeen(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	other := s.worker("other", 1, "python3")
	s.submit("python3")
	other.hold() // somebody is there and works
	sub := s.submit("cpp17")
	al := s.starts(alarm.NoCapableWorker)
	if al.Subject != "cpp17" || !strings.Contains(al.Summary, "it does not offer cpp17") {
		t.Errorf("raised: %s", asJSON(al))
	}
	if got := s.read(sub.ID); got.State != gavelapi.StatePending || len(got.Detail.Attempts) != 0 {
		t.Errorf("the submission: %s", asJSON(got))
	}
	s.worker("w", 1, "cpp17").hold()
	s.ends(al)
}

func TestAWorkerSetAsideIsAnAlarmUntilItReturns(t *testing.T) {
	t.Parallel()
	s := healthStand(t, func(c *arbiter.Config) { c.Alarms = soon })
	w := s.worker("w", 1, "cpp17")
	w.passes(1, usual)
	w.breaks()
	al := s.starts(alarm.WorkerSetAside)
	if e := evidenceOf(t, al); e["worker"] != "w" || len(evidenceList(e["faults"])) != 3 {
		t.Errorf("evidence: %s", al.Evidence)
	}
	if _, err := s.ResetHealth(t.Context(), s.admin, "w", gavelapi.HealthReset{Reason: "mended"}); err != nil {
		t.Fatal(err)
	}
	s.ends(al)
}

func TestUsedUpAttemptsAndDiscardedReportsAreAlarms(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	w := s.worker("w", 1, "cpp17")
	sub := s.submit("cpp17")
	late := w.hold()
	s.expire(late.LeaseToken)
	if got := w.report(late.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Fatalf("a late report: %+v", got)
	}
	if got := w.report(late.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded { // sent again, it is no second one
		t.Fatalf("a late report that is repeated: %+v", got)
	}
	discarded := s.starts(alarm.ResultDiscarded)
	if e := evidenceOf(t, discarded); e["worker"] != "w" || e["verdict"] != "AC" || discarded.Occurrences != 1 {
		t.Errorf("raised: %s", asJSON(discarded))
	}
	for range quick.AttemptCap - 1 {
		w.report(w.hold().LeaseToken, faultReport(gavelapi.BlamePackage))
	}
	used := s.starts(alarm.AttemptCap)
	if e := evidenceOf(t, used); e["submission_id"] != float64(sub.ID) || e["message"] != "broken" {
		t.Errorf("raised: %s", asJSON(used))
	}
	stopped := s.submit("cpp17")
	cancelled := w.hold()
	if _, err := s.CancelSubmission(t.Context(), s.admin, stopped.ID, ""); err != nil {
		t.Fatal(err)
	}
	if got := w.report(cancelled.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Fatalf("a report of cancelled work: %+v", got)
	}
	if g := s.gauges(); g["gavel_lease_reports_fenced_total"] != 1 || g["gavel_attempts_exhausted_total"] != 1 || g["gavel_leases_expired_total"] != 1 || g["gavel_leases_granted_total"] != float64(quick.AttemptCap+1) {
		t.Errorf("counters: %v", g)
	}
	s.ends(discarded)
	s.ends(used)
}

// Attempts that end by lost leases are as used up as those that failed.
func TestAttemptsUsedUpByLostLeasesAreAnAlarm(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	sub := s.submit("cpp17")
	w := s.worker("w", 1, "cpp17")
	for range quick.AttemptCap {
		s.expire(w.hold().LeaseToken)
	}
	if e := evidenceOf(t, s.starts(alarm.AttemptCap)); e["submission_id"] != float64(sub.ID) {
		t.Errorf("evidence: %v", e)
	}
}

// A new leader goes on with the alarms of the one before: what still holds goes
// on, what was mended meanwhile ends. A leader of the past writes nothing.
func TestAlarmsSurviveAChangeOfLeader(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	s.submit("cpp17")
	down := s.starts(alarm.JudgeDown)
	s.stop()
	heir := startWith(t, s.url, quick, func(c *arbiter.Config) { c.Alarms = soon })
	heir.admin = s.admin
	heir.awaitReady()
	heir.starts(alarm.LeaderChanged) // it has looked
	if open, err := heir.Alarms(t.Context(), true, "judge_down", "", 10); err != nil || len(open.Alarms) != 1 || open.Alarms[0].ID != down.ID {
		t.Fatalf("open: %s, error %v, want the one from before", asJSON(open), err)
	}
	heir.worker("w", 1, "cpp17").hold()
	heir.ends(down)
}

func TestAlarmsAreListedByPageAndKind(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	for range 3 {
		s.exec("insert into alarms (kind, severity, summary, since, ended_at) values ('judge_down', 'page', $1, now(), now())", uuid.NewString())
	}
	first, err := s.Alarms(t.Context(), false, "judge_down", "", 2)
	if err != nil || len(first.Alarms) != 2 || first.Next == "" {
		t.Fatalf("first page: %s, error %v", asJSON(first), err)
	}
	second, err := s.Alarms(t.Context(), false, "judge_down", first.Next, 2)
	if err != nil || len(second.Alarms) != 1 || second.Next != "" || second.Alarms[0].ID >= first.Alarms[1].ID {
		t.Fatalf("second page: %s, error %v", asJSON(second), err)
	}
	if _, err := s.Alarms(t.Context(), false, "judge_dwn", "", 2); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("a kind that does not exist: %v", err)
	}
	if _, err := s.Alarm(t.Context(), 1<<40); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("an alarm that does not exist: %v", err)
	}
}

// Somebody stops the only worker: who waits is told of at once, with whom to
// bring back, and it ends when the worker is back and works.
func TestAFleetThatIsDrainedIsSeen(t *testing.T) {
	t.Parallel()
	s := newWatched(t, func(*arbiter.Config) {})
	w := s.worker("w", 1, "cpp17")
	if _, err := w.tryClaim(0); err != nil { // it was here, so its languages are known
		t.Fatal(err)
	}
	s.change("w", gavelapi.WorkerChange{Action: "drain"})
	s.submit("cpp17")
	ctx, stop := context.WithCancel(t.Context())
	asks := make(chan struct{})
	go func() { // it asks on, so it stays online
		defer close(asks)
		for ctx.Err() == nil {
			w.tryClaim(100 * time.Millisecond) // it is given nothing
		}
	}()
	al := s.starts(alarm.NoCapableWorker)
	stop()
	<-asks
	if al.Subject != "cpp17" || !strings.Contains(al.Summary, "w could, but an operator drains it; gavel worker resume w") {
		t.Errorf("raised: %s", asJSON(al))
	}
	s.change("w", gavelapi.WorkerChange{Action: "resume"})
	w.hold()
	s.ends(al)
}
