package health

import (
	"fmt"
	"maps"
	"slices"
	"time"
)

// Programs are the known answers of each language, in the order of probing.
var Programs = []string{"AC", "WA", "TLE", "CE"}

// Step is one probe to do.
type Step struct {
	Language string `json:"language"`
	Program  string `json:"program"` // one of Programs
}

// Case is the case that a step is.
func (p Step) Case() string { return "probe " + p.Language + " " + p.Program }

// Purpose is why a probe is made.
type Purpose string

// The purposes.
const (
	ForJoin   Purpose = "join"
	ForReturn Purpose = "return"
	ForSpeed  Purpose = "speed"
	ForDoubt  Purpose = "doubt" // who is to blame, the job or the worker
)

// Open is the probe on its way to a worker.
type Open struct {
	Step
	Purpose Purpose   `json:"purpose"`
	JobID   int64     `json:"job_id"`
	Since   time.Time `json:"since"`
}

// Order asks for a probe.
type Order struct {
	Step
	Purpose Purpose
	// Urgent says that the probe goes before other work of the worker; else
	// it waits for a moment in which the worker would have nothing to do.
	Urgent bool
}

// Offer is a language that a worker offers, as it says itself.
type Offer struct{ Language, Version string }

// Join notes what a worker says when it claims: a new session is probed in all
// that it offers, a new or changed language in that language. offers are in
// the order of probing; the first should be one that is quick.
func (f *Fleet) Join(id int64, session string, offers []Offer, at time.Time) {
	if !f.settings.On() {
		return
	}
	versions := make(map[string]string, len(offers))
	order := make([]string, 0, len(offers))
	for _, o := range offers {
		if _, twice := versions[o.Language]; !twice {
			order = append(order, o.Language)
		}
		versions[o.Language] = o.Version
	}
	if s := f.workers[id]; s != nil && s.Session == session && maps.Equal(s.Versions, versions) {
		return
	}
	s := f.worker(id)
	fresh := s.Session != session
	gate := fresh || s.Gate
	if fresh {
		s.Session, s.JoinedAt, s.Joining, s.Doubt = session, at, nil, ""
	}
	for _, l := range slices.Sorted(maps.Keys(s.Versions)) {
		if _, still := versions[l]; !still {
			s.drop(l)
		}
	}
	for _, l := range order {
		if old, had := s.Versions[l]; !fresh && had && old == versions[l] {
			continue
		}
		s.drop(l)
		for _, program := range Programs {
			s.Joining = append(s.Joining, Step{l, program})
		}
	}
	s.Versions, s.Order, s.Gate = versions, order, gate
	s.settleGate()
}

// drop forgets the probes that are still to do in a language.
func (s *State) drop(language string) {
	gone := func(p Step) bool { return p.Language == language }
	s.Joining = slices.DeleteFunc(s.Joining, gone)
	s.Returning = slices.DeleteFunc(s.Returning, gone)
	s.settleGate()
}

// settleGate opens the gate when there is nothing to wait for behind it.
func (s *State) settleGate() {
	if len(s.Joining) == 0 || s.Worker.Aside != nil {
		s.Gate, s.Doubt = false, ""
	}
}

func (s *State) endRound() {
	s.Returning, s.Passed, s.Failed = nil, nil, nil
	s.settleGate()
}

// Due is the probe that a worker should get at an instant, if any. One is open
// at a time.
func (f *Fleet) Due(id int64, at time.Time) (Order, bool) {
	s := f.workers[id]
	if s == nil || !f.settings.On() || len(s.Order) == 0 {
		return Order{}, false
	}
	if s.Gate && at.Sub(s.JoinedAt) >= f.settings.Gate {
		f.worker(id).Gate, s.Doubt = false, "" // the probe may take its time, live work does not wait for it
	}
	if s.Open != nil {
		return Order{}, false
	}
	if len(s.Returning) == 0 {
		f.beginRound(id, at)
	}
	switch {
	case len(s.Returning) > 0:
		return Order{s.Returning[0], ForReturn, true}, true
	case s.Worker.Aside != nil:
		return Order{}, false
	case len(s.Joining) > 0 && s.Doubt != "":
		return Order{s.Joining[0], ForDoubt, true}, true
	case len(s.Joining) > 0:
		return Order{s.Joining[0], ForJoin, s.Gate}, true
	}
	return f.speedDue(s, at)
}

