package gavelapi

// ProtocolVersion is the worker protocol that this code speaks. A worker sends
// it in ProtocolHeader; the arbiter refuses others with 426 before any lease.
const ProtocolVersion = 1

// Header names used by the API.
const (
	ProtocolHeader       = "Gavel-Protocol"
	IdempotencyKeyHeader = "Idempotency-Key"
	RequestIDHeader      = "X-Request-Id"
)

// EnrolRequest trades a one-time invitation for a worker's own token
// (POST /v1/worker/enrol, no other authorization).
type EnrolRequest struct {
	Invitation string `json:"invitation" doc:"one-time code from an administrator"`
	Name       string `json:"name" doc:"unique name of the worker; letters, digits, dot, dash, underscore" minLength:"1" maxLength:"64"`
}

// EnrolResponse carries the worker's identity. The token is shown once.
type EnrolResponse struct {
	WorkerID int64  `json:"worker_id"`
	Name     string `json:"name"`
	Pool     string `json:"pool"`
	Token    string `json:"token"`
}

// LanguageOffer is a language that passed the worker's self-test.
type LanguageOffer struct {
	ID      string `json:"id" doc:"language id, e.g. cpp17"`
	Version string `json:"version" doc:"what the compiler or interpreter says of itself"`
}

// Capabilities is what a worker can do. It is sent with every claim, so an
// arbiter that has just started knows it at once.
type Capabilities struct {
	Languages   []LanguageOffer `json:"languages"`
	Features    []string        `json:"features,omitempty" doc:"run: leases of kind run; prepare: leases of kind prepare; interactive: packages whose output validator talks with the submission"`
	MemoryBytes int64           `json:"memory_bytes" doc:"budget for the sum of limits in flight"`
	Cores       int             `json:"cores"`
	Arch        string          `json:"arch" doc:"e.g. amd64"`
	Build       string          `json:"build" doc:"version of the worker program"`
	Kernel      string          `json:"kernel"`
	MemoryMeter string          `json:"memory_meter" doc:"cgroup1, cgroup2 or rusage"`
	Sandbox     string          `json:"sandbox" doc:"cgroup layout: v1, v2 or hybrid; none when usage is only polled"`
	Weaker      []string        `json:"weaker,omitempty" doc:"protections this machine cannot give"`
}

// FeatureInteractive is what a worker declares that can run a submission
// together with an interactor.
const FeatureInteractive = "interactive"

// ClaimRequest asks for work (POST /v1/worker/claim). Repeating a RequestID
// returns the same leases and grants no more.
type ClaimRequest struct {
	RequestID       string       `json:"request_id" format:"uuid"`
	Session         string       `json:"session" format:"uuid" doc:"random per process start"`
	PreviousSession string       `json:"previous_session,omitempty" doc:"the session that this process succeeds, from its state directory"`
	Slots           int          `json:"slots" minimum:"1" maximum:"1024" doc:"leases it can take now"`
	TotalSlots      int          `json:"total_slots" minimum:"1" maximum:"1024" doc:"all slots of this worker, busy ones included"`
	WaitMS          int64        `json:"wait_ms" minimum:"0" maximum:"25000"`
	Capabilities    Capabilities `json:"capabilities"`
	Cached          []string     `json:"cached,omitempty" doc:"digests of packages it holds"`
}

// ClaimResponse carries 1…Slots leases. An empty claim is answered 204.
type ClaimResponse struct {
	Leases     []Lease    `json:"leases"`
	Directives Directives `json:"directives,omitzero"`
}

// Directives steer a worker from within any answer.
type Directives struct {
	Drain  bool    `json:"drain,omitempty" doc:"finish what runs, claim nothing"`
	Cancel []int64 `json:"cancel,omitempty" doc:"job ids whose lease is dead: kill and forget"`
}

// Lease is the right to do one job for a while. The worker heartbeats at once
// on receipt (an unconfirmed lease lives for ConfirmMS only) and then every
// HeartbeatMS; it stops by itself when TTLMS less a margin has passed since it
// sent the last heartbeat that was answered.
type Lease struct {
	JobID       int64  `json:"job_id"`
	Kind        string `json:"kind" doc:"judge, rejudge, run or prepare"`
	Attempt     int    `json:"attempt"`
	LeaseToken  string `json:"lease_token" format:"uuid"`
	LeaseGen    int64  `json:"lease_gen"`
	TTLMS       int64  `json:"ttl_ms"`
	ConfirmMS   int64  `json:"confirm_ms"`
	HeartbeatMS int64  `json:"heartbeat_ms"`

	SubmissionID int64  `json:"submission_id"`
	Language     string `json:"language"`
	SourceName   string `json:"source_name,omitempty" doc:"as the user called it; for messages only, unless there are files: then the name of source among them"`
	Source       []byte `json:"source"`
	// Files are what lies beside Source, which is then called SourceName.
	Files         []LeaseFile `json:"files,omitempty" doc:"further files of the source"`
	Problem       string      `json:"problem"`
	PackageDigest string      `json:"package_digest"`
	Limits        Limits      `json:"limits"`
	StopRule      string      `json:"stop_rule" doc:"first or all; empty for a run"`
	// Run is set for kind run, which has no submission, problem or package.
	Run *LeaseRun `json:"run,omitempty"`
	// Prepare is set for kind prepare, which has a package and no submission.
	Prepare *LeasePrepare `json:"prepare,omitempty"`
}

