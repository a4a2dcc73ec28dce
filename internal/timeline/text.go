package timeline

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// WriteTable writes a line for each way: the times of the incident, and behind
// them, in brackets, as they were measured.
func (r *Replay) WriteTable(w io.Writer) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "WAY\tCLAIM HELD UP\tSUBMISSION WAITED\tJUDGED\tLOST\tALARM")
	for i := range r.Ways {
		way := &r.Ways[i]
		judged, all := way.Judged()
		alarm := "none"
		if len(way.Alarms) > 0 {
			alarm = r.clock(way.Alarms[0].Rang)
		}
		fmt.Fprintf(tw, "%s\t%s\t%s\t%d of %d\t%d\t%s\n", way.Name, r.both(way.ClaimHeldUp), r.both(way.Waited()), judged, all, all-judged, alarm)
	}
	return tw.Flush()
}

func (r *Replay) both(o Offset) string {
	return fmt.Sprintf("%s (%s)", Short(time.Duration(o)), milli(r.Raw(o)))
}

// WriteText writes what happened in each way, in order.
func (r *Replay) WriteText(w io.Writer) error {
	for i := range r.Ways {
		way := &r.Ways[i]
		for n, line := range fold(way.Name+": "+way.What, 76) {
			if _, err := fmt.Fprintln(w, strings.Repeat("    ", min(n, 1))+line); err != nil {
				return err
			}
		}
		for _, e := range r.lines(way) {
			at := r.clock(e.At)
			for n, line := range fold(e.What, 80-4-len(at)) {
				if n > 0 {
					at = strings.Repeat(" ", len(at))
				}
				if _, err := fmt.Fprintf(w, "  %s  %s\n", at, line); err != nil {
					return err
				}
			}
		}
		if i < len(r.Ways)-1 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
		}
	}
	return nil
}

// lines tells all that happened in a way as events, in order.
func (r *Replay) lines(way *Way) []Event {
	all := slices.Clone(way.Events)
	for i := range way.Submissions {
		all = append(all, Event{way.Submissions[i].At, tell(&way.Submissions[i], way.Ended)})
	}
	for _, s := range way.Spans {
		length := Short(time.Duration(s.To - s.From))
		switch s.Kind {
		case HeldUp:
			all = append(all, Event{s.From, fmt.Sprintf("%s: %s, for %s", s.Who, s.What, length)})
		default:
			all = append(all, Event{s.From, fmt.Sprintf("%s: %s", s.Who, s.What)})
		}
	}
	for _, a := range way.Alarms {
		all = append(all, Event{a.Rang, fmt.Sprintf("ALARM %s: %s", a.Name, a.What)})
		if a.Cleared > 0 {
			all = append(all, Event{a.Cleared, fmt.Sprintf("%s cleared after %s", a.Name, Short(time.Duration(a.Cleared-a.Rang)))})
		}
	}
	slices.SortStableFunc(all, func(a, b Event) int { return cmp.Compare(a.At, b.At) })
	return all
}

// tell is the life of a submission in one sentence.
func tell(s *Submission, end Offset) string {
	var b strings.Builder
	fmt.Fprintf(&b, "submission %d", s.ID)
	since := s.At
	for i, c := range s.Claims {
		verb, tail := "claimed by", ""
		if c.Outcome != "completed" {
			tail = ", " + c.Outcome
		}
		if i > 0 {
			verb = "then by"
		}
		fmt.Fprintf(&b, ", %s %s after %s%s", verb, c.Worker, Short(time.Duration(max(0, c.At-since))), tail)
		since = c.At
	}
	if !s.Judged {
		fmt.Fprintf(&b, ", not judged after %s", Short(time.Duration(end-s.At)))
	}
	return b.String()
}

// fold breaks a text into lines of at most width bytes, at blanks.
func fold(text string, width int) (lines []string) {
	line := ""
	for word := range strings.FieldsSeq(text) {
		if line != "" && len(line)+1+len(word) > width {
			lines, line = append(lines, line), ""
		}
		if line != "" {
			line += " "
		}
		line += word
	}
	return append(lines, line)
}
