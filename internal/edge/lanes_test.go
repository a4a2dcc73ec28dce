package edge_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

// fill makes n jobs in a lane, and returns nothing: their order is their age.
func (s *stand) fill(lane string, n int) {
	s.t.Helper()
	for range n {
		s.exec("update jobs set lane = $2 where submission_id = $1", s.submit("c"), lane)
	}
	s.older()
}

// taken says in which order lanes gave their jobs.
func (s *stand) taken(leases []gavelapi.Lease) []string {
	s.t.Helper()
	var lanes []string
	for _, l := range leases {
		lanes = append(lanes, s.text("select lane from jobs where id = $1", l.JobID))
	}
	return lanes
}

func TestTheRunLaneGoesFirstAndTheOthersTakeTurns(t *testing.T) {
	s := newStand(t)
	for _, lane := range []string{"rejudge", "prepare", "judge", "run"} { // the oldest in the lane that goes last
		s.fill(lane, 3)
	}
	a := s.agent("home", made{slots: 12})
	want := []string{"run", "run", "run", "judge", "prepare", "rejudge", "judge", "prepare", "rejudge", "judge", "prepare", "rejudge"}
	if diff := cmp.Diff(want, s.taken(a.poll())); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// One slot, one job a claim: the turn goes on from claim to claim, kept by the
// worker itself and not in a row that all share.
func TestTheTurnPassesFromClaimToClaim(t *testing.T) {
	s := newStand(t)
	for _, lane := range []string{"rejudge", "prepare", "judge"} {
		s.fill(lane, 2)
	}
	a := s.agent("home", made{})
	var got []string
	for range 6 {
		l := a.claim()
		got = append(got, s.taken([]gavelapi.Lease{l})...)
		a.report(l.LeaseToken, verdictReport("AC"))
	}
	if diff := cmp.Diff([]string{"judge", "prepare", "rejudge", "judge", "prepare", "rejudge"}, got); diff != "" {
		t.Errorf("order (-want +got):\n%s", diff)
	}
}

// breakLane makes every claim in a lane fail, as a table without its grant did.
func (s *stand) breakLane(lane string) {
	s.t.Helper()
	s.exec(`create or replace function break_lane() returns trigger language plpgsql as
	  $$ begin if new.lane = '` + lane + `' and new.state = 'leased' then raise insufficient_privilege using message = 'permission denied for table run_jobs'; end if; return new; end $$`)
	s.exec("create trigger break_lane before update on jobs for each row execute function break_lane()")
}

func TestAnErrorInOneLaneLeavesTheOthersAlone(t *testing.T) {
	s := newStand(t)
	s.fill("run", 2)
	s.fill("judge", 2)
	s.breakLane("run")
	a := s.agent("home", made{slots: 4})
	leases := a.poll()
	if diff := cmp.Diff([]string{"judge", "judge"}, s.taken(leases)); diff != "" {
		t.Errorf("lanes (-want +got):\n%s", diff)
	}
	for _, l := range leases {
		if err := a.beat(l.LeaseToken); err != nil {
			t.Errorf("the lease of a good lane: %v", err)
		}
	}
	if n := s.number("select failed_rounds from edge_workers"); n != 1 {
		t.Errorf("%d failed rounds", n)
	}
	if got := s.text("select last_error from edge_workers"); !strings.Contains(got, "run_jobs") {
		t.Errorf("evidence: %q", got)
	}
	if n := s.number("select count(*) from attempts"); n != 2 {
		t.Errorf("%d attempts in the history: the failed ones should have left none", n)
	}
}

// pair is a preferred worker and one that leaves new work to it.
func (s *stand) pair() (home, server *agent) {
	s.t.Helper()
	// Times that no busy machine makes shorter.
	s.exec("update lease_settings set yield = '10 minutes', fresh = '10 minutes'")
	home = s.agent("home", made{pool: "home", rank: 10})
	server = s.agent("server", made{pool: "server", rank: 20})
	return home, server
}

func TestNewWorkIsLeftToAPreferredWorkerThatLooksForIt(t *testing.T) {
	s := newStand(t)
	home, server := s.pair()
	if home.poll() != nil || server.poll() != nil {
		t.Fatal("work before any was handed in")
	}
	s.submit("c")
	if leases := server.poll(); len(leases) != 0 {
		t.Fatalf("the server took it, with home there and free")
	}
	l := home.claim()
	s.submit("c")
	if len(server.poll()) != 1 {
		t.Error("home is busy, and the server left the next one as well")
	}
	home.report(l.LeaseToken, verdictReport("AC"))
}

func TestNobodyIsWaitedForWhoCouldNotTakeIt(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(s *stand, home *agent)
	}{
		{"asleep", func(s *stand, _ *agent) {
			s.exec("update edge_workers set polled_at = now() - interval '11 minutes' where worker_id = (select id from workers where name = 'home')")
		}},
		{"disabled", func(s *stand, _ *agent) { s.exec("update workers set disabled = true where name = 'home'") }},
		{"set aside", func(s *stand, _ *agent) {
			s.exec("update edge_workers set aside_until = now() + interval '1 minute' where worker_id = (select id from workers where name = 'home')")
		}},
		{"three failed rounds", func(s *stand, _ *agent) {
			s.exec("update edge_workers set failed_rounds = 3 where worker_id = (select id from workers where name = 'home')")
		}},
		{"asleep by its plan", func(s *stand, _ *agent) {
			s.exec("insert into planned_hours (worker_id, hours, zone) select id, 'daily 00:00-00:00', 'Asia/Shanghai' from workers where name = 'home'")
		}},
		{"of a pool that is about to sleep", func(s *stand, _ *agent) {
			s.exec(`insert into planned_hours (pool, hours, zone)
			  select 'home', 'daily ' || to_char(now() at time zone 'UTC' + interval '3 minutes', 'HH24:MI') || '-' || to_char(now() at time zone 'UTC' + interval '1 hour', 'HH24:MI'), 'UTC'`)
		}},
		{"without the language", func(_ *stand, home *agent) { home.languages = []string{"python3"}; home.poll() }},
		{"without the memory", func(_ *stand, home *agent) { home.memory = 1 << 20; home.poll() }},
		{"without the package", func(s *stand, _ *agent) {
			s.exec("update edge_workers set lacks = array(select digest from packages) where worker_id = (select id from workers where name = 'home')")
		}},
		{"not preferred", func(s *stand, _ *agent) { s.exec("update pools set rank = 20") }},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newStand(t)
			home, server := s.pair()
			home.poll()
			server.poll()
			c.spoil(s, home)
			s.submit("c")
			if len(server.poll()) != 1 {
				t.Error("the server waits")
			}
		})
	}
}

