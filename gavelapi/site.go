package gavelapi

import "time"

// States of a submission.
const (
	StatePending     = "pending"
	StateJudging     = "judging"
	StateDone        = "done"
	StateSystemError = "system_error"
	StateCancelled   = "cancelled"
)

// Final says whether a state does not change any more by itself.
func Final(state string) bool {
	return state == StateDone || state == StateSystemError || state == StateCancelled
}

// NewSubmission is the body of POST /v1/submissions. Exactly one of Source and
// SourceBase64 is set; the second takes any bytes. It is the main file, the one
// that is compiled or started; Files are what it needs beside it.
type NewSubmission struct {
	Problem      string `json:"problem" minLength:"1" maxLength:"64" doc:"name of a published problem"`
	Language     string `json:"language" minLength:"1" maxLength:"32" doc:"language id, see GET /v1/languages"`
	Source       string `json:"source,omitempty" doc:"source as text"`
	SourceBase64 []byte `json:"source_base64,omitempty" doc:"source as base64, for any encoding"`
	SourceName   string `json:"source_name,omitempty" maxLength:"255" doc:"file name as the user knows it; with files, the name of the main file among them, by default the language's own"`
	// Files lie beside the main file under their names.
	Files    []SourceFile `json:"files,omitempty" maxItems:"63" doc:"further files of the source: units, headers, modules; the main one is in source or source_base64"`
	User     string       `json:"user,omitempty" maxLength:"128" doc:"the site's own name or id for the submitter"`
	StopRule string       `json:"stop_rule,omitempty" enum:"first,all" doc:"first: stop at the first failing test (default); all: run every test"`
	Priority string       `json:"priority,omitempty" enum:"contest,practice" doc:"contest goes before practice (default)"`
}

// SourceFile is one file of a source. At most one of Content and ContentBase64
// is set; with neither the file is empty.
type SourceFile struct {
	Name          string `json:"name" minLength:"1" maxLength:"64" doc:"without directories; letters, digits, dots, dashes and underscores, not beginning with a dot or a dash"`
	Content       string `json:"content,omitempty" doc:"as text"`
	ContentBase64 []byte `json:"content_base64,omitempty" doc:"as base64, for any encoding"`
}

// Bytes are the file's content.
func (f SourceFile) Bytes() []byte {
	if f.ContentBase64 != nil {
		return f.ContentBase64
	}
	return []byte(f.Content)
}

// SubmissionSource is the source of a submission, as it was handed in.
type SubmissionSource struct {
	SubmissionID int64        `json:"submission_id"`
	Language     string       `json:"language"`
	Files        []SourceFile `json:"files" doc:"the main one first; content is set where it is UTF-8, content_base64 elsewhere"`
}

// Priorities of a submission.
const (
	PriorityContest  = "contest"
	PriorityPractice = "practice"
)

