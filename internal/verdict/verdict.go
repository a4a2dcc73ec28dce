// Package verdict holds the verdicts and the rules that pick one: of a run
// from what the supervisor saw, and of a submission from its tests. It is
// pure; judging.md's tables are its tests.
package verdict

// Verdict is the answer to a submission or a test.
type Verdict string

// The verdicts. SE is a fault of the system, never of the user; Skipped is
// only ever the verdict of a test that was not run.
const (
	AC      Verdict = "AC"
	WA      Verdict = "WA"
	TLE     Verdict = "TLE"
	MLE     Verdict = "MLE"
	OLE     Verdict = "OLE"
	RE      Verdict = "RE"
	CE      Verdict = "CE"
	SE      Verdict = "SE"
	Skipped Verdict = "skipped"
)

// Reason says what exactly led to a verdict.
type Reason string

// The reasons.
const (
	ReasonNone    Reason = ""
	ReasonCPU     Reason = "cpu"
	ReasonWall    Reason = "wall"
	ReasonIdle    Reason = "idle" // wall limit with almost no CPU used
	ReasonMemory  Reason = "memory"
	ReasonOutput  Reason = "output"
	ReasonExit    Reason = "exit"
	ReasonSignal  Reason = "signal"
	ReasonChecker Reason = "checker"
)