// However good the preferred worker looks, nobody waits for it longer than a
// second.
func TestNobodyIsWaitedForLongerThanASecond(t *testing.T) {
	s := newStand(t)
	if got := s.text("select yield::text || ' ' || fresh::text from lease_settings"); got != "00:00:01 00:00:02.5" {
		t.Errorf("the settings as shipped are %s", got)
	}
	home, server := s.pair()
	home.poll()
	server.poll()
	s.submit("c")
	s.exec("update jobs set created_at = now() - interval '9 minutes'")
	if len(server.poll()) != 0 {
		t.Fatal("the server did not wait at all")
	}
	s.exec("update jobs set created_at = now() - interval '10 minutes'")
	s.exec("update edge_workers set polled_at = now() where worker_id = (select id from workers where name = 'home')")
	if len(server.poll()) != 1 {
		t.Error("the server waits on")
	}
}

// The seventeenth of September: home's claims fail twice a second, its
// heartbeats go on. Nine submissions hung for 44 minutes.
func TestAHeartbeatAloneAttractsNoWork(t *testing.T) {
	s := newStand(t)
	home, server := s.pair()
	s.submit("c")
	held := home.claim() // for something to heartbeat with; it has a free slot beside it
	home.slots, home.total = 1, 2
	home.poll()
	server.poll()
	s.fill("judge", 1) // the new kind of work that home cannot look into
	s.exec("update jobs set lane = 'run' where state = 'pending'")
	s.breakLane("run")
	for range 3 {
		if err := home.beat(held.LeaseToken); err != nil {
			t.Fatal(err)
		}
		if leases := home.poll(); len(leases) != 0 {
			t.Fatalf("home got %+v", leases)
		}
	}
	if n := s.number("select failed_rounds from edge_workers where worker_id = (select id from workers where name = 'home')"); n != 3 {
		t.Fatalf("%d failed rounds", n)
	}
	s.exec("drop trigger break_lane on jobs")
	var ids []int64
	for range 9 {
		ids = append(ids, s.submit("c"))
	}
	judged := 0
	for range 10 { // the broken lane's job, too
		if err := home.beat(held.LeaseToken); err != nil { // as alive as can be
			t.Fatal(err)
		}
		for _, l := range server.poll() {
			server.report(l.LeaseToken, verdictReport("AC"))
			judged++
		}
	}
	if judged != 10 {
		t.Errorf("%d of 10 judged (submissions %v)", judged, ids)
	}
	// It works again: one good round, and it is preferred again.
	home.poll()
	s.submit("c")
	if len(server.poll()) != 0 {
		t.Error("home is healthy again and is not waited for")
	}
}

