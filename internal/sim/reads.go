package sim

import (
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
)

// PendingJobs is the statement of that name; returns []Row.
type PendingJobs struct{}

// Do implements Statement.
func (PendingJobs) Do(db *DB) any { return db.inState(lease.Pending) }

// LeasedJobs is the statement of that name; returns []Row.
type LeasedJobs struct{}

// Do implements Statement.
func (LeasedJobs) Do(db *DB) any { return db.inState(lease.Leased) }

func (db *DB) inState(s lease.State) []Row {
	var out []Row
	for _, r := range db.Open {
		if r.State == s {
			out = append(out, *r)
		}
	}
	return out
}

// Failure is a worker that has failed or lost a job.
type Failure struct{ Job, Worker int64 }

// FailedAttemptsOfOpenJobs is the statement of that name; returns []Failure,
// each once, in the order in which they happened first.
type FailedAttemptsOfOpenJobs struct{}

// Do implements Statement.
func (FailedAttemptsOfOpenJobs) Do(db *DB) any {
	var out []Failure
	seen := map[Failure]bool{}
	for i := range db.Attempts {
		a := &db.Attempts[i]
		f := Failure{a.Job, a.Worker}
		if (a.Outcome == lease.Failed || a.Outcome == lease.Expired) && db.row(a.Job) != nil && !seen[f] {
			seen[f] = true
			out = append(out, f)
		}
	}
	return out
}

// AttemptByToken is the statement of that name; returns the Attempt, with
// Job 0 when there is none.
type AttemptByToken struct{ Token Token }

// Do implements Statement.
func (s AttemptByToken) Do(db *DB) any {
	i, ok := db.attemptOf[s.Token]
	if !ok {
		return Attempt{}
	}
	return db.Attempts[i]
}

// KeepLateReport is the statement of that name; returns whether it was kept.
type KeepLateReport struct {
	Token   Token
	Verdict string
}

// Do implements Statement.
func (s KeepLateReport) Do(db *DB) any {
	i, ok := db.attemptOf[s.Token]
	if !ok {
		return false
	}
	a := &db.Attempts[i]
	if a.Outcome == lease.Running || a.Outcome == lease.Completed || a.Late != "" {
		return false
	}
	a.Late = s.Verdict
	return true
}

// PackageLeasedTo is the statement of that name; returns whether (I9).
type PackageLeasedTo struct {
	Worker  int64
	Package int64
}

// Do implements Statement.
func (s PackageLeasedTo) Do(db *DB) any {
	for _, r := range db.Open {
		if r.State == lease.Leased && r.Worker == s.Worker && r.Package == s.Package {
			return true
		}
	}
	return false
}

// TakeOver is store.TakeOver: a new term and grace for every live lease, in one
// transaction. It returns the term.
type TakeOver struct {
	Holder string
	Valid  time.Duration
	TTL    time.Duration
}

// Do implements Statement.
func (s TakeOver) Do(db *DB) any {
	db.Term++
	db.Holder, db.ValidTo = s.Holder, db.Now+s.Valid
	for _, r := range db.Open {
		if r.State == lease.Leased && !db.Bugs.has(NoGrace) {
			r.ExpiresAt = max(r.ExpiresAt, db.Now+s.TTL)
		}
	}
	return db.Term
}

// RenewLeadership is the statement of that name; Valid 0 is ResignLeadership.
// It returns whether the row is still the caller's.
type RenewLeadership struct {
	Term   int64
	Holder string
	Valid  time.Duration
}

// Do implements Statement.
func (s RenewLeadership) Do(db *DB) any {
	if db.Term != s.Term || db.Holder != s.Holder {
		return false
	}
	db.ValidTo = db.Now + s.Valid
	return true
}

// ReadLeadership is the statement of that name; returns whether the row has
// expired.
type ReadLeadership struct{}

// Do implements Statement.
func (ReadLeadership) Do(db *DB) any { return db.ValidTo <= db.Now }
