package drill

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

var stageScenarios = []Scenario{
	{
		Name: "staged-switch", What: "from edge workers to an arbiter and back through all four stages, while submissions come by SQL and by the API", script: stagedSwitch,
		Fires: "hand-back and sessions at each change; one lease, token and generation for both ways", Sabotage: lateReportsCount,
		limit: 8 * time.Minute,
	},
}

const (
	// stageWait is the longest that anybody may wait for a first lease: what a
	// bystander may, and the second that a less preferred edge worker leaves it.
	stageWait = calm + time.Second
	// stageHandOver is from the order to stop to the first lease by the other way.
	stageHandOver = 15 * time.Second
	// stageWork is how many are judged in a stage before the next step.
	stageWork = 20
	stageLoad = 100 * time.Millisecond // between submissions, of each of the two kinds
	// stageSeen is how lately a worker must have been seen to count.
	stageSeen = 8 * time.Second
)

// stageWorker is a worker of the site. Its own language is for work that nobody
// else can take.
type stageWorker struct {
	name, pool, own string
	rank            int
}

// stageWorkers are those of the account: two at home, preferred, one on the server.
var stageWorkers = map[string]stageWorker{
	"home-1": {"home-1", "home", "python3", 10},
	"home-2": {"home-2", "home", "cpp20", 10},
	"server": {"server", "server", "c", 20},
}

// switching is the site of a staged switch.
type switching struct {
	*stand
	workers  map[string]*process
	edge     map[string]bool
	since    []stageSpan
	late     int               // reports that must have been discarded
	lines    map[string]*relay // of each worker to what it gets its work from
	stopLoad func()
	bySQL    atomic.Int64
	byAPI    atomic.Int64
}

// stageSpan is a time in one stage, by the database's clock.
type stageSpan struct {
	what string
	from time.Time
}

// stagedSwitch goes up and down again. A step is what an operator does: stop
// the worker, enrol it under its name where it was not yet, start the other
// program on the same state directory.
func stagedSwitch(t *T) {
	s := &switching{stand: newStand(t), workers: map[string]*process{}, edge: map[string]bool{}, lines: map[string]*relay{}}
	a := s.serve(shortTTL, shortBeat)
	if t.Sabotage {
		s.withoutFencing()
	}
	a.stop(30 * time.Second) // it has published the problem; the first stage has no arbiter
	s.login("home")
	s.login("server")
	for name := range stageWorkers {
		s.toEdge(name)
	}
	s.load()

	s.reach(1, "up, stage 1, no arbiter")
	s.work()
	s.restart(a)
	s.reach(1, "up, stage 1, an arbiter beside")
	s.work()
	s.cutOff("home-1") // on the database, and judged by others meanwhile
	if t.Sabotage {
		s.end() // what it did is in the database now
		return
	}
	s.change("home-1")
	s.reach(2, "up, stage 2")
	s.work()
	s.change("home-2")
	s.dropLogin("home")
	s.reach(3, "up, stage 3")
	s.work()
	s.change("server")
	s.dropLogin("server")
	s.reach(4, "stage 4")
	s.work()

	s.login("server")
	s.change("server")
	s.reach(3, "down, stage 3")
	s.work()
	s.cutOff("home-2") // by way of the arbiter
	s.login("home")
	s.change("home-2")
	s.reach(2, "down, stage 2")
	s.work()
	s.change("home-1")
	s.reach(1, "down, stage 1, an arbiter beside")
	s.work()
	a.stop(30 * time.Second)
	s.reach(1, "down, stage 1, no arbiter")
	s.work()
	s.restart(a) // for who still waits at the API
	s.end()
	s.waits()
	t.did("%d handed in by SQL, %d by the API", s.bySQL.Load(), s.byAPI.Load())
}

// end stops the load and looks at what is in the database.
func (s *switching) end() {
	s.stopLoad()
	s.settle(30 * time.Second)
	if n := s.number(askDiscarded); n < s.late {
		s.Errorf("%d late reports were discarded, want %d at least", n, s.late)
	}
}

