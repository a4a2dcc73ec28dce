package alarm

import "time"

// Kind is a kind of alarm. Names are a contract: they are stored, exported as
// labels and sent.
type Kind string

// The kinds.
const (
	// Unmatched: work waits, a worker that can do it is free, and they are not
	// brought together. It must never happen.
	Unmatched Kind = "unmatched"
	// DispatchStuck: the dispatch loop has not come round.
	DispatchStuck Kind = "dispatch_stuck"
	// JudgeDown: nobody is working while work waits.
	JudgeDown Kind = "judge_down"
	// OldestWaiting: the oldest work of a lane has waited for too long.
	OldestWaiting Kind = "oldest_waiting"
	// NoCapableWorker: work waits that no worker online can do.
	NoCapableWorker Kind = "no_capable_worker"
	// WorkerSetAside: a worker, or a language on it, gets nothing but probes.
	WorkerSetAside Kind = "worker_set_aside"
	// AttemptCap: work ended as a system error because its attempts are used up.
	AttemptCap Kind = "attempt_cap"
	// ResultDiscarded: a report came under a dead lease.
	ResultDiscarded Kind = "result_discarded"
	// LeaderChanged: another term began.
	LeaderChanged Kind = "leader_changed"
)

// Severity is how soon somebody should look.
type Severity string

// The severities.
const (
	Page   Severity = "page"   // now, also at night
	Ticket Severity = "ticket" // on a working day
	Info   Severity = "info"   // nothing to do; it explains other things
)

// Rule is how one kind behaves.
type Rule struct {
	Severity Severity
	For      time.Duration // how long its condition holds before it starts
	Clear    time.Duration // how long its condition is absent before it ends
}

// Settings are the adjustable parts of the rules.
type Settings struct {
	// Waiting is how long the oldest work of the lanes where people wait, run
	// and judge, may wait; Batch is the same for prepare and rejudge.
	Waiting, Batch time.Duration
	Down           time.Duration // how long nobody may be working while work waits
	Unmatched      time.Duration // how long a pair may stay apart
	Unserved       time.Duration // how long work may wait that nobody can do
	Stuck          time.Duration // how long the dispatch loop may stay away
	Clear          time.Duration // how long a condition is absent before its alarm ends
	Quiet          time.Duration // the same for what happens now and then
}

// Default are the settings that fit most sites.
var Default = Settings{
	Waiting: 2 * time.Minute, Batch: time.Hour, Down: time.Minute, Unmatched: 30 * time.Second, Unserved: 10 * time.Second,
	Stuck: 15 * time.Second, Clear: 5 * time.Second, Quiet: 10 * time.Minute,
}

// Rules are the rules under some settings.
func (s Settings) Rules() map[Kind]Rule {
	return map[Kind]Rule{
		Unmatched:       {Page, s.Unmatched, s.Clear},
		DispatchStuck:   {Page, 0, s.Clear},
		JudgeDown:       {Page, s.Down, s.Clear},
		OldestWaiting:   {Page, 0, s.Clear},
		NoCapableWorker: {Page, s.Unserved, s.Clear},
		WorkerSetAside:  {Ticket, 0, 0},
		AttemptCap:      {Ticket, 0, s.Quiet},
		ResultDiscarded: {Info, 0, s.Quiet},
		LeaderChanged:   {Info, 0, s.Quiet},
	}
}

// Kinds lists all kinds, the most urgent first.
func Kinds() []Kind {
	return []Kind{Unmatched, DispatchStuck, JudgeDown, OldestWaiting, NoCapableWorker, WorkerSetAside, AttemptCap, ResultDiscarded, LeaderChanged}
}
