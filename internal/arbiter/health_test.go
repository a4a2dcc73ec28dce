package arbiter_test

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

// judging is health with a back-off that a test can wait for.
var judging = health.Settings{
	Faults: 3, Backoff: 700 * time.Millisecond, BackoffMax: 3 * time.Second, Workers: 2, Gate: 20 * time.Second,
	Slow: 1.5, SlowCPU: time.Second, Drift: 0.15,
}

func healthStand(t *testing.T, change func(*arbiter.Config)) *stand {
	t.Helper()
	return newStandWith(t, quick, func(c *arbiter.Config) {
		c.Health = judging
		if change != nil {
			change(c)
		}
	})
}

func (s *stand) health(worker string) gavelapi.WorkerHealth {
	s.t.Helper()
	h, err := s.WorkerHealth(s.t.Context(), worker)
	if err != nil {
		s.t.Fatal(err)
	}
	return h
}

func (s *stand) info(worker string) gavelapi.WorkerInfo {
	s.t.Helper()
	list, err := s.Workers(s.t.Context())
	if err != nil {
		s.t.Fatal(err)
	}
	i := slices.IndexFunc(list.Workers, func(w gavelapi.WorkerInfo) bool { return w.Name == worker })
	if i < 0 {
		s.t.Fatalf("no worker %s", worker)
	}
	return list.Workers[i]
}

func (s *stand) cancel(id int64) {
	s.t.Helper()
	if _, err := s.CancelSubmission(s.t.Context(), s.admin, id, ""); err != nil {
		s.t.Fatal(err)
	}
}

// knownAnswer is a right report of a probe: the test looks up what a worker
// is not told.
func (f *fake) knownAnswer(l gavelapi.Lease, cpu time.Duration) gavelapi.Report {
	f.s.t.Helper()
	var program string
	if err := f.s.db.Pool.QueryRow(f.s.t.Context(), "select p.program from probes p join jobs j on j.work_id = p.id where j.id = $1", l.JobID).Scan(&program); err != nil {
		f.s.t.Fatal(err)
	}
	r := verdictReport(program)
	switch program {
	case "TLE":
		r.CPUUS = l.Limits.CPUUS + 10_000
	case "CE":
		r.Tests = nil
	default:
		r.CPUUS = cpu.Microseconds()
	}
	return r
}

// probed claims one lease, which must be a probe.
func (f *fake) probed() gavelapi.Lease {
	f.s.t.Helper()
	l := f.claim()
	if l.Kind != "probe" || l.SubmissionID != 0 || len(l.Source) == 0 || l.Limits.CPUUS == 0 || l.PackageDigest == "" {
		f.s.t.Fatalf("not a probe: %+v", l)
	}
	return l
}

// passes answers n probes rightly.
func (f *fake) passes(n int, cpu time.Duration) {
	f.s.t.Helper()
	for range n {
		l := f.probed()
		if got := f.report(l.LeaseToken, f.knownAnswer(l, cpu)); got.Outcome != gavelapi.OutcomeRecorded {
			f.s.t.Fatalf("a probe's report was %+v", got)
		}
	}
}

const usual = 100 * time.Millisecond

// work claims one lease, which must be a submission, and answers the probes
// that come before it.
func (f *fake) work() gavelapi.Lease {
	f.s.t.Helper()
	for range 20 {
		l := f.claim()
		if l.Kind != "probe" {
			return l
		}
		f.report(l.LeaseToken, f.knownAnswer(l, usual))
	}
	f.s.t.Fatal("nothing but probes")
	return gavelapi.Lease{}
}

// breaks fails three submissions, which sets it aside.
func (f *fake) breaks() {
	f.s.t.Helper()
	for range 3 {
		f.s.submit("cpp17")
		l := f.work()
		f.report(l.LeaseToken, faultReport("host"))
		f.s.cancel(l.SubmissionID) // the next one is another
	}
	if got := f.s.health(f.p.WorkerName); !strings.HasPrefix(got.Away, "set aside: 3 faults in a row") {
		f.s.t.Fatalf("after three faults it is away because %q", got.Away)
	}
}

