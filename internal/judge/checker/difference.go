package checker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// How much of a line a Place shows.
const (
	placeBeforeBytes = 40
	placeTokenBytes  = 60
	placeAfterBytes  = 30
)

// Difference is the first place where an output is not what the answer says.
type Difference struct {
	Token     int64 // number of the token in the output, from 1
	Want, Got Place
}

// Place is a place in a text with its line around it. The texts are printable
// ASCII: every other byte is escaped, a backslash too. Here is empty at the
// end of the text.
type Place struct {
	Line, Column        int64 // from 1, in bytes
	Before, Here, After string
}

// Difference finds what Compare complains about; nil when it does not.
func (t *Tokens) Difference(ctx context.Context, answer, output io.ReadSeeker) (*Difference, error) {
	c := comparison{
		t: t, ctx: ctx,
		want: newStream("answer", answer, t.window),
		got:  newStream("output", output, t.window),
	}
	if err := c.run(); err != nil || c.result.Accepted {
		return nil, err
	}
	d := &Difference{Token: max(c.got.tokens, 1)}
	for _, side := range []struct {
		s  *stream
		r  io.ReadSeeker
		to *Place
	}{{c.want, answer, &d.Want}, {c.got, output, &d.Got}} {
		var err error
		if *side.to, err = side.s.place(side.r); err != nil {
			return nil, fmt.Errorf("read %s again: %w", side.s.name, err)
		}
	}
	return d, nil
}

// place reads around where s stands.
func (s *stream) place(r io.ReadSeeker) (Place, error) {
	p := Place{Line: s.line, Column: s.column()}
	from := max(s.lineStart, s.offset-placeBeforeBytes)
	if _, err := r.Seek(from, io.SeekStart); err != nil {
		return p, err
	}
	buf := make([]byte, int(s.offset-from)+placeTokenBytes+placeAfterBytes)
	n, err := io.ReadFull(r, buf)
	if err != nil && !errors.Is(err, io.ErrUnexpectedEOF) && !errors.Is(err, io.EOF) {
		return p, err
	}
	full := n == len(buf)
	at := min(int(s.offset-from), n)
	before, rest := buf[:at], buf[at:n]
	here := rest[:min(scan(rest, false), placeTokenBytes)]
	if len(here) == 0 { // white space is what differs
		here = rest[:min(scan(rest, true), placeTokenBytes)]
	}
	after := rest[len(here):]
	if i := bytes.IndexByte(after, '\n'); i >= 0 {
		after, full = after[:i], false
	}
	p.Before, p.Here, p.After = escapeAll(before), escapeAll(here), escapeAll(after)
	if from > s.lineStart {
		p.Before = "..." + p.Before
	}
	if full {
		p.After += "..."
	}
	return p, nil
}

func escapeAll(b []byte) string {
	var out strings.Builder
	for _, c := range b {
		if c == '"' {
			out.WriteByte(c)
			continue
		}
		out.WriteString(escape(c))
	}
	return out.String()
}
