package sim

import (
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/lease"
)

// Violation is a broken promise.
type Violation struct {
	Rule string // I1 to I9, or a word of the list at checker
	Text string
	At   Instant
	Step int
}

func (v *Violation) Error() string {
	return fmt.Sprintf("%s broken at step %d (%v): %s", v.Rule, v.Step, v.At.Round(time.Millisecond), v.Text)
}

// checker watches a history from outside. It keeps its own account of what must
// be so (ghost) and never asks the model's conditions, so that a missing
// condition shows.
//
//	I1        one live lease a job, generations and tokens never reused, no two
//	          workers judging one job at once by their own clocks
//	I2        a report takes effect only by the live token of its worker
//	I3        one recorded result a job, one attempt a generation; "once": its
//	          completion happens once
//	I4        no worker holds more leases than it has slots
//	I6        every open job is pending, or leased by somebody for a time that
//	          has not passed long ago while a leader was at work
//	I8        only the live term grants and reclaims
//	I9        what a worker sends changes no job of another; with I2
//	attempts  are charged for every grant, except handed back and undelivered ones
//	early     no lease ends by expiry before the time that its holder was given
//	repeat    a repeated request gets no second grant while the first is held
//	answer    what a worker is told is so in the database
//	memory    a leader that is about to grant knows every live lease, or it
//	          could not count slots
//	matched   no job waits beside a worker that is free for it, for as long as
//	          the product's alarm takes, while a leader is at work
//	lost      no job leaves the open work but by becoming final
//	progress  everything comes to its end when the faults stop
//
// I5 is for the accounting, which the statements modelled here do not touch; I7
// is about locks, which a model in which statements are atomic has none of.
type checker struct {
	w         *World
	found     *Violation
	ghosts    []ghost // of job id at id-1
	tokens    map[Token]bool
	finals    int
	holding   []int // leases by worker, reused
	healthyAt Instant
}

type ghost struct {
	gen       int64
	live      Token
	worker    int64
	confirmed bool
	expires   Instant // the earliest time at which the lease may be taken back
	charged   int
	final     bool
	grantedAt Instant
}

func newChecker(w *World) *checker {
	return &checker{w: w, tokens: map[Token]bool{}, holding: make([]int, w.cfg.Workers+1)}
}

func (c *checker) fail(rule, format string, args ...any) {
	if c.found == nil {
		c.found = &Violation{Rule: rule, Text: fmt.Sprintf(format, args...), At: c.w.now, Step: c.w.steps}
	}
}

func (c *checker) ghost(job int64) *ghost {
	for int64(len(c.ghosts)) < job {
		c.ghosts = append(c.ghosts, ghost{})
	}
	return &c.ghosts[job-1]
}

// changed looks at one event that took effect.
func (c *checker) changed(ch change) {
	g, now, set := c.ghost(ch.was.ID), c.w.now, &c.w.cfg.Lease
	c.w.trace("job %d: %s gen %d token %d worker %d → %s", ch.was.ID, ch.event, ch.row.Gen, max(ch.was.Token, ch.row.Token), max(ch.was.Worker, ch.row.Worker), ch.row.State)
	if g.final {
		c.fail("I3", "%s on job %d, which is final", ch.event, ch.was.ID)
	}
	if ch.term != 0 && ch.term != c.w.db.Term {
		c.fail("I8", "%s of job %d in term %d, the leader's is %d", ch.event, ch.was.ID, ch.term, c.w.db.Term)
	}
	if cl := ch.claimed; cl != (Holder{}) && (cl.Token != g.live || cl.Worker != g.worker || cl.Job != ch.was.ID || g.live == 0) {
		rule := "I2"
		if cl.Worker != g.worker {
			rule = "I9"
		}
		c.fail(rule, "%s of job %d took effect by token %d of worker %d; live is token %d of worker %d", ch.event, ch.was.ID, cl.Token, cl.Worker, g.live, g.worker)
	}
	switch ch.event {
	case lease.Grant:
		r := ch.row
		switch {
		case g.live != 0:
			c.fail("I1", "job %d granted while token %d lives", r.ID, g.live)
		case r.Gen <= g.gen:
			c.fail("I1", "job %d granted with generation %d after %d", r.ID, r.Gen, g.gen)
		case c.tokens[r.Token]:
			c.fail("I1", "token %d granted twice", r.Token)
		}
		c.tokens[r.Token] = true
		c.exclusive(r)
		for _, o := range c.w.db.Open {
			if o != r && o.State == lease.Leased && o.Request == r.Request && c.ghost(o.ID).grantedAt != now {
				c.fail("repeat", "request %d got job %d while it holds job %d", r.Request, r.ID, o.ID)
			}
		}
		g.gen, g.live, g.worker, g.confirmed, g.expires, g.grantedAt = r.Gen, r.Token, r.Worker, false, now+set.Confirm, now
		g.charged++
		return
	case lease.Heartbeat:
		g.confirmed, g.expires = true, now+set.TTL
		if ch.term != 0 { // ExpireSession
			g.expires = now
		}
		return
	case lease.Expire:
		if now < g.expires {
			c.fail("early", "job %d taken back from worker %d, which had %v left", ch.was.ID, g.worker, g.expires-now)
		}
		if !g.confirmed {
			g.charged--
		}
	case lease.Release:
		g.charged--
	}
	g.live, g.worker = 0, 0
	if ch.row.State.Final() {
		g.final = true
		c.finals++
		if ch.row.State == lease.SystemError && g.charged < set.AttemptCap {
			c.fail("attempts", "job %d given up after %d attempts, the cap is %d", ch.was.ID, g.charged, set.AttemptCap)
		}
	}
}