func TestAWorkerThatFailsEverythingIsSetAsideAndProbedBack(t *testing.T) {
	s := healthStand(t, nil)
	bad := s.worker("bad", 1, "cpp17")
	bad.passes(1, usual) // it can join
	bad.breaks()
	id := s.submit("cpp17").ID
	if info := s.info("bad"); info.State != "set_aside" || !strings.Contains(info.Away, "broken") {
		t.Errorf("the list says %+v", info)
	}
	h := s.health("bad")
	if len(h.SetAside) != 1 || len(h.SetAside[0].Evidence) != 3 || h.SetAside[0].Evidence[0].Message != "broken" || h.SetAside[0].Evidence[0].JobID == 0 {
		t.Errorf("evidence: %s", asJSON(h.SetAside))
	}
	// What it gets now is a probe, and only after the back-off.
	began := time.Now()
	l := bad.probed()
	if waited := time.Since(began); waited < judging.Backoff/2 {
		t.Errorf("probed after %v, the back-off is %v", waited, judging.Backoff)
	}
	bad.report(l.LeaseToken, verdictReport("RE"))
	if sub := s.read(id); sub.State != gavelapi.StatePending || !strings.Contains(sub.Waiting, "set aside") {
		t.Errorf("the submission is %s, waiting because %q", sub.State, sub.Waiting)
	}
	if h := s.health("bad"); h.SetAside[0].FailedRounds != 1 || h.Probes[0].Outcome != "failed" || h.Probes[0].Message != "got RE, want AC (, exit code 0, signal 0)" {
		t.Errorf("after a failed probe: %s", asJSON(h))
	}
	bad.passes(4, usual)
	if s.health("bad").Away != "" {
		bad.passes(1, usual) // on a busy machine one may have been on its way when its round ended (H6)
	}
	if got := s.health("bad"); got.Away != "" {
		t.Errorf("it passed its probes and is away because %q", got.Away)
	}
	if got := bad.work(); got.Kind != "judge" {
		t.Errorf("it gets %+v", got)
	}
	var changes []string
	until(t, "the changes are written", func() bool {
		changes = nil
		for _, c := range s.health("bad").Changes {
			changes = append(changes, strings.TrimSpace(c.Language+" "+c.What))
		}
		return len(changes) >= 5
	})
	if got, want := strings.Join(changes, ","), "returned,cpp17 returned,cpp17 set_aside,probe_failed,set_aside"; got != want {
		t.Errorf("changes %s, want %s", got, want)
	}
}

// Without health the same worker goes on getting work: what the tests above
// see is what health does.
func TestWithoutHealthABrokenWorkerGoesOn(t *testing.T) {
	s := newStand(t, quick)
	bad := s.worker("bad", 1, "cpp17")
	for range 5 {
		s.submit("cpp17")
		bad.report(bad.claim().LeaseToken, faultReport("host"))
	}
	if got := bad.claim(); got.Kind != "judge" {
		t.Errorf("it gets %+v", got)
	}
}

// The only worker breaks: what waits is not turned into system errors.
func TestTheOnlyWorkerIsProbedWhenItFailsAJobAgain(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("only", 1, "cpp17")
	w.passes(1, usual)
	id := s.submit("cpp17").ID
	for range 2 {
		l := w.claim()
		if l.SubmissionID != id {
			t.Fatalf("it gets %+v", l)
		}
		w.report(l.LeaseToken, faultReport("host"))
	}
	if got := s.health("only").Away; !strings.Contains(got, "in doubt") {
		t.Errorf("it is away because %q", got)
	}
	w.report(w.probed().LeaseToken, faultReport("host"))
	if h := s.health("only"); len(h.SetAside) != 1 || h.SetAside[0].Language != "cpp17" {
		t.Errorf("%s", asJSON(h))
	}
	if sub := s.read(id); sub.State != gavelapi.StatePending || !strings.Contains(sub.Waiting, "set aside") {
		t.Errorf("the submission is %s, waiting because %q", sub.State, sub.Waiting)
	}
	w.passes(4, usual) // repaired
	if l := w.work(); l.SubmissionID != id || l.Attempt != 3 {
		t.Errorf("it gets %+v", l)
	}
}

func TestLostLeasesSetAside(t *testing.T) {
	s := healthStand(t, nil)
	bad := s.worker("bad", 1, "cpp17")
	bad.passes(1, usual)
	for range 3 {
		s.submit("cpp17")
		l := bad.work()
		if err := bad.beat(l.LeaseToken); err != nil {
			t.Fatal(err)
		}
		s.expire(l.LeaseToken)
		s.cancel(l.SubmissionID)
	}
	until(t, "it is set aside", func() bool { return strings.Contains(s.health("bad").Away, "the last one a lost lease") })
}

