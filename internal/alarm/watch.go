package alarm

import (
	"cmp"
	"reflect"
	"slices"
	"time"
)

const (
	// MaxGap is the longest pause between two looks over which a condition
	// counts as having held.
	MaxGap = 10 * time.Second
	// tellEvery bounds how often an open alarm's evidence is given out anew.
	tellEvery = 10 * time.Second
)

// Alarm is one alarm, open or ended.
type Alarm struct {
	Kind     Kind
	Subject  string
	Severity Severity
	Summary  string
	Evidence map[string]any
	Count    int64     // of what happens now and then: how often it did; else 0
	Since    time.Time // when what it tells of began
	Started  time.Time
}

// What becomes of an alarm.
type What string

// What can become of one.
const (
	Started   What = "started"
	Continued What = "continued" // its evidence has changed
	Ended     What = "ended"
)

// Change is what a look did to an alarm.
type Change struct {
	What  What
	Alarm Alarm
	At    time.Time
}

type key struct {
	kind    Kind
	subject string
}

// seen is a condition that holds, or did a moment ago.
type seen struct {
	Alarm

	open     bool
	identity string
	holds    time.Time // since when it was seen to hold without a break
	goneAt   time.Time // since when it is absent; zero while it holds
	toldAt   time.Time
	changed  bool // since it was told
}

// Watch remembers alarms between looks. It is not safe for concurrent use.
type Watch struct {
	settings Settings
	rules    map[Kind]Rule
	all      map[key]*seen
	lookedAt time.Time
}

// New is a watch that has seen nothing, but for the alarms that were open when
// somebody else stopped watching.
func New(s Settings, open []Alarm, now time.Time) *Watch {
	w := &Watch{settings: s, rules: s.Rules(), all: map[key]*seen{}, lookedAt: now}
	for _, a := range open {
		w.all[key{a.Kind, a.Subject}] = &seen{Alarm: a, open: true, goneAt: now, toldAt: now}
	}
	return w
}

// Look takes up facts and says what became of alarms.
func (w *Watch) Look(now time.Time, f Facts) []Change {
	holds, unseen := Conditions(f, w.settings, now)
	if now.Sub(w.lookedAt) > MaxGap {
		for k, s := range w.all {
			if !s.open {
				delete(w.all, k)
			} else if !s.goneAt.IsZero() {
				s.goneAt = now
			}
		}
	}
	w.lookedAt = now
	var changes []Change
	there := map[key]bool{}
	for _, c := range holds {
		k := key{c.Kind, c.Subject}
		there[k] = true
		if change, ok := w.take(now, k, c); ok {
			changes = append(changes, change)
		}
	}
	for k, s := range w.all {
		if there[k] || slices.Contains(unseen, k.kind) {
			continue
		}
		if change, ok := w.absent(now, k, s); ok {
			changes = append(changes, change)
		}
	}
	slices.SortStableFunc(changes, func(x, y Change) int {
		return cmp.Or(cmp.Compare(x.Alarm.Kind, y.Alarm.Kind), cmp.Compare(x.Alarm.Subject, y.Alarm.Subject))
	})
	return changes
}

// take notes a condition that holds.
func (w *Watch) take(now time.Time, k key, c Condition) (Change, bool) {
	rule := w.rules[k.kind]
	s := w.all[k]
	if s == nil || !s.open && s.identity != c.Identity {
		s = &seen{Alarm: Alarm{Kind: k.kind, Subject: k.subject, Since: now}, identity: c.Identity, holds: now}
		w.all[k] = s
	}
	s.Severity, s.goneAt = rule.Severity, time.Time{}
	s.Count += c.Count
	if !c.Since.IsZero() && c.Since.Before(s.Since) {
		s.Since = c.Since
	}
	if s.Summary != c.Summary || !reflect.DeepEqual(s.Evidence, c.Evidence) || c.Count > 0 {
		s.Summary, s.Evidence, s.changed = c.Summary, c.Evidence, true
	}
	switch {
	case !s.open && now.Sub(s.holds) >= rule.For:
		s.open, s.Started, s.toldAt, s.changed = true, now, now, false
		return Change{Started, s.Alarm, now}, true
	case s.open:
		return w.tell(now, s)
	}
	return Change{}, false
}

// tell gives out changed evidence of an open alarm, now and then.
func (w *Watch) tell(now time.Time, s *seen) (Change, bool) {
	if !s.changed || now.Sub(s.toldAt) < tellEvery {
		return Change{}, false
	}
	s.toldAt, s.changed = now, false
	return Change{Continued, s.Alarm, now}, true
}

// absent notes that a condition does not hold.
func (w *Watch) absent(now time.Time, k key, s *seen) (Change, bool) {
	if !s.open {
		delete(w.all, k)
		return Change{}, false
	}
	if s.goneAt.IsZero() {
		s.goneAt = now
	}
	if now.Sub(s.goneAt) < w.rules[k.kind].Clear {
		return w.tell(now, s)
	}
	delete(w.all, k)
	return Change{Ended, s.Alarm, now}, true
}

// Open lists the alarms that are open, by kind and subject.
func (w *Watch) Open() []Alarm {
	var list []Alarm
	for _, s := range w.all {
		if s.open {
			list = append(list, s.Alarm)
		}
	}
	slices.SortFunc(list, func(x, y Alarm) int {
		return cmp.Or(cmp.Compare(x.Kind, y.Kind), cmp.Compare(x.Subject, y.Subject))
	})
	return list
}