// load hands in without a pause, each kind by itself: who waits at an API
// that is away does not hold up a site that writes to the database.
func (s *switching) load() {
	ctx, cancel := context.WithCancel(s.ctx)
	ended := make(chan struct{}, 2)
	s.stopLoad = func() {
		cancel()
		<-ended
		<-ended
	}
	s.aside(func() {
		defer func() { ended <- struct{}{} }()
		for ctx.Err() == nil {
			s.owe(s.bySite(language, "*: AC after 20ms", "by sql"), nil)
			s.bySQL.Add(1)
			s.wait(stageLoad)
		}
	})
	s.aside(func() {
		defer func() { ended <- struct{}{} }()
		for ctx.Err() == nil {
			s.submitByAPI()
			s.wait(stageLoad)
		}
	})
	s.cleanup(cancel)
}

// byStep is the submitter of what a step needs; nobody's waiting is measured by it.
const byStep = "a step"

// bySite hands in by SQL.
func (s *switching) bySite(language, script, submitter string) (id int64) {
	err := s.db.QueryRow(s.ctx, "select gavel.submit('p', $1, $2::text, $3)", language, script, submitter).Scan(&id)
	s.must(err, "gavel.submit")
	return id
}

// submitByAPI hands one in, however long the API is away: the key makes it one.
// It goes on when no more are wanted, since this one may be stored already.
func (s *switching) submitByAPI() {
	key := rand.Text()
	for s.ctx.Err() == nil {
		call, cancel := context.WithTimeout(s.ctx, 2*time.Second)
		sub, err := s.api.SubmissionCreate(call, gavelapi.NewSubmission{Problem: "p", Language: language, Source: "*: AC after 20ms", User: "by api"}, key)
		cancel()
		if err == nil {
			s.owe(sub.ID, nil)
			s.byAPI.Add(1)
			return
		}
		if status := client.StatusOf(err); status != 0 && status != 503 {
			s.Errorf("the API: %v", err)
			return
		}
		s.wait(20 * time.Millisecond)
	}
}

// login makes a login for edge workers, as docs/migration.md says.
func (s *switching) login(name string) {
	s.exec("create role " + name + " login in role gavel_edge")
}

// dropLogin drops one whose workers have gone over: nobody uses it any more.
func (s *switching) dropLogin(name string) {
	s.until(20*time.Second, "the sessions of "+name+" are gone", func() bool {
		return s.number("select count(*) from pg_stat_activity where usename = $1", name) == 0
	})
	s.exec("drop role " + name)
	s.did("dropped the login %s", name)
}

func (s *switching) toEdge(name string) {
	w := stageWorkers[name]
	s.lines[name] = s.relay(s.socket())
	s.workers[name], s.edge[name] = s.edgeWorker(name, 2, s.through(s.lines[name], w.pool), in(w.pool, w.rank), offering(language, w.own)), true
}

func (s *switching) toArbiter(name string) {
	s.lines[name] = s.relay(s.arbiters[0].listen)
	s.workers[name], s.edge[name] = s.worker(name, s.lines[name].url(), 2, offering(language, stageWorkers[name].own)), false
}

// change stops a worker and starts it on its other way.
func (s *switching) change(name string) {
	began := s.now()
	s.workers[name].stop(30 * time.Second)
	way := "the arbiter"
	if s.edge[name] {
		s.toArbiter(name)
	} else {
		way = "the database"
		s.toEdge(name)
	}
	s.owe(s.bySite(stageWorkers[name].own, "*: AC after 20ms", byStep), nil)
	var took float64
	s.until(time.Minute, name+" has its first lease by way of "+way, func() bool {
		err := s.db.QueryRow(s.ctx, `select coalesce(extract(epoch from min(a.granted_at) - $2), -1)::float8
  from attempts a join workers w on w.id = a.worker_id where w.name = $1 and a.granted_at > $2 and (a.term = 0) = $3 and a.outcome <> 'undelivered'`,
			name, began, s.edge[name]).Scan(&took)
		s.must(err, "read the first lease")
		return took >= 0
	})
	s.took(fmt.Sprintf("%s to %s, SIGTERM to its first lease there", name, way), time.Duration(took*float64(time.Second)), stageHandOver)
}