func TestAWorkerThatHandsEverythingBackIsSetAside(t *testing.T) {
	s := healthStand(t, nil)
	bad := s.worker("bad", 1, "cpp17")
	bad.passes(1, usual)
	for range 3 {
		s.submit("cpp17")
		l := bad.work()
		if _, err := s.Release(t.Context(), bad.p, gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: "cannot"}); err != nil {
			t.Fatal(err)
		}
		s.cancel(l.SubmissionID)
	}
	if got := s.health("bad").Away; !strings.Contains(got, "handed back") {
		t.Errorf("it is away because %q", got)
	}
}

func TestALanguageIsSetAsideByAWrongKnownAnswer(t *testing.T) {
	s := healthStand(t, nil)
	liar := s.worker("liar", 1, "cpp17", "python3")
	liar.passes(1, usual)
	for { // says AC to everything
		l := liar.probed()
		r := verdictReport("AC")
		r.CPUUS = usual.Microseconds()
		liar.report(l.LeaseToken, r)
		if h := s.health("liar"); len(h.SetAside) == 2 {
			for _, a := range h.SetAside {
				if !strings.Contains(a.Reason, "WA failed: got AC, want WA") {
					t.Errorf("%s is set aside because %q", a.Language, a.Reason)
				}
			}
			break
		}
	}
	until(t, "each of them is an alarm", func() bool {
		var subjects []string
		list, err := s.Alarms(t.Context(), true, string(alarm.WorkerSetAside), "", 10)
		if err != nil {
			t.Fatal(err)
		}
		for _, al := range list.Alarms {
			subjects = append(subjects, al.Subject)
		}
		slices.Sort(subjects)
		return slices.Equal(subjects, []string{"liar/cpp17", "liar/python3"})
	})
	id := s.submit("python3").ID
	if leases, err := liar.tryClaim(300 * time.Millisecond); err != nil || len(leases) > 0 && leases[0].Kind != "probe" {
		t.Errorf("it gets work in a language that is set aside: %+v %v", leases, err)
	}
	if sub := s.read(id); !strings.Contains(sub.Waiting, "set aside") {
		t.Errorf("the submission waits because %q", sub.Waiting)
	}
}

func TestHealthSurvivesTheLeader(t *testing.T) {
	s := healthStand(t, func(c *arbiter.Config) { c.Health.Backoff = time.Hour })
	bad := s.worker("bad", 1, "cpp17")
	bad.passes(1, usual)
	bad.breaks()
	standby := startWith(t, s.url, quick, func(c *arbiter.Config) { c.Health = judging; c.Health.Backoff = time.Hour })
	until(t, "the standby reads the state", func() bool { return len(standby.health("bad").SetAside) == 1 })
	s.stop()
	standby.awaitReady()
	standby.admin = s.admin
	h := standby.health("bad")
	if len(h.SetAside) != 1 || len(h.SetAside[0].Evidence) != 3 || !strings.Contains(h.Away, "set aside") {
		t.Fatalf("the successor knows %s", asJSON(h))
	}
	bad.s = standby
	standby.submit("cpp17")
	if leases, err := bad.tryClaim(500 * time.Millisecond); err != nil || len(leases) != 0 {
		t.Errorf("the successor gives it %+v, %v", leases, err)
	}
	// An operator's word needs no probe.
	h, err := standby.ResetHealth(t.Context(), s.admin, "bad", gavelapi.HealthReset{Reason: "new disk"})
	if err != nil || h.Away != "" || len(h.Changes) == 0 || !strings.Contains(h.Changes[0].Reason, "new disk") {
		t.Errorf("after the reset: %s, %v", asJSON(h), err)
	}
	if got := bad.work(); got.Kind != "judge" {
		t.Errorf("it gets %+v", got)
	}
}

func TestAnOpenProbeSurvivesTheLeader(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("w", 1, "cpp17")
	l := w.probed()
	if err := w.beat(l.LeaseToken); err != nil {
		t.Fatal(err)
	}
	s.stop()
	next := startWith(t, s.url, quick, func(c *arbiter.Config) { c.Health = judging })
	next.awaitReady()
	w.s = next
	report := w.knownAnswer(l, usual)
	if got := w.report(l.LeaseToken, report); got.Outcome != gavelapi.OutcomeRecorded {
		t.Errorf("the report of a probe to the successor: %+v", got)
	}
	if got := w.report(l.LeaseToken, report); got.Outcome != gavelapi.OutcomeAlreadyRecorded {
		t.Errorf("the same report again: %+v", got)
	}
	if got := next.health("w"); got.Away != "" || got.ProbesDue != 3 {
		t.Errorf("after its first probe: %s", asJSON(got))
	}
}