// LeaseFile is a further file of a source.
type LeaseFile struct {
	Name    string `json:"name"`
	Content []byte `json:"content"`
}

// Limits are the effective limits of a judging: package × language rule,
// computed by the arbiter and echoed in the result.
type Limits struct {
	CPUUS       int64 `json:"cpu_us"`
	WallUS      int64 `json:"wall_us"`
	MemoryBytes int64 `json:"memory_bytes"`
	OutputBytes int64 `json:"output_bytes"`
	Processes   int   `json:"processes"`
}

// HeartbeatRequest keeps one lease alive (POST /v1/worker/heartbeat).
type HeartbeatRequest struct {
	LeaseToken string    `json:"lease_token" format:"uuid"`
	Progress   *Progress `json:"progress,omitempty"`
}

// Progress is how far a judging is. It never overwrites a recorded result.
type Progress struct {
	Phase      string `json:"phase" enum:"fetching,compiling,running,reporting"`
	TestsDone  int    `json:"tests_done"`
	TestsTotal int    `json:"tests_total"`
}

// HeartbeatResponse answers a live lease; a dead one gets 410 with a Problem
// whose Reason is a LeaseEnd.
type HeartbeatResponse struct {
	TTLMS      int64      `json:"ttl_ms" doc:"time left, counted from the request"`
	Directives Directives `json:"directives,omitzero"`
}

// Reasons why a lease is dead, in Problem.Reason of a 410 and in
// ResultResponse.Reason of a discarded report.
const (
	LeaseExpired    = "expired"
	LeaseSuperseded = "superseded"
	LeaseCancelled  = "cancelled"
	LeaseFinished   = "finished"
	LeaseReleased   = "released"
	LeaseUnknown    = "unknown"
)

// Blames of a Fault.
const (
	BlameHost      = "host"
	BlameToolchain = "toolchain"
	BlamePackage   = "package"
	BlameChecker   = "checker"
)

// Fault is a failure of the system. It is never a verdict on the user.
type Fault struct {
	Blame   string `json:"blame" enum:"host,toolchain,package,checker"`
	Message string `json:"message" doc:"what failed and what to do"`
}

// ResultRequest reports how a job went (POST /v1/worker/result): a verdict, or
// a fault. Repeating it returns the same answer and changes nothing.
type ResultRequest struct {
	LeaseToken string `json:"lease_token" format:"uuid"`
	Report     Report `json:"report"`
}

// Report is the outcome of one attempt. Exactly one of Verdict, Run, Prepare and
// Fault is set.
type Report struct {
	Verdict     string         `json:"verdict,omitempty" doc:"AC, WA, TLE, MLE, OLE, RE or CE"`
	Run         *RunReport     `json:"run,omitempty" doc:"of a lease of kind run"`
	Prepare     *PrepareReport `json:"prepare,omitempty" doc:"of a lease of kind prepare"`
	Fault       *Fault         `json:"fault,omitempty"`
	CPUUS       int64          `json:"cpu_us" doc:"largest over the tests run"`
	WallUS      int64          `json:"wall_us" doc:"largest over the tests run"`
	MemoryBytes int64          `json:"memory_bytes" doc:"largest over the tests run"`
	Compile     CompileInfo    `json:"compile"`
	Tests       []TestResult   `json:"tests"`
	Outputs     []TestOutput   `json:"outputs,omitempty" doc:"of the first tests that are not AC, in the order of tests; not of tests that wrote nothing"`
	Limits      Limits         `json:"limits" doc:"as given in the lease"`
	Provenance  Provenance     `json:"provenance"`
}

// One says whether exactly one of Verdict, Run, Prepare and Fault is set.
func (r Report) One() bool {
	n := 0
	for _, set := range []bool{r.Verdict != "", r.Run != nil, r.Prepare != nil, r.Fault != nil} {
		if set {
			n++
		}
	}
	return n == 1
}

