package cli

import (
	"strings"
	"unicode"

	"golang.org/x/text/width"

	"github.com/gavel-oj/gavel/gavelapi"
)

type color string

// The colours, as SGR parameters: the 16 that every terminal's theme defines.
const (
	plain   color = ""
	bold    color = "1"
	dim     color = "2"
	red     color = "31"
	green   color = "32"
	yellow  color = "33"
	magenta color = "35"
	cyan    color = "36"
)

// style says where colour may be used: on a terminal, and never with NO_COLOR
// (https://no-color.org: set and not empty).
type style struct{ out, err bool }

func newStyle(s Streams) style {
	never := s.Getenv("NO_COLOR") != "" || s.Getenv("TERM") == "dumb"
	return style{out: s.OutTerminal && !never, err: s.ErrTerminal && !never}
}

func (style) paint(text string, c color, on bool) string {
	if !on || c == plain || text == "" {
		return text
	}
	return "\x1b[" + string(c) + "m" + text + "\x1b[0m"
}

// verdictColor colours what a person looks for first; the word itself always
// says the same.
func verdictColor(v string) color {
	switch v {
	case "AC":
		return green
	case "WA", "RE":
		return red
	case "TLE", "MLE", "OLE":
		return yellow
	case "CE":
		return cyan
	case "SE":
		return magenta
	case gavelapi.SkippedTest:
		return dim
	}
	return plain
}

func stateColor(s string) color {
	switch s {
	case gavelapi.StateSystemError, "offline", "disabled":
		return magenta
	case "set_aside", "asleep":
		return yellow
	case gavelapi.StateCancelled, gavelapi.StatePending:
		return dim
	case "busy", "idle":
		return green
	case "draining", "paused":
		return yellow
	}
	return plain
}

// clean makes text from elsewhere safe for a terminal: control characters
// could move the cursor, change the title or answer for the person.
func clean(s string) string {
	return strings.Map(func(r rune) rune {
		switch {
		case r == '\n' || r == '\t':
			return ' '
		case unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r):
			return unicode.ReplacementChar
		}
		return r
	}, s)
}

// cleanLines is clean for text that has lines, such as a compile log.
func cleanLines(s string) []string {
	lines := strings.Split(strings.TrimRight(strings.ReplaceAll(s, "\r\n", "\n"), "\n"), "\n")
	for i, l := range lines {
		lines[i] = clean(strings.ReplaceAll(l, "\t", "    "))
	}
	return lines
}

// columns is how wide a text is on a terminal.
func columns(s string) int {
	n := 0
	for _, r := range s {
		n += runeColumns(r)
	}
	return n
}

func runeColumns(r rune) int {
	if unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf) {
		return 0
	}
	switch width.LookupRune(r).Kind() {
	case width.EastAsianWide, width.EastAsianFullwidth:
		return 2
	}
	return 1
}

// cut shortens a text to at most limit columns.
func cut(s string, limit int) string {
	if columns(s) <= limit {
		return s
	}
	n := 0
	for i, r := range s {
		if n+runeColumns(r) > limit-1 {
			return s[:i] + "…"
		}
		n += runeColumns(r)
	}
	return s
}