func TestProbesAreNoSubmissions(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("w", 1, "cpp17")
	w.passes(4, usual)
	if n := s.number("select count(*) from submissions"); n != 0 {
		t.Errorf("%d submissions", n)
	}
	if n := s.number("select count(*) from judgings"); n != 0 {
		t.Errorf("%d judgings", n)
	}
	if n := s.number("select count(*) from attempts where kind = 'probe' and outcome = 'completed'"); n != 4 {
		t.Errorf("%d attempts of probes", n)
	}
	if n := s.number("select count(*) from jobs"); n != 0 {
		t.Errorf("%d jobs are left", n)
	}
	if n := s.number("select count(*) from probes where outcome = 'passed' and took_us > 0"); n != 4 {
		t.Errorf("%d probes passed", n)
	}
}

func TestALiveSubmissionDoesNotWaitForTheProbesOfAJoiningWorker(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("w", 1, "cpp17")
	s.submit("cpp17")
	s.submit("cpp17")
	var kinds []string
	for range 3 {
		l := w.claim()
		kinds = append(kinds, l.Kind)
		if l.Kind == "probe" {
			w.report(l.LeaseToken, w.knownAnswer(l, usual))
		} else {
			w.report(l.LeaseToken, verdictReport("AC"))
		}
	}
	if got := strings.Join(kinds, " "); got != "probe judge judge" {
		t.Errorf("it got %s", got)
	}
	w.passes(3, usual) // the rest when there is nothing else
}

func TestAProbeThatIsNotAnsweredHoldsWorkUpForALittleOnly(t *testing.T) {
	s := healthStand(t, func(c *arbiter.Config) { c.Health.Gate = 400 * time.Millisecond })
	w := s.worker("w", 2, "cpp17")
	s.submit("cpp17")
	probe, err := w.tryClaim(10 * time.Second)
	if err != nil || len(probe) != 1 || probe[0].Kind != "probe" {
		t.Fatalf("%+v %v", probe, err)
	}
	if got := w.claim(); got.Kind != "judge" {
		t.Errorf("it gets %+v", got)
	}
}

func TestALostProbeIsMadeAnew(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("w", 1, "cpp17")
	first := w.probed()
	s.expire(first.LeaseToken)
	second := w.probed()
	if second.JobID == first.JobID {
		t.Error("the same job is given again")
	}
	if n := s.number("select count(*) from probes where outcome = 'lost'"); n != 1 {
		t.Errorf("%d probes are lost", n)
	}
	if h := s.health("w"); len(h.Faults) != 1 || h.Faults[0].Kind != "lost" {
		t.Errorf("faults: %s", asJSON(h.Faults))
	}
}

func TestSpeedIsMeasuredAndASlowWorkerKeptOffTightLimits(t *testing.T) {
	s := healthStand(t, nil)
	fast, slow := s.worker("fast", 1, "cpp17"), s.worker("slow", 1, "cpp17")
	fast.passes(1, usual)
	slow.passes(1, 3*usual)
	if h := s.health("slow"); !h.Slow || h.SpeedFactor < 2.9 || h.SpeedFactor > 3.1 || len(h.Speeds) != 1 {
		t.Errorf("the slow one: %s", asJSON(h))
	}
	if info := s.info("slow"); info.SpeedFactor < 2.9 {
		t.Errorf("the list says %v", info.SpeedFactor)
	}
	if n := s.number("select count(*) from worker_speeds where factor > 2"); n != 1 {
		t.Errorf("%d measurements are stored", n)
	}
	slow.passes(3, 3*usual)
	// The limit of the stand's problem is a second. The fast one is there.
	id := s.submit("cpp17").ID
	if leases, err := slow.tryClaim(300 * time.Millisecond); err != nil || len(leases) != 0 {
		t.Errorf("the slow one gets %+v, %v", leases, err)
	}
	if got := fast.work(); got.SubmissionID != id {
		t.Errorf("the fast one gets %+v", got)
	}
}

