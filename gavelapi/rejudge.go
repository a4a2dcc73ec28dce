package gavelapi

import "time"

// States of a rejudge.
const (
	RejudgeRunning   = "running"   // judgings are open
	RejudgeReady     = "ready"     // all are final; apply or discard
	RejudgeApplied   = "applied"   // wholly or in part
	RejudgeDiscarded = "discarded" // the old verdicts stay
	RejudgeCancelled = "cancelled" // stopped before it was done
)

// RejudgeFilter selects submissions; every field given must match. At least
// one is needed, so that nobody rejudges everything by accident.
type RejudgeFilter struct {
	Submissions []int64 `json:"submissions,omitempty" maxItems:"10000" doc:"these submissions"`
	Problem     string  `json:"problem,omitempty" maxLength:"64"`
	User        string  `json:"user,omitempty" maxLength:"128"`
	Language    string  `json:"language,omitempty" maxLength:"32"`
	Verdict     string  `json:"verdict,omitempty" enum:"AC,WA,TLE,MLE,OLE,RE,CE,SE" doc:"of the current judging; SE selects system errors"`
	Outdated    bool    `json:"outdated,omitempty" doc:"judged with another package than the live one"`
	All         bool    `json:"all,omitempty" doc:"every submission; needed when nothing else is given"`
}

// NewRejudge is the body of POST /v1/rejudges.
type NewRejudge struct {
	Filter RejudgeFilter `json:"filter"`
	Reason string        `json:"reason" minLength:"1" maxLength:"500" doc:"why, for everybody who looks at it later"`
	// Apply says what happens with each new verdict: at once replaces the old
	// one as soon as it is there; later keeps the old one until the rejudge is
	// applied.
	Apply string `json:"apply,omitempty" enum:"later,at_once" doc:"default later"`
}

// Rejudge is a batch of new judgings made beside the old ones.
type Rejudge struct {
	ID         int64            `json:"id"`
	State      string           `json:"state" enum:"running,ready,applied,discarded,cancelled"`
	Reason     string           `json:"reason"`
	Filter     RejudgeFilter    `json:"filter"`
	Apply      string           `json:"apply" enum:"later,at_once"`
	Total      int              `json:"total" doc:"submissions in it"`
	Done       int              `json:"done" doc:"judged so far; of one that was cancelled, what was judged before"`
	Changed    int              `json:"changed" doc:"judged so far with another verdict than before"`
	Applied    int              `json:"applied" doc:"of which the new verdict replaced the old one; a later rejudge may have replaced it since"`
	Failed     int              `json:"failed" doc:"ended in a system error; their old verdicts stay"`
	Skipped    []RejudgeSkipped `json:"skipped" doc:"selected but left out, and why"`
	CreatedAt  time.Time        `json:"created_at"`
	FinishedAt *time.Time       `json:"finished_at,omitempty"`
	DecidedAt  *time.Time       `json:"decided_at,omitempty" doc:"when it was applied or discarded"`
}

// RejudgeSkipped is a submission that was left out.
type RejudgeSkipped struct {
	SubmissionID int64  `json:"submission_id"`
	Reason       string `json:"reason"`
}

// RejudgeList is a page, newest first.
type RejudgeList struct {
	Rejudges []Rejudge `json:"rejudges"`
	Next     string    `json:"next,omitempty"`
}

// RejudgeChange is the old and the new judging of one submission.
type RejudgeChange struct {
	SubmissionID int64  `json:"submission_id"`
	Problem      string `json:"problem"`
	User         string `json:"user,omitempty"`
	Language     string `json:"language"`
	OldVerdict   string `json:"old_verdict,omitempty" doc:"empty when it had none"`
	NewVerdict   string `json:"new_verdict,omitempty" doc:"empty while it is open"`
	OldCPUUS     int64  `json:"old_cpu_us"`
	NewCPUUS     int64  `json:"new_cpu_us"`
	NewState     string `json:"new_state" enum:"pending,done,system_error,cancelled"`
	First        bool   `json:"first,omitempty" doc:"there was no verdict to keep: the new one counts as soon as it is there, whatever becomes of the rejudge"`
	Applied      bool   `json:"applied" doc:"the new verdict replaced the old one; a later rejudge may have replaced it since"`
}

// RejudgeChangeList is a page by submission.
type RejudgeChangeList struct {
	State   string          `json:"state" enum:"running,ready,applied,discarded,cancelled" doc:"of the rejudge"`
	Changes []RejudgeChange `json:"changes"`
	Next    string          `json:"next,omitempty"`
}

// ApplyRejudge is the body of POST /v1/rejudges/{id}/apply.
type ApplyRejudge struct {
	Submissions []int64 `json:"submissions,omitempty" maxItems:"10000" doc:"apply these only; all when empty"`
	// Reason is for the audit trail.
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"why"`
}

// JudgingInfo is one evaluation of a submission.
type JudgingInfo struct {
	ID            int64      `json:"id"`
	Kind          string     `json:"kind" enum:"judge,rejudge"`
	State         string     `json:"state" enum:"pending,done,system_error,cancelled"`
	Verdict       string     `json:"verdict,omitempty"`
	PackageDigest string     `json:"package_digest"`
	RejudgeID     int64      `json:"rejudge_id,omitempty"`
	RejudgeBy     string     `json:"rejudge_by,omitempty" doc:"note of the token that started the rejudge"`
	RejudgeReason string     `json:"rejudge_reason,omitempty" doc:"why it was started"`
	Worker        string     `json:"worker,omitempty"`
	Current       bool       `json:"current"`
	CreatedAt     time.Time  `json:"created_at"`
	FinishedAt    *time.Time `json:"finished_at,omitempty"`
}

// Account is what a user has solved: a pure function of the current judgings.
// A site may ignore it.
type Account struct {
	User   string  `json:"user"`
	Solved []Solve `json:"solved" doc:"first solves, oldest first"`
	Points int64   `json:"points" doc:"sum over the solved problems"`
}

// Solve is the first accepted submission of a user for a problem.
type Solve struct {
	Problem      string    `json:"problem"`
	Points       int       `json:"points"`
	SubmissionID int64     `json:"submission_id"`
	SolvedAt     time.Time `json:"solved_at" doc:"when it was submitted"`
}

// RejudgeReason is the body of POST /v1/submissions/{id}/rejudge.
type RejudgeReason struct {
	Reason string `json:"reason" minLength:"1" maxLength:"500" doc:"why, for everybody who looks at it later"`
}
