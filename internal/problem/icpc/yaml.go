package icpc

import (
	"context"
	"errors"
	"fmt"
	"math/big"
	"regexp"
	"strings"
	"unicode/utf8"

	"github.com/goccy/go-yaml"
	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/lexer"
	"github.com/goccy/go-yaml/parser"
	"github.com/goccy/go-yaml/token"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// value is a node of a YAML file, with its place for messages. The files are
// walked by hand rather than decoded into structs, because each error has to
// name its line and the cure, and unknown keys are errors in one dialect and
// warnings in another.
type value struct {
	file string
	key  string // dotted path, "" at the root
	node ast.Node
}

var utf8BOM = []byte("\xef\xbb\xbf")

// parseYAML returns the root mapping's value; an empty file is an empty
// mapping. The caller bounds len(b), boundYAML what it is parsed into.
func parseYAML(ctx context.Context, file string, b []byte) (value, error) {
	v := value{file: file}
	b = trimBOM(b)
	if err := checkText(file, b); err != nil {
		return v, err
	}
	done, err := admitParse(ctx)
	if err != nil {
		return v, err
	}
	defer done()
	tokens := lexer.Tokenize(string(b))
	if err := boundYAML(file, tokens); err != nil {
		return v, err
	}
	f, err := parser.Parse(tokens, 0)
	if err != nil {
		line, msg := 1, err.Error()
		if e, ok := errors.AsType[yaml.Error](err); ok {
			msg = e.GetMessage()
			if t := e.GetToken(); t != nil && t.Position != nil {
				line = t.Position.Line
			}
		}
		return v, apperr.New(apperr.Invalid, "correct the YAML; indent with spaces, and quote text that holds ': ' or '#'", "not valid YAML: %s", firstLine(msg)).At(fmt.Sprintf("%s:%d", file, line))
	}
	var bodies []ast.Node
	for _, d := range f.Docs {
		if d.Body != nil && d.Body.Type() != ast.CommentType {
			bodies = append(bodies, d.Body)
		}
	}
	switch len(bodies) {
	case 0:
		return v, nil
	case 1:
		v.node = bodies[0]
		return v, nil
	}
	v.node = bodies[1]
	return v, v.fail("remove the second one", "holds more than one YAML document")
}

func trimBOM(b []byte) []byte {
	if len(b) >= 3 && string(b[:3]) == string(utf8BOM) {
		return b[3:]
	}
	return b
}

func firstLine(s string) string {
	s, _, _ = strings.Cut(s, "\n")
	return s
}

func (v value) line() int {
	if v.node == nil || v.node.GetToken() == nil || v.node.GetToken().Position == nil {
		return 1
	}
	return v.node.GetToken().Position.Line
}

func (v value) place() string { return fmt.Sprintf("%s:%d", v.file, v.line()) }

// fail makes an error about v.
func (v value) fail(hint, format string, args ...any) error {
	return v.failCode(apperr.Invalid, hint, format, args...)
}

func (v value) failCode(code apperr.Code, hint, format string, args ...any) error {
	msg := fmt.Sprintf(format, args...)
	if v.key != "" {
		msg = v.key + ": " + msg
	}
	return apperr.New(code, hint, "%s", strings.ToValidUTF8(msg, "\ufffd")).At(v.place())
}

// null reports whether nothing was written.
func (v value) null() bool { return v.node == nil || v.node.Type() == ast.NullType }

// mapping reports whether keys can be read from v.
func (v value) mapping() bool {
	switch v.node.(type) {
	case *ast.MappingNode, *ast.MappingValueNode:
		return true
	}
	return false
}

// each calls the handler of each key in the order written. Keys without a
// handler go to unknown; a handler of nil takes and ignores its key.
func (v value) each(handlers map[string]func(value) error, unknown func(key string, v value) error) error {
	if v.null() {
		return nil
	}
	var pairs []*ast.MappingValueNode
	switch n := v.node.(type) {
	case *ast.MappingNode:
		pairs = n.Values
	case *ast.MappingValueNode:
		pairs = []*ast.MappingValueNode{n}
	default:
		return v.fail("write 'key: value' lines", "must be a mapping")
	}
	for _, p := range pairs {
		name, child, err := v.child(p)
		if err != nil {
			return err
		}
		h, known := handlers[name]
		switch {
		case !known:
			err = unknown(name, child)
		case h != nil:
			err = h(child)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (v value) child(p *ast.MappingValueNode) (string, value, error) {
	at := value{file: v.file, key: v.key, node: p.Key}
	if p.Key.IsMergeKey() {
		return "", at, at.fail("write the keys themselves", "merge keys (<<) are not read")
	}
	name, _, err := at.scalar()
	if err != nil {
		return "", at, err
	}
	c := value{file: v.file, key: name, node: p.Value}
	if v.key != "" {
		c.key = v.key + "." + name
	}
	if c.null() {
		c.node = p.Key // for its line
		return name, value{c.file, c.key, nullAt{p.Key}}, nil
	}
	return name, c, nil
}

// nullAt is an absent value that knows where its key stands.
type nullAt struct{ ast.Node }

// Type implements ast.Node.
func (nullAt) Type() ast.NodeType { return ast.NullType }

// scalar returns the text of a scalar as written, and whether it was quoted.
func (v value) scalar() (string, bool, error) {
	s, quoted, err := v.written()
	if err == nil && strings.IndexByte(s, 0) >= 0 { // "\0", which no database takes as text
		err = v.fail(`remove the \0`, "the text holds a NUL character")
	}
	if err == nil && !utf8.ValidString(s) { // "\ud800"
		err = v.fail(`write the character itself`, "the text holds half a character")
	}
	return s, quoted, err
}

func (v value) written() (string, bool, error) {
	switch n := v.node.(type) {
	case *ast.StringNode:
		t := n.GetToken().Type
		return n.Value, t == token.SingleQuoteType || t == token.DoubleQuoteType, nil
	case *ast.LiteralNode:
		return n.Value.Value, true, nil
	case *ast.IntegerNode, *ast.FloatNode, *ast.BoolNode, *ast.InfinityNode, *ast.NanNode:
		return n.GetToken().Value, false, nil
	case *ast.AliasNode, *ast.AnchorNode:
		return "", false, v.fail("write the value itself", "anchors and aliases are not read")
	case *ast.TagNode:
		return "", false, v.fail("remove the tag", "tags are not read")
	}
	if v.null() {
		return "", false, v.fail("give a value, or remove the key", "has no value")
	}
	return "", false, v.fail("write a single value", "must be a single value, not a list or mapping")
}

// text returns a scalar as text.
func (v value) text() (string, error) {
	s, _, err := v.scalar()
	return s, err
}

// list returns the values of a sequence; an empty value is an empty list.
func (v value) list() ([]value, error) {
	if v.null() {
		return nil, nil
	}
	seq, ok := v.node.(*ast.SequenceNode)
	if !ok {
		return nil, v.fail("write a list, such as [a, b]", "must be a list")
	}
	vs := make([]value, len(seq.Values))
	for i, n := range seq.Values {
		vs[i] = value{v.file, fmt.Sprintf("%s[%d]", v.key, i), n}
	}
	return vs, nil
}

// texts returns a list of scalars.
func (v value) texts() ([]string, error) {
	vs, err := v.list()
	if err != nil {
		return nil, err
	}
	out := make([]string, len(vs))
	for i, e := range vs {
		if out[i], err = e.text(); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// words returns a list, or the words of a text.
func (v value) words() ([]string, error) {
	if v.null() {
		return nil, nil
	}
	if _, ok := v.node.(*ast.SequenceNode); ok {
		return v.texts()
	}
	s, err := v.text()
	return strings.Fields(s), err
}

// decimalRE is the format's one grammar of decimal numbers.
var decimalRE = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]{1,4})?$`)

// maxDecimalLen keeps exact arithmetic on what a package says cheap.
const maxDecimalLen = 64

// parseDecimal reads a number of the format's grammar exactly.
func parseDecimal(s string) (*big.Rat, bool) {
	if len(s) > maxDecimalLen || !decimalRE.MatchString(s) {
		return nil, false
	}
	return new(big.Rat).SetString(s)
}

// scaled returns a positive number times scale, which must come out whole and
// at most limit: seconds as milliseconds, MiB as bytes.
func (v value) scaled(unit string, scale, limit int64) (int64, error) {
	s, quoted, err := v.scalar()
	if err != nil {
		return 0, err
	}
	if quoted {
		return 0, v.fail("take the quotes off", "%q is text; a number of %s is wanted", s, unit)
	}
	return scaleDecimal(s, unit, scale, limit, v.fail)
}

func scaleDecimal(s, unit string, scale, limit int64, fail func(hint, format string, args ...any) error) (int64, error) {
	r, ok := parseDecimal(s)
	switch {
	case !ok:
		return 0, fail("write a plain number, such as 2 or 1.5", "%q is not a number of %s", s, unit)
	case r.Sign() == 0:
		return 0, fail("give a limit greater than 0, or remove the key for the default", "is 0; a limit of 0 lets nothing run")
	case r.Sign() < 0:
		return 0, fail("give a limit greater than 0, or remove the key for the default", "%s is negative", s)
	}
	r.Mul(r, new(big.Rat).SetInt64(scale))
	if r.Cmp(new(big.Rat).SetInt64(limit)) > 0 {
		return 0, fail(fmt.Sprintf("give at most %d %s", limit/scale, unit), "%s %s is more than gavel allows", s, unit)
	}
	if !r.IsInt() {
		if scale == 1000 {
			return 0, fail("round it to milliseconds", "%s %s is finer than a millisecond", s, unit)
		}
		return 0, fail("give a whole number", "%s is not a whole number of bytes in %s", s, unit)
	}
	return r.Num().Int64(), nil
}