func TestPlannedHours(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("home", 1, "cpp17")
	w.passes(1, usual)
	always := gavelapi.NewHours{Hours: "daily 00:00-24:00"}
	p, err := s.SetWorkerHours(t.Context(), s.admin, "home", always)
	if err != nil || p.Phase != "asleep" || p.Worker != "home" {
		t.Fatalf("%s %v", asJSON(p), err)
	}
	until(t, "the leader knows", func() bool { return s.info("home").State == "asleep" })
	id := s.submit("cpp17").ID
	if leases, err := w.tryClaim(1500 * time.Millisecond); err != nil || len(leases) != 0 {
		t.Errorf("asleep it gets %+v, %v", leases, err)
	}
	if sub := s.read(id); !strings.Contains(sub.Waiting, "planned sleep until") {
		t.Errorf("the submission waits because %q", sub.Waiting)
	}
	if h := s.health("home"); !strings.Contains(h.Away, "planned sleep") || h.Hours == nil || h.Hours.Hours != "daily 00:00-24:00" {
		t.Errorf("%s", asJSON(h))
	}
	if p, err = s.SetWorkerHours(t.Context(), s.admin, "home", gavelapi.NewHours{}); err != nil || p.Phase != "" {
		t.Fatalf("%s %v", asJSON(p), err)
	}
	if got := w.work(); got.SubmissionID != id {
		t.Errorf("awake it gets %+v", got)
	}
	// A pool's hold for workers that have none of their own.
	if _, err := s.SetPoolHours(t.Context(), s.admin, "default", always); err != nil {
		t.Fatal(err)
	}
	until(t, "the pool sleeps", func() bool { return strings.Contains(s.info("home").Away, "planned sleep") })
	if _, err := s.SetWorkerHours(t.Context(), s.admin, "home", gavelapi.NewHours{Hours: "Mon 00:00-00:01; Thu 00:00-00:01", Zone: "Asia/Shanghai"}); err != nil {
		t.Fatal(err)
	}
	until(t, "its own hours count more", func() bool { return s.info("home").Away == "" || strings.Contains(s.info("home").Away, "from 00:00") })

	for _, c := range []struct {
		worker string
		h      gavelapi.NewHours
		code   apperr.Code
	}{
		{"home", gavelapi.NewHours{Hours: "daily"}, apperr.Invalid},
		{"home", gavelapi.NewHours{Hours: "daily 01:00-02:00", Zone: "Mars"}, apperr.Invalid},
		{"nobody", always, apperr.NotFound},
	} {
		if _, err := s.SetWorkerHours(t.Context(), s.admin, c.worker, c.h); apperr.CodeOf(err) != c.code {
			t.Errorf("%s %+v: %v", c.worker, c.h, err)
		}
	}
	if _, err := s.SetPoolHours(t.Context(), s.admin, "no pool", always); apperr.CodeOf(err) != apperr.Invalid {
		t.Errorf("a pool with a bad name: %v", err)
	}
}

// A lease that is lost while the worker's absence is planned is no evidence.
func TestAPlannedAbsenceIsNoFault(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("home", 1, "cpp17")
	w.passes(1, usual)
	s.submit("cpp17")
	l := w.work()
	if err := w.beat(l.LeaseToken); err != nil {
		t.Fatal(err)
	}
	if _, err := s.SetWorkerHours(t.Context(), s.admin, "home", gavelapi.NewHours{Hours: "daily 00:00-24:00"}); err != nil {
		t.Fatal(err)
	}
	until(t, "the leader knows", func() bool { return strings.Contains(s.info("home").Away, "planned sleep") })
	s.expire(l.LeaseToken)
	until(t, "the job waits", func() bool { return s.read(l.SubmissionID).State == gavelapi.StatePending })
	if h := s.health("home"); len(h.Faults) != 0 {
		t.Errorf("it counts: %s", asJSON(h.Faults))
	}
}

func TestANewSessionIsProbedAgain(t *testing.T) {
	s := healthStand(t, nil)
	w := s.worker("w", 1, "cpp17")
	w.passes(4, usual)
	w.previous, w.session = w.session, uuid.NewString()
	s.submit("cpp17")
	w.passes(1, usual)
	if got := w.claim(); got.Kind != "judge" {
		t.Errorf("it gets %+v", got)
	}
}

func TestHealthOfNobody(t *testing.T) {
	s := startWith(t, storetest.DB(t), quick, func(c *arbiter.Config) { c.Health = judging })
	s.awaitReady()
	if _, err := s.WorkerHealth(t.Context(), "nobody"); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("%v", err)
	}
	if _, err := s.ResetHealth(t.Context(), s.admin, "nobody", gavelapi.HealthReset{Reason: "x"}); apperr.CodeOf(err) != apperr.NotFound {
		t.Errorf("%v", err)
	}
}
