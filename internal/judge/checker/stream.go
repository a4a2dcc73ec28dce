package checker

import (
	"bytes"
	"context"
	"fmt"
	"io"
)

// windowBytes is how much of each side is in memory. It must be larger than
// maxNumberBytes, so that a number is always seen whole.
const windowBytes = 2 * maxNumberBytes

// space tells the bytes between tokens: those of C's isspace. NUL, 0x85, NBSP
// and the bytes of U+2028 are ordinary bytes.
var space = [256]bool{' ': true, '\t': true, '\n': true, '\v': true, '\f': true, '\r': true}

// spaceBit is space for arithmetic.
var spaceBit = func() (bits [256]uint8) {
	for c, blank := range space {
		if blank {
			bits[c] = 1
		}
	}
	return bits
}()

// stream is one side of a comparison: a window over a reader that knows where
// it is.
type stream struct {
	name       string
	r          io.Reader
	buf        []byte
	start, end int // the unread part of buf
	eof        bool

	tokens    int64 // tokens begun so far
	line      int64 // of buf[start], from 1
	offset    int64 // of buf[start] in the file
	lineStart int64 // offset of the line's first byte
}

func newStream(name string, r io.Reader, window int) *stream {
	return &stream{name: name, r: r, buf: make([]byte, window), line: 1}
}

// column of the next byte, in bytes from 1.
func (s *stream) column() int64 { return s.offset - s.lineStart + 1 }

// fill reads until the window is full or the input ends.
func (s *stream) fill(ctx context.Context) error {
	if s.eof || s.start == 0 && s.end == len(s.buf) {
		return nil
	}
	if err := context.Cause(ctx); err != nil {
		return err
	}
	copy(s.buf, s.buf[s.start:s.end])
	s.end -= s.start
	s.start = 0
	for s.end < len(s.buf) {
		n, err := s.r.Read(s.buf[s.end:])
		s.end += n
		if err == io.EOF {
			s.eof = true
			return nil
		}
		if err != nil {
			return fmt.Errorf("read %s: %w", s.name, err)
		}
	}
	return nil
}

// run returns the longest prefix of what is unread that consists of white
// space (blank) or of anything else, as far as the window shows it. whole says
// that the run ends there; a run that is not whole fills the window and goes on
// after advance.
func (s *stream) run(ctx context.Context, blank bool) (run []byte, whole bool, err error) {
	n := scan(s.buf[s.start:s.end], blank)
	if s.start+n == s.end && !s.eof {
		if err := s.fill(ctx); err != nil {
			return nil, false, err
		}
		n += scan(s.buf[s.start+n:s.end], blank)
	}
	run = s.buf[s.start : s.start+n]
	return run, s.start+n < s.end || s.eof, nil
}

func scan(b []byte, blank bool) int {
	for i, c := range b {
		if space[c] != blank {
			return i
		}
	}
	return len(b)
}

// advance steps over n bytes that contain no line feed.
func (s *stream) advance(n int) {
	s.start += n
	s.offset += int64(n)
}

// advanceBlank steps over n bytes of white space.
func (s *stream) advanceBlank(n int) {
	for i, c := range s.buf[s.start : s.start+n] {
		if c == '\n' {
			s.line++
			s.lineStart = s.offset + int64(i) + 1
		}
	}
	s.advance(n)
}

// skipBlank steps over all white space.
func (s *stream) skipBlank(ctx context.Context) error {
	for {
		run, whole, err := s.run(ctx, true)
		if err != nil {
			return err
		}
		s.advanceBlank(len(run))
		if whole {
			return nil
		}
	}
}

// skipSame steps over what is the same in a and b, up to the last white space
// in it; both must be between tokens, and are so afterwards. It changes no
// answer: equal bytes are equal under every rule. It is several times faster
// than going token by token, and most outputs are right.
func skipSame(ctx context.Context, a, b *stream) error {
	for {
		for _, s := range []*stream{a, b} {
			if s.end-s.start < len(s.buf)/2 {
				if err := s.fill(ctx); err != nil {
					return err
				}
			}
		}
		same := commonBlocks(a.buf[a.start:a.end], b.buf[b.start:b.end], len(a.buf)/128+1)
		for same > 0 && !space[a.buf[a.start+same-1]] {
			same--
		}
		if same == 0 {
			return nil
		}
		a.advanceTokens(same)
		b.advanceTokens(same)
	}
}

// commonBlocks is a length up to which a and b agree, found block by block.
func commonBlocks(a, b []byte, block int) int {
	size := min(len(a), len(b))
	for n := 0; n < size; {
		step := min(block, size-n)
		if !bytes.Equal(a[n:n+step], b[n:n+step]) {
			return n
		}
		n += step
	}
	return size
}

// advanceTokens steps over n bytes of whole tokens and white space.
func (s *stream) advanceTokens(n int) {
	run := s.buf[s.start : s.start+n]
	before, begun := uint8(1), 0
	for _, c := range run { // without a branch: the next byte is hard to foretell
		blank := spaceBit[c]
		begun += int(before &^ blank)
		before = blank
	}
	s.tokens += int64(begun)
	if lines := bytes.Count(run, []byte{'\n'}); lines > 0 {
		s.line += int64(lines)
		s.lineStart = s.offset + int64(bytes.LastIndexByte(run, '\n')) + 1
	}
	s.advance(n)
}
