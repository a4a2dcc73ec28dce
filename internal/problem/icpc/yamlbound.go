package icpc

import (
	"bytes"
	"context"
	"fmt"
	"unicode/utf8"

	"github.com/goccy/go-yaml/token"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// Bounds of one YAML file. Splitting text into tokens takes time in
// proportion; what builds the tree of them takes time and memory by the square
// of nesting and of the number of keys, so that a file of half a kilobyte when
// packed could take gigabytes. Real packages are far below.
const (
	maxYAMLDepth  = 100
	maxYAMLKeys   = 2000
	maxYAMLMarks  = 100 // anchors, aliases, tags and '?' keys, none of which is read
	maxYAMLTokens = 20_000
)

// parsing holds one place for each file that is parsed at this moment, so that
// many uploads at once take no more memory than a few.
var parsing = make(chan struct{}, 2)

// admitParse waits for a place; the caller calls done.
func admitParse(ctx context.Context) (done func(), err error) {
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	select {
	case parsing <- struct{}{}:
		return func() { <-parsing }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}

// checkText refuses what is no text that can be stored and shown again: bytes
// that are not UTF-8 would become something else, silently.
func checkText(file string, b []byte) error {
	for rest, line := b, 1; len(rest) > 0; line++ {
		text, after, _ := bytes.Cut(rest, []byte("\n"))
		at := fmt.Sprintf("%s:%d", file, line)
		switch {
		case !utf8.Valid(text):
			return apperr.New(apperr.Invalid, "save the file as UTF-8 (iconv -f latin1 -t utf-8, if it is Latin-1)", "the file is not UTF-8").At(at)
		case bytes.IndexByte(text, 0) >= 0:
			return apperr.New(apperr.Invalid, "remove it", "the file holds a NUL byte").At(at)
		}
		rest = after
	}
	return nil
}

// boundYAML refuses a file that would cost too much to parse.
func boundYAML(file string, tokens token.Tokens) error {
	refuse := func(t *token.Token, hint, format string, args ...any) error {
		line := 1
		if t.Position != nil {
			line = t.Position.Line
		}
		return apperr.New(apperr.Invalid, hint, format, args...).At(fmt.Sprintf("%s:%d", file, line))
	}
	var (
		columns           []int // of the block nodes that are open
		flow, keys, marks int
		line              int
	)
	for i, t := range tokens {
		if i >= maxYAMLTokens {
			return refuse(t, "shorten the file", "the YAML has more than %d elements", maxYAMLTokens)
		}
		switch t.Type {
		case token.CommentType:
			continue
		case token.SequenceStartType, token.MappingStartType:
			flow++
		case token.SequenceEndType, token.MappingEndType:
			flow = max(0, flow-1)
		case token.MappingValueType:
			keys++
		case token.AnchorType, token.AliasType, token.TagType, token.MappingKeyType, token.MergeKeyType:
			marks++
		}
		if p := t.Position; p != nil && flow == 0 && (p.Line != line || t.Type == token.SequenceEntryType) {
			// What starts a line, or is a list in a list, opens a node at its
			// column and ends those that stand further right.
			for p.Line != line && len(columns) > 0 && columns[len(columns)-1] >= p.Column {
				columns = columns[:len(columns)-1]
			}
			columns, line = append(columns, p.Column), p.Line
		}
		switch {
		case len(columns)+flow > maxYAMLDepth:
			return refuse(t, "write it flatter", "the YAML is nested more than %d levels deep", maxYAMLDepth)
		case keys > maxYAMLKeys:
			return refuse(t, "remove keys that nothing reads", "the YAML has more than %d keys", maxYAMLKeys)
		case marks > maxYAMLMarks:
			return refuse(t, "write plain keys and values", "the YAML has more than %d anchors, aliases, tags and '?' keys, none of which is read", maxYAMLMarks)
		}
	}
	return nil
}
