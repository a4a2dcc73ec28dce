package sim

import (
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
)

// Statement is a call of internal/store with its arguments. Do carries it out
// on the model and returns its rows, ordered by job where there are several.
type Statement interface{ Do(db *DB) any }

// Submit inserts a job with its judging; returns its id.
type Submit struct{ Language string }

// Do implements Statement.
func (s Submit) Do(db *DB) any {
	id := int64(len(db.byID)) + 1
	r := &Row{ID: id, Job: lease.Job{State: lease.Pending}, Language: s.Language, Package: id % packages}
	db.byID, db.Open = append(db.byID, r), append(db.Open, r)
	db.Judgings = append(db.Judgings, Judging{State: lease.Pending})
	return r.ID
}

// GrantInput is one row of a grant batch.
type GrantInput struct {
	Job     int64
	Gen     int64 // before the grant
	Token   Token
	Worker  int64
	Session Session
	Request Request
}

// Granted is a lease as a worker gets it.
type Granted struct {
	Job      int64
	Gen      int64
	Token    Token
	Attempts int
}

// GrantLeases is the statement of that name; returns []Granted.
type GrantLeases struct {
	Inputs  []GrantInput
	Confirm time.Duration
	Term    int64
}

// Do implements Statement.
func (s *GrantLeases) Do(db *DB) any {
	var out []Granted
	for _, in := range s.Inputs {
		r := db.row(in.Job)
		if r == nil || r.State != lease.Pending || r.Gen != in.Gen || !db.leads(s.Term, GrantWithoutTerm) {
			continue
		}
		r.Token, r.Worker, r.Session, r.Request = in.Token, in.Worker, in.Session, in.Request
		r.ExpiresAt = db.Now + s.Confirm
		db.attemptOf[in.Token] = len(db.Attempts)
		db.Attempts = append(db.Attempts, Attempt{
			Job: r.ID, Gen: r.Gen + 1, Token: in.Token, Worker: in.Worker,
			Session: in.Session, Request: in.Request, Term: s.Term, Outcome: lease.Running,
		})
		db.apply(s, r, lease.Grant, lease.Leased, 0, Holder{}, s.Term)
		out = append(out, Granted{Job: r.ID, Gen: r.Gen, Token: r.Token, Attempts: r.Attempts})
	}
	return out
}

// HeldLeases is the statement of that name; returns []Granted.
type HeldLeases struct {
	Jobs    []int64
	Worker  int64
	Request Request
	Confirm time.Duration
	Term    int64
}

// Do implements Statement.
func (s *HeldLeases) Do(db *DB) any {
	var out []Granted
	for _, id := range s.Jobs {
		r := db.row(id)
		if r == nil || r.State != lease.Leased || r.Worker != s.Worker || r.Request != s.Request || !db.leads(s.Term, 0) {
			continue
		}
		r.ExpiresAt = max(r.ExpiresAt, db.Now+s.Confirm)
		out = append(out, Granted{Job: r.ID, Gen: r.Gen, Token: r.Token, Attempts: r.Attempts})
	}
	return out
}

// ExtendLeases is the statement of that name; returns the []Holder extended.
type ExtendLeases struct {
	Inputs []Holder
	TTL    time.Duration
	// workerNow is used by the bug WorkerClock alone.
	workerNow time.Duration
}

// Do implements Statement.
func (s *ExtendLeases) Do(db *DB) any {
	var out []Holder
	for _, in := range s.Inputs {
		r := db.held(in)
		if r == nil {
			continue
		}
		r.ExpiresAt = db.Now + s.TTL
		if db.Bugs.has(WorkerClock) {
			r.ExpiresAt = s.workerNow + s.TTL
		}
		db.apply(s, r, lease.Heartbeat, lease.Leased, 0, in, 0)
		out = append(out, in)
	}
	return out
}

// ResultInput is one verdict.
type ResultInput struct {
	Holder
	Verdict string
}

// RecordResults is the statement of that name; returns the []Holder recorded.
type RecordResults struct{ Inputs []ResultInput }

// Do implements Statement.
func (s *RecordResults) Do(db *DB) any {
	var out []Holder
	for _, in := range s.Inputs {
		r := db.held(in.Holder)
		if other := db.row(in.Job); other != nil && other.State == lease.Leased &&
			(db.Bugs.has(ResultWithoutToken|ResultTrustsMemory) || db.Bugs.has(ReportByWorkerName) && other.Worker == in.Worker) {
			r = other
		}
		if r == nil {
			continue
		}
		db.apply(s, r, lease.Result, lease.Done, 0, in.Holder, 0)
		j := &db.Judgings[r.ID-1]
		j.Verdict = in.Verdict
		j.Completions++
		out = append(out, in.Holder)
	}
	return out
}

