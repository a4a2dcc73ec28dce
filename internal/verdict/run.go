package verdict

import "time"

// Limit names the limit that a supervisor enforced on a run. The values are
// those of sandbox.Limit; this package repeats them so that it depends on
// nothing.
type Limit string

// The limits. LimitNone means that the program ended by itself, or by a signal
// that the supervisor did not send.
const (
	LimitNone   Limit = ""
	LimitCPU    Limit = "cpu"
	LimitWall   Limit = "wall"
	LimitMemory Limit = "memory"
	LimitOutput Limit = "output"
)

// Run is what is known of one finished run. A limit of zero was not set and
// decides nothing.
type Run struct {
	Fired Limit // the limit that the supervisor enforced first

	CPU, CPULimit            time.Duration
	Wall, WallLimit          time.Duration
	MemoryBytes, MemoryLimit int64
	OutputBytes, OutputLimit int64

	OOMKills int // kills by the memory controller during the run
	ExitCode int // 0–255; meaningful when Signal is 0
	Signal   int // the signal that ended the program, 0 if none
}

// idleShare is the part of the CPU limit below which a program that ran into
// the wall limit is called idle: it waited instead of working.
const idleShare = 10 // 1/10

// OfRun says what a run deserves before anybody looks at its output. AC means
// only that: the run kept its limits and ended well, so ask the checker.
//
// The first limit that fired decides. Where the order is not known (the
// program ended by itself, or the kernel's memory controller killed while the
// supervisor saw time run out) the order is OLE, MLE, TLE, RE. Signals decide
// nothing by their number: SIGXCPU or SIGKILL that we did not send is RE.
//
// SE comes back only for a Run that no supervisor can report (an unknown
// limit); nothing that a program does leads there.
func OfRun(r Run) (Verdict, Reason) {
	switch r.Fired {
	case LimitOutput:
		return OLE, ReasonOutput
	case LimitMemory:
		return MLE, ReasonMemory
	case LimitCPU, LimitWall:
		// The memory controller kills on its own, and thrashing at the limit
		// eats time; so this is a tie, and memory comes before time.
		if r.OOMKills > 0 {
			return MLE, ReasonMemory
		}
		if r.Fired == LimitCPU || over(r.CPU, r.CPULimit) {
			return TLE, ReasonCPU
		}
		return TLE, wallReason(r)
	case LimitNone:
		return ofUnforced(r)
	}
	return SE, ReasonNone
}

// ofUnforced judges a program that the supervisor did not end.
func ofUnforced(r Run) (Verdict, Reason) {
	switch {
	case over(r.OutputBytes, r.OutputLimit):
		return OLE, ReasonOutput
	case r.OOMKills > 0, over(r.MemoryBytes, r.MemoryLimit):
		return MLE, ReasonMemory
	case over(r.CPU, r.CPULimit):
		return TLE, ReasonCPU
	case over(r.Wall, r.WallLimit):
		return TLE, wallReason(r)
	case r.Signal != 0:
		return RE, ReasonSignal
	case r.ExitCode != 0:
		return RE, ReasonExit
	}
	return AC, ReasonNone
}

func wallReason(r Run) Reason {
	if r.CPULimit > 0 && r.CPU < r.CPULimit/idleShare {
		return ReasonIdle
	}
	return ReasonWall
}

func over[T int64 | time.Duration](used, limit T) bool { return limit > 0 && used > limit }