// cutOff cuts a worker off over a judging, which others do meanwhile; its own
// report comes late, and is another verdict.
func (s *switching) cutOff(name string) {
	gate := "late-" + name
	script := name + ": WA when " + gate + "\n*: AC after 20ms"
	id := s.bySite(language, script, byStep)
	held := "select count(*) from jobs j join workers w on w.id = j.worker_id where j.submission_id = $1 and w.name = $2 and j.confirmed"
	// Another may be quicker; then it is handed in again.
	s.until(time.Minute, name+" judges a submission of its own", func() bool {
		switch {
		case s.number(held, id, name) == 1:
			return true
		case s.number("select count(*) from judgings where submission_id = $1 and state = 'done'", id) == 1:
			s.owe(id, nil)
			id = s.bySite(language, script, byStep)
		}
		return false
	})
	s.owe(id, nil)
	line := s.lines[name]
	line.block(requests, answers)
	s.open(gate)
	s.until(time.Minute, "it has its own verdict", func() bool {
		return slices.ContainsFunc(s.outbox(name), func(file string) bool {
			raw, err := os.ReadFile(file)
			return err == nil && strings.Contains(string(raw), fmt.Sprintf(`"submission_id":%d,`, id))
		})
	})
	s.until(time.Minute, "somebody else judges it", func() bool {
		return s.number("select count(*) from judgings where submission_id = $1 and state = 'done'", id) == 1
	})
	line.heal()
	s.until(time.Minute, "its late report is there", func() bool {
		return s.number("select count(*) from attempts where submission_id = $1 and late_report ->> 'verdict' = 'WA'", id) == 1
	})
	s.late++
	s.did("%s was cut off over a judging and reported late", name)
}

// reach waits until the program itself says that this is the stage.
func (s *switching) reach(stage int, what string) {
	var shown struct {
		Stage int      `json:"stage"`
		Left  []string `json:"left"`
	}
	began := s.Clock.Now()
	s.until(time.Minute, fmt.Sprintf("gavel fleet stage says %d", stage), func() bool {
		out, err := exec.CommandContext(s.ctx, s.Gavel, "fleet", "stage", "--database-url", s.url, "--since", stageSeen.String(), "-o", "json").Output()
		s.must(err, "gavel fleet stage")
		s.must(json.Unmarshal(out, &shown), "read the stage")
		return shown.Stage == stage
	})
	if stage == 4 && len(shown.Left) > 0 {
		s.Errorf("in the last stage it says what is left to do: %q", shown.Left)
	}
	s.since = append(s.since, stageSpan{what, s.now()})
	s.did("%s (shown after %v)", what, s.Clock.Now().Sub(began).Round(10*time.Millisecond))
}

// work lets a stage last until some that were handed in during it are judged.
func (s *switching) work() {
	from := s.since[len(s.since)-1].from
	s.until(time.Minute, "work goes on", func() bool {
		return s.number("select count(*) from submissions s join judgings g on g.id = s.current_judging_id where s.created_at > $1 and g.state = 'done'", from) >= stageWork
	})
}

func (s *switching) now() (now time.Time) {
	s.must(s.db.QueryRow(s.ctx, "select clock_timestamp()").Scan(&now), "the time")
	return now
}

// waits measures from handing in to the first lease, for each stage and the
// step that led out of it. Those who could not be handed in, as the API was
// away, count from when they were.
func (s *switching) waits() {
	var longest time.Duration
	jobs := 0
	for i, span := range s.since {
		until := time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC)
		if i+1 < len(s.since) {
			until = s.since[i+1].from
		}
		var seconds float64
		var n int
		err := s.db.QueryRow(s.ctx, `select coalesce(max(x.wait), 0)::float8, count(*) from (
  select extract(epoch from min(a.granted_at) - s.created_at) as wait
    from submissions s join attempts a on a.submission_id = s.id
   where s.created_at >= $1 and s.created_at < $2 and s.submitter <> $3 group by s.id) x`, span.from, until, byStep).Scan(&seconds, &n)
		s.must(err, "read the waits")
		wait := time.Duration(seconds * float64(time.Second))
		s.took(fmt.Sprintf("%s: longest wait for a lease, of %d", span.what, n), wait, stageWait)
		longest, jobs = max(longest, wait), jobs+n
	}
	s.T.mu.Lock()
	defer s.T.mu.Unlock()
	s.result.HoldUpMS, s.result.Bystanders = float64(longest.Microseconds())/1000, jobs
}
