// Package arbitertest is a small arbiter for tests of the worker: it keeps
// everything in memory, and it holds the worker to the protocol. Whatever a
// worker does that the protocol forbids is a violation, which Check turns into
// a test failure.
package arbitertest

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/clock"
)

// Token is the worker token that every Arbiter accepts.
const Token = "gvl_w_test"

// Invitation is what every Arbiter takes for enrolling, again and again.
const Invitation = "gvl_i_test"

// Fault is what happens to a call instead of an ordinary answer.
type Fault int

// The faults.
const (
	None      Fault = iota
	Cut             // the connection closes, nothing was done
	Lose            // it was done, and the answer is lost
	Hang            // no answer until the client gives up, nothing was done
	Busy            // 503 with Retry-After: 1
	Broken          // 500
	Forbidden       // 403
	Outdated        // 426
	BadInput        // 422
	Empty           // 204
	Corrupt         // package downloads: the bytes are wrong
	HalfWay         // package downloads: the connection closes in the middle
	Slow            // done at once, and answered after SlowBy
)

// SlowBy is how late a Slow answer comes.
const SlowBy = 8 * time.Second

// Call is one call that reached the arbiter.
type Call struct {
	Op string // claim, heartbeat, result, release, package
	N  int    // counts the calls of this op, from 1
	At time.Time
}

// Arbiter is the fake. Its fields may be set before the first call.
type Arbiter struct {
	TTL       time.Duration
	Heartbeat time.Duration
	Confirm   time.Duration
	// Fault, when set, decides what happens to a call.
	Fault func(Call) Fault

	clk clock.Clock

	mu         sync.Mutex
	changed    chan struct{} // closed and replaced at each change
	jobs       []*Job
	leases     map[string]*lease
	requests   map[string][]string // request id → lease tokens
	packages   map[string][]byte
	session    string
	seenAt     time.Time
	drain      bool
	cancels    []int64
	calls      []Call
	counts     map[string]int
	violations []string
	claims     []gavelapi.ClaimRequest
	waiting    map[string]bool // ids of claims that wait
	slots      int
	maxLeases  int
	servedFrom []int64
}

// Job is one piece of work and what became of it.
type Job struct {
	ID       int64
	Lease    gavelapi.Lease // what a worker gets, without the lease's own fields
	State    string         // pending, leased, done, cancelled
	Attempts []Attempt
	Report   *gavelapi.Report
	gen      int64
}

// Attempt is one grant and its end: running, completed, failed, expired,
// undelivered, released, cancelled.
type Attempt struct {
	Gen     int64
	Outcome string
	Blame   string
	Late    int // reports that came when the lease was dead
}

type lease struct {
	token     string
	session   string
	job       *Job
	gen       int64
	expires   time.Time
	confirmed bool
	dead      string // LeaseEnd
	answer    *gavelapi.ResultResponse
	last      time.Time
	maxGap    time.Duration
	phases    []string
}

// New makes an arbiter with the protocol's own times.
func New() *Arbiter {
	return &Arbiter{
		TTL: 60 * time.Second, Heartbeat: 5 * time.Second, Confirm: 10 * time.Second,
		clk: clock.System{}, changed: make(chan struct{}),
		leases: map[string]*lease{}, requests: map[string][]string{}, waiting: map[string]bool{}, packages: map[string][]byte{},
		counts: map[string]int{},
	}
}

// Submit queues a job for the package and returns its id; with l.Run it is a
// run, which has no package.
func (a *Arbiter) Submit(digest string, l gavelapi.Lease) int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	id := int64(len(a.jobs) + 1)
	l.JobID, l.SubmissionID, l.PackageDigest, l.Kind = id, 1000+id, digest, "judge"
	if l.Run != nil {
		l.SubmissionID, l.Kind = 0, "run"
	} else if l.StopRule == "" {
		l.StopRule = "first"
	}
	if l.Limits == (gavelapi.Limits{}) {
		l.Limits = gavelapi.Limits{CPUUS: 1e6, WallUS: 3e6, MemoryBytes: 256 << 20, OutputBytes: 64 << 20, Processes: 64}
	}
	a.jobs = append(a.jobs, &Job{ID: id, Lease: l, State: "pending"})
	a.notify()
	return id
}

