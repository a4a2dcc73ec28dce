package gavelapi

import "time"

// WorkerHealth is what the arbiter has seen of a worker's work
// (GET /v1/workers/{name}/health). Nothing of it is what the worker says of
// itself.
type WorkerHealth struct {
	Worker string `json:"worker"`
	// Away is why the worker gets no work; empty when it does.
	Away      string           `json:"away,omitempty" doc:"why the worker gets no work now"`
	SetAside  []SetAside       `json:"set_aside" doc:"the worker, or languages on it, that get nothing but probes"`
	Faults    []HealthEvidence `json:"faults" doc:"what has gone wrong since its last verdict"`
	ProbesDue int              `json:"probes_due" doc:"known-answer probes that are still to do"`
	Probes    []ProbeResult    `json:"probes" doc:"the latest probes, newest first"`
	Changes   []HealthChange   `json:"changes" doc:"what has become of it, newest first"`

	SpeedFactor float64      `json:"speed_factor" doc:"1 is the fleet's median, 2 takes twice as long"`
	Slow        bool         `json:"slow" doc:"kept off jobs with tight limits while others can take them"`
	Drift       float64      `json:"drift" doc:"its own recent times by its earlier ones; 1 is no change"`
	Speeds      []SpeedPoint `json:"speeds" doc:"history of the factor, oldest first"`

	Hours *PlannedHours `json:"hours,omitempty" doc:"planned absence, its own or its pool's"`
}

// SetAside says since when and why a worker, or one language on it, gets
// nothing but probes.
type SetAside struct {
	Language     string           `json:"language,omitempty" doc:"empty: the whole worker"`
	Since        time.Time        `json:"since"`
	ProbeAfter   time.Time        `json:"probe_after" doc:"no probe before"`
	Reason       string           `json:"reason"`
	FailedRounds int              `json:"failed_rounds" doc:"rounds of probes that failed since"`
	Evidence     []HealthEvidence `json:"evidence"`
}

// HealthEvidence is one thing that went wrong.
type HealthEvidence struct {
	Case     string    `json:"case" doc:"a job, or a probe program"`
	JobID    int64     `json:"job_id"`
	Language string    `json:"language,omitempty"`
	Kind     string    `json:"kind" enum:"fault,lost,refused,probe"`
	Blame    string    `json:"blame,omitempty"`
	Message  string    `json:"message,omitempty"`
	At       time.Time `json:"at"`
	Counts   bool      `json:"counts" doc:"false: part of the incident before, or several workers failed the same job"`
}

// HealthChange is a moment at which a worker's standing changed.
type HealthChange struct {
	At       time.Time        `json:"at"`
	Language string           `json:"language,omitempty" doc:"empty: the whole worker"`
	What     string           `json:"what" doc:"set_aside, returned, probe_failed or drifted"`
	Reason   string           `json:"reason"`
	Evidence []HealthEvidence `json:"evidence,omitempty"`
}

// ProbeResult is one known-answer probe.
type ProbeResult struct {
	ID         int64      `json:"id"`
	Language   string     `json:"language"`
	Expected   string     `json:"expected" doc:"the verdict that is right"`
	Purpose    string     `json:"purpose" doc:"join, return, doubt or speed"`
	CreatedAt  time.Time  `json:"created_at"`
	FinishedAt *time.Time `json:"finished_at,omitempty"`
	Outcome    string     `json:"outcome,omitempty" doc:"passed, failed, lost or dropped; empty while it is on its way"`
	Verdict    string     `json:"verdict,omitempty"`
	Message    string     `json:"message,omitempty"`
	CPUUS      int64      `json:"cpu_us"`
	WallUS     int64      `json:"wall_us"`
	TookUS     int64      `json:"took_us" doc:"from the grant to the answer"`
}

// SpeedPoint is a worker's speed factor at some time.
type SpeedPoint struct {
	At     time.Time `json:"at"`
	Factor float64   `json:"factor"`
}

// NewHours is the body of PUT /v1/workers/{name}/hours and
// PUT /v1/pools/{name}/hours.
type NewHours struct {
	Hours string `json:"hours" maxLength:"1000" doc:"such as 'daily 01:30-06:00; Wed 04:00-04:30'; empty ends them"`
	Zone  string `json:"zone,omitempty" maxLength:"64" doc:"time zone such as Europe/Berlin; default UTC"`
	// Reason is for the audit trail.
	Reason string `json:"reason,omitempty" maxLength:"500" doc:"why"`
}

// PlannedHours is when a worker is meant to be asleep.
type PlannedHours struct {
	Worker string `json:"worker,omitempty" doc:"whose they are: a worker's"`
	Pool   string `json:"pool,omitempty" doc:"or those of every worker of a pool that has none of its own"`
	Hours  string `json:"hours"`
	Zone   string `json:"zone"`
	// Phase and the next two are empty when there are no hours.
	Phase string     `json:"phase,omitempty" enum:"open,draining,asleep"`
	From  *time.Time `json:"from,omitempty" doc:"of the absence that is on or comes next"`
	Until *time.Time `json:"until,omitempty"`
}

// HealthReset is the body of POST /v1/workers/{name}/health/reset.
type HealthReset struct {
	Language string `json:"language,omitempty" maxLength:"64" doc:"only this language; default the worker and all its languages"`
	Reason   string `json:"reason" minLength:"1" maxLength:"500" doc:"why, for everybody who looks at it later"`
}
