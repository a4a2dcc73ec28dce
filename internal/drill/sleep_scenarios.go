package drill

import (
	"strings"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

var sleepScenarios = []Scenario{
	{
		Name: "a24-planned-sleep", What: "a preferred home machine sleeps and wakes on its plan, once stopped in order, once with its lid closed", script: plannedSleep,
		Fires: "planned hours: nothing new before them, nothing kept for the sleeper, no blame", Sabotage: "nobody tells the arbiter of the plan",
	},
}

// sleepLead is how long before its sleep the machine gets nothing new.
const sleepLead = 5 * time.Second

// plannedSleep is two nights of a machine at home. One lost lease would set it
// aside, so that any blame for its absence shows.
func plannedSleep(t *T) {
	s := newStand(t)
	s.serve(6*time.Second, shortBeat, "--set-aside-after", "1", "--set-aside-for", "30m", "--sleep-lead", sleepLead.String())
	home := s.worker("home", "", 3, sound)
	s.worker("cloud", "", 4, sound)
	s.prefer("home")
	s.watch(calm, "", nil)

	left := s.submit("home: AC after 1h\n*: AC after 5ms")
	ended := s.submit("home: AC when lights-out\n*: WA after 5ms")
	s.awaitJudging(left, "home")
	s.awaitJudging(ended, "home")
	from := t.second(sleepLead + 2*time.Second)
	s.plan(from, from.Add(12*time.Hour))
	s.awaitWorkOf("cloud")
	s.wantJudgedBy("cloud", 8)
	s.open("lights-out")
	s.awaitFinal(ended, 20*time.Second)
	s.wantAttempts(ended, "completed")
	last := s.number(`select (extract(epoch from max(a.granted_at)) * 1000)::bigint from attempts a join workers w on w.id = a.worker_id
 where w.name = 'home' and a.submission_id is not null`)
	t.took("lead before the sleep begins to the last grant", max(0, time.UnixMilli(int64(last)).Sub(from.Add(-sleepLead))), 3*time.Second)
	t.did("before the sleep new work went elsewhere, and what could end ended")

	t.wait(from.Sub(t.Clock.Now()))
	home.signal(syscall.SIGTERM)
	stopped := t.Clock.Now()
	s.until(15*time.Second, "another machine has the job", func() bool {
		return s.number("select count(*) from attempts a join workers w on w.id = a.worker_id where a.submission_id = $1 and w.name = 'cloud'", left) == 1
	})
	t.took("planned stop to another's lease", t.Clock.Now().Sub(stopped), 2*time.Second)
	s.awaitFinal(left, 20*time.Second)
	s.wantAttempts(left, "released", "completed")
	s.until(15*time.Second, "the machine is down", home.gone)
	if !s.within(5*time.Second, func() bool { return s.info("home").State == "asleep" }) {
		t.Errorf("the sleeping machine counts as %s", s.info("home").State)
	}
	s.wantJudgedBy("cloud", 8)
	t.did("stopped it in order at its hour: it handed its work back")

	until := t.second(3 * time.Second)
	s.plan(from, until)
	home = s.worker("home", "", 3, sound)
	first := s.awaitWorkOf("home")
	if early := until.Sub(first); early > 0 && !t.Sabotage {
		t.Errorf("it was given work %v before its plan says that it is awake", early)
	}
	t.did("it woke and was given work again")

	left = s.submit("home: AC after 1h\n*: AC after 5ms")
	s.awaitJudging(left, "home")
	from = t.second(time.Second)
	s.plan(from, from.Add(12*time.Hour))
	if !t.Sabotage {
		s.until(20*time.Second, "the arbiter knows that it sleeps", func() bool { return strings.Contains(s.info("home").Away, "planned sleep until") })
	}
	home.freeze()
	s.wantJudgedBy("cloud", 8)
	s.awaitFinal(left, 30*time.Second)
	s.wantAttempts(left, "expired", "completed")
	s.wantNoBlame("home")
	t.did("closed its lid on a job: the lease expired, and nobody was blamed")
	home.thaw()
	s.plan(from, t.second(time.Second))
	s.awaitWorkOf("home")
	s.settle(20 * time.Second)
}

// second is the whole second at which a time to come lies: plans have no parts of one.
func (t *T) second(ahead time.Duration) time.Time {
	return t.Clock.Now().Add(ahead).Truncate(time.Second)
}

// prefer puts a worker into a pool that comes before the others, and waits
// until the arbiter goes by it.
func (s *stand) prefer(worker string) {
	_, err := s.api.WorkerLabel(s.ctx, worker, gavelapi.WorkerLabels{Pool: "home"})
	s.must(err, "put "+worker+" into a pool")
	_, err = s.api.PoolSet(s.ctx, "home", gavelapi.PoolSettings{Rank: 1})
	s.must(err, "prefer the pool")
	s.until(time.Minute, worker+" is preferred and there", func() bool {
		w, err := s.api.WorkerGet(s.ctx, worker)
		return err == nil && w.Rank == 1 && w.State != "offline"
	})
}

func (s *stand) info(worker string) gavelapi.WorkerInfo {
	w, err := s.api.WorkerGet(s.ctx, worker)
	s.must(err, "read what is known of "+worker)
	return *w
}

// plan is the sleep of the machine at home, to the second.
func (s *stand) plan(from, until time.Time) {
	if s.Sabotage {
		return
	}
	const clock = "15:04:05"
	_, err := s.api.WorkerHours(s.ctx, "home", gavelapi.NewHours{Hours: "daily " + from.UTC().Format(clock) + "-" + until.UTC().Format(clock)})
	s.must(err, "plan the sleep")
}

// wantJudgedBy hands work in, a piece at a time, and looks who judged it.
func (s *stand) wantJudgedBy(worker string, count int) {
	for range count {
		id := s.submit("*: AC after 5ms")
		if sub := s.awaitFinal(id, 20*time.Second); sub.Worker != worker {
			s.Errorf("submission %d was judged by %s, want %s", id, sub.Worker, worker)
		}
	}
}

// awaitWorkOf hands work in until some goes to a worker, and returns when that was.
func (s *stand) awaitWorkOf(worker string) (granted time.Time) {
	s.until(30*time.Second, worker+" is given work", func() bool {
		sub := s.awaitFinal(s.submit("*: AC after 5ms"), 20*time.Second)
		granted = sub.Detail.Attempts[0].GrantedAt
		return sub.Worker == worker
	})
	return granted
}

// wantNoBlame looks for any trace of blame in what is known of a worker.
func (s *stand) wantNoBlame(worker string) {
	h, err := s.api.WorkerHealth(s.ctx, worker)
	s.must(err, "read the health of "+worker)
	if len(h.SetAside)+len(h.Faults) != 0 {
		s.Errorf("%s is blamed for its planned absence: %+v %+v", worker, h.SetAside, h.Faults)
	}
	for _, c := range h.Changes {
		s.Errorf("%s: %s, because %s", worker, c.What, c.Reason)
	}
}
