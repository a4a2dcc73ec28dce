package health

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Settings are the operator's choices. The zero value sets nobody aside and
// probes nobody.
type Settings struct {
	Faults     int           // consecutive faults before a worker is set aside; 0: never
	Backoff    time.Duration // before the first probe of one that is set aside
	BackoffMax time.Duration // what doubling leads to at most
	Workers    int           // different workers that must fail a case before it is blamed
	// Gate is how long a worker that has joined waits at most for its first
	// probe before it gets work without.
	Gate time.Duration
	// Recheck is how old the last measurement of a worker's speed may become
	// before an idle moment is used for another.
	Recheck time.Duration
	Slow    float64       // a speed factor from which on a worker counts as slow
	SlowCPU time.Duration // CPU limits up to this are too tight for a slow worker
	Drift   float64       // a change of a worker's own times that is worth a word
}

// Default is what gavel does unless told otherwise.
var Default = Settings{
	Faults: 3, Backoff: time.Minute, BackoffMax: time.Hour, Workers: 2, Gate: 10 * time.Second,
	Recheck: time.Hour, Slow: 1.5, SlowCPU: time.Second, Drift: 0.15,
}

// On says whether health is judged at all.
func (s Settings) On() bool { return s.Faults > 0 }

// backoff is how long the n-th setting aside in a row lasts at least.
func (s Settings) backoff(n int) time.Duration {
	d := s.Backoff
	for range n {
		if d >= s.BackoffMax {
			break
		}
		d *= 2
	}
	return min(d, s.BackoffMax)
}

// Kind is what went wrong.
type Kind string

// The kinds.
const (
	Faulted Kind = "fault"   // a report of a fault
	Lost    Kind = "lost"    // a lease that ended without an answer
	Refused Kind = "refused" // a lease handed back as one that it cannot do
	Probed  Kind = "probe"   // a known-answer probe came out wrong
)

// Blames of a fault, as on the wire.
const (
	BlameHost      = "host"
	BlameToolchain = "toolchain"
)

// Evidence is one thing that went wrong.
type Evidence struct {
	Case     string    `json:"case"` // what was to be done: a job, or a probe program
	JobID    int64     `json:"job_id"`
	Language string    `json:"language,omitempty"`
	Kind     Kind      `json:"kind"`
	Blame    string    `json:"blame,omitempty"`
	Message  string    `json:"message,omitempty"`
	At       time.Time `json:"at"`
	// Same says that it belongs to the incident of the one before and does not count.
	Same bool `json:"same,omitempty"`
	// Excused says that several workers failed the case: it does not count (H3).
	Excused bool `json:"excused,omitempty"`
}

// Bounds of what is kept.
const (
	maxEvidence     = 16
	maxMessageBytes = 300
)

// Mark is the standing of a worker, or of one language on it.
type Mark struct {
	Streak     []Evidence `json:"streak,omitempty"` // since the last success, newest last
	Aside      *Aside     `json:"aside,omitempty"`
	Level      int        `json:"level,omitempty"` // settings aside in a row
	ReturnedAt time.Time  `json:"returned_at,omitzero"`
}

// Aside says since when and why somebody is set aside.
type Aside struct {
	Since    time.Time  `json:"since"`
	Until    time.Time  `json:"until"` // no probe before
	Reason   string     `json:"reason"`
	Evidence []Evidence `json:"evidence"`
	Tries    int        `json:"tries,omitempty"` // rounds of probes that failed since
}

// State is all that is kept of one worker.
type State struct {
	Worker    Mark             `json:"worker"`
	Languages map[string]*Mark `json:"languages,omitempty"`

	Session  string            `json:"session,omitempty"`
	JoinedAt time.Time         `json:"joined_at,omitzero"`
	Versions map[string]string `json:"versions,omitempty"` // what it offers, as it said last
	Order    []string          `json:"order,omitempty"`    // the same in the order of probing
	Gate     bool              `json:"gate,omitempty"`     // its next probe comes before any work
	Doubt    string            `json:"doubt,omitempty"`    // why, when it has not just joined

	Joining   []Step               `json:"joining,omitempty"`   // probes still to do since it joined
	Returning []Step               `json:"returning,omitempty"` // the rest of a round that decides about return
	Passed    []string             `json:"passed,omitempty"`    // languages that have passed in this round
	Failed    []string             `json:"failed,omitempty"`    // and those that have not
	Open      *Open                `json:"open,omitempty"`      // the probe on its way
	Passes    map[string]time.Time `json:"passes,omitempty"`    // last pass by case

	Samples map[string][]Sample `json:"samples,omitempty"` // by language, newest last
	Speeds  []Speed             `json:"speeds,omitempty"`  // history of the factor, newest last
}

