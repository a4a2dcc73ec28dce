package edge_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/hours"
	"github.com/gavel-oj/gavel/internal/report"
)

// byArbiter puts a worker there that waits at an arbiter.
func (s *stand) byArbiter(name, pool string) {
	s.t.Helper()
	s.exec(`insert into workers (name, pool, session, slots, capabilities, last_seen_at)
	  values ($1, $2, gen_random_uuid(), 1, '{"languages": [{"id": "c", "version": "1"}]}', now())`, name, pool)
}

// What an arbiter has against a worker of its own keeps edge workers from
// waiting for it as well.
func TestNobodyIsWaitedForWhomAnArbiterGivesNothing(t *testing.T) {
	for _, c := range []struct {
		name, spoil string
		waited      bool
	}{
		{"nothing against it", "select 1", true},
		{"set aside", "insert into worker_health (worker_id, state, set_aside_at, reason) select id, '{}', now(), 'r' from workers where name = 'peer'", false},
		{"set aside in the language", `insert into worker_health (worker_id, state, languages) select id, '{}', '{"c": "r"}' from workers where name = 'peer'`, false},
		{"set aside in another language", `insert into worker_health (worker_id, state, languages) select id, '{}', '{"java": "r"}' from workers where name = 'peer'`, true},
		{"asleep by its pool's plan", "insert into planned_hours (pool, hours, zone) values ('home', 'daily 00:00-00:00', 'UTC')", false},
		{"awake by its own", `insert into planned_hours (pool, hours, zone) values ('home', 'daily 00:00-00:00', 'UTC');
		  insert into planned_hours (worker_id, hours, zone) select id, '', 'UTC' from workers where name = 'peer'`, true},
		{"in a zone that the database does not know", "insert into planned_hours (pool, hours, zone) values ('home', 'daily 00:00-00:00', 'Nowhere/Atlantis')", true},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t)
			home, server := s.pair()
			home.poll() // names the pool
			s.exec("update edge_workers set polled_at = null")
			server.poll()
			s.byArbiter("peer", "home")
			s.exec(c.spoil)
			s.submit("c")
			if waited := len(server.poll()) == 0; waited != c.waited {
				t.Errorf("the server waits: %v", waited)
			}
		})
	}
}

func TestPlannedHoursHoldForAnEdgeWorkerToo(t *testing.T) {
	s := newStand(t)
	a := s.agent("home", made{})
	a.poll() // makes it known
	s.exec("insert into planned_hours (worker_id, hours, zone) select id, 'daily 00:00-00:00', 'UTC' from workers")
	s.submit("c")
	if leases := a.poll(); len(leases) != 0 {
		t.Errorf("in its planned hours it got %+v", leases)
	}
	s.exec("delete from planned_hours")
	a.claim()
}

// The calendar is computed in two places; they say the same of any plan and any
// moment that is not near a change of the clock.
func TestTheCalendarInTheDatabaseIsThatOfTheProgram(t *testing.T) {
	s := newStand(t)
	s.byArbiter("w", "p")
	id := s.number("select id::int from workers where name = 'w'")
	days := []string{"daily", "Mon", "Tue-Thu", "Sat,Sun", "Friday", "Sun-Tue"}
	random := rand.New(rand.NewPCG(7, 13))
	asleep, awake := 0, 0
	for range 300 {
		var windows []string
		for range 1 + random.IntN(3) {
			windows = append(windows, fmt.Sprintf("%s %02d:%02d-%02d:%02d", days[random.IntN(len(days))], random.IntN(24), random.IntN(60), random.IntN(24), random.IntN(60)))
		}
		zone := []string{"UTC", "Asia/Shanghai", "Asia/Kolkata"}[random.IntN(3)] // none changes its clock
		plan, err := hours.Parse(strings.Join(windows, "; "), zone)
		if err != nil {
			t.Fatal(err)
		}
		s.exec("insert into planned_hours (worker_id, hours, zone) values ($1, $2, $3) on conflict (worker_id) do update set hours = excluded.hours, zone = excluded.zone", id, plan.String(), plan.Zone())
		for range 10 {
			at := time.Date(2026, 9, 20, 0, 0, random.IntN(14*24*3600), 0, time.UTC)
			want := plan.Reason(at, 5*time.Minute) != ""
			got := s.number("select edge_asleep($1, 'p', $2)::int", id, at) == 1
			if got != want {
				t.Fatalf("%q in %s at %s: the database says %v, the program %v", plan, zone, at, got, want)
			}
			if want {
				asleep++
			} else {
				awake++
			}
		}
	}
	if asleep < 100 || awake < 100 {
		t.Errorf("%d asleep and %d awake show little", asleep, awake)
	}
}