// exclusive: when a job is granted, nobody may still be judging it in earnest.
func (c *checker) exclusive(r *Row) {
	for _, k := range c.w.workers {
		if !k.up || k.frozen {
			continue
		}
		for _, o := range k.runs {
			if o.Job == r.ID && o.phase == judging && !o.dead && k.clock() < o.end {
				c.fail("I1", "job %d granted to worker %d while worker %d judges it for another %v", r.ID, r.Worker, k.id, o.end-k.clock())
			}
		}
	}
}

// memory looks at a leader that is about to match.
func (c *checker) memory(l *leadership) {
	if l.term != c.w.db.Term {
		return // it cannot grant
	}
	for _, r := range c.w.db.Open {
		if r.State == lease.Leased && l.byToken(r.Token) == nil {
			c.fail("memory", "the leader of term %d does not know the lease of job %d gen %d by worker %d", l.term, r.ID, r.Gen, r.Worker)
		}
	}
}

// did looks at a statement as a whole.
func (c *checker) did(s Statement, out any) {
	set := &c.w.cfg.Lease
	switch s := s.(type) {
	case TakeOver:
		for _, r := range c.w.db.Open {
			if g := c.ghost(r.ID); g.live != 0 {
				g.expires = max(g.expires, c.w.now+set.TTL)
			}
		}
	case *HeldLeases:
		granted, _ := out.([]Granted)
		for _, l := range granted {
			g := c.ghost(l.Job)
			if g.live != l.Token {
				c.fail("I2", "a repeated request was answered with token %d of job %d; live is %d", l.Token, l.Job, g.live)
			}
			g.expires = max(g.expires, c.w.now+set.Confirm)
		}
	case PackageLeasedTo:
		holds := false
		for i := range c.ghosts {
			g := &c.ghosts[i]
			holds = holds || g.live != 0 && g.worker == s.Worker && c.w.packageOf(int64(i+1)) == s.Package
		}
		if may, _ := out.(bool); holds != may {
			c.fail("I9", "may worker %d read package %d? %v, but it holds a lease of it: %v", s.Worker, s.Package, out, holds)
		}
	case *RecordResults:
		done, _ := out.([]Holder)
		for _, h := range done {
			c.once(h.Job)
		}
	case complete:
		c.once(s.job)
	}
}

func (c *checker) once(job int64) {
	if n := c.w.db.Judgings[job-1].Completions; n != 1 {
		c.fail("I3", "the judging of job %d was completed %d times", job, n)
	}
}

