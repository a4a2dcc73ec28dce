package gavelapi

import "time"

// FeaturePrepare is what a worker declares that can verify packages.
const FeaturePrepare = "prepare"

// How much of a package is verified before it is published.
const (
	VerifyAll  = "all"  // everything, the default
	VerifyData = "data" // its programs, inputs and answers, but not its declared submissions
	VerifyNone = "none" // nothing: it is published at once
)

// States of a preparation.
const (
	PreparationPreparing  = "preparing"
	PreparationPublished  = "published"
	PreparationFailed     = "failed"
	PreparationSuperseded = "superseded"
)

// Preparation is what became of an import: workers verify the package, and only
// then it is published. Until then, and when it fails, the version before it
// stays live.
type Preparation struct {
	ID            int64  `json:"id"`
	Problem       string `json:"problem"`
	PackageDigest string `json:"package_digest"`
	Verify        string `json:"verify" enum:"all,data,none" doc:"how much is verified: everything; all but the declared submissions; nothing"`
	State         string `json:"state" enum:"preparing,published,failed,superseded"`
	Version       int    `json:"version,omitempty" doc:"of the problem, as which it was published"`
	Message       string `json:"message,omitempty" doc:"why it was not published"`
	// Fault is set when it failed because the system did, and not the package.
	Fault      *Fault     `json:"fault,omitempty" doc:"set when the system failed, not the package; import it again"`
	StepsDone  int        `json:"steps_done"`
	Steps      int        `json:"steps"`
	Waiting    string     `json:"waiting,omitempty" doc:"why its next step waits"`
	Worker     string     `json:"worker,omitempty" doc:"one that is at it"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
}

// PreparationReport is a preparation with all that was found.
type PreparationReport struct {
	Preparation
	Rows     []ReportRow `json:"rows" doc:"in the order of the steps"`
	Warnings []string    `json:"warnings,omitempty" doc:"what the importer said of the package"`
}

// Outcomes of a Finding, and of a ReportRow.
const (
	FindingOK      = "ok"
	FindingFailed  = "failed"
	FindingWaiting = "waiting" // not done yet
	FindingSkipped = "skipped"
	FindingFault   = "fault" // the system failed
)

// Finding is one thing that was looked at.
type Finding struct {
	Step    string `json:"step" doc:"build, answers, outputs, empty output, inputs, invalid inputs or submission"`
	What    string `json:"what" doc:"path in the package, or name of a test"`
	Outcome string `json:"outcome" doc:"ok or failed; in a report also waiting, skipped or fault"`
	Detail  string `json:"detail,omitempty"`
	TookUS  int64  `json:"took_us"`
}

// ReportRow is a finding with the worker that made it.
type ReportRow struct {
	Finding
	Worker string `json:"worker,omitempty"`
}

// Steps of a LeasePrepare.
const (
	StepChecker    = "checker"
	StepValidator  = "validator"
	StepRefusal    = "refusal"
	StepSubmission = "submission"
)

// LeasePrepare is the part of a lease of kind prepare that others have not.
// Package and language are where every lease has them; so are the limits, of a
// submission.
type LeasePrepare struct {
	Step string `json:"step" enum:"checker,validator,refusal,submission" doc:"build the checker and check the answers; build an input validator and check the inputs; build all input validators and check that each invalid input is refused; judge a submission of the package"`
	Path string `json:"path,omitempty" doc:"of the program, in the package"`
}

// PrepareReport is the outcome of a step in a worker's report. What is wrong
// with the package is a finding, never a fault.
type PrepareReport struct {
	// Verdict is set for a submission, which then has one finding.
	Verdict  string    `json:"verdict,omitempty" doc:"of a submission"`
	Findings []Finding `json:"findings"`
}
