package gavelapi

import (
	"encoding/json"
	"time"
)

// Alarm is something that deserves a person's attention, from its start to its
// end and after. Kinds and the keys of their evidence are a contract: see
// docs/reference/alarms.md.
type Alarm struct {
	ID       int64  `json:"id"`
	Kind     string `json:"kind" doc:"e.g. judge_down"`
	Subject  string `json:"subject,omitempty" doc:"what of the kind: a lane, a language, a worker"`
	Severity string `json:"severity" enum:"page,ticket,info"`
	Summary  string `json:"summary" doc:"one line"`
	// Evidence depends on the kind. While the alarm is open it is brought up to
	// date now and then; after that it is what was seen last.
	Evidence    json.RawMessage `json:"evidence"`
	Occurrences int64           `json:"occurrences,omitempty" doc:"of what happens now and then: how often it did"`
	Since       time.Time       `json:"since" doc:"when what it tells of began"`
	StartedAt   time.Time       `json:"started_at" doc:"when it was raised"`
	EndedAt     *time.Time      `json:"ended_at,omitempty"`
	LastedMS    int64           `json:"lasted_ms,omitempty" doc:"from since to ended_at"`
}

// AlarmList is a page, newest first.
type AlarmList struct {
	Alarms []Alarm `json:"alarms"`
	Next   string  `json:"next,omitempty"`
}
