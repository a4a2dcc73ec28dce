// Package hours is the calendar of planned absence: when a pool or a worker is
// meant to be asleep. It is pure: text in, instants out, no clock of its own.
//
// A plan is one or more windows in a time zone:
//
//	daily 01:30-06:00
//	Wednesday 04:00-04:30
//	Mon-Fri 22:00-06:00, Sat,Sun 02:00-09:00
//
// A window that ends at or before its beginning ends on the next day. The wall
// clock decides, also where it is changed: a time that the change skips begins
// or ends with the change, and of a time that comes twice a window begins with
// the first and ends with the second, so that a planned absence is never
// shorter than what the plan says.
package hours

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	// A plan must mean the same on a machine without zone data.
	_ "time/tzdata"
)

// Plan is a calendar of windows. The zero value has none.
type Plan struct {
	windows []window
	zone    *time.Location
	text    string
	name    string
}

// window is one line of a plan: days on which it begins, and seconds of the day.
type window struct {
	days     [7]bool // by time.Weekday
	from, to int     // to <= from: it ends on the next day
}

// Span is one planned absence.
type Span struct{ From, To time.Time }

// Zero says that a plan has no windows.
func (p Plan) Zero() bool { return len(p.windows) == 0 }

// String is the plan as it was written, in one form.
func (p Plan) String() string { return p.text }

// Zone is the name of the plan's time zone.
func (p Plan) Zone() string { return p.name }

// reach is how many days around an instant can matter: windows recur weekly
// and last a day at most, and days that follow each other make one absence.
const reach = 8

// spans are the absences that begin on some day around at, in order; those
// that touch are one.
func (p Plan) spans(at time.Time) []Span {
	if p.Zero() {
		return nil
	}
	year, month, day := at.In(p.zone).Date()
	var all []Span
	for d := day - reach; d <= day+reach; d++ {
		weekday := time.Date(year, month, d, 12, 0, 0, 0, time.UTC).Weekday()
		for _, w := range p.windows {
			if !w.days[weekday] {
				continue
			}
			end := d
			if w.to <= w.from {
				end++
			}
			s := Span{
				From: instant(year, month, d, w.from, p.zone, false),
				To:   instant(year, month, end, w.to, p.zone, true),
			}
			if s.From.Before(s.To) { // else all of it is skipped by a change of the clock
				all = append(all, s)
			}
		}
	}
	slices.SortFunc(all, func(a, b Span) int {
		return cmp.Or(a.From.Compare(b.From), a.To.Compare(b.To))
	})
	merged := all[:0]
	for _, s := range all {
		if n := len(merged); n > 0 && !s.From.After(merged[n-1].To) {
			if s.To.After(merged[n-1].To) {
				merged[n-1].To = s.To
			}
			continue
		}
		merged = append(merged, s)
	}
	return merged
}

// Active is the absence that at lies in; its end is not part of it.
func (p Plan) Active(at time.Time) (Span, bool) {
	for _, s := range p.spans(at) {
		if !at.Before(s.From) && at.Before(s.To) {
			return s, true
		}
	}
	return Span{}, false
}

// Next is the first absence that begins after at.
func (p Plan) Next(at time.Time) (Span, bool) {
	for _, s := range p.spans(at) {
		if s.From.After(at) {
			return s, true
		}
	}
	return Span{}, false
}

// Phase says what a plan asks for at some instant.
type Phase string

// The phases. Draining comes before an absence: nothing new is begun.
const (
	Open     Phase = ""
	Draining Phase = "draining"
	Asleep   Phase = "asleep"
)

// At is the phase at an instant and the absence that it is about. lead is how
// long before an absence nothing new is begun.
func (p Plan) At(at time.Time, lead time.Duration) (Phase, Span) {
	if s, ok := p.Active(at); ok {
		return Asleep, s
	}
	if s, ok := p.Next(at); ok && s.From.Sub(at) <= lead {
		return Draining, s
	}
	return Open, Span{}
}

// Reason says in words why a worker gets nothing at some instant; "" means
// that the plan has nothing against it.
func (p Plan) Reason(at time.Time, lead time.Duration) string {
	phase, s := p.At(at, lead)
	switch phase {
	case Asleep:
		return "planned sleep until " + p.wall(s.To, at)
	case Draining:
		return fmt.Sprintf("planned sleep from %s to %s", p.wall(s.From, at), p.wall(s.To, at))
	}
	return ""
}

// wall is a time as the people of the zone would say it.
func (p Plan) wall(t, at time.Time) string {
	t, at = t.In(p.zone), at.In(p.zone)
	form := "15:04"
	if t.Second() != 0 {
		form = "15:04:05"
	}
	if t.Sub(at) > 20*time.Hour {
		form = "Mon " + form
	}
	return t.Format(form)
}

// instant is when a wall clock shows a second of a day. Of a time that comes
// twice it is the first, or the last; for one that is skipped it is the moment
// of the change.
func instant(year int, month time.Month, day, second int, zone *time.Location, last bool) time.Time {
	want := time.Date(year, month, day, 0, 0, second, 0, time.UTC)
	// The offsets in force a day before and after: a change lies in between,
	// if there is one.
	var found []time.Time
	var offsets []int
	for _, away := range []time.Duration{-26 * time.Hour, 26 * time.Hour} {
		_, offset := want.Add(away).In(zone).Zone()
		if !slices.Contains(offsets, offset) {
			offsets = append(offsets, offset)
		}
	}
	for _, offset := range offsets {
		t := want.Add(-time.Duration(offset) * time.Second)
		if _, got := t.In(zone).Zone(); got == offset {
			found = append(found, t)
		}
	}
	switch {
	case len(found) == 0: // skipped
		early := want.Add(-time.Duration(slices.Max(offsets)) * time.Second).In(zone)
		_, end := early.ZoneBounds()
		return end
	case last:
		return slices.MaxFunc(found, time.Time.Compare).In(zone)
	default:
		return slices.MinFunc(found, time.Time.Compare).In(zone)
	}
}

// describe writes a window in the one form.
func (w window) describe() string {
	var b strings.Builder
	switch {
	case w.days == everyDay:
		b.WriteString("daily")
	default:
		first := true
		for i := range 7 {
			d := (i + 1) % 7 // from Monday on
			if !w.days[d] {
				continue
			}
			if !first {
				b.WriteByte(',')
			}
			first = false
			b.WriteString(time.Weekday(d).String()[:3])
		}
	}
	fmt.Fprintf(&b, " %s-%s", clockText(w.from), clockText(w.to))
	return b.String()
}

func clockText(s int) string {
	if s%60 != 0 {
		return fmt.Sprintf("%02d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%02d:%02d", s/3600, s/60%60)
}