func TestAWorkerOfAnArbiterIsWaitedForAsWell(t *testing.T) {
	s := newStand(t)
	_, server := s.pair()
	s.agent("home-old", made{pool: "home", rank: 10}).poll() // the pool's rank is known from when it worked this way
	s.exec("update edge_workers set polled_at = null where worker_id = (select id from workers where name = 'home-old')")
	s.exec(`insert into workers (name, pool, session, slots, capabilities, last_seen_at)
	  values ('home-new', 'home', gen_random_uuid(), 1, '{"languages": [{"id": "c", "version": "1"}]}', now())`)
	s.submit("c")
	if len(server.poll()) != 0 {
		t.Error("the server took it, with a worker of home's pool waiting at the arbiter")
	}
	s.exec("update workers set last_seen_at = now() - interval '11 minutes' where name = 'home-new'")
	if len(server.poll()) != 1 {
		t.Error("the server waits for one that is gone")
	}
}

func TestAWorkerIsGivenOnlyWhatItCanDo(t *testing.T) {
	s := newStand(t)
	s.submit("python3")
	a := s.agent("home", made{})
	if len(a.poll()) != 0 {
		t.Error("a language that it does not offer")
	}
	a.languages = []string{"c", "python3"}
	a.memory = 1 << 20
	if len(a.poll()) != 0 {
		t.Error("a job with more memory than it has")
	}
	a.memory = 1 << 30
	s.exec("alter table jobs drop constraint jobs_kind_check, drop constraint jobs_subject_check; update jobs set kind = 'of the future'")
	if len(a.poll()) != 0 {
		t.Error("a kind of job that this program does not know")
	}
	s.exec("update jobs set kind = 'judge'")
	for _, c := range []struct{ name, with, without string }{
		{"a tag that it has not", "update jobs set tags = '{gpu}'", "update jobs set tags = null"},
		{"a feature that it has not", "update jobs set features = '{interactive}'", "update jobs set features = null"},
		{"another worker's", "update jobs set target_worker_id = 99", "update jobs set target_worker_id = null"},
		{"not one of its lanes", "update workers set lanes = '{run}'", "update workers set lanes = '{}'"},
		{"it is drained", "update workers set away = 'draining'", "update workers set away = ''"},
		{"the problem is held", "insert into brakes (kind, name, problem_id, reason) select 'problem', name, id, 'r' from problems", "delete from brakes"},
		{"the language is held", "insert into brakes (kind, name, reason) values ('language', 'python3', 'r')", "delete from brakes"},
		{"the lane is held", "insert into brakes (kind, name, reason) values ('lane', 'judge', 'r')", "delete from brakes"},
	} {
		s.exec(c.with)
		if len(a.poll()) != 0 {
			t.Errorf("it got the job, although: %s", c.name)
		}
		s.exec(c.without)
	}
	a.claim()
}

// A job whose package is not in the directory goes back at no cost, and such
// jobs are left to others.
func TestAJobWhosePackageIsNotHereIsLeftToOthers(t *testing.T) {
	s := newStand(t)
	s.submit("c")
	dir := t.TempDir()
	here := s.agent("home", made{dir: dir, slots: 2})
	if len(here.poll()) != 0 {
		t.Fatal("it took a job that it cannot do")
	}
	if n := s.number("select attempts from jobs"); n != 0 {
		t.Errorf("the job was charged %d attempts", n)
	}
	here.poll()
	if n := s.number("select count(*) from attempts"); n != 1 {
		t.Errorf("it took such a job %d times", n)
	}
	if n := s.number("select cardinality(lacks) from edge_workers"); n != 1 {
		t.Errorf("others are not told")
	}
	writeFile(t, dir, strings.TrimPrefix(s.digest, "sha256:")+".tar.zst", "x")
	other := s.agent("other", made{dir: dir})
	other.claim()
}

// A worker waits for work as a long poll does, and is quick when it comes.
func TestAWaitingClaimFindsWorkWithinAPoll(t *testing.T) {
	s := newStand(t)
	m := made{}
	m.clock.Poll = 20 * time.Millisecond
	a := s.agent("home", m)
	if _, err := a.Claim(t.Context(), a.request(uuid.NewString(), 0)); err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	go func() {
		resp, err := a.Claim(t.Context(), a.request(uuid.NewString(), 20*time.Second))
		if err != nil {
			t.Error(err)
			got <- 0
			return
		}
		got <- len(resp.Leases)
	}()
	s.submit("c")
	if n := <-got; n != 1 {
		t.Errorf("%d leases", n)
	}
}
