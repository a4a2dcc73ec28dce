package hours

import (
	"fmt"
	"strconv"
	"strings"
	"time"
)

// maxWindows bounds a plan; a week has not so many sleeps.
const maxWindows = 32

var everyDay = [7]bool{true, true, true, true, true, true, true}

// Error is a plan that cannot be read: what is wrong and what to write instead.
type Error struct{ What, Hint string }

func (e *Error) Error() string { return e.What + ": " + e.Hint }

// Parse reads a plan: windows such as "daily 01:30-06:00" or
// "Mon-Fri 22:00-06:00", separated by commas, semicolons or line ends, in a
// zone such as "Europe/Berlin"; "" is UTC. Nothing is an empty plan.
func Parse(text, zone string) (Plan, error) {
	p := Plan{name: zone}
	if zone == "" {
		p.name = "UTC"
	}
	loc, err := time.LoadLocation(p.name)
	if err != nil || p.name == "Local" {
		return Plan{}, &Error{fmt.Sprintf("%q is no time zone", zone), "use a name such as Europe/Berlin or UTC"}
	}
	p.zone = loc
	var described []string
	for _, line := range strings.FieldsFunc(text, func(r rune) bool { return r == ';' || r == '\n' }) {
		windows, err := parseLine(line)
		if err != nil {
			return Plan{}, err
		}
		p.windows = append(p.windows, windows...)
	}
	if len(p.windows) > maxWindows {
		return Plan{}, &Error{fmt.Sprintf("%d windows", len(p.windows)), fmt.Sprintf("give at most %d", maxWindows)}
	}
	for _, w := range p.windows {
		described = append(described, w.describe())
	}
	p.text = strings.Join(described, "; ")
	return p, nil
}

// parseLine reads "DAYS FROM-TO[, DAYS FROM-TO]…"; commas also separate days.
func parseLine(line string) ([]window, error) {
	var windows []window
	var days [7]bool
	named, timed := false, false
	for _, word := range strings.FieldsFunc(line, func(r rune) bool { return r == ' ' || r == '\t' || r == ',' || r == '\r' }) {
		if strings.Contains(word, ":") {
			if !named {
				return nil, &Error{fmt.Sprintf("%q has no day", word), `write for example "daily 01:30-06:00" or "Wednesday 04:00-04:30"`}
			}
			from, to, err := parseTimes(word)
			if err != nil {
				return nil, err
			}
			windows = append(windows, window{days: days, from: from, to: to})
			timed = true
			continue
		}
		if timed { // the next days
			days, timed = [7]bool{}, false
		}
		if err := parseDays(word, &days); err != nil {
			return nil, err
		}
		named = true
	}
	if named && !timed {
		return nil, &Error{fmt.Sprintf("%q has no times", strings.TrimSpace(line)), `write for example "daily 01:30-06:00"`}
	}
	return windows, nil
}

// parseDays reads "daily", "Wed", "Wednesday" or "Mon-Fri".
func parseDays(word string, days *[7]bool) error {
	if strings.EqualFold(word, "daily") {
		*days = everyDay
		return nil
	}
	first, last, ranged := strings.Cut(word, "-")
	from, ok := weekday(first)
	if !ok {
		return &Error{fmt.Sprintf("%q is no day", first), "use daily, a weekday such as Wednesday, or a range such as Mon-Fri"}
	}
	to := from
	if ranged {
		if to, ok = weekday(last); !ok {
			return &Error{fmt.Sprintf("%q is no day", last), "use daily, a weekday such as Wednesday, or a range such as Mon-Fri"}
		}
	}
	for d := from; ; d = (d + 1) % 7 {
		days[d] = true
		if d == to {
			return nil
		}
	}
}

// weekday knows the English names and what is short for them.
func weekday(word string) (time.Weekday, bool) {
	if len(word) < 3 {
		return 0, false
	}
	for d := time.Sunday; d <= time.Saturday; d++ {
		if name := d.String(); len(word) <= len(name) && strings.EqualFold(name[:len(word)], word) {
			return d, true
		}
	}
	return 0, false
}

func parseTimes(word string) (from, to int, err error) {
	first, last, ok := strings.Cut(word, "-")
	if !ok {
		return 0, 0, &Error{fmt.Sprintf("%q has no end", word), "write both, as in 01:30-06:00"}
	}
	if from, err = parseClock(first, false); err != nil {
		return 0, 0, err
	}
	if to, err = parseClock(last, true); err != nil {
		return 0, 0, err
	}
	if from == to {
		return 0, 0, &Error{fmt.Sprintf("%q ends when it begins", word), "for a whole day write 00:00-24:00"}
	}
	return from, to, nil
}

// parseClock reads HH:MM or HH:MM:SS; 24:00 may only be an end.
func parseClock(word string, end bool) (int, error) {
	bad := &Error{fmt.Sprintf("%q is no time of day", word), "write it as 01:30, from 00:00 to 23:59"}
	parts := strings.Split(word, ":")
	if len(parts) != 2 && len(parts) != 3 {
		return 0, bad
	}
	seconds := 0
	for i, part := range parts {
		n, err := strconv.Atoi(part)
		if err != nil || len(part) > 2 || part[0] == '+' || part[0] == '-' || n < 0 || i > 0 && n > 59 {
			return 0, bad
		}
		seconds = seconds*60 + n
	}
	if len(parts) == 2 {
		seconds *= 60
	}
	const day = 24 * 60 * 60
	if seconds > day || seconds == day && !end {
		return 0, bad
	}
	return seconds, nil
}
