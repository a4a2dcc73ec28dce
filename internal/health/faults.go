package health

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode/utf8"
)

// Fault is an attempt that did not end with a verdict.
type Fault struct {
	WorkerID  int64
	Language  string
	JobID     int64
	Kind      Kind
	Blame     string // of a Faulted
	Message   string
	GrantedAt time.Time // of a Lost lease
	At        time.Time
}

// Fail counts a fault, if it is one of the worker (H1, H2), and says what
// becomes of it.
func (f *Fleet) Fail(x Fault) []Change {
	if !f.settings.On() {
		return nil
	}
	if x.Kind == Faulted && x.Blame != BlameHost && x.Blame != BlameToolchain {
		return nil
	}
	return f.count(x.WorkerID, Evidence{
		Case: JobCase(x.JobID), JobID: x.JobID, Language: x.Language, Kind: x.Kind, Blame: x.Blame,
		Message: cut(x.Message), At: x.At,
	}, x.GrantedAt)
}

// count enters evidence, excuses it if the case is to blame, and judges.
func (f *Fleet) count(id int64, e Evidence, granted time.Time) []Change {
	s := f.worker(id)
	e.Same = e.Kind == Lost && slices.ContainsFunc(slices.Concat(s.Worker.Streak, s.Worker.evidence()), func(o Evidence) bool {
		return o.Kind == Lost && o.Case != e.Case && !granted.After(o.At)
	})
	again := false
	s.rows(func(o *Evidence) { again = again || o.Case == e.Case })
	if e.Blame != BlameToolchain {
		s.Worker.enter(e)
	}
	if e.Language != "" {
		s.language(e.Language).enter(e)
	}
	s.doubt(e, again)
	f.index(e.Case, id)
	changes := f.blame(e.Case, e.At)
	return append(changes, f.judge(id, e.At)...)
}

// doubt asks a probe who is to blame when a worker fails a job again: there
// was nobody else to give it to, so neither H2 nor H3 could tell.
func (s *State) doubt(e Evidence, again bool) {
	if !again || e.Kind == Probed || s.Worker.Aside != nil || !slices.Contains(s.Order, e.Language) {
		return
	}
	step := Step{e.Language, Programs[0]}
	s.Joining = append([]Step{step}, slices.DeleteFunc(s.Joining, func(p Step) bool { return p == step })...)
	s.Gate, s.JoinedAt, s.Doubt = true, e.At, "it failed "+e.Case+" again"
}

// enter adds evidence to a row: one entry a case (H2).
func (m *Mark) enter(e Evidence) {
	if m.Aside != nil {
		m.Aside.Evidence = entered(m.Aside.Evidence, e)
		if len(m.Aside.Evidence) > maxEvidence { // what it was set aside for is kept
			m.Aside.Evidence = m.Aside.Evidence[:maxEvidence]
		}
		return
	}
	m.Streak = entered(m.Streak, e)
	if len(m.Streak) > maxEvidence {
		m.Streak = slices.Delete(m.Streak, 0, len(m.Streak)-maxEvidence)
	}
}

func entered(row []Evidence, e Evidence) []Evidence {
	for i := range row {
		if row[i].Case == e.Case {
			e.Same = row[i].Same // the incident that it belongs to stays the same
			row[i] = e
			return row
		}
	}
	return append(row, e)
}

func (m *Mark) evidence() []Evidence {
	if m.Aside == nil {
		return nil
	}
	return m.Aside.Evidence
}

// rows calls do with every piece of evidence of a worker, to be looked at or
// changed.
func (s *State) rows(do func(e *Evidence)) {
	each := func(m *Mark) {
		for i := range m.Streak {
			do(&m.Streak[i])
		}
		if m.Aside != nil {
			for i := range m.Aside.Evidence {
				do(&m.Aside.Evidence[i])
			}
		}
	}
	each(&s.Worker)
	for _, m := range s.Languages {
		each(m)
	}
}

// weight is what a row of evidence counts; of a language, a failed probe is
// enough by itself: the answer was known.
func (f *Fleet) weight(row []Evidence, language bool) int {
	n := 0
	for _, e := range row {
		switch {
		case e.Same || e.Excused:
		case language && e.Kind == Probed:
			n += f.settings.Faults
		default:
			n++
		}
	}
	return n
}

// blame excuses every worker that failed a case when there are several of them
// and nobody has shown that it can be done.
func (f *Fleet) blame(name string, at time.Time) []Change {
	var by []int64
	for id := range f.failed[name] {
		found := false
		f.workers[id].rows(func(e *Evidence) { found = found || e.Case == name })
		if found {
			by = append(by, id)
		}
	}
	if len(by) < f.settings.Workers || f.proven(name) {
		return nil
	}
	slices.Sort(by)
	var changes []Change
	for _, id := range by {
		f.worker(id).rows(func(e *Evidence) {
			if e.Case == name {
				e.Excused = true
			}
		})
		changes = append(changes, f.acquit(id, fmt.Sprintf("%s failed on several workers: it is to blame", name), at)...)
	}
	return changes
}

