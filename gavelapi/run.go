package gavelapi

import "time"

// StateRunning is the state of a run that a worker has. Its other states are
// those of a submission: pending, done, system_error, cancelled.
const StateRunning = "running"

// FeatureRun is what a worker declares that can do runs.
const FeatureRun = "run"

// NewRun is the body of POST /v1/runs: a program to run on inputs of one's
// own, without a problem. The source is given as in NewSubmission.
type NewRun struct {
	Language     string       `json:"language" minLength:"1" maxLength:"32" doc:"language id, see GET /v1/languages"`
	Source       string       `json:"source,omitempty" doc:"source as text"`
	SourceBase64 []byte       `json:"source_base64,omitempty" doc:"source as base64, for any encoding"`
	SourceName   string       `json:"source_name,omitempty" maxLength:"255" doc:"file name as the user knows it; with files, the name of the main file among them"`
	Files        []SourceFile `json:"files,omitempty" maxItems:"63" doc:"further files of the source"`
	// Inputs are run one after the other. Without any the program gets one
	// empty input.
	Inputs []RunInput `json:"inputs,omitempty" doc:"what the program reads, one run each, in this order; one empty input when there is none"`
	Limits RunLimits  `json:"limits,omitzero"`
	User   string     `json:"user,omitempty" maxLength:"128" doc:"the site's own name or id for who runs it"`
}

// RunInput is one standard input. At most one of Content and ContentBase64 is
// set; with neither it is empty.
type RunInput struct {
	Content       string `json:"content,omitempty" doc:"as text"`
	ContentBase64 []byte `json:"content_base64,omitempty" doc:"as base64, for any bytes"`
}

// Bytes are the input's content.
func (i RunInput) Bytes() []byte {
	if i.ContentBase64 != nil {
		return i.ContentBase64
	}
	return []byte(i.Content)
}

// RunLimits are what each input's run may use, as a package would say it: the
// language's rule is applied to them. 0 is the default.
type RunLimits struct {
	CPUUS       int64 `json:"cpu_us,omitempty" minimum:"0" doc:"CPU time; default 2 s"`
	MemoryBytes int64 `json:"memory_bytes,omitempty" minimum:"0" doc:"default 256 MiB"`
	OutputBytes int64 `json:"output_bytes,omitempty" minimum:"0" doc:"standard output that is kept, at which the program is stopped; default 1 MiB, less when there are many inputs"`
}

// Run is a program run on inputs. It is gone after ExpiresAt.
type Run struct {
	ID       int64  `json:"id"`
	Language string `json:"language"`
	User     string `json:"user,omitempty"`
	State    string `json:"state" enum:"pending,running,done,system_error,cancelled"`
	Waiting  string `json:"waiting,omitempty" doc:"why it waits, while pending"`
	// Progress counts inputs where that of a submission counts tests.
	Progress *Progress `json:"progress,omitempty" doc:"tests are inputs here"`
	Inputs   int       `json:"inputs" doc:"how many there are"`
	Limits   Limits    `json:"limits" doc:"of each input's run, after the language's rule"`
	// Compiled is set when it is done; when false there are no results and
	// Compile says why.
	Compiled   bool        `json:"compiled,omitempty" doc:"false when the source does not compile; then there are no results"`
	Compile    CompileInfo `json:"compile"`
	Results    []RunResult `json:"results" doc:"one for each input, in their order, when it is done"`
	Fault      *Fault      `json:"fault,omitempty"`
	Worker     string      `json:"worker,omitempty" doc:"who runs or ran it"`
	Provenance Provenance  `json:"provenance"`
	Attempts   []Attempt   `json:"attempts"`
	CreatedAt  time.Time   `json:"created_at"`
	FinishedAt *time.Time  `json:"finished_at,omitempty"`
	ExpiresAt  *time.Time  `json:"expires_at,omitempty" doc:"when it and its output are deleted"`
	Unreadable string      `json:"unreadable,omitempty" doc:"which parts of what is stored cannot be read, why, and what to do; they are empty here"`
}

// What ended a program. Limits are named as in TestResult.Reason.
const (
	EndedExit   = "exit"   // by itself; ExitCode says how
	EndedSignal = "signal" // by a signal that is none of ours
	EndedCPU    = "cpu"
	EndedWall   = "wall"
	EndedIdle   = "idle" // the wall limit, having hardly used the CPU
	EndedMemory = "memory"
	EndedOutput = "output"
)

// RunResult is what the program did with one input. Each output is in the
// field of text, or, when text could not carry it exactly or well, in the one
// of base64.
type RunResult struct {
	Ended        string `json:"ended" enum:"exit,signal,cpu,wall,idle,memory,output" doc:"what ended it: itself, a signal, or which limit"`
	ExitCode     int    `json:"exit_code"`
	Signal       int    `json:"signal,omitempty"`
	CPUUS        int64  `json:"cpu_us"`
	WallUS       int64  `json:"wall_us"`
	MemoryBytes  int64  `json:"memory_bytes"`
	Stdout       string `json:"stdout,omitempty" doc:"standard output, exactly"`
	StdoutBase64 []byte `json:"stdout_base64,omitempty" doc:"standard output that is no plain UTF-8 text"`
	StdoutCut    bool   `json:"stdout_cut,omitempty" doc:"there was more; its beginning is kept"`
	Stderr       string `json:"stderr,omitempty" doc:"standard error, exactly"`
	StderrBase64 []byte `json:"stderr_base64,omitempty" doc:"standard error that is no plain UTF-8 text"`
	StderrCut    bool   `json:"stderr_cut,omitempty" doc:"there was more; its beginning is kept"`
	Message      string `json:"message,omitempty" doc:"why it could not be started"`
}

// StdoutBytes is the standard output that was kept.
func (r RunResult) StdoutBytes() []byte {
	if r.StdoutBase64 != nil {
		return r.StdoutBase64
	}
	return []byte(r.Stdout)
}

// StderrBytes is the standard error that was kept.
func (r RunResult) StderrBytes() []byte {
	if r.StderrBase64 != nil {
		return r.StderrBase64
	}
	return []byte(r.Stderr)
}

// LeaseRun is the part of a lease of kind run that others have not. Source,
// files, language and limits are where every lease has them.
type LeaseRun struct {
	RunID  int64    `json:"run_id"`
	Inputs [][]byte `json:"inputs"`
}

// RunReport is the outcome of a run in a worker's report. Its outputs are
// always in base64.
type RunReport struct {
	Compiled bool        `json:"compiled"`
	Results  []RunResult `json:"results" doc:"one for each input, none when it did not compile"`
}