// Submission is one source sent for one problem, with its current judging.
type Submission struct {
	ID            int64      `json:"id"`
	Problem       string     `json:"problem"`
	PackageDigest string     `json:"package_digest"`
	Language      string     `json:"language"`
	User          string     `json:"user,omitempty"`
	SourceName    string     `json:"source_name,omitempty"`
	SourceBytes   int64      `json:"source_bytes" doc:"of all files together"`
	SourceFiles   int        `json:"source_files" doc:"how many files it has, the main one included"`
	State         string     `json:"state" enum:"pending,judging,done,system_error,cancelled"`
	Waiting       string     `json:"waiting,omitempty" doc:"why it waits, while pending; while judging, that nothing is heard of its worker"`
	Verdict       string     `json:"verdict,omitempty" doc:"AC, WA, TLE, MLE, OLE, RE, CE; SE for a fault of the system"`
	CPUUS         int64      `json:"cpu_us"`
	WallUS        int64      `json:"wall_us"`
	MemoryBytes   int64      `json:"memory_bytes"`
	Progress      *Progress  `json:"progress,omitempty"`
	Rejudging     bool       `json:"rejudging,omitempty" doc:"a new judging is open beside this one"`
	Fault         *Fault     `json:"fault,omitempty"`
	Worker        string     `json:"worker,omitempty" doc:"who judges or judged it"`
	CreatedAt     time.Time  `json:"created_at"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
	// Detail is present when one submission is read, not in lists.
	Detail *SubmissionDetail `json:"detail,omitempty"`
}

// SubmissionDetail is what lists leave out.
type SubmissionDetail struct {
	JudgingID  int64        `json:"judging_id"`
	Limits     Limits       `json:"limits"`
	Compile    CompileInfo  `json:"compile"`
	Tests      []TestResult `json:"tests"`
	Provenance Provenance   `json:"provenance"`
	Attempts   []Attempt    `json:"attempts"`
	// Judgings is the history, oldest first; exactly one is current.
	Judgings []JudgingInfo `json:"judgings"`
	// Unreadable names parts that are stored in a form that nothing can read.
	Unreadable string `json:"unreadable,omitempty" doc:"which parts of what is stored cannot be read, why, and what to do; they are empty here"`
}

// SubmissionOutputs is what a submission wrote in the first tests that it
// failed. It may show tests' inputs, so it is for the jury.
type SubmissionOutputs struct {
	SubmissionID int64        `json:"submission_id"`
	JudgingID    int64        `json:"judging_id" doc:"the current one"`
	Outputs      []TestOutput `json:"outputs" doc:"of at most 4 tests, 4 KiB of each stream; empty when nothing was written or it was too long ago"`
}

// Attempt is one grant of a lease and how it ended.
type Attempt struct {
	JudgingID int64      `json:"judging_id" doc:"the judging that it was for, one of judgings"`
	LeaseGen  int64      `json:"lease_gen"`
	Worker    string     `json:"worker"`
	GrantedAt time.Time  `json:"granted_at"`
	EndedAt   *time.Time `json:"ended_at,omitempty"`
	Outcome   string     `json:"outcome" doc:"running, completed, failed, expired, undelivered, released, cancelled"`
	Blame     string     `json:"blame,omitempty"`
	Message   string     `json:"message,omitempty"`
	// LateReport is set when a report arrived after the lease was dead. It was
	// kept as evidence and changed nothing.
	LateReport string `json:"late_report,omitempty" doc:"verdict of a discarded report"`
}

// SubmissionList is a page, newest first. Next is empty on the last one.
type SubmissionList struct {
	Submissions []Submission `json:"submissions"`
	Next        string       `json:"next,omitempty" doc:"cursor of the next page"`
}

// ProblemInfo is a problem: its live version, or, as long as none was published
// (version 0), the package of its newest import.
type ProblemInfo struct {
	Name          string     `json:"name"`
	Title         string     `json:"title"`
	PackageDigest string     `json:"package_digest" doc:"of the live version, empty when none is published yet"`
	Version       int        `json:"version" doc:"counts publications of this problem; 0 when none is published yet"`
	Format        string     `json:"format" doc:"e.g. icpc-2025-09, icpc-legacy"`
	Tests         int        `json:"tests"`
	CPUMS         int64      `json:"cpu_ms"`
	MemoryBytes   int64      `json:"memory_bytes"`
	SizeBytes     int64      `json:"size_bytes"`
	PublishedAt   *time.Time `json:"published_at,omitempty"`
	Warnings      []string   `json:"warnings,omitempty"`
	// Preparation is that of the newest import.
	Preparation *Preparation `json:"preparation,omitempty" doc:"what became of the newest import, or is becoming of it"`
	// Unchanged is set in the answer to an import that brought what was already live.
	Unchanged bool `json:"unchanged,omitempty"`
}

// ProblemList is a page of problems by name.
type ProblemList struct {
	Problems []ProblemInfo `json:"problems"`
	Next     string        `json:"next,omitempty"`
}

// LanguageInfo is a language gavel knows.
type LanguageInfo struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Extensions []string `json:"extensions" doc:"file name endings, without the dot"`
	DefaultFor []string `json:"default_for,omitempty" doc:"endings for which this language is the first choice"`
	Versions   []string `json:"versions" doc:"offered by workers that are online now; empty when nobody offers it"`
}

// LanguageList lists every known language.
type LanguageList struct {
	Languages []LanguageInfo `json:"languages"`
}

// WorkerInfo is one worker as the arbiter sees it.
type WorkerInfo struct {
	ID           int64        `json:"id"`
	Name         string       `json:"name"`
	Pool         string       `json:"pool"`
	Rank         int          `json:"rank" doc:"of its pool: a lower one is preferred"`
	State        string       `json:"state" enum:"idle,busy,draining,paused,set_aside,asleep,offline"`
	Away         string       `json:"away,omitempty" doc:"why it gets no work, though it may be online"`
	AwayUntil    *time.Time   `json:"away_until,omitempty"`
	Tags         []string     `json:"tags,omitempty"`
	Lanes        []string     `json:"lanes,omitempty" doc:"the only lanes it takes; absent is all"`
	SpeedFactor  float64      `json:"speed_factor,omitempty" doc:"1 is the fleet's median, 2 takes twice as long"`
	Slots        int          `json:"slots"`
	Leases       int          `json:"leases"`
	LastSeenAt   *time.Time   `json:"last_seen_at,omitempty"`
	EnrolledAt   time.Time    `json:"enrolled_at"`
	Capabilities Capabilities `json:"capabilities"`
	Unreadable   string       `json:"unreadable,omitempty" doc:"why what is stored of the worker cannot be read, and what to do; it is empty here"`
}

// WorkerList lists every worker by name.
type WorkerList struct {
	Workers []WorkerInfo `json:"workers"`
}

// NewInvitation is the body of POST /v1/workers/invitations.
type NewInvitation struct {
	Pool         string `json:"pool,omitempty" maxLength:"64" doc:"pool of the worker that will use it; default"`
	ValidSeconds int64  `json:"valid_seconds,omitempty" minimum:"0" maximum:"604800" doc:"default 3600"`
	// Reason is for the audit trail.
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"why"`
}

