package sim

import "strings"

// Bugs are faults that tests put into the model to show that the checks find
// them. Each takes away one protection.
type Bugs uint32

// The bugs. Those marked "was real" were found in this project.
const (
	ResultWithoutToken  Bugs = 1 << iota // a result is recorded for whatever lease its job has now
	ResultTrustsMemory                   // the arbiter looks whether the lease lives, the statement does not
	ReportByWorkerName                   // a result is recorded when its worker holds the job, by whatever lease
	ReclaimWithoutTerm                   // expired leases are taken back by whoever asks
	GrantWithoutTerm                     // leases are granted by whoever asks
	RefundTwice                          // a repeated hand-back refunds again
	NoConfirmation                       // a fresh lease lives for the whole TTL, confirmed or not
	WorkerClock                          // a heartbeat extends the lease by the worker's clock
	ForgetRequest                        // a new leader does not know which request a lease was granted to
	SlotsPerClaim                        // slots are counted for each claim instead of each worker; was real
	CompletionTwice                      // a repeated report completes the judging again
	ReclaimForgetsNewer                  // a late answer to a reclaim makes the leader forget the job's next lease; was real
	LetGoByJob                           // an old lease of a worker takes the newer one of the same job out of its count; was real
	RebuildInDoubt                       // a grant of unknown outcome is only looked up, though it may still commit; was real
	ChargeUndelivered                    // a grant that nobody received costs an attempt
	NoGrace                              // a new leader gives live leases no time
	WorkerTrustsTTL                      // a worker counts from the answer to a heartbeat instead of from its sending
	PassOver                             // the matching passes over one worker that asks
	AnswerBeforeCommit                   // a result is acknowledged although its commit is not known to have happened
	bugsEnd
)

var bugNames = []string{
	"result-without-token", "result-trusts-memory", "report-by-worker-name", "reclaim-without-term", "grant-without-term", "refund-twice",
	"no-confirmation", "worker-clock", "forget-request", "slots-per-claim", "completion-twice", "reclaim-forgets-newer",
	"let-go-by-job", "rebuild-in-doubt", "charge-undelivered", "no-grace", "worker-trusts-ttl", "pass-over", "answer-before-commit",
}

// AllBugs lists them, one by one.
func AllBugs() []Bugs {
	var all []Bugs
	for b := Bugs(1); b < bugsEnd; b <<= 1 {
		all = append(all, b)
	}
	return all
}

func (b Bugs) has(one Bugs) bool { return b&one != 0 }

// String names the bugs as -sim.bug takes them.
func (b Bugs) String() string {
	var names []string
	for i, name := range bugNames {
		if b.has(1 << i) {
			names = append(names, name)
		}
	}
	return strings.Join(names, ",")
}

// ParseBugs reads what String wrote; ok is false for a name that is none.
func ParseBugs(s string) (b Bugs, ok bool) {
	for name := range strings.SplitSeq(s, ",") {
		found := name == ""
		for i, known := range bugNames {
			if name == known {
				b, found = b|1<<i, true
			}
		}
		if !found {
			return 0, false
		}
	}
	return b, true
}
