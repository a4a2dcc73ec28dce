package drill

import (
	"fmt"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// slowProblem has one test and a generous limit.
const slowProblem = "slow"

// burns computes for some seconds and then answers rightly, so that there is a
// middle of a judging to do harm in.
func burns(seconds float64) string {
	return fmt.Sprintf(`#include <cstdio>
#include <ctime>
int main() {
    int n;
    if (scanf("%%d", &n) != 1) return 1;
    volatile unsigned long x = 0;
    while (clock() < %g * CLOCKS_PER_SEC) for (int i = 0; i < 100000; i++) x += i;
    printf("%%d\n", n);
}
`, seconds)
}

var programScenarios = []Scenario{
	{
		Name: "a1-program-killed", What: "gavel-worker is killed while a program runs in its box", script: programKilled, Program: true, limit: 10 * time.Minute,
		Fires: "expiry, then a grant with a new generation; boxes die with their worker", Sabotage: "leases live for ten minutes",
	},
	{
		Name: "a10-program-poison", What: "gavel-worker is killed each time a certain submission runs in its box", script: programPoison, Program: true, limit: 10 * time.Minute,
		Fires: "attempt cap", Sabotage: "a thousand attempts are allowed",
	},
	{
		Name: "a13-program-stops", What: "SIGTERM to gavel-worker while a program runs in its box", script: programStops, Program: true, limit: 10 * time.Minute,
		Fires: "release: refunded, pending at once", Sabotage: "SIGKILL instead of SIGTERM",
	},
	{
		Name: "a17-program-disk-full", What: "gavel-worker's disk, outbox and scratch, fills while a program runs", script: programDiskFull, Program: true, limit: 10 * time.Minute,
		Fires: "delivery from memory; a fault of the host, never a verdict; no claims until there is room", Sabotage: "the disk is never full",
	},
}

// programStand has the arbiter and the slow problem.
func programStand(t *T, ttl time.Duration, flags ...string) *stand {
	if os.Geteuid() != 0 {
		t.Skipf("boxes need root")
	}
	s := newStand(t)
	s.serve(ttl, shortBeat, flags...)
	s.publish(slowProblem, 1, 20)
	return s
}

// program starts gavel-worker under a name and waits until it claims, which it
// does after its self-test. diskBytes > 0 puts its state on a disk that small.
func (s *stand) program(name string, diskBytes int64) *process {
	s.mu.Lock()
	s.slots[name] = 1
	s.mu.Unlock()
	env := []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}
	if _, err := os.Stat(s.state(name) + "/token"); err != nil {
		inv, err := s.api.WorkerInvite(s.ctx, gavelapi.NewInvitation{})
		s.must(err, "invite "+name)
		env = append(env, "GAVEL_WORKER_INVITATION="+inv.Code, "GAVEL_WORKER_NAME="+name)
	}
	args := []string{"run", "--url", s.proxy(name), "--state-dir", s.state(name), "--slots", "1", "--log", "text"}
	var p *process
	if diskBytes > 0 {
		p = s.role("program-"+name, "small-disk", smallDiskSettings{Dir: s.state(name), Bytes: diskBytes, Program: s.Worker, Args: args, Env: env},
			&syscall.SysProcAttr{Cloneflags: syscall.CLONE_NEWNS})
	} else {
		cmd := exec.Command(s.Worker, args...)
		cmd.Env = env
		p = s.start("program-"+name, cmd, 0)
	}
	s.until(2*time.Minute, "gavel-worker "+name+" claims", func() bool {
		if p.gone() {
			if p.said("self-test") || p.said("cannot make boxes") {
				s.Skipf("gavel-worker cannot work on this machine, see %s", p.log)
			}
			s.Fatalf("gavel-worker %s ended, see %s", name, p.log)
		}
		list, err := s.api.WorkerList(s.ctx)
		if err != nil {
			return false
		}
		for _, w := range list.Workers {
			if w.Name == name && (w.State == "idle" || w.State == "busy") {
				return p.said("worker starts")
			}
		}
		return false
	})
	return p
}

func (s *stand) submitProgram(source string, want ...string) int64 {
	sub, err := s.api.SubmissionCreate(s.ctx, gavelapi.NewSubmission{Problem: slowProblem, Language: language, Source: source}, "")
	s.must(err, "submit")
	s.owe(sub.ID, want)
	return sub.ID
}

func programKilled(t *T) {
	ttl := shortTTL
	if t.Sabotage {
		ttl = 10 * time.Minute
	}
	s := programStand(t, ttl)
	one := s.program("one", 0)
	id := s.submitProgram(burns(2))
	s.awaitJudging(id, "one")
	s.watch(calm, "", nil)
	one.kill()
	due := s.number("select (extract(epoch from lease_expires_at) * 1000)::bigint from jobs where submission_id = $1", id)
	t.did("killed gavel-worker while the program ran")
	s.program("two", 0)
	sub := s.awaitFinal(id, 3*time.Minute)
	s.wantAttempts(id, "expired", "completed")
	if n := len(sub.Detail.Attempts); n == 2 && sub.Detail.Attempts[0].EndedAt != nil {
		t.took("expiry to taken back", time.Duration(sub.Detail.Attempts[0].EndedAt.UnixMilli()-int64(due))*time.Millisecond, time.Second)
	}
	s.settle(20 * time.Second)
}