// acquit lets return who would not be set aside by what still counts.
func (f *Fleet) acquit(id int64, reason string, at time.Time) []Change {
	s := f.workers[id]
	var changes []Change
	look := func(language string, m *Mark) {
		if m.Aside == nil || f.weight(m.Aside.Evidence, language != "") >= f.settings.Faults {
			return
		}
		m.Streak, m.Aside, m.Level, m.ReturnedAt = m.Aside.Evidence, nil, max(0, m.Level-1), at
		changes = append(changes, Change{WorkerID: id, Language: language, What: Returned, Reason: reason, Evidence: slices.Clone(m.Streak)})
	}
	look("", &s.Worker)
	for _, l := range slices.Sorted(maps.Keys(s.Languages)) {
		look(l, s.Languages[l])
	}
	if len(changes) > 0 {
		s.endRound()
	}
	return changes
}

// judge sets aside who has too much against it.
func (f *Fleet) judge(id int64, at time.Time) []Change {
	s := f.workers[id]
	var changes []Change
	if m := &s.Worker; m.Aside == nil && f.weight(m.Streak, false) >= f.settings.Faults {
		changes = append(changes, f.setAside(id, "", m, at))
		s.endRound()
		for _, l := range s.Languages { // what the whole worker answers for, no language does
			l.Streak = slices.DeleteFunc(l.Streak, func(e Evidence) bool { return e.Blame != BlameToolchain && e.Kind != Probed })
		}
	}
	for _, l := range slices.Sorted(maps.Keys(s.Languages)) {
		if m := s.Languages[l]; m.Aside == nil && f.weight(m.Streak, true) >= f.settings.Faults {
			changes = append(changes, f.setAside(id, l, m, at))
			s.drop(l)
		}
	}
	return changes
}

func (f *Fleet) setAside(id int64, language string, m *Mark, at time.Time) Change {
	m.Aside = &Aside{Since: at, Until: at.Add(f.settings.backoff(m.Level)), Evidence: m.Streak}
	m.Aside.Reason = f.reason(m.Streak, language)
	m.Streak, m.Level = nil, m.Level+1
	return Change{WorkerID: id, Language: language, What: SetAside, Reason: m.Aside.Reason, Evidence: slices.Clone(m.Aside.Evidence)}
}

// reason says in one line what was counted.
func (f *Fleet) reason(row []Evidence, language string) string {
	last := row[len(row)-1]
	for _, e := range row {
		if e.Kind == Probed && !e.Excused && language != "" {
			return fmt.Sprintf("%s failed: %s", e.Case, e.Message)
		}
	}
	text := fmt.Sprintf("%d faults in a row", f.weight(row, false))
	switch {
	case last.Kind == Lost:
		text += ", the last one a lost lease"
	case last.Message != "":
		text += ", the last one: " + last.Message
	}
	return text
}

// Succeed counts a verdict, whatever it is (H1).
func (f *Fleet) Succeed(id int64, language string, jobID int64, at time.Time) []Change {
	if !f.settings.On() {
		return nil
	}
	if s := f.workers[id]; s != nil {
		changed := s.Worker.succeeded(f.settings, at)
		if m := s.Languages[language]; m != nil {
			changed = m.succeeded(f.settings, at) || changed
		}
		if changed {
			f.worker(id)
		}
	}
	return f.convict(JobCase(jobID), id, at)
}

// succeeded says whether anything has changed: most verdicts change nothing.
func (m *Mark) succeeded(settings Settings, at time.Time) (changed bool) {
	if m.Aside != nil {
		return false // only probes let it return
	}
	changed = len(m.Streak) > 0
	m.Streak = nil
	// H5: good for as long as it was away at least.
	if m.Level > 0 && at.Sub(m.ReturnedAt) >= settings.backoff(m.Level-1) {
		m.Level, changed = 0, true
	}
	return changed
}

// convict takes excuses back: somebody has done what others failed.
func (f *Fleet) convict(name string, by int64, at time.Time) []Change {
	var changes []Change
	for _, id := range slices.Sorted(maps.Keys(f.failed[name])) {
		if id == by {
			continue
		}
		again := false
		f.workers[id].rows(func(e *Evidence) {
			if e.Case == name && e.Excused {
				e.Excused, again = false, true
			}
		})
		if again {
			f.worker(id)
			changes = append(changes, f.judge(id, at)...)
		}
	}
	delete(f.failed, name)
	return changes
}

// maxCases bounds the index of failed cases, which grows with jobs that nobody
// ever finishes, until it is made anew.
const maxCases = 4096

func (f *Fleet) index(name string, id int64) {
	if f.failed[name] == nil && len(f.failed) > maxCases {
		f.reindex()
	}
	if f.failed[name] == nil {
		f.failed[name] = map[int64]bool{}
	}
	f.failed[name][id] = true
}

func (f *Fleet) reindex() {
	f.failed = map[string]map[int64]bool{}
	for id, s := range f.workers {
		s.rows(func(e *Evidence) {
			if f.failed[e.Case] == nil {
				f.failed[e.Case] = map[int64]bool{}
			}
			f.failed[e.Case][id] = true
		})
	}
}

// cut bounds a message and makes one line of it.
func cut(s string) string {
	s = strings.Join(strings.Fields(strings.ToValidUTF8(s, "�")), " ")
	if len(s) <= maxMessageBytes {
		return s
	}
	end := maxMessageBytes
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end] + "…"
}