// Job returns a copy of the job as it is now.
func (a *Arbiter) Job(id int64) Job {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.reap()
	j := *a.jobs[id-1]
	j.Attempts = slices.Clone(j.Attempts)
	return j
}

// Cancel ends the job; its lease, if any, is dead.
func (a *Arbiter) Cancel(id int64) { a.end(id, gavelapi.LeaseCancelled, "cancelled", "cancelled") }

// Expire takes the job's lease away as if its time were over.
func (a *Arbiter) Expire(id int64) { a.end(id, gavelapi.LeaseExpired, "expired", "pending") }

func (a *Arbiter) end(id int64, reason, outcome, state string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	j := a.jobs[id-1]
	for _, l := range a.leases {
		if l.job == j && l.dead == "" {
			a.kill(l, reason, outcome)
		}
	}
	j.State = state
	a.notify()
}

// Direct makes answers carry a cancel directive for the job, from now on.
func (a *Arbiter) Direct(id int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.cancels = append(a.cancels, id)
}

// Drain sets or lifts the drain directive. A drained worker gets no leases.
func (a *Arbiter) Drain(on bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.drain = on
	a.notify()
}

// Count is how many calls of op arrived.
func (a *Arbiter) Count(op string) int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.counts[op]
}

// Calls returns the calls that arrived, of one op or (with "") of all.
func (a *Arbiter) Calls(op string) []Call {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []Call
	for _, c := range a.calls {
		if op == "" || c.Op == op {
			out = append(out, c)
		}
	}
	return out
}

// Claims returns every claim request that was processed.
func (a *Arbiter) Claims() []gavelapi.ClaimRequest {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.claims)
}

// MaxGap is the longest time between two heartbeats of one lease so far.
func (a *Arbiter) MaxGap() time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	var gap time.Duration
	for _, l := range a.leases {
		gap = max(gap, l.maxGap)
	}
	return gap
}

// Phases lists the phases that heartbeats of the job told, without repeats.
func (a *Arbiter) Phases(id int64) []string {
	a.mu.Lock()
	defer a.mu.Unlock()
	var out []string
	for _, l := range a.leases {
		if l.job.ID == id {
			out = append(out, l.phases...)
		}
	}
	return out
}

// MaxLeases is the most leases that were alive at once.
func (a *Arbiter) MaxLeases() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.maxLeases
}

// ServedFrom lists the offsets from which packages were asked for.
func (a *Arbiter) ServedFrom() []int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.servedFrom)
}

// Check fails the test for each violation of the protocol.
func (a *Arbiter) Check(t testing.TB) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	for _, v := range a.violations {
		t.Errorf("protocol violated: %s", v)
	}
}

// Await waits until ok, which is asked again after each change, and fails the
// test when limit passes first.
func (a *Arbiter) Await(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	over := a.clk.After(limit)
	for {
		a.mu.Lock()
		changed := a.changed
		a.mu.Unlock()
		if ok() {
			return
		}
		select {
		case <-changed:
		case <-over:
			t.Fatalf("not within %v: %s", limit, what)
		}
	}
}

// AwaitState waits until the job has the state.
func (a *Arbiter) AwaitState(t testing.TB, limit time.Duration, id int64, state string) Job {
	t.Helper()
	a.Await(t, limit, fmt.Sprintf("job %d is %s", id, state), func() bool { return a.Job(id).State == state })
	return a.Job(id)
}

// notify wakes who waits. The caller holds mu.
func (a *Arbiter) notify() {
	close(a.changed)
	a.changed = make(chan struct{})
}

func (a *Arbiter) violate(format string, args ...any) {
	a.violations = append(a.violations, fmt.Sprintf(format, args...))
}