// step looks at the tables after each event.
func (c *checker) step() {
	w := c.w
	db := w.db
	clear(c.holding)
	if !c.healthy() {
		c.healthyAt = w.now
	}
	if len(db.Open)+c.finals != len(db.Judgings) {
		c.fail("lost", "%d jobs are open and %d final of %d", len(db.Open), c.finals, len(db.Judgings))
	}
	for _, r := range db.Open {
		g := c.ghost(r.ID)
		if r.Attempts != g.charged || r.Attempts < 0 {
			c.fail("attempts", "job %d has %d attempts; %d were begun and not given back", r.ID, r.Attempts, g.charged)
		}
		if r.State == lease.Pending {
			if g.live != 0 || r.Token != 0 {
				c.fail("I6", "job %d is pending with token %d", r.ID, r.Token)
			}
			continue
		}
		if r.State != lease.Leased || r.Token == 0 || r.Worker == 0 || r.ExpiresAt == 0 || r.Token != g.live {
			c.fail("I6", "job %d is %s without a lease", r.ID, r.State)
			continue
		}
		c.holding[r.Worker]++
		if overdue := w.now - g.expires; overdue > lateBy && w.now-c.healthyAt > lateBy {
			c.fail("I6", "job %d is still leased to worker %d, %v after its time, though a leader works", r.ID, r.Worker, overdue)
		}
	}
	for id, n := range c.holding[1:] {
		if n > w.workers[id].total {
			c.fail("I4", "worker %d holds %d leases and has %d slots", id+1, n, w.workers[id].total)
		}
	}
}

// unmatched looks at an alarm that must never be raised.
func (c *checker) unmatched(l *leadership, summary string) {
	if l.term == c.w.db.Term && c.w.now-c.healthyAt > alarm.Default.Unmatched+lateBy {
		c.fail("matched", "%s", summary)
	}
}

// lateBy is how long a lease may outlive its time while a leader works: a full
// sweep, and some failed or slow statements.
const lateBy = 45 * time.Second

// healthy says whether somebody leads who could take leases back.
func (c *checker) healthy() bool {
	if c.w.downTill > c.w.now {
		return false
	}
	for _, a := range c.w.arbiters {
		if l := a.led; l != nil && a.up && !a.frozen && l.term == c.w.db.Term {
			return true
		}
	}
	return false
}

// answered compares what a worker was told of its report with the tables.
func (c *checker) answered(k *worker, rep report, ans answer) {
	db := c.w.db
	i, known := db.attemptOf[rep.token]
	if !known {
		c.fail("answer", "worker %d reported token %d, which was never granted", k.id, rep.token)
		return
	}
	a := db.Attempts[i]
	j := db.Judgings[a.Job-1]
	took := a.Outcome == lease.Failed
	if rep.verdict != "" {
		took = a.Outcome == lease.Completed && j.State == lease.Done && j.Gen == a.Gen && j.Verdict == rep.verdict
	}
	if took != (ans.outcome != discarded) {
		c.fail("answer", "worker %d was told %q of its report for job %d gen %d; the attempt is %s, the judging %s of gen %d", k.id, ans.outcome, a.Job, a.Gen, a.Outcome, j.State, j.Gen)
	}
}

// end audits the tables when everything has come to its end.
func (c *checker) end() {
	db := c.w.db
	completed := make([]int, len(db.Judgings)+1)
	gens := map[[2]int64]bool{}
	for _, a := range db.Attempts {
		key := [2]int64{a.Job, a.Gen}
		if gens[key] {
			c.fail("I3", "job %d has two attempts of generation %d", a.Job, a.Gen)
		}
		gens[key] = true
		if a.Outcome == lease.Running {
			c.fail("I6", "the attempt of job %d gen %d never ended", a.Job, a.Gen)
		}
		if a.Outcome == lease.Completed {
			completed[a.Job]++
			if j := db.Judgings[a.Job-1]; j.Gen != a.Gen || j.State != lease.Done {
				c.fail("I3", "job %d keeps the result of gen %d; gen %d completed", a.Job, j.Gen, a.Gen)
			}
		}
	}
	for i, j := range db.Judgings {
		done := j.State == lease.Done
		if !j.State.Final() || done != (completed[i+1] == 1) || done != (j.Completions == 1) || completed[i+1] > 1 {
			c.fail("I3", "job %d ended as %s with %d completed attempts and %d completions", i+1, j.State, completed[i+1], j.Completions)
		}
	}
}