// beginRound writes down the probes that decide about a return, when it is time.
func (f *Fleet) beginRound(id int64, at time.Time) {
	s := f.workers[id]
	var languages []string
	if a := s.Worker.Aside; a != nil {
		if at.Before(a.Until) {
			return
		}
		for _, l := range s.Order {
			if slices.ContainsFunc(a.Evidence, func(e Evidence) bool { return e.Language == l }) {
				languages = append(languages, l)
			}
		}
		if len(languages) == 0 { // it no longer offers what it failed at
			languages = s.Order[:1]
		}
	} else {
		for _, l := range s.Order {
			if m := s.Languages[l]; m != nil && m.Aside != nil && !at.Before(m.Aside.Until) {
				languages = []string{l}
				break
			}
		}
	}
	if len(languages) == 0 {
		return
	}
	f.worker(id).endRound()
	for _, l := range languages {
		for _, program := range Programs {
			s.Returning = append(s.Returning, Step{l, program})
		}
	}
}

// Opened notes that a probe is on its way as a job.
func (f *Fleet) Opened(id int64, o Order, jobID int64, at time.Time) {
	f.worker(id).Open = &Open{Step: o.Step, Purpose: o.Purpose, JobID: jobID, Since: at}
}

// Outcome is how a probe came out, as the arbiter sees it.
type Outcome struct {
	Passed  bool
	Message string        // what was wrong
	Blame   string        // of a fault that the worker reported instead of a verdict
	CPU     time.Duration // of an AC that passed
}

// takeOpen takes the open probe of a worker off it; false when the job is not
// that one.
func (f *Fleet) takeOpen(id, jobID int64) (*State, Open, bool) {
	if s := f.workers[id]; s == nil || s.Open == nil || s.Open.JobID != jobID {
		return nil, Open{}, false
	}
	s := f.worker(id)
	open := *s.Open
	s.Open = nil
	return s, open, true
}

// ProbeEnded takes the outcome of the open probe; that of any other is nothing.
func (f *Fleet) ProbeEnded(id, jobID int64, o Outcome, at time.Time) []Change {
	s, open, ok := f.takeOpen(id, jobID)
	if !ok {
		return nil
	}
	if o.Passed {
		return f.passed(id, open, o, at)
	}
	e := Evidence{Case: open.Case(), JobID: jobID, Language: open.Language, Kind: Probed, Blame: o.Blame, Message: cut(o.Message), At: at}
	if e.Blame == "" {
		e.Blame = BlameToolchain // a wrong verdict speaks against the language first
	}
	if s.decides(open) {
		return f.failedReturn(id, open, e, at)
	}
	return f.count(id, e, at)
}

// ProbeLost says that the lease of the open probe ended without an answer.
func (f *Fleet) ProbeLost(id, jobID int64, granted, at time.Time) []Change {
	s, open, ok := f.takeOpen(id, jobID)
	if !ok {
		return nil
	}
	// Each try is a case of its own: it says nothing of the program.
	e := Evidence{Case: JobCase(jobID), JobID: jobID, Language: open.Language, Kind: Lost, Message: open.Case() + " was not answered", At: at}
	if s.decides(open) {
		return f.failedReturn(id, open, e, at)
	}
	return f.count(id, e, granted)
}

// ProbeDropped says that the open probe came to nothing, by nobody's fault: it
// is asked for again.
func (f *Fleet) ProbeDropped(id, jobID int64) {
	if s := f.workers[id]; s != nil && s.Open != nil && s.Open.JobID == jobID {
		f.worker(id).Open = nil
	}
}

// passed notes a pass and moves on.
func (f *Fleet) passed(id int64, open Open, o Outcome, at time.Time) []Change {
	s := f.workers[id]
	if s.Passes == nil {
		s.Passes = map[string]time.Time{}
	}
	s.Passes[open.Case()] = at
	var changes []Change
	if open.Program == "AC" && o.CPU > 0 {
		changes = f.sample(id, open.Language, o.CPU, at)
	}
	done := func(p Step) bool { return p == open.Step }
	if slices.ContainsFunc(s.Joining, done) {
		s.Joining, s.Gate = slices.DeleteFunc(s.Joining, done), false
		s.Doubt = ""
	}
	if s.decides(open) {
		s.Returning = slices.DeleteFunc(s.Returning, done)
		s.roundOf(open.Language, false)
		changes = append(changes, f.settleRound(id, at)...)
	}
	// Work that went wrong still counts: a probe makes good for itself only.
	same := func(e Evidence) bool { return e.Case == open.Case() }
	s.Worker.Streak = slices.DeleteFunc(s.Worker.Streak, same)
	if m := s.Languages[open.Language]; m != nil {
		m.Streak = slices.DeleteFunc(m.Streak, same)
	}
	return append(changes, f.convict(open.Case(), id, at)...)
}

