package drill

import (
	"fmt"
	"os"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

// The longest that a bystander may wait when nothing that it needs is away. It
// allows for a busy machine; what it must catch is waiting for somebody's
// expiry, which takes seconds.
const calm = 1500 * time.Millisecond

var workerScenarios = []Scenario{
	{
		Name: "a1-worker-killed", What: "a worker is killed in the middle of a judging", script: workerKilled, Mixed: true,
		Fires: "expiry, then a grant with a new generation", Sabotage: "leases live for ten minutes",
	},
	{
		Name: "a2-cut-off-worker", What: "a worker is cut off while its job is judged by another, and reports late", script: cutOffWorker, Mixed: true,
		Fires: "the token of the dead lease: discarded, kept as evidence", Sabotage: lateReportsCount,
	},
	{
		Name: "a3-same-worker-again", What: "a worker holds a job anew when its own old report arrives", script: sameWorkerAgain,
		Fires: "token and generation, not the worker's name", Sabotage: lateReportsCount,
	},
	{
		Name: "a9-died-before-reporting", What: "a worker dies between judging and reporting, twice", script: diedBeforeReporting,
		Fires: "the outbox, sent before the first claim", Sabotage: "the outbox is emptied, as if it had not been synced",
	},
	{
		Name: "a10-poison", What: "a submission kills its worker each time; ten others wait behind it", script: poison, Mixed: true,
		Fires: "attempt cap; nobody is blamed who shares a fate", Sabotage: "a thousand attempts are allowed",
	},
	{
		Name: "a13-orderly-stops", What: "SIGTERM to a busy worker, 50 times", script: orderlyStops, Mixed: true,
		Fires: "release: refunded, pending at once", Sabotage: "SIGKILL instead of SIGTERM",
	},
	{
		Name: "a15-cancel", What: "cancel while pending and 0, 1, 10, 100, 1000 ms after the claim", script: cancels, Mixed: true,
		Fires: "410 to the heartbeat; the run is killed", Sabotage: "nothing is cancelled",
	},
	{
		Name: "a19-old-session-lingers", What: "a worker restarts under its name while its old connection lingers", script: oldSession,
		Fires: "sessions: the old one's tokens are dead", Sabotage: lateReportsCount,
	},
}

// workerKilled kills the worker under a job and looks how soon another has it.
func workerKilled(t *T) {
	s := newStand(t)
	ttl := shortTTL
	if t.Sabotage {
		ttl = 10 * time.Minute
	}
	s.serve(ttl, shortBeat)
	s.watch(calm, "", nil)
	one := s.worker("one", "", 1)
	id := s.submit("one: AC after 1h\n*: AC after 50ms")
	s.awaitJudging(id, "one")
	s.worker("two", "", 1)
	s.submit("*: AC after 1ms") // takes the second worker's first steps
	one.kill()
	expiry := "select (extract(epoch from lease_expires_at) * 1000)::bigint from jobs where submission_id = $1 and state = 'leased'"
	due := s.number(expiry, id)
	t.did("killed the worker under submission %d", id)
	sub := s.awaitFinal(id, 20*time.Second)
	s.wantAttempts(id, "expired", "completed")
	if len(sub.Detail.Attempts) == 2 {
		again := sub.Detail.Attempts[1].GrantedAt.UnixMilli()
		limit := time.Second
		if t.Fleet == FleetMixed { // an arbiter keeps no watch on who is straight on the database: it looks every ten seconds
			limit += 10 * time.Second
		}
		t.took("expiry to new lease", time.Duration(again-int64(due))*time.Millisecond, limit)
		if again < int64(due) {
			t.Errorf("the job was taken back %d ms before its lease expired", int64(due)-again)
		}
	}
	s.settle(20 * time.Second)
}

func cutOffWorker(t *T) {
	s := newStand(t)
	// Its judging must end before its lease does, on a busy machine as well: only
	// then its verdict waits in the outbox.
	a := s.serve(4*shortTTL, shortBeat)
	if t.Sabotage {
		s.withoutFencing()
	}
	s.watch(calm, "", nil)
	line, _ := s.over(a, "one", 1)
	id := s.submit("one: WA after 1500ms\n*: AC after 50ms")
	s.awaitJudging(id, "one")
	line.block(requests, answers)
	t.did("cut the worker off")
	s.until(15*time.Second, "the cut-off worker has a verdict", func() bool { return len(s.outbox("one")) == 1 })
	s.worker("two", "", 1)
	if sub := s.awaitFinal(id, 60*time.Second); sub.Worker != "two" {
		t.Errorf("judged by %q, want two", sub.Worker)
	}
	line.heal()
	t.did("let it back: it reports WA, the job has been judged AC meanwhile")
	s.until(60*time.Second, "the late report is visible", func() bool {
		return s.submission(id).Detail.Attempts[0].LateReport == "WA"
	})
	s.until(20*time.Second, "the worker forgets the result", func() bool { return len(s.outbox("one")) == 0 })
	if sub := s.submission(id); sub.Verdict != "AC" {
		t.Errorf("the late report changed the verdict to %s", sub.Verdict)
	}
	s.wantAttempts(id, "expired", "completed")
	s.settle(20 * time.Second)
}

func sameWorkerAgain(t *T) {
	s := newStand(t)
	s.serve(shortTTL, shortBeat)
	if t.Sabotage {
		s.withoutFencing()
	}
	w := s.caller("one", "", 1)
	id := s.submit("by hand")
	first := w.take(10 * time.Second)
	s.until(15*time.Second, "the lease expires", func() bool {
		return s.number("select count(*) from jobs where lease_token = $1", first.LeaseToken) == 0
	})
	second := w.take(10 * time.Second)
	if second.JobID != first.JobID || second.LeaseGen <= first.LeaseGen {
		t.Errorf("job %d generation %d after job %d generation %d", second.JobID, second.LeaseGen, first.JobID, first.LeaseGen)
	}
	t.did("the same worker holds generation %d and reports for generation %d", second.LeaseGen, first.LeaseGen)
	w.wantReport(first.LeaseToken, "WA", gavelapi.OutcomeDiscarded)
	s.must(w.beat(second.LeaseToken), "the new lease is alive")
	w.wantReport(second.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	s.wantAttempts(id, "expired", "completed")
	s.settle(5 * time.Second)
}

func diedBeforeReporting(t *T) {
	s := newStand(t)
	a := s.serve(6*time.Second, shortBeat)
	s.watch(calm, "", nil)
	line := t.relay(a.listen)
	die := func(script string) int64 {
		one := s.worker("one", line.url(), 1)
		id := s.submit(script)
		s.awaitJudging(id, "one")
		line.block(answers) // its report may arrive, its answer not: it cannot know
		line.block(requests)
		s.until(20*time.Second, "a result is in the outbox", func() bool { return len(s.outbox("one")) == 1 })
		one.kill()
		line.cutAll()
		line.heal()
		if t.Sabotage {
			for _, f := range s.outbox("one") {
				s.must(os.Remove(f), "sabotage")
			}
		}
		return id
	}
	id := die("*: AC after 500ms")
	t.did("killed the worker with a result in its outbox; it comes back while the lease lives")
	one := s.worker("one", "", 1)
	s.awaitFinal(id, 20*time.Second)
	s.wantAttempts(id, "completed")
	s.until(20*time.Second, "the outbox is empty", func() bool { return len(s.outbox("one")) == 0 })
	one.kill()

	id = die("one: WA after 500ms\n*: AC after 50ms")
	two := s.worker("two", "", 1)
	s.awaitFinal(id, 30*time.Second)
	two.stop(20 * time.Second)
	t.did("again, and it comes back after the job was judged elsewhere")
	s.worker("one", "", 1)
	s.until(20*time.Second, "the outbox is empty", func() bool { return len(s.outbox("one")) == 0 })
	s.wantAttempts(id, "expired", "completed")
	if late := s.submission(id).Detail.Attempts[0].LateReport; late != "WA" {
		t.Errorf("the late report is %q in the history, want WA", late)
	}
	s.settle(20 * time.Second)
}

// poison keeps two workers alive as a service manager would.
func poison(t *T) {
	s := newStand(t)
	attempts := "3"
	if t.Sabotage {
		attempts = "1000"
	}
	s.serve(shortTTL, shortBeat, "--attempts", attempts, "--set-aside-after", "1") // so that sharing a fate is all that excuses
	s.watch(calm, "", nil)
	stop := s.keepAlive("one", "two")
	id := s.submit("*: die", "SE")
	var behind []int64
	for range 10 {
		behind = append(behind, s.submit("*: AC after 20ms"))
	}
	t.did("handed in a submission that kills its worker, and ten behind it")
	for _, id := range behind {
		s.awaitFinal(id, 40*time.Second)
	}
	t.did("the ten are judged")
	sub := s.awaitFinal(id, 40*time.Second)
	s.wantAttempts(id, "expired", "expired", "expired")
	if sub.Fault == nil || sub.Fault.Message == "" {
		t.Errorf("the system error says nothing: %+v", sub.Fault)
	}
	for _, name := range []string{"one", "two"} { // they have shared its fate
		if h, err := s.api.WorkerHealth(t.ctx, name); err != nil || len(h.SetAside) != 0 {
			t.Errorf("%s is blamed for what killed it: %+v, %v", name, h, err)
		}
	}
	stop()
	s.settle(20 * time.Second)
}

// keepAlive runs workers and starts each again when it dies, until stop.
func (s *stand) keepAlive(names ...string) (stop func()) {
	quit, done := make(chan struct{}), make(chan struct{}, len(names))
	for _, name := range names {
		if !s.mixedIn(name) { // who is straight on the database makes itself known, and may not take an enrolled worker's name
			s.enrol(name, 1)
		}
		s.aside(func() {
			defer func() { done <- struct{}{} }()
			for {
				p := s.worker(name, "", 1, sound)
				select {
				case <-p.done:
				case <-quit:
					return
				case <-s.ctx.Done():
					return
				}
				if s.ctx.Err() != nil {
					return
				}
			}
		})
	}
	return func() {
		close(quit)
		for range names {
			<-done
		}
	}
}

func orderlyStops(t *T) {
	s := newStand(t)
	s.serve(20*time.Second, shortBeat)
	s.watch(calm, "", nil)
	names := [2]string{"one", "two"}
	workers := map[string]*process{}
	for _, n := range names {
		workers[n] = s.worker(n, "", 1)
	}
	id := s.submit("*: AC when done")
	rounds := t.rounds(50)
	s.awaitJudging(id, "")
	longest := time.Duration(0)
	for i := range rounds {
		holder := s.submission(id).Worker
		before := s.number("select lease_gen::int from jobs where submission_id = $1", id)
		began := t.Clock.Now()
		if t.Sabotage {
			workers[holder].signal(syscall.SIGKILL)
		} else {
			workers[holder].signal(syscall.SIGTERM)
		}
		s.until(15*time.Second, "another worker has the job", func() bool {
			return s.number("select count(*) from jobs where submission_id = $1 and state = 'leased' and lease_gen > $2", id, before) == 1
		})
		longest = max(longest, t.Clock.Now().Sub(began))
		s.until(15*time.Second, "the stopped worker ends", workers[holder].gone)
		if code := workers[holder].cmd.ProcessState.ExitCode(); code != 0 {
			t.Errorf("round %d: a stopped worker ended with code %d", i, code)
		}
		workers[holder] = s.worker(holder, "", 1)
		s.awaitJudging(id, "")
	}
	t.did("stopped the worker that had the job %d times", rounds)
	t.took("SIGTERM to another's lease, longest", longest, 2*time.Second)
	if n := s.number("select attempts from jobs where submission_id = $1", id); n != 1 {
		t.Errorf("the stops cost %d attempts", n-1)
	}
	s.open("done")
	s.awaitFinal(id, 20*time.Second)
	if n := s.number("select count(*) from attempts where submission_id = $1 and outcome = 'released'", id); n != rounds {
		t.Errorf("%d attempts were released, want %d", n, rounds)
	}
	s.settle(20 * time.Second)
}

func cancels(t *T) {
	s := newStand(t)
	a := s.serve(20*time.Second, shortBeat)
	s.watch(calm, "", nil)
	// The job is looked up as it is handed in: a cancel must follow its claim at once.
	cancel := func(id, job int64) {
		if !t.Sabotage {
			s.must(s.cancel(id, job), "cancel")
		}
	}
	hand := s.caller("hand", "", 1)
	pending := s.submit("by hand", "cancelled")
	cancel(pending, s.jobOf(pending))
	if leases, err := hand.ask(uuid.NewString(), 300*time.Millisecond); err != nil || len(leases) != 0 {
		t.Errorf("a cancelled submission was granted: %v, %v", leases, err)
	}
	for _, ms := range []int{0, 1, 10, 100, 1000} {
		id := s.submit("by hand", "cancelled")
		job := s.jobOf(id)
		l := hand.claim(10 * time.Second)[0]
		if ms >= 10 {
			s.must(hand.beat(l.LeaseToken), "heartbeat")
		}
		t.wait(time.Duration(ms) * time.Millisecond)
		cancel(id, job)
		hand.wantGone(l.LeaseToken, gavelapi.LeaseCancelled)
		hand.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeDiscarded)
		if got := s.submission(id).State; got != gavelapi.StateCancelled {
			t.Errorf("cancelled %d ms after the claim and reported: %s", ms, got)
		}
	}
	t.did("cancelled by hand, pending and 0 to 1000 ms after the claim")

	one := s.worker("one", "", 1)
	for i, ms := range []int{0, 1, 10, 100, 1000} {
		id := s.submit("*: AC after 30s", "cancelled")
		job := s.jobOf(id)
		s.awaitJudging(id, "one")
		t.wait(time.Duration(ms) * time.Millisecond)
		cancel(id, job)
		next, began := s.submit("*: AC after 1ms"), t.Clock.Now()
		s.awaitFinal(next, 10*time.Second)
		t.took(fmt.Sprintf("cancel %d to next verdict", i+1), t.Clock.Now().Sub(began), 3*time.Second)
		if sub := s.submission(id); sub.State != gavelapi.StateCancelled || sub.Verdict != "" {
			t.Errorf("a cancelled submission is %s %s", sub.State, sub.Verdict)
		}
	}
	if !one.said("run killed") {
		t.Errorf("the worker did not kill the cancelled runs")
	}
	t.did("cancelled real runs; each was killed and the next one was normal")

	one.stop(20 * time.Second)
	line, two := s.over(a, "two", 1)
	id := s.submit("*: AC after 1h", "cancelled")
	job := s.jobOf(id)
	s.awaitJudging(id, "two")
	line.block(requests, answers)
	cancel(id, job)
	t.wait(2 * shortBeat)
	line.heal()
	began := t.Clock.Now()
	s.until(20*time.Second, "the worker learns of it", func() bool { return two.said("run killed") })
	t.took("line mended to a run killed that was cancelled meanwhile", t.Clock.Now().Sub(began), 3*time.Second)
	s.awaitFinal(s.submit("*: AC after 1ms"), 10*time.Second)
	t.did("cancelled a run whose worker was cut off: it was killed when the line was back")
	s.settle(10 * time.Second)
}

func oldSession(t *T) {
	s := newStand(t)
	a := s.serve(shortTTL, shortBeat)
	if t.Sabotage {
		s.withoutFencing()
	}
	s.watch(calm, "", nil)
	line := t.relay(a.listen)
	one := s.worker("one", line.url(), 1)
	id := s.submit("*: AC when later")
	s.awaitJudging(id, "one")
	line.block(requests, answers)
	t.wait(2 * shortBeat) // heartbeats of the old process are on their way
	one.kill()
	t.did("killed the worker; its connection and heartbeats linger on the way")
	began := t.Clock.Now()
	s.worker("one", "", 1)
	s.until(20*time.Second, "its successor has the job", func() bool {
		return s.number("select coalesce(max(lease_gen), 0)::int from jobs where submission_id = $1 and state = 'leased' and confirmed", id) == 2
	})
	t.took("successor starts to new lease", t.Clock.Now().Sub(began), shortTTL+2*time.Second)
	line.heal()
	t.did("let the old heartbeats arrive")
	t.wait(2 * shortTTL)
	if gen := s.number("select lease_gen::int from jobs where submission_id = $1", id); gen != 2 {
		t.Errorf("the job moved on to generation %d", gen)
	}
	s.open("later")
	s.awaitFinal(id, 20*time.Second)
	s.wantAttempts(id, "expired", "completed")

	// The same by hand, with every kind of late call.
	old := s.caller("hand", "", 1, handLanguage)
	hand := s.handIn(s.api)
	dead := old.take(10 * time.Second)
	next := old.reborn()
	live := next.take(10 * time.Second)
	old.wantGone(dead.LeaseToken, gavelapi.LeaseExpired)
	old.wantReport(dead.LeaseToken, "WA", gavelapi.OutcomeDiscarded)
	released, err := old.api.Release(t.ctx, gavelapi.ReleaseRequest{LeaseToken: dead.LeaseToken, Reason: "shutdown"})
	s.must(err, "late release")
	if released.Released {
		t.Errorf("an old session released something")
	}
	s.must(next.beat(live.LeaseToken), "the new session's lease")
	next.wantReport(live.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	s.wantAttempts(hand, "expired", "completed")
	s.settle(20 * time.Second)
}