// reap ends leases whose time is over. The caller holds mu.
func (a *Arbiter) reap() {
	now := a.clk.Now()
	for _, l := range a.leases {
		if l.dead != "" || now.Before(l.expires) {
			continue
		}
		outcome := "expired"
		if !l.confirmed {
			outcome = "undelivered"
		}
		a.kill(l, gavelapi.LeaseExpired, outcome)
		l.job.State = "pending"
		a.notify()
	}
}

// kill ends a lease. The caller holds mu.
func (a *Arbiter) kill(l *lease, reason, outcome string) {
	l.dead = reason
	a.attempt(l).Outcome = outcome
}

func (a *Arbiter) attempt(l *lease) *Attempt {
	for i := range l.job.Attempts {
		if l.job.Attempts[i].Gen == l.gen {
			return &l.job.Attempts[i]
		}
	}
	panic("no attempt")
}

// grant leases up to n pending jobs. The caller holds mu.
func (a *Arbiter) grant(n int, session string) []string {
	var tokens []string
	for _, j := range a.jobs {
		if len(tokens) == n {
			break
		}
		if j.State != "pending" {
			continue
		}
		j.State = "leased"
		j.gen++
		j.Attempts = append(j.Attempts, Attempt{Gen: j.gen, Outcome: "running"})
		l := &lease{token: uuid.NewString(), session: session, job: j, gen: j.gen, expires: a.clk.Now().Add(a.Confirm)}
		a.leases[l.token] = l
		tokens = append(tokens, l.token)
	}
	if len(tokens) > 0 {
		a.maxLeases = max(a.maxLeases, a.live())
		a.notify()
	}
	return tokens
}

func (a *Arbiter) live() int {
	n := 0
	for _, l := range a.leases {
		if l.dead == "" {
			n++
		}
	}
	return n
}

// own counts the live leases of one session: a successor is not blamed for
// what its predecessor left.
func (a *Arbiter) own(session string) int {
	n := 0
	for _, l := range a.leases {
		if l.dead == "" && l.session == session {
			n++
		}
	}
	return n
}

func (a *Arbiter) wire(token string) gavelapi.Lease {
	l := a.leases[token]
	out := l.job.Lease
	out.LeaseToken, out.LeaseGen, out.Attempt = token, l.gen, len(l.job.Attempts)
	out.TTLMS, out.HeartbeatMS, out.ConfirmMS = a.TTL.Milliseconds(), a.Heartbeat.Milliseconds(), a.Confirm.Milliseconds()
	return out
}

func (a *Arbiter) directives() gavelapi.Directives {
	return gavelapi.Directives{Drain: a.drain, Cancel: slices.Clone(a.cancels)}
}

// Package returns a stored package's stream.
func (a *Arbiter) Package(digest string) ([]byte, bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	b, ok := a.packages[digest]
	return b, ok
}

// Rename changes what later leases of the job call their source.
func (a *Arbiter) Rename(id int64, sourceName string) {
	a.Locked(func() { a.jobs[id-1].Lease.SourceName = sourceName })
}

// Locked runs f while no call is being looked at, for what Fault reads.
func (a *Arbiter) Locked(f func()) {
	a.mu.Lock()
	defer a.mu.Unlock()
	f()
}

// AwaitExpiry waits until the running lease of the job is over by time.
func (a *Arbiter) AwaitExpiry(t testing.TB, limit time.Duration, id int64) {
	t.Helper()
	over := a.clk.After(limit)
	for {
		a.mu.Lock()
		a.reap()
		left, live := time.Duration(0), false
		for _, l := range a.leases {
			if l.job.ID == id && l.dead == "" {
				left, live = l.expires.Sub(a.clk.Now()), true
			}
		}
		a.mu.Unlock()
		if !live {
			return
		}
		select {
		case <-a.clk.After(max(left, time.Millisecond)):
		case <-over:
			t.Fatalf("the lease of job %d did not expire within %v", id, limit)
		}
	}
}
