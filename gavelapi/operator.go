package gavelapi

import (
	"encoding/json"
	"time"
)

// WorkerChange is the body of POST /v1/workers/{name}/state: an operator takes
// a worker out of work or puts it back. It is kept by the arbiter, so neither
// side's restart undoes it.
type WorkerChange struct {
	Action string     `json:"action" enum:"drain,pause,resume" doc:"drain and pause both give it nothing new and let what runs finish; pause says that somebody wants it back"`
	Note   string     `json:"note,omitempty" maxLength:"500" doc:"why, for the audit trail; shown wherever the worker is for as long as it is away"`
	Until  *time.Time `json:"until,omitempty" doc:"when it ends by itself"`
	// ForSeconds is until, counted from the arbiter's now.
	ForSeconds int64 `json:"for_seconds,omitempty" minimum:"0" maximum:"31536000" doc:"the same, counted from now"`
}

// WorkerLabels is the body of PUT /v1/workers/{name}/labels. What is absent stays.
type WorkerLabels struct {
	Pool  string   `json:"pool,omitempty" maxLength:"64"`
	Tags  []string `json:"tags,omitzero" maxItems:"32" doc:"all its tags; an empty list takes them off"`
	Lanes []string `json:"lanes,omitzero" maxItems:"4" doc:"the only lanes it takes: run, judge, prepare, rejudge; an empty list means all"`
	// Reason is for the audit trail.
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"why"`
}

// Pool is a group of workers with a preference.
type Pool struct {
	Name    string `json:"name"`
	Rank    int    `json:"rank" doc:"work goes to the lowest rank that has somebody able and free; 100 unless set"`
	Note    string `json:"note,omitempty"`
	Workers int    `json:"workers"`
}

// PoolList lists pools, the most preferred first.
type PoolList struct {
	Pools []Pool `json:"pools"`
}

// PoolSettings is the body of PUT /v1/pools/{name}.
type PoolSettings struct {
	Rank   int    `json:"rank" minimum:"0" maximum:"10000"`
	Note   string `json:"note,omitempty" maxLength:"500"`
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"why, for the audit trail; without one the note is taken"`
}

// Queue is what waits, and what operators hold.
type Queue struct {
	Waiting []QueueCount `json:"waiting"`
	Brakes  []Brake      `json:"brakes"`
	// Leader is false when this arbiter does not lead. Waiting is then counted
	// in the database, and its reasons are those of ReasonsAt.
	Leader    bool       `json:"leader"`
	ReasonsAt *time.Time `json:"reasons_at,omitempty" doc:"when the leader last wrote down why work waits; absent where the leader itself answers"`
}

// QueueCount is a number of waiting jobs.
type QueueCount struct {
	Lane     string `json:"lane"`
	Language string `json:"language,omitempty"`
	Jobs     int    `json:"jobs"`
	// EstimateMS comes from the leader only.
	EstimateMS    int64         `json:"estimate_ms,omitempty" doc:"roughly how long what comes now, after all of these, will wait for a worker; 0 when nothing is known"`
	EstimateBasis string        `json:"estimate_basis,omitempty" doc:"what that rests on"`
	Reasons       []QueueReason `json:"reasons" doc:"why, the most frequent first; what came a moment ago may not be among them"`
}

// QueueReason is why some of the waiting jobs do so.
type QueueReason struct {
	Cause  string     `json:"cause" enum:"held,no_worker,no_capable_worker,rejudge_budget,queued"`
	Reason string     `json:"reason" doc:"one line"`
	Jobs   int        `json:"jobs"`
	Since  *time.Time `json:"since,omitempty" doc:"of the cause; where the leader does not answer itself"`
}

// Brake holds waiting work of one lane, language or problem until it is taken off.
type Brake struct {
	Kind   string     `json:"kind" enum:"lane,language,problem"`
	Name   string     `json:"name" minLength:"1" maxLength:"64"`
	Reason string     `json:"reason" minLength:"1" maxLength:"500"`
	Since  *time.Time `json:"since,omitempty" readOnly:"true"`
}

// Reason is the body of requests that only need to say why.
type Reason struct {
	Reason string `json:"reason,omitempty" maxLength:"500"`
}

// Explanation is why a submission waits, or how it went.
type Explanation struct {
	SubmissionID int64  `json:"submission_id"`
	State        string `json:"state"`
	Summary      string `json:"summary" doc:"one line"`
	// Cause is set while it waits, and CauseSince once it was written down.
	Cause      string     `json:"cause,omitempty" enum:"held,no_worker,no_capable_worker,rejudge_budget,queued" doc:"the rule that keeps it waiting"`
	CauseSince *time.Time `json:"cause_since,omitempty" doc:"since when that rule has, for work like it or for this one"`
	StoredAt   *time.Time `json:"stored_at,omitempty" doc:"when the leader wrote this down; absent where the leader itself answers"`
	// Lane to EstimateMS are set while it waits.
	Lane          string            `json:"lane,omitempty"`
	Priority      string            `json:"priority,omitempty" doc:"bumped, contest, practice or batch"`
	Position      int               `json:"position,omitempty" doc:"1 goes next among those that compete for the same workers"`
	EstimateMS    int64             `json:"estimate_ms,omitempty" doc:"roughly how long until a worker takes it; 0 when nothing is known"`
	EstimateBasis string            `json:"estimate_basis,omitempty" doc:"what that rests on"`
	Workers       []WorkerReason    `json:"workers" doc:"while it waits: what keeps each worker online from taking it"`
	History       []ExplanationStep `json:"history" doc:"what happened, in order"`
	// Spent is set when it was judged.
	Spent []TimeSpent `json:"spent,omitempty" doc:"where the time went"`
}

// WorkerReason is the rule that keeps a worker from taking a job; empty when
// nothing but the order does.
type WorkerReason struct {
	Worker string `json:"worker"`
	Reason string `json:"reason,omitempty"`
}

// TimeSpent is what a part of a judging took.
type TimeSpent struct {
	What string `json:"what" doc:"in words"`
	US   int64  `json:"us"`
}

// ExplanationStep is something that happened to a submission.
type ExplanationStep struct {
	At   time.Time `json:"at"`
	Text string    `json:"text"`
}

// AuditEntry is something that an operator did.
type AuditEntry struct {
	ID      int64           `json:"id"`
	At      time.Time       `json:"at"`
	TokenID int64           `json:"token_id" doc:"who: the token used"`
	Token   string          `json:"token,omitempty" doc:"its note"`
	Action  string          `json:"action" doc:"e.g. worker.drain"`
	Subject string          `json:"subject"`
	Reason  string          `json:"reason,omitempty"`
	Details json.RawMessage `json:"details,omitempty"`
}

// AuditList is a page, newest first.
type AuditList struct {
	Entries []AuditEntry `json:"entries"`
	Next    string       `json:"next,omitempty"`
}