// A job that one worker has failed is left to the others, but not to those who
// would never get it: it would wait as long as they are there.
func TestAFailedJobIsNotLeftForSomebodyWhoCannotGetIt(t *testing.T) {
	for _, c := range []struct {
		name, spoil string
		left        bool
	}{
		{"an able colleague", "select 1", true},
		{"one that is set aside", "insert into worker_health (worker_id, state, set_aside_at, reason) select id, '{}', now(), 'r' from workers where name = 'peer'", false},
		{"one that is drained", "update workers set away = 'draining' where name = 'peer'", false},
		{"one that sleeps", "insert into planned_hours (pool, hours, zone) values ('home', 'daily 00:00-00:00', 'UTC')", false},
		{"one for another lane", "update workers set lanes = '{run}' where name = 'peer'", false},
		{"one without the tag", "update jobs set tags = '{gpu}'; update workers set tags = '{gpu}' where name = 'server'", false},
		{"one with too little memory", `update workers set capabilities = capabilities || '{"memory_bytes": 1}' where name = 'peer'; update jobs set memory_bytes = 2`, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t)
			s.submit("c")
			server := s.agent("server", made{})
			server.report(server.claim().LeaseToken, faultReport("host"))
			s.byArbiter("peer", "home")
			s.older()
			s.exec(c.spoil)
			if left := len(server.poll()) == 0; left != c.left {
				t.Errorf("it is left: %v", left)
			}
		})
	}
}

// The rules of what a package makes impossible are kept twice, for those who
// report to an arbiter and in the database; they find the same.
func TestBothWaysFindTheSameContradictions(t *testing.T) {
	s := newStand(t)
	tests := []string{"secret/1", "secret/2"}
	manifest, _ := json.Marshal(map[string]any{"tests": []map[string]string{{"name": tests[0]}, {"name": tests[1]}}})
	fine := func() gavelapi.Report {
		return gavelapi.Report{
			Verdict: "WA", CPUUS: 1, WallUS: 2, MemoryBytes: 3, Provenance: gavelapi.Provenance{Stages: map[string]int64{"compile": 5}},
			Tests: []gavelapi.TestResult{{Name: tests[0], Verdict: "WA", CPUUS: 1, ExitCode: 1, Attempts: []gavelapi.TestAttempt{{CPUUS: 1, WallUS: 1}}}, {Name: tests[1], Verdict: gavelapi.SkippedTest}},
		}
	}
	const far = int64(1) << 60
	for name, harm := range map[string]func(*gavelapi.Report){
		"fine":                         func(*gavelapi.Report) {},
		"compile error":                func(r *gavelapi.Report) { r.Verdict, r.Tests = "CE", nil },
		"compile error with tests":     func(r *gavelapi.Report) { r.Verdict = "CE" },
		"too few tests":                func(r *gavelapi.Report) { r.Tests = r.Tests[:1] },
		"no tests":                     func(r *gavelapi.Report) { r.Tests = []gavelapi.TestResult{} },
		"too many tests":               func(r *gavelapi.Report) { r.Tests = append(r.Tests, r.Tests[0]) },
		"another test":                 func(r *gavelapi.Report) { r.Tests[1].Name = "secret/3" },
		"another order":                func(r *gavelapi.Report) { r.Tests[0], r.Tests[1] = r.Tests[1], r.Tests[0] },
		"negative time":                func(r *gavelapi.Report) { r.CPUUS = -1 },
		"time beyond reason":           func(r *gavelapi.Report) { r.WallUS = far },
		"memory beyond reason":         func(r *gavelapi.Report) { r.MemoryBytes = far },
		"compile time":                 func(r *gavelapi.Report) { r.Compile.CPUUS = -1 },
		"compile wall time":            func(r *gavelapi.Report) { r.Compile.WallUS = far },
		"stage":                        func(r *gavelapi.Report) { r.Provenance.Stages["compile"] = -5 },
		"test's time":                  func(r *gavelapi.Report) { r.Tests[0].CPUUS = far },
		"test's wall time":             func(r *gavelapi.Report) { r.Tests[0].WallUS = -1 },
		"test's memory":                func(r *gavelapi.Report) { r.Tests[0].MemoryBytes = -1 },
		"test's output":                func(r *gavelapi.Report) { r.Tests[0].OutputBytes = far },
		"exit code":                    func(r *gavelapi.Report) { r.Tests[0].ExitCode = -1 },
		"signal":                       func(r *gavelapi.Report) { r.Tests[0].Signal = 1 << 40 },
		"skipped with a measured time": func(r *gavelapi.Report) { r.Tests[1].CPUUS = 1 },
		"skipped with memory":          func(r *gavelapi.Report) { r.Tests[1].MemoryBytes = 1 },
		"a run's time":                 func(r *gavelapi.Report) { r.Tests[0].Attempts[0].WallUS = far },
		"the first of two":             func(r *gavelapi.Report) { r.Tests[1].Name, r.Tests[0].ExitCode = "x", -1 },
	} {
		t.Run(name, func(t *testing.T) {
			r := fine()
			harm(&r)
			raw, err := json.Marshal(r)
			if err != nil {
				t.Fatal(err)
			}
			got := s.text("select coalesce('the worker''s report contradicts its package: ' || edge_contradiction($1, $2), '')", string(raw), string(manifest))
			if want := report.Compare(&r, tests); got != want || (want == "") != (name == "fine" || name == "compile error") {
				t.Errorf("the database says %q, the program %q", got, want)
			}
		})
	}
}