// Invitation is a one-time code for POST /v1/worker/enrol. It is shown once.
type Invitation struct {
	Code      string    `json:"code"`
	Pool      string    `json:"pool"`
	ExpiresAt time.Time `json:"expires_at"`
}

// Problem is an error answer, application/problem+json (RFC 9457). It never
// echoes rejected values.
type Problem struct {
	Type     string         `json:"type" doc:"stable URI, /problems/CODE on the arbiter"`
	Title    string         `json:"title"`
	Status   int            `json:"status"`
	Detail   string         `json:"detail,omitempty"`
	Hint     string         `json:"hint,omitempty" doc:"what to do"`
	Instance string         `json:"instance,omitempty" doc:"request id"`
	Reason   string         `json:"reason,omitempty" doc:"of a 410: why the lease is dead"`
	Errors   []ProblemField `json:"errors,omitempty"`
	// RetryAfterMS repeats Retry-After for clients that read bodies.
	RetryAfterMS int64 `json:"retry_after_ms,omitempty"`
}

// ProblemField names one faulty place of a request.
type ProblemField struct {
	Location string `json:"location"`
	Message  string `json:"message"`
}

func (p *Problem) Error() string {
	s := p.Title
	if p.Detail != "" {
		s = p.Detail
	}
	if p.Hint != "" {
		s += " (" + p.Hint + ")"
	}
	return s
}

// Health is the body of /healthz and /readyz.
type Health struct {
	Status string            `json:"status" enum:"ok,unavailable"`
	Checks map[string]string `json:"checks,omitempty" doc:"leader, database, dispatch"`
}

// Version is the body of GET /v1/version.
type Version struct {
	Version  string `json:"version"`
	Commit   string `json:"commit"`
	Go       string `json:"go"`
	Protocol int    `json:"protocol"`
}
