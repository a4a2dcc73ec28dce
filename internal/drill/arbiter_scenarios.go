package drill

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

// The longest that it may take from the harm to the first grant by a standby,
// with the default settings of leadership.
const (
	killedLimit = time.Second
	silentLimit = 8 * time.Second
)

var arbiterScenarios = []Scenario{
	{
		Name: "a6-arbiter-killed", What: "the only arbiter is killed with 50 leases in flight and 20 jobs waiting, and restarted", script: arbiterKilled, limit: 10 * time.Minute,
		Fires: "grace of a new leadership; order by id", Sabotage: "it gives no grace, and comes back when the leases are over",
	},
	{
		Name: "a7-leader-killed", What: "the leader is killed while a standby waits", script: leaderKilled,
		Fires: "the lock frees with its session", Sabotage: "another session has the lock at once, as if the leader's lived on",
	},
	{
		Name: "a7-leader-frozen", What: "the leader is frozen, replaced, and thawed", script: leaderFrozen,
		Fires: "the row's expiry; the term in every write; silence after 3 s without renewal", Sabotage: "leadership never expires, as with a lock alone",
	},
	{
		Name: "a7-leader-cut-off", What: "the leader's line to the database is cut (TCP, in a network namespace)", script: leaderCutOff,
		Fires: "the row's expiry; keep-alives and tcp_user_timeout on both ends", Sabotage: "leadership never expires, as with a lock alone",
	},
}

func arbiterKilled(t *T) {
	s := newStand(t)
	ttl := 6 * time.Second
	a := s.serve(ttl, shortBeat)
	for i := range 5 {
		s.worker(fmt.Sprintf("w%d", i), "", 10)
	}
	s.watch(outage, "", nil)
	var held, waiting []int64
	for range 50 {
		held = append(held, s.submit("*: AC when finish"))
	}
	s.until(3*time.Minute, "50 leases are confirmed", func() bool {
		return s.number("select count(*) from jobs where state = 'leased' and confirmed and language = $1", language) == 50 // beside the bystander's
	})
	for range 20 {
		waiting = append(waiting, s.submit("*: AC after 1ms"))
	}
	a.kill()
	t.did("killed the arbiter with 50 leases in flight")
	if t.Sabotage {
		s.withoutGrace()
		t.wait(ttl + time.Second)
	} else {
		t.wait(500 * time.Millisecond)
	}
	s.open("finish") // every worker is done while nobody listens
	t.wait(time.Second)
	began := t.Clock.Now()
	s.restart(a)
	t.took("restart to leading", t.Clock.Now().Sub(began), 0)
	for _, id := range held {
		s.awaitFinal(id, 60*time.Second)
		s.wantAttempts(id, "completed")
	}
	t.did("each was recorded by its first holder")
	for _, id := range waiting {
		s.awaitFinal(id, 60*time.Second)
	}
	if n := s.number(`select count(*) from (select submission_id, lag(submission_id) over (order by granted_at, lease_gen, submission_id) as before
  from attempts where submission_id = any($1)) x where before > submission_id`, waiting); n != 0 {
		t.Errorf("%d waiting jobs were overtaken by younger ones", n)
	}
	s.settle(20 * time.Second)
}

// pair is a leader, a standby, and a line through which workers reach whichever
// the scenario points it to.
func pair(t *T, ttl time.Duration) (s *stand, leader, standby *arbiterProcess, line *relay) {
	s = newStand(t)
	leader = s.serve(ttl, shortBeat)
	standby = s.serve(ttl, shortBeat)
	line = t.relay(leader.listen)
	return s, leader, standby, line
}

// firstGrant calls the standby without a pause until it grants, and returns
// when it did.
func (s *stand) firstGrant(c *caller, limit time.Duration) (gavelapi.Lease, time.Time) {
	request := uuid.NewString()
	var got gavelapi.Lease
	s.until(limit, "the standby grants", func() bool {
		leases, err := c.ask(request, time.Second)
		if err == nil && len(leases) == 1 {
			got = leases[0]
			return true
		}
		return false
	})
	return got, s.Clock.Now()
}

func leaderKilled(t *T) {
	s, leader, standby, line := pair(t, 6*time.Second)
	s.worker("one", line.url(), 2)
	running := s.submit("*: AC when finish")
	s.awaitJudging(running, "one")
	site, err := client.New(line.url(), s.token, client.Options{UserAgent: "gavel-drill"})
	s.must(err, "client of the site")
	s.watch(outage, line.url(), site)
	s.api = standby.api
	hand := s.caller("hand", standby.url, 1, handLanguage)
	worst := time.Duration(0)
	for i := range t.rounds(5) {
		if i > 0 { // the roles change
			s.restartAsStandby(leader)
			leader, standby = standby, leader
			hand.api, s.api = s.caller("hand", standby.url, 1, handLanguage).api, standby.api
			hand.session = uuid.NewString()
			hand.previous = ""
		}
		id := s.handIn(standby.api)
		t.wait(time.Duration(t.rand.IntN(300)) * time.Millisecond)
		if t.Sabotage {
			s.withoutFreeing()
		}
		began := t.Clock.Now()
		leader.kill()
		l, at := s.firstGrant(hand, 20*time.Second)
		worst = max(worst, at.Sub(began))
		line.point(standby.listen)
		hand.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
		s.awaitFinal(id, 10*time.Second)
	}
	t.did("killed the leader %d times", t.rounds(5))
	t.took("killed to first grant by the standby, longest", worst, killedLimit)
	s.open("finish")
	s.awaitFinal(running, 30*time.Second)
	s.wantAttempts(running, "completed")
	s.settle(20 * time.Second)
}