// failedReturn ends a language's part of the round that decides about return,
// unless the probe itself is to blame: then its answer is not waited for.
func (f *Fleet) failedReturn(id int64, open Open, e Evidence, at time.Time) []Change {
	s := f.workers[id]
	// As in count; to what a worker is set aside for, it belongs in any case.
	if e.Blame != BlameToolchain || s.Worker.Aside != nil {
		s.Worker.enter(e)
	}
	s.language(open.Language).enter(e)
	f.index(e.Case, id)
	changes := f.blame(e.Case, at)
	excused := false
	s.rows(func(o *Evidence) { excused = excused || o.Case == e.Case && o.Excused })
	s.Returning = slices.DeleteFunc(s.Returning, func(p Step) bool {
		return p == open.Step || !excused && p.Language == open.Language
	})
	s.roundOf(open.Language, !excused)
	return append(changes, f.settleRound(id, at)...)
}

// decides says whether a probe belongs to the round that decides about return:
// a round may have been ended while its probe was on its way (H6).
func (s *State) decides(open Open) bool {
	return open.Purpose == ForReturn && slices.Contains(s.Returning, open.Step)
}

// roundOf notes how the round went for a language that has nothing left to do.
func (s *State) roundOf(language string, failed bool) {
	if slices.ContainsFunc(s.Returning, func(p Step) bool { return p.Language == language }) {
		return
	}
	if failed {
		s.Failed = append(s.Failed, language)
	} else {
		s.Passed = append(s.Passed, language)
	}
}

// settleRound decides when a round is over: who passed returns, a language
// that failed stays away, and who passed nothing waits longer.
func (f *Fleet) settleRound(id int64, at time.Time) []Change {
	s := f.workers[id]
	if len(s.Returning) > 0 {
		return nil
	}
	passed, failed := s.Passed, s.Failed
	s.endRound()
	var changes []Change
	for _, l := range passed {
		if m := s.Languages[l]; m != nil && (m.Aside == nil || !at.Before(m.Aside.Until)) {
			changes = append(changes, f.back(id, l, m, at)...)
		}
	}
	for _, l := range failed {
		if m := s.Languages[l]; m != nil && m.Aside != nil {
			changes = append(changes, f.longer(id, l, m, at))
		}
	}
	switch {
	case s.Worker.Aside == nil:
	case len(passed) > 0:
		changes = append(changes, f.back(id, "", &s.Worker, at)...)
	default:
		changes = append(changes, f.longer(id, "", &s.Worker, at))
	}
	return append(changes, f.judge(id, at)...)
}

// back lets a worker or a language return after its probes.
func (f *Fleet) back(id int64, language string, m *Mark, at time.Time) []Change {
	m.Streak = nil
	if m.Aside == nil {
		return nil
	}
	since := m.Aside.Since
	m.Aside, m.ReturnedAt = nil, at
	return []Change{{WorkerID: id, Language: language, What: Returned, Reason: fmt.Sprintf("it passed its known-answer probes after %s", at.Sub(since).Round(time.Second))}}
}

// longer keeps somebody aside after a failed round, for twice as long.
func (f *Fleet) longer(id int64, language string, m *Mark, at time.Time) Change {
	m.Aside.Tries++
	m.Aside.Until = at.Add(f.settings.backoff(m.Level))
	m.Level++
	return Change{WorkerID: id, Language: language, What: Failing, Reason: m.Aside.Reason, Evidence: slices.Clone(m.Aside.Evidence)}
}

// proven says whether somebody has passed a case.
func (f *Fleet) proven(name string) bool {
	for _, s := range f.workers {
		if _, ok := s.Passes[name]; ok {
			return true
		}
	}
	return false
}