func programPoison(t *T) {
	attempts := "3"
	if t.Sabotage {
		attempts = "1000"
	}
	s := programStand(t, shortTTL, "--attempts", attempts)
	workers := map[string]*process{"one": s.program("one", 0), "two": s.program("two", 0)}
	id := s.submitProgram(burns(15), "SE")
	var behind []int64
	for i := range 10 {
		behind = append(behind, s.submitProgram(burns(0.01*float64(i+1))))
	}
	var mu sync.Mutex
	for i := range 3 {
		s.until(5*time.Minute, "the submission runs", func() bool {
			sub := s.submission(id)
			mu.Lock()
			defer mu.Unlock()
			return sub.State == gavelapi.StateJudging && sub.Progress != nil && sub.Progress.Phase == "running" &&
				len(sub.Detail.Attempts) == i+1 && !workers[sub.Worker].gone()
		})
		holder := s.submission(id).Worker
		mu.Lock()
		workers[holder].kill()
		mu.Unlock()
		// Coming back takes the time of the self-test; the other one must not
		// finish the submission meanwhile.
		s.aside(func() {
			p := s.program(holder, 0)
			mu.Lock()
			defer mu.Unlock()
			workers[holder] = p
		})
	}
	t.did("killed gavel-worker three times under the same submission")
	for _, id := range behind {
		s.awaitFinal(id, 3*time.Minute)
	}
	s.awaitFinal(id, 3*time.Minute)
	s.wantAttempts(id, "expired", "expired", "expired")
	s.settle(20 * time.Second)
}

func programStops(t *T) {
	s := programStand(t, 20*time.Second)
	workers := map[string]*process{"one": s.program("one", 0), "two": s.program("two", 0)}
	id := s.submitProgram(burns(6))
	rounds := t.rounds(3)
	longest, slowest := time.Duration(0), time.Duration(0)
	for range rounds {
		s.awaitJudging(id, "")
		holder := s.submission(id).Worker
		gen := s.number("select lease_gen::int from jobs where submission_id = $1", id)
		began := t.Clock.Now()
		if t.Sabotage {
			workers[holder].signal(syscall.SIGKILL)
		} else {
			workers[holder].signal(syscall.SIGTERM)
		}
		s.until(15*time.Second, "another worker has the job", func() bool {
			return s.number("select count(*) from jobs where submission_id = $1 and state = 'leased' and lease_gen > $2", id, gen) == 1
		})
		longest = max(longest, t.Clock.Now().Sub(began))
		s.until(15*time.Second, "the stopped worker ends", workers[holder].gone)
		slowest = max(slowest, t.Clock.Now().Sub(began))
		workers[holder] = s.program(holder, 0)
	}
	t.did("stopped the gavel-worker that had the job %d times", rounds)
	t.took("SIGTERM to another's lease, longest", longest, 5*time.Second)
	t.took("SIGTERM to the end of gavel-worker, longest", slowest, 10*time.Second)
	s.awaitFinal(id, 3*time.Minute)
	if n := s.number("select count(*) from attempts where submission_id = $1 and outcome not in ('released', 'completed')", id); n != 0 {
		t.Errorf("%d attempts were neither released nor completed", n)
	}
	s.settle(20 * time.Second)
}

func programDiskFull(t *T) {
	s := programStand(t, 20*time.Second)
	one := s.program("one", programDiskBytes)
	id := s.submitProgram(burns(3))
	s.awaitJudging(id, "one")
	ballast := ""
	if !t.Sabotage {
		ballast = one.fill(s.state("one"), 0)
	}
	t.did("filled the disk of gavel-worker while a program ran")
	// Either its result is delivered from memory, or the full disk is noticed
	// in the middle of the judging; then it is the host's fault and the job is
	// tried again where there is room.
	s.until(time.Minute, "the attempt ends", func() bool {
		return s.number("select count(*) from attempts where submission_id = $1 and outcome = 'running'", id) == 0
	})
	waiting := s.submitProgram(burns(0.01))
	t.wait(2 * time.Second)
	if n := s.number("select count(*) from attempts where submission_id = $1", waiting); n != 0 {
		t.Errorf("gavel-worker took work although its disk is full")
	}
	s.program("two", 0)
	for _, id := range []int64{id, waiting} {
		if sub := s.awaitFinal(id, 3*time.Minute); sub.Verdict != "AC" {
			t.Errorf("submission %d is %s", id, sub.Verdict)
		}
	}
	if ballast != "" {
		s.must(os.Remove(ballast), "make room")
	}
	s.until(30*time.Second, "gavel-worker claims again", func() bool { return one.said("claiming again") })
	if !one.said("not claiming") {
		t.Errorf("gavel-worker does not say why it takes nothing")
	}
	s.settle(20 * time.Second)
}

// programDiskBytes is room for sources, programs and outputs, and not for much
// more: gavel-worker keeps 8 MiB of it free.
const programDiskBytes = 64 << 20
