package checker

import (
	"bytes"
	"context"
	"fmt"
	"io"

	"github.com/gavel-oj/gavel/internal/problem"
)

// Tokens compares token by token, as the ICPC default validator does. It is
// read-only after NewTokens and safe for concurrent use.
type Tokens struct {
	caseSensitive  bool
	spaceSensitive bool
	tolerance      tolerance
	window         int
}

// NewTokens reads the flags. A tolerance that is not a decimal of at least 0
// is an error.
func NewTokens(o problem.TokenOptions) (*Tokens, error) {
	t := &Tokens{caseSensitive: o.CaseSensitive, spaceSensitive: o.SpaceChangeSensitive, window: windowBytes}
	for _, side := range []struct {
		name, text string
		to         **bound
	}{
		{"float_absolute_tolerance", o.FloatAbsolute, &t.tolerance.abs},
		{"float_relative_tolerance", o.FloatRelative, &t.tolerance.rel},
	} {
		if side.text == "" {
			continue
		}
		b, err := parseBound(side.text)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", side.name, err)
		}
		*side.to = b
	}
	return t, nil
}

// Compare reads both sides to the first difference. An error means that a
// side could not be read, or is the cause of ctx's end.
func (t *Tokens) Compare(ctx context.Context, answer, output io.Reader) (Result, error) {
	c := comparison{
		t: t, ctx: ctx,
		want: newStream("answer", answer, t.window),
		got:  newStream("output", output, t.window),
	}
	err := c.run()
	return c.result, err
}

type comparison struct {
	t         *Tokens
	ctx       context.Context //nolint:containedctx // lives as long as one call of Compare
	want, got *stream
	result    Result
}

func (c *comparison) run() error {
	for {
		if err := skipSame(c.ctx, c.want, c.got); err != nil {
			return err
		}
		if done, err := c.blank(); done || err != nil {
			return err
		}
		if done, err := c.token(); done || err != nil {
			return err
		}
	}
}

func (c *comparison) wrong(format string, args ...any) {
	c.result = Result{Message: fmt.Sprintf("token %d (line %d, column %d): ", c.got.tokens, c.got.line, c.got.column()) +
		fmt.Sprintf(format, args...)}
}

// blank steps over white space on both sides; it ends the comparison only when
// white space counts and differs.
func (c *comparison) blank() (done bool, err error) {
	if !c.t.spaceSensitive {
		if err := c.want.skipBlank(c.ctx); err != nil {
			return false, err
		}
		return false, c.got.skipBlank(c.ctx)
	}
	for {
		want, wantWhole, err := c.want.run(c.ctx, true)
		if err != nil {
			return false, err
		}
		got, gotWhole, err := c.got.run(c.ctx, true)
		if err != nil {
			return false, err
		}
		n := min(len(want), len(got))
		if !bytes.Equal(want[:n], got[:n]) || n < len(want) && gotWhole || n < len(got) && wantWhole {
			c.wrong("white space after it differs: want %s, got %s", excerpt(want), excerpt(got))
			return true, nil
		}
		c.want.advanceBlank(n)
		c.got.advanceBlank(n)
		if wantWhole && gotWhole {
			return false, nil
		}
	}
}

// token compares one token; it ends the comparison at a difference and when
// both sides are at their end.
func (c *comparison) token() (done bool, err error) {
	want, wantWhole, err := c.want.run(c.ctx, false)
	if err != nil {
		return false, err
	}
	got, gotWhole, err := c.got.run(c.ctx, false)
	if err != nil {
		return false, err
	}
	switch {
	case len(want) == 0 && len(got) == 0:
		c.result.Accepted = true
		return true, nil
	case len(got) == 0 && c.got.tokens == 0:
		c.result.Message = fmt.Sprintf("no output: want %s", excerpt(want))
		return true, nil
	case len(got) == 0:
		c.result.Message = fmt.Sprintf("output ends after token %d (line %d): want %s next", c.got.tokens, c.got.line, excerpt(want))
		return true, nil
	}
	c.want.tokens++
	c.got.tokens++
	if len(want) == 0 {
		c.wrong("unexpected %s after the end of the answer", excerpt(got))
		return true, nil
	}

	if c.t.tolerance.given() && wantWhole {
		if a, ok := parseNumber(want); ok {
			return c.number(a, want, got, gotWhole), nil
		}
	}
	return c.text(want, got, wantWhole, gotWhole)
}

// number compares a token of the answer that is a number.
func (c *comparison) number(a number, want, got []byte, gotWhole bool) (done bool) {
	if !bytes.Equal(want, got) || !gotWhole {
		if !gotWhole {
			c.wrong("want the number %s, got %s, longer than a number may be", excerpt(want), excerpt(got))
			return true
		}
		b, ok := parseNumber(got)
		if !ok {
			c.wrong("want the number %s, got %s", excerpt(want), excerpt(got))
			return true
		}
		if !c.t.tolerance.accepts(a, b) {
			c.wrong("want %s within %s, got %s", excerpt(want), c.t.tolerance, excerpt(got))
			return true
		}
	}
	c.want.advance(len(want))
	c.got.advance(len(got))
	return false
}

// text compares a token byte by byte, window by window.
func (c *comparison) text(want, got []byte, wantWhole, gotWhole bool) (done bool, err error) {
	for column := c.got.column(); ; {
		n := min(len(want), len(got))
		i := c.t.commonPrefix(want[:n], got[:n])
		if i < n || n < len(want) && gotWhole || n < len(got) && wantWhole {
			if c.got.column() == column && i <= excerptBytes/2 {
				c.wrong("want %s, got %s", excerpt(want), excerpt(got))
			} else { // show the place, not the part that is the same
				c.want.advance(i)
				c.got.advance(i)
				c.wrong("from here want %s, got %s", excerpt(want[i:]), excerpt(got[i:]))
			}
			return true, nil
		}
		c.want.advance(n)
		c.got.advance(n)
		if wantWhole && gotWhole {
			return false, nil
		}
		if want, wantWhole, err = c.want.run(c.ctx, false); err != nil {
			return false, err
		}
		if got, gotWhole, err = c.got.run(c.ctx, false); err != nil {
			return false, err
		}
	}
}

// commonPrefix of two slices of the same length.
func (t *Tokens) commonPrefix(a, b []byte) int {
	for i := range a {
		if a[i] != b[i] && (t.caseSensitive || lower(a[i]) != lower(b[i])) {
			return i
		}
	}
	return len(a)
}

// lower folds ASCII only: what a letter is in another encoding is not ours to
// guess.
func lower(c byte) byte {
	if 'A' <= c && c <= 'Z' {
		return c + 'a' - 'A'
	}
	return c
}