// What of a worker has changed.
type What string

// The changes.
const (
	SetAside What = "set_aside"
	Returned What = "returned"
	Failing  What = "probe_failed" // a round failed: it stays aside
	Drifted  What = "drifted"
)

// Change is news for the log and for alarms.
type Change struct {
	WorkerID int64
	Language string // "" is the whole worker
	What     What
	Reason   string
	Evidence []Evidence
}

// Fleet is every worker's health. Make it with New.
type Fleet struct {
	settings Settings
	workers  map[int64]*State
	failed   map[string]map[int64]bool // case → workers whose evidence may name it; more than is true, never less
	medians  map[string]float64        // language → the fleet's CPU time of its AC probe, in µs
	dirty    map[int64]bool
}

// New makes a fleet of which nothing is known.
func New(s Settings) *Fleet {
	return &Fleet{
		settings: s, workers: map[int64]*State{}, failed: map[string]map[int64]bool{},
		medians: map[string]float64{}, dirty: map[int64]bool{},
	}
}

// Settings are those that the fleet was made with.
func (f *Fleet) Settings() Settings { return f.settings }

func (f *Fleet) worker(id int64) *State {
	s := f.workers[id]
	if s == nil {
		s = &State{}
		f.workers[id] = s
	}
	f.dirty[id] = true
	return s
}

func (s *State) language(id string) *Mark {
	if s.Languages == nil {
		s.Languages = map[string]*Mark{}
	}
	m := s.Languages[id]
	if m == nil {
		m = &Mark{}
		s.Languages[id] = m
	}
	return m
}

// Away says why a worker gets nothing but probes; "" means that it gets work.
func (f *Fleet) Away(id int64) string {
	s := f.workers[id]
	switch {
	case s == nil || !f.settings.On():
		return ""
	case s.Worker.Aside != nil:
		return "set aside: " + s.Worker.Aside.Reason
	case s.Gate && s.Doubt != "":
		return "in doubt: " + s.Doubt + "; a known-answer probe comes before any work"
	case s.Gate:
		return "joining: its first known-answer probe comes before any work"
	}
	return ""
}

// AsideLanguages says which languages a worker gets no work in, and why. It is
// nil when there are none.
func (f *Fleet) AsideLanguages(id int64) map[string]string {
	s := f.workers[id]
	if s == nil || !f.settings.On() {
		return nil
	}
	var reasons map[string]string
	for language, m := range s.Languages {
		if m.Aside != nil {
			if reasons == nil {
				reasons = map[string]string{}
			}
			reasons[language] = "set aside: " + m.Aside.Reason
		}
	}
	return reasons
}

// State is what is known of a worker; nil for nothing. It must not be changed.
func (f *Fleet) State(id int64) *State { return f.workers[id] }

// Changed are the workers whose state has changed since the last call.
func (f *Fleet) Changed() []int64 {
	ids := slices.Sorted(maps.Keys(f.dirty))
	clear(f.dirty)
	return ids
}

// Redo makes workers count as changed again: storing them failed.
func (f *Fleet) Redo(ids []int64) {
	for _, id := range ids {
		f.dirty[id] = true
	}
}

// Reset is an operator's word: whatever counted against a worker, or against
// one language on it, is forgotten.
func (f *Fleet) Reset(id int64, language string, at time.Time) []Change {
	s := f.workers[id]
	if s == nil {
		return nil
	}
	f.worker(id)
	var changes []Change
	forget := func(language string, m *Mark) {
		if m.Aside != nil {
			changes = append(changes, Change{WorkerID: id, Language: language, What: Returned, Reason: "an operator has reset it"})
			m.ReturnedAt = at
		}
		m.Streak, m.Aside, m.Level = nil, nil, 0
	}
	if language == "" {
		forget("", &s.Worker)
		s.Joining = nil
	}
	for _, l := range slices.Sorted(maps.Keys(s.Languages)) {
		if language == "" || l == language {
			forget(l, s.Languages[l])
		}
	}
	s.endRound()
	return changes
}

// JobCase is the case that a job is.
func JobCase(jobID int64) string { return fmt.Sprintf("job %d", jobID) }