// restartAsStandby starts a killed arbiter where it was; it finds a leader.
func (s *stand) restartAsStandby(a *arbiterProcess) {
	a.process = a.again()
	s.until(60*time.Second, a.name+" stands by", func() bool {
		_, err := a.api.Ready(s.ctx)
		return err == nil
	})
}

// handIn is a submission for the hand of a scenario.
func (s *stand) handIn(api *client.Client) int64 {
	sub, err := api.SubmissionCreate(s.ctx, gavelapi.NewSubmission{Problem: "p", Language: handLanguage, Source: "by hand"}, "")
	s.must(err, "submit")
	s.owe(sub.ID, nil)
	return sub.ID
}

func leaderFrozen(t *T) {
	s, leader, standby, line := pair(t, 6*time.Second)
	if t.Sabotage {
		s.withoutExpiry()
	}
	for _, n := range []string{"one", "two", "three"} {
		s.worker(n, line.url(), 2)
	}
	s.watch(silentLimit+3*time.Second, line.url(), standby.api)
	hand := s.caller("hand", standby.url, 1, handLanguage)
	var jobs []int64
	more := func(n int) {
		for range n {
			jobs = append(jobs, s.submitTo(standby.api, "*: AC after 200ms"))
		}
	}
	more(12)
	s.handIn(standby.api)
	t.wait(300 * time.Millisecond)
	old := s.caller("latecomer", leader.url, 4)
	began := t.Clock.Now()
	leader.freeze()
	t.did("froze the leader with work in flight")
	// Calls pile up at the frozen one; they are answered when it thaws.
	type answer struct {
		leases []gavelapi.Lease
		err    error
	}
	piled := make(chan answer, 5)
	for range cap(piled) {
		go func() {
			leases, err := old.ask(uuid.NewString(), 2*time.Second)
			piled <- answer{leases, err}
		}()
	}
	l, at := s.firstGrant(hand, 30*time.Second)
	t.took("frozen to first grant by the standby", at.Sub(began), silentLimit)
	line.point(standby.listen)
	s.api = standby.api
	hand.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	more(12)
	t.wait(2 * time.Second)
	leader.thaw()
	t.did("thawed it after %v", t.Clock.Now().Sub(began).Round(time.Second))
	more(12)
	// It must not grant in its first moment, nor later.
	for range 20 {
		if leases, err := old.ask(uuid.NewString(), 50*time.Millisecond); err == nil && len(leases) > 0 {
			t.Errorf("the old leader granted %d leases after it was replaced", len(leases))
		}
		t.wait(20 * time.Millisecond)
	}
	for range cap(piled) {
		if a := <-piled; len(a.leases) > 0 {
			t.Errorf("the old leader granted %d leases to calls from before it thawed", len(a.leases))
		}
	}
	s.until(15*time.Second, "the old leader steps down by itself", func() bool { return leader.said("lost leadership") })
	if leader.gone() {
		t.Errorf("the old leader ended")
	}
	for _, id := range jobs {
		s.awaitFinal(id, 60*time.Second)
	}
	if n := s.number("select count(*) from attempts where term < (select term from leadership) and granted_at > (select min(granted_at) from attempts where term = (select term from leadership))"); n != 0 {
		t.Errorf("%d grants of an earlier term are younger than the first one of the last", n)
	}
	s.settle(30 * time.Second)
}

