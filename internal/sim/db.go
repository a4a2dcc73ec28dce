package sim

import (
	"slices"
	"time"

	"github.com/gavel-oj/gavel/internal/lease"
)

// Instant is a time by the database's clock, or a duration since its start.
type Instant = time.Duration

// Token names a lease. It is a UUID in the real thing, like Session and Request.
type Token int64

// Session names a process of a worker.
type Session int64

// Request names a claim, however often it is repeated.
type Request int64

// Row is a row of jobs. Columns that are null in a pending row are zero.
type Row struct {
	ID int64
	lease.Job
	Language  string
	Package   int64
	Token     Token
	ExpiresAt Instant
	Worker    int64
	Session   Session
	Request   Request
}

// Judging is a row of judgings; each job has one of the same id.
type Judging struct {
	State   lease.State // Pending stands for "open"
	Verdict string
	Gen     int64
	Worker  int64
	// Completions counts what the completion of a judging sets off.
	Completions int
}

// Attempt is a row of attempts.
type Attempt struct {
	Job     int64
	Gen     int64
	Token   Token
	Worker  int64
	Session Session
	Request Request
	Term    int64
	Outcome lease.Outcome
	Late    string // verdict of the late report, "" for none
}

// DB is the model of the tables. A statement is carried out at Now, as a whole.
type DB struct {
	Now       Instant
	Bugs      Bugs
	Term      int64
	Holder    string
	ValidTo   Instant
	Open      []*Row    // jobs, by id
	Judgings  []Judging // judging of job id at id-1
	Attempts  []Attempt // in the order of their grants
	byID      []*Row    // job id at id-1; nil once it is final
	attemptOf map[Token]int
	// changed is told of each change of a job, if set. was is the row before it.
	changed func(c change)
}

// A change is one event that took effect on one job.
type change struct {
	event   lease.Event
	by      Statement
	was     Row
	row     *Row // after it; its State is final when the row is gone
	outcome lease.Outcome
	// claimed is what the caller believed to hold; zero for leaders and cancels.
	claimed Holder
	term    int64 // of a leader's write, else 0
}

// NewDB makes empty tables with the leadership row of a fresh installation.
func NewDB(bugs Bugs) *DB { return &DB{Bugs: bugs, attemptOf: map[Token]int{}} }

// Holder is what a worker's call believes in.
type Holder struct {
	Job    int64
	Token  Token
	Worker int64
}

func (db *DB) row(id int64) *Row {
	if id < 1 || id > int64(len(db.byID)) {
		return nil
	}
	return db.byID[id-1]
}

// held returns the job's row if it is leased as h says (I2).
func (db *DB) held(h Holder) *Row {
	r := db.row(h.Job)
	if r == nil || r.State != lease.Leased || r.Token != h.Token || r.Worker != h.Worker {
		return nil
	}
	return r
}

// apply carries an event out on a row if it leads to the state that the
// statement writes ("" for any), and closes the attempt that it ends.
func (db *DB) apply(by Statement, r *Row, e lease.Event, to lease.State, attemptCap int, claimed Holder, term int64) bool {
	next, outcome, ok := lease.Apply(r.Job, e, attemptCap)
	if !ok || to != "" && next.State != to {
		return false
	}
	was := *r
	r.Job = next
	if outcome != lease.Running {
		db.Attempts[db.attemptOf[was.Token]].Outcome = outcome
	}
	if next.State != lease.Leased {
		r.Token, r.ExpiresAt, r.Worker, r.Session, r.Request = 0, 0, 0, 0, 0
	}
	if next.State.Final() {
		db.byID[r.ID-1] = nil
		i := slices.Index(db.Open, r)
		db.Open = slices.Delete(db.Open, i, i+1)
		j := &db.Judgings[r.ID-1]
		j.State = next.State
		if next.State != lease.Cancelled {
			j.Gen, j.Worker = was.Gen, was.Worker
		}
	}
	if db.changed != nil {
		db.changed(change{event: e, by: by, was: was, row: r, outcome: outcome, claimed: claimed, term: term})
	}
	return true
}

// leads is the fence of every write that only a leader may make (I8).
func (db *DB) leads(term int64, without Bugs) bool {
	return term == db.Term || db.Bugs.has(without)
}