// complete is what the bug CompletionTwice does.
type complete struct{ job int64 }

func (s complete) Do(db *DB) any {
	db.Judgings[s.job-1].Completions++
	return nil
}

// Returned is a job that waits again.
type Returned struct{ Job, Gen int64 }

// ReturnFailed is the statement of that name; returns []Returned.
type ReturnFailed struct {
	Holder
	AttemptCap int
}

// Do implements Statement.
func (s *ReturnFailed) Do(db *DB) any {
	r := db.held(s.Holder)
	if r == nil || !db.apply(s, r, lease.Fault, lease.Pending, s.AttemptCap, s.Holder, 0) {
		return []Returned(nil)
	}
	return []Returned{{r.ID, r.Gen}}
}

// GiveUpFailed is the statement of that name; returns the []int64 given up.
type GiveUpFailed struct {
	Holder
	AttemptCap int
}

// Do implements Statement.
func (s *GiveUpFailed) Do(db *DB) any {
	r := db.held(s.Holder)
	if r == nil || !db.apply(s, r, lease.Fault, lease.SystemError, s.AttemptCap, s.Holder, 0) {
		return []int64(nil)
	}
	return []int64{r.ID}
}

// ReleaseLease is the statement of that name; returns []Returned.
type ReleaseLease struct{ Holder }

// Do implements Statement.
func (s *ReleaseLease) Do(db *DB) any {
	r := db.held(s.Holder)
	if r == nil {
		if r = db.row(s.Job); r != nil && db.Bugs.has(RefundTwice) {
			r.Attempts--
		}
		return []Returned(nil)
	}
	db.apply(s, r, lease.Release, lease.Pending, 0, s.Holder, 0)
	return []Returned{{r.ID, r.Gen}}
}

// Requeued is a lease that was taken back.
type Requeued struct {
	Job, Gen  int64
	Confirmed bool
}

// Reclaimed is what Reclaim returns.
type Reclaimed struct {
	Requeued []Requeued
	Ended    []int64
}

// Reclaim is store.Reclaim: RequeueExpired and GiveUpExpired in one transaction.
type Reclaim struct {
	Term       int64
	AttemptCap int
}

// Do implements Statement.
func (s *Reclaim) Do(db *DB) any {
	var out Reclaimed
	if !db.leads(s.Term, ReclaimWithoutTerm) {
		return out
	}
	expired := make([]*Row, 0, 4)
	for _, r := range db.Open {
		if r.State == lease.Leased && r.ExpiresAt <= db.Now {
			expired = append(expired, r)
		}
	}
	for _, r := range expired {
		gen, confirmed := r.Gen, r.Confirmed
		if db.Bugs.has(ChargeUndelivered) {
			r.Confirmed = true
		}
		switch {
		case db.apply(s, r, lease.Expire, lease.Pending, s.AttemptCap, Holder{}, s.Term):
			out.Requeued = append(out.Requeued, Requeued{r.ID, gen, confirmed})
		case db.apply(s, r, lease.Expire, lease.SystemError, s.AttemptCap, Holder{}, s.Term):
			out.Ended = append(out.Ended, r.ID)
		}
	}
	return out
}

// CancelOpenJob is the statement of that name; returns whether a job was ended.
type CancelOpenJob struct{ Job int64 }

// Do implements Statement.
func (s CancelOpenJob) Do(db *DB) any {
	r := db.row(s.Job)
	return r != nil && db.apply(s, r, lease.Cancel, lease.Cancelled, 0, Holder{}, 0)
}

// ExpireSession is the statement of that name; returns the number of leases.
type ExpireSession struct {
	Worker  int64
	Session Session
	Term    int64
}

// Do implements Statement.
func (s *ExpireSession) Do(db *DB) any {
	n := 0
	for _, r := range db.Open {
		if r.State == lease.Leased && r.Worker == s.Worker && r.Session == s.Session && db.leads(s.Term, 0) {
			r.ExpiresAt = db.Now
			db.apply(s, r, lease.Heartbeat, lease.Leased, 0, Holder{}, s.Term)
			n++
		}
	}
	return n
}