// leaderCutOff puts the database and the leader into a network of their own,
// in which they talk over TCP. The standby reaches the database over its
// socket. Switching the device off is a cut line: nobody hears of it.
func leaderCutOff(t *T) {
	if os.Geteuid() != 0 {
		t.Skipf("making a network needs root")
	}
	s := &stand{T: t, tokens: map[string]string{}, slots: map[string]int{}, expect: map[int64][]string{}, transcripts: t.path("transcripts")}
	db, socketURL := s.tcpServer()
	// The first arbiter stands outside, so that it can be set up; it then
	// restarts as the standby of the one that is cut off.
	s.connect(socketURL)
	standby := s.serve(6*time.Second, shortBeat)
	hand := s.caller("hand", standby.url, 1)
	if t.Sabotage {
		s.withoutExpiry()
	}
	standby.kill()
	leader := &arbiterProcess{}
	cmd := exec.Command(t.Gavel, "serve", "--database-url", "postgres://gavel_owner@127.0.0.1:5432/gavel?sslmode=disable",
		"--data-dir", t.path("arbiter"), "--listen", "127.0.0.1:7272", "--lease-ttl", "6s", "--heartbeat", "300ms")
	cmd.Env = []string{"PATH=/usr/local/bin:/usr/bin:/bin"}
	leader.process = t.start("leader", cmd, netOf(db.pid()))
	s.until(60*time.Second, "the leader in its own network leads", func() bool { return leader.said(`"leading"`) || leader.said("msg=leading") })
	s.restartAsStandby(standby)
	if n := s.number("select count(*) from pg_stat_activity where application_name like 'gavel%' and client_addr is not null"); n == 0 {
		t.Fatalf("the leader does not talk TCP to the database")
	}
	id := s.submit("by hand")
	t.wait(time.Duration(t.rand.IntN(1000)) * time.Millisecond)
	began := t.Clock.Now()
	s.must(loopback(db.pid(), false), "cut the line")
	t.did("cut the leader's line to the database")
	l, at := s.firstGrant(hand, 30*time.Second)
	t.took("cut off to first grant by the standby", at.Sub(began), silentLimit)
	hand.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	s.awaitFinal(id, 10*time.Second)
	s.until(30*time.Second, "the database drops the sessions of the cut line", func() bool {
		return s.number("select count(*) from pg_stat_activity where client_addr is not null") == 0
	})
	t.took("cut off to no session left", t.Clock.Now().Sub(began), 25*time.Second)
	s.until(30*time.Second, "the old leader knows that it does not lead", func() bool { return leader.said("lost leadership") })
	t.took("cut off to the old leader stepping down", t.Clock.Now().Sub(began), 15*time.Second)
	s.must(loopback(db.pid(), true), "mend the line")
	t.wait(2 * time.Second)
	if n := s.number("select term::int from leadership"); n > 4 {
		t.Errorf("the leaders took turns: term %d", n)
	}
	s.settle(10 * time.Second)
}

// tcpServer makes a cluster as usual and then serves it from a network of its
// own, over TCP there and over its socket everywhere.
func (s *stand) tcpServer() (*process, string) {
	s.must(PrepareCluster(s.ctx, s.path("pg")), "make a database")
	cluster := s.path("pg", "cluster")
	installs, err := pgbin.Find(s.ctx, pgbin.Options{})
	s.must(err, "find PostgreSQL")
	info, err := os.Stat(cluster)
	s.must(err, "look at the cluster")
	owner, ok := info.Sys().(*syscall.Stat_t)
	if !ok {
		s.Fatalf("the owner of the cluster is not known")
	}
	hba := s.path("hba.conf")
	s.must(os.WriteFile(hba, []byte("local gavel gavel_owner trust\nhost gavel gavel_owner 127.0.0.1/32 trust\n"), 0o644), "hba.conf")
	sock := s.path("sock")
	s.must(os.MkdirAll(sock, 0o755), "socket directory")
	s.must(os.Chown(sock, int(owner.Uid), int(owner.Gid)), "socket directory")
	cmd := exec.Command(installs[0].Path("postgres"), "-D", cluster, "-c", "listen_addresses=127.0.0.1", "-c", "hba_file="+hba,
		"-c", "unix_socket_directories="+sock, "-c", "ssl=off")
	cmd.Dir, cmd.Env = "/", []string{"PATH=/usr/local/bin:/usr/bin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{
		Setsid: true, Cloneflags: syscall.CLONE_NEWNET, Credential: &syscall.Credential{Uid: owner.Uid, Gid: owner.Gid},
	}
	p := s.startIn("postgres", cmd)
	s.until(30*time.Second, "PostgreSQL is ready", func() bool {
		if p.gone() {
			s.Fatalf("PostgreSQL ended while starting, see %s", p.log)
		}
		raw, err := os.ReadFile(filepath.Join(cluster, "postmaster.pid"))
		return err == nil && strings.Contains(string(raw), "ready") && p.said("ready to accept")
	})
	return p, "postgres://gavel_owner@/gavel?sslmode=disable&host=" + sock
}

// startIn starts a child that makes its own network, whose loopback device is
// off at first: it is switched on before the child binds to it.
func (s *stand) startIn(name string, cmd *exec.Cmd) *process {
	gate := s.path("gates", name)
	s.must(os.MkdirAll(s.path("gates"), 0o755), "gates")
	// A shell waits, because nobody can reach the network before there is one.
	cmd.Args = append([]string{"sh", "-c", `while [ ! -e "$0" ]; do sleep 0.02; done; exec "$@"`, gate, cmd.Path}, cmd.Args[1:]...)
	cmd.Path = "/bin/sh"
	p := s.start(name, cmd, 0)
	s.must(loopback(p.pid(), true), "switch the loopback device on")
	s.open(name)
	return p
}
