package dispatch

import (
	"time"
)

// Lane is a kind of work in the order of going first.
type Lane uint8

// Lanes. Probes test a worker, runs have a person waiting at an editor.
const (
	Probe Lane = iota
	Run
	Judge
	Prepare
	Rejudge
	laneCount
)

var laneNames = [laneCount]string{"probe", "run", "judge", "prepare", "rejudge"}

func (l Lane) String() string {
	if l < laneCount {
		return laneNames[l]
	}
	return "unknown"
}

// ParseLane is the lane of a name.
func ParseLane(name string) (Lane, bool) {
	for l, n := range laneNames {
		if n == name {
			return Lane(l), true
		}
	}
	return 0, false
}

// Lanes lists all lanes in their order.
func Lanes() []Lane { return []Lane{Probe, Run, Judge, Prepare, Rejudge} }

// Priority classes. A lower one goes first; any value is allowed.
const (
	ClassBumped   = -1 // an operator has put it in front
	ClassContest  = 0
	ClassPractice = 1
	ClassBatch    = 2 // one of many that are rejudged together
)

// AlsoLanguage begins a feature that is one more language: the worker must offer
// it, as it must offer the job's own.
const AlsoLanguage = "language:"

// Needs are what a job asks of a worker beside its language.
type Needs struct {
	Features    []string // what the sandbox must support, e.g. "interactive", or AlsoLanguage and an id
	Tags        []string // what the operator must have given the worker
	MemoryBytes int64    // the limits it runs under; 0 is unknown and fits everywhere
	// Tight says that the time limit is so short that a slow worker could
	// judge it wrongly.
	Tight bool
}

// Job is a job as far as the rules look at it.
type Job struct {
	ID  int64 // grows with age: a smaller one is older
	Gen int64 // generation to expect when granting
	// Lane and Class decide when it goes, Submitter whose turn it is.
	Lane      Lane
	Class     int
	Submitter string
	// Retried says that it was out before: it does not wait for a turn again.
	Retried bool

	Language string // "" needs none
	Needs    Needs
	Problem  int64  // 0 for none; a brake may hold it
	Package  string // digest, for going where it is cached; "" for none
	// Batch is the rejudge it belongs to, 0 for none; Budget is how many of the
	// batch may be out at once, 0 for the policy's share.
	Batch  int64
	Budget int
	// Target is the only worker that may take it, 0 for any.
	Target int64
	// FailedBy lists workers that took this job and failed or lost it: they get
	// it again only when nobody else who is online could take it.
	FailedBy []int64
}

// Worker is an online worker.
type Worker struct {
	ID        int64
	Name      string
	Pool      string
	Rank      int // of its pool: a lower one is preferred
	Slots     int // leases it can hold at once
	Languages []string
	Features  []string
	Tags      []string
	Lanes     []Lane // the only lanes it takes; empty is all
	// MemoryBytes is the budget for the sum of limits in flight; 0 is unlimited.
	MemoryBytes int64
	Cached      []string // digests of packages it holds
	// Away is why it gets nothing but probes ("drained by an operator"), ""
	// when it works. AsideLanguages is the same for single languages.
	Away           string
	AsideLanguages map[string]string
	// Slow is why it is kept off tight limits while others can take them.
	Slow string
	// HeardAt is when it last said anything; it goes into words only.
	HeardAt time.Time
}

// Claim is a claim that waits for work.
type Claim struct {
	ID     int64 // the caller's
	Worker int64
	Slots  int // leases it asks for
}

// Grant gives a job to a claim.
type Grant struct {
	Job   Job
	Claim int64
}

// Brakes hold work that is waiting: a reason for each lane, language or
// problem. What is out already goes on.
type Brakes struct {
	Lanes     map[Lane]string
	Languages map[string]string
	Problems  map[int64]string
}

// Policy are the adjustable parts of the rules.
type Policy struct {
	// RunShare is the part of the slots, and of the grants, that the run lane
	// may take while other lanes wait: 0 < RunShare < 1.
	RunShare float64
	// Weights are the turns of judge, prepare and rejudge in one round.
	Weights map[Lane]int
	// Hold is the longest that a job is kept for a preferred worker that is
	// between two claims.
	Hold time.Duration
	// BatchShare is the part of the slots that one rejudge may take.
	BatchShare float64
}

// DefaultPolicy is for a site where people wait for verdicts.
var DefaultPolicy = Policy{
	RunShare: 0.5, Weights: map[Lane]int{Judge: 6, Prepare: 1, Rejudge: 1}, Hold: 500 * time.Millisecond, BatchShare: 0.75,
}