// CompileInfo says how compiling went; Log is cut at a limit and always UTF-8.
type CompileInfo struct {
	Log    string `json:"log,omitempty"`
	LogCut bool   `json:"log_cut,omitempty"`
	Reason string `json:"reason,omitempty" doc:"when the compiler was stopped: cpu, wall, memory, output"`
	CPUUS  int64  `json:"cpu_us"`
	WallUS int64  `json:"wall_us"`
	// Cached says that the program came from an earlier compile of the same
	// source, whose times these are.
	Cached bool `json:"cached,omitempty" doc:"an earlier compile of the same source was used; the times are its"`
	// Precompiled says that the compiler used a header compiled ahead.
	Precompiled bool `json:"precompiled,omitempty" doc:"the compiler used a header compiled ahead"`
	// Header is why it did not, where the source could have used one.
	Header string `json:"header,omitempty" maxLength:"32" doc:"why no header compiled ahead was used where the source could have: being_made, failed, redone"`
}

// SkippedTest is the verdict of a test that was not run.
const SkippedTest = "skipped"

// TestResult is one test, in the package's order. A final judging has a row
// for each test, none of them pending.
type TestResult struct {
	Name        string `json:"name"`
	Sample      bool   `json:"sample,omitempty"`
	Verdict     string `json:"verdict" doc:"AC, WA, TLE, MLE, OLE, RE or skipped"`
	Reason      string `json:"reason,omitempty" doc:"which limit fired or what ended it: cpu, wall, idle, memory, output, exit, signal, checker"`
	CPUUS       int64  `json:"cpu_us"`
	WallUS      int64  `json:"wall_us"`
	MemoryBytes int64  `json:"memory_bytes"`
	OutputBytes int64  `json:"output_bytes"`
	ExitCode    int    `json:"exit_code"`
	Signal      int    `json:"signal,omitempty"`
	Message     string `json:"message,omitempty" doc:"what the checker said, for the jury"`
	// Attempts are all runs of the test, in their order, when its time was
	// near the limit and it was run again. The fields above are those of the
	// run that counts.
	Attempts []TestAttempt `json:"attempts,omitempty" doc:"every run of the test, when it was run more than once because its time was near the limit or the machine was busy"`
}

// TestOutput is the beginning of what a program wrote in a test that it failed.
type TestOutput struct {
	Test      string `json:"test" doc:"name of the test"`
	Stdout    string `json:"stdout,omitempty" doc:"bytes that are no UTF-8, and NUL, are replaced by U+FFFD; empty when an interactor read it"`
	StdoutCut bool   `json:"stdout_cut,omitempty" doc:"there was more"`
	Stderr    string `json:"stderr,omitempty"`
	StderrCut bool   `json:"stderr_cut,omitempty" doc:"there was more"`
}

// TestAttempt is what one of several runs of a test took.
type TestAttempt struct {
	CPUUS  int64 `json:"cpu_us"`
	WallUS int64 `json:"wall_us"`
}

// Provenance says who judged and with what.
type Provenance struct {
	WorkerBuild      string `json:"worker_build"`
	Kernel           string `json:"kernel"`
	MemoryMeter      string `json:"memory_meter"`
	CPUMeter         string `json:"cpu_meter"`
	Toolchain        string `json:"toolchain" doc:"version of the compiler or interpreter used"`
	CheckerToolchain string `json:"checker_toolchain,omitempty"`
	PackageDigest    string `json:"package_digest"`
	// Stages says where the time of this attempt went on the worker, in µs.
	Stages map[string]int64 `json:"stages_us,omitempty"`
}

// ResultResponse says what became of a report.
type ResultResponse struct {
	Outcome    string     `json:"outcome" enum:"recorded,already_recorded,discarded"`
	Reason     string     `json:"reason,omitempty" doc:"why it was discarded: a LeaseEnd; of a recorded one, what the arbiter did not believe and recorded as a fault of this worker"`
	Directives Directives `json:"directives,omitzero"`
}

// Outcomes of a report.
const (
	OutcomeRecorded        = "recorded"
	OutcomeAlreadyRecorded = "already_recorded"
	OutcomeDiscarded       = "discarded"
)

// ReleaseRequest hands a lease back without cost (POST /v1/worker/release).
type ReleaseRequest struct {
	LeaseToken string `json:"lease_token" format:"uuid"`
	Reason     string `json:"reason" enum:"shutdown,drain,cannot"`
}

// ReleaseResponse says whether the lease was still held.
type ReleaseResponse struct {
	Released bool   `json:"released"`
	Reason   string `json:"reason,omitempty" doc:"why not: a LeaseEnd"`
}