// The gate itself: such a report records no verdict and counts against its
// worker.
func TestAReportThatContradictsItsPackageIsAFaultOfItsWorker(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	a := s.agent("home", made{})
	wrong := verdictReport("AC")
	wrong.Tests[0].Name = "secret/9"
	for range 3 {
		if got := a.report(a.claim().LeaseToken, wrong); got.Outcome != gavelapi.OutcomeRecorded || !strings.Contains(got.Reason, `"secret/9"`) {
			t.Errorf("the worker is told %+v", got)
		}
	}
	if got := s.text("select state || ' ' || verdict from submission_verdicts where submission_id = $1", id); got != "system_error SE" {
		t.Errorf("the submission is %s", got)
	}
	if n := s.number("select host_faults from edge_workers"); n != 3 {
		t.Errorf("%d faults are counted", n)
	}
	if got := s.text("select message from attempts where lease_gen = 1"); !strings.Contains(got, "contradicts its package") {
		t.Errorf("the history says %q", got)
	}
}

// A worker that began on the database goes over to the arbiter under its name,
// with its history, once; and back.
func TestAnEdgeWorkerGoesOverUnderItsName(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{pool: "home", rank: 10})
	id := b.submit("c")
	a.report(a.claim().LeaseToken, verdictReport("AC"))
	worker := b.number("select id::int from workers where name = 'home'")
	enrol := func(name string) (*gavelapi.EnrolResponse, error) {
		inv, err := b.api.WorkerInvite(t.Context(), gavelapi.NewInvitation{})
		if err != nil {
			t.Fatal(err)
		}
		return b.api.Enrol(t.Context(), gavelapi.EnrolRequest{Invitation: inv.Code, Name: name})
	}
	got, err := enrol("home")
	if err != nil || got.WorkerID != int64(worker) || got.Pool != "home" {
		t.Fatalf("enrolled as %+v, %v; it was worker %d of pool home", got, err, worker)
	}
	if _, err := enrol("home"); err == nil {
		t.Error("a second invitation took the name over again")
	}
	h := b.dial(got.Token)
	ask := gavelapi.ClaimRequest{
		RequestID: uuid.NewString(), Session: uuid.NewString(), PreviousSession: a.session, Slots: 1, TotalSlots: 1, WaitMS: 10_000,
		Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
	}
	b.submit("c")
	leases, err := h.Claim(t.Context(), ask)
	if err != nil || len(leases.Leases) != 1 {
		t.Fatalf("by way of the arbiter it got %+v, %v", leases, err)
	}
	if _, err := h.Result(t.Context(), gavelapi.ResultRequest{LeaseToken: leases.Leases[0].LeaseToken, Report: verdictReport("AC")}); err != nil {
		t.Fatal(err)
	}
	a.previous, a.session = ask.Session, uuid.NewString()
	b.submit("c")
	eventually(t, time.Minute, "and back on the database", func() bool {
		// Until the arbiter has written down which session it saw, this one may seem to be another's.
		back, err := a.Claim(t.Context(), a.request(uuid.NewString(), 0))
		return err == nil && len(back.Leases) == 1
	})
	if n := b.number("select count(distinct worker_id) from attempts"); n != 1 || b.read(id).Worker != "home" {
		t.Errorf("its history is that of %d workers; the first submission was judged by %q", n, b.read(id).Worker)
	}
	b.exec("update workers set disabled = true where name = 'home'; update tokens set revoked_at = now() where kind = 'worker'")
	if _, err := enrol("home"); err == nil {
		t.Error("a removed worker's name was taken over")
	}
}

// A claim may see what was handed back after it had begun. In the history its
// grant is not older than the end before it: no two leases seem to overlap (I1).
func TestAGrantIsNotOlderThanTheEndBeforeIt(t *testing.T) {
	s := newStand(t)
	a, b := s.agent("first", made{}), s.agent("second", made{})
	b.poll() // makes it known
	s.submit("c")
	l := a.claim()
	conn, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close(context.WithoutCancel(t.Context()))
	tx := func(sql string, args ...any) {
		t.Helper()
		if _, err := conn.Exec(t.Context(), sql, args...); err != nil {
			t.Fatalf("%s: %v", sql, err)
		}
	}
	tx("set idle_in_transaction_session_timeout = '10s'")
	tx("begin")
	if _, err := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken}); err != nil {
		t.Fatal(err)
	}
	tx(`select edge_claim(jsonb_build_object('worker_id', w.id, 'session', w.session, 'request_id', gen_random_uuid(), 'slots', 1, 'total_slots', 1,
	  'capabilities', w.capabilities)) from workers w where w.name = 'second'`)
	tx("commit")
	if n := s.number("select count(*) from attempts n join attempts o using (job_id) where n.lease_gen = 2 and o.lease_gen = 1 and n.granted_at >= o.ended_at"); n != 1 {
		t.Errorf("the history is %v", s.query("select lease_gen || ' ' || granted_at || ' ' || coalesce(ended_at::text, '-') from attempts order by 1"))
	}
}
