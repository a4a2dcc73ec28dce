package checker

import (
	"bytes"
	"context"
	"io"
	"math/big"
	"regexp"
	"strings"
	"testing"
	"testing/iotest"

	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/internal/problem"
)

// reference is the same rule, written to be read: everything in memory, no
// shortcut, every number as a fraction and as a 64-bit float.
type reference struct{ o problem.TokenOptions }

const blanks = " \t\n\v\f\r"

var numberSyntax = regexp.MustCompile(`^[+-]?([0-9]+\.?[0-9]*|\.[0-9]+)([eE][+-]?[0-9]+)?$`)

func (r reference) accepts(answer, output []byte) bool {
	if r.o.SpaceChangeSensitive {
		isWord := func(c rune) bool { return !strings.ContainsRune(blanks, c) }
		want, got := latin1(answer), latin1(output)
		a, b := strings.FieldsFunc(want, isWord), strings.FieldsFunc(got, isWord)
		if strings.Join(a, "|") != strings.Join(b, "|") ||
			strings.IndexFunc(want, isWord) > 0 != (strings.IndexFunc(got, isWord) > 0) {
			return false
		}
	}
	isBlank := func(c rune) bool { return strings.ContainsRune(blanks, c) }
	want, got := strings.FieldsFunc(latin1(answer), isBlank), strings.FieldsFunc(latin1(output), isBlank)
	if len(want) != len(got) {
		return false
	}
	for i := range want {
		if !r.token(want[i], got[i]) {
			return false
		}
	}
	return true
}

// latin1 makes one rune of each byte.
func latin1(b []byte) string {
	var out strings.Builder
	for _, c := range b {
		out.WriteRune(rune(c))
	}
	return out.String()
}

func (r reference) token(want, got string) bool {
	if (r.o.FloatAbsolute != "" || r.o.FloatRelative != "") && numberSyntax.MatchString(want) {
		return numberSyntax.MatchString(got) && (r.exact(want, got) || r.float(want, got))
	}
	if !r.o.CaseSensitive {
		fold := func(c rune) rune {
			if 'A' <= c && c <= 'Z' {
				return c + 32
			}
			return c
		}
		want, got = strings.Map(fold, want), strings.Map(fold, got)
	}
	return want == got
}

func fraction(s string) *big.Rat {
	f, ok := new(big.Rat).SetString(s)
	if !ok {
		panic(s)
	}
	return f
}

func (r reference) exact(want, got string) bool {
	a, b := fraction(want), fraction(got)
	diff := new(big.Rat).Sub(a, b)
	diff.Abs(diff)
	if r.o.FloatAbsolute != "" && diff.Cmp(fraction(r.o.FloatAbsolute)) <= 0 {
		return true
	}
	return r.o.FloatRelative != "" && diff.Cmp(a.Mul(a.Abs(a), fraction(r.o.FloatRelative))) <= 0
}

func (r reference) float(want, got string) bool {
	float := func(s string) *big.Float { return new(big.Float).SetPrec(64).SetRat(fraction(s)) }
	a, b := float(want), float(got)
	diff := new(big.Float).SetPrec(64).Sub(a, b)
	diff.Abs(diff)
	if r.o.FloatAbsolute != "" && diff.Cmp(float(r.o.FloatAbsolute)) <= 0 {
		return true
	}
	return r.o.FloatRelative != "" && diff.Cmp(a.Mul(a.Abs(a), float(r.o.FloatRelative))) <= 0
}

// drawOptions draws flags.
func drawOptions(t *rapid.T) problem.TokenOptions {
	tolerances := rapid.SampledFrom([]string{"", "", "0", "1e-6", "0.5", "1e-9", "1e-18", "1e-19", "1e-20", "2"})
	return problem.TokenOptions{
		CaseSensitive:        rapid.Bool().Draw(t, "case"),
		SpaceChangeSensitive: rapid.IntRange(0, 3).Draw(t, "space") == 0,
		FloatAbsolute:        tolerances.Draw(t, "abs"),
		FloatRelative:        tolerances.Draw(t, "rel"),
	}
}

var words = rapid.OneOf(
	rapid.StringMatching(`[+-]?[0-9]{1,3}(\.[0-9]{0,3})?`),
	rapid.StringMatching(`[+-]?[0-9]{0,22}\.?[0-9]{0,3}([eE][+-]?[0-9]{0,2})?`),
	rapid.StringMatching(`[a-bA-B]{1,3}`),
	rapid.SampledFrom([]string{
		"0", "-0", "1", "1.0", "1.000001", "0.999999", "1.0000010", "1.00000100000000000000001", "nan", "NaN", "inf",
		"0x1", "1_0", "1e", ".", "+", "1e-40", "1e40", "a\x00", "\xff\xfe", "é", "\ufeff1", strings.Repeat("ab", 70),
	}),
)

// drawPair draws an answer and an output that often agree or nearly do.
func drawPair(t *rapid.T) (answer, output []byte) {
	blank := rapid.SampledFrom([]string{" ", " ", "\n", "\n", "  ", "\t", "\r\n", "\v", "\f", " \n", strings.Repeat(" ", 70)})
	var want, got bytes.Buffer
	if rapid.IntRange(0, 9).Draw(t, "leading") == 0 {
		got.WriteString(blank.Draw(t, "blank"))
	}
	for range rapid.IntRange(0, 5).Draw(t, "tokens") {
		word := words.Draw(t, "word")
		want.WriteString(word)
		switch rapid.IntRange(0, 11).Draw(t, "change") {
		case 0:
			word = words.Draw(t, "other")
		case 1:
			word += rapid.SampledFrom([]string{"0", "1", ".0", "a", "\x00"}).Draw(t, "tail")
		case 2:
			word = strings.ToUpper(word)
		case 3:
			word = ""
		}
		got.WriteString(word)
		separator := blank.Draw(t, "blank")
		want.WriteString(separator)
		if rapid.IntRange(0, 4).Draw(t, "respace") == 0 {
			separator = blank.Draw(t, "blank")
		}
		got.WriteString(separator)
	}
	return want.Bytes(), got.Bytes()
}

// smallWindow is shorter than the longest tokens and white space of drawPair
// and longer than its numbers.
const smallWindow = 64

func agree(t rapid.TB, o problem.TokenOptions, answer, output []byte) {
	want := reference{o}.accepts(answer, output)
	c, err := NewTokens(o)
	if err != nil {
		t.Fatal(err)
	}
	small := *c
	small.window = smallWindow
	for _, fast := range []struct {
		name string
		c    *Tokens
		wrap func(io.Reader) io.Reader
	}{
		{"whole", c, func(r io.Reader) io.Reader { return r }},
		{"small window", &small, func(r io.Reader) io.Reader { return r }},
		{"small window, byte by byte", &small, iotest.OneByteReader},
		{"small window, error with the data", &small, iotest.DataErrReader},
	} {
		got, err := fast.c.Compare(context.Background(), fast.wrap(bytes.NewReader(answer)), fast.wrap(bytes.NewReader(output)))
		if err != nil {
			t.Fatal(err)
		}
		if got.Accepted != want {
			t.Fatalf("%s: %+v: answer %q, output %q: accepted %t (%s), the reference says %t",
				fast.name, o, answer, output, got.Accepted, got.Message, want)
		}
	}
}

func TestFastPathAgreesWithTheReference(t *testing.T) {
	t.Parallel()
	accepted, pairs := 0, 0
	rapid.Check(t, func(t *rapid.T) {
		for range 50 { // many pairs a check: 100 checks are 5,000 pairs
			o := drawOptions(t)
			answer, output := drawPair(t)
			agree(t, o, answer, output)
			pairs++
			if (reference{o}).accepts(answer, output) {
				accepted++
			}
		}
	})
	if accepted < pairs/20 || accepted > pairs*19/20 {
		t.Errorf("%d of %d pairs accepted: the pairs prove little", accepted, pairs)
	}
}

// TestNumbersNearTheEdgeAgreeWithTheReference aims at the band in which the
// doubles, the 64-bit floats and the exact rule may say different things.
func TestNumbersNearTheEdgeAgreeWithTheReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range 50 {
			o := problem.TokenOptions{}
			tol := rapid.SampledFrom([]string{"0", "1e-6", "1e-9", "0.1", "1e-15", "1e-17", "1e-19", "1e-22", "3e-20"}).Draw(t, "tolerance")
			if rapid.Bool().Draw(t, "abs") {
				o.FloatAbsolute = tol
			} else {
				o.FloatRelative = tol
			}
			a := fraction(rapid.StringMatching(`-?[1-9][0-9]{0,18}(\.[0-9]{1,18})?`).Draw(t, "answer"))
			step := fraction(tol)
			if o.FloatRelative != "" {
				step.Mul(step, a)
			}
			nudge := fraction(rapid.SampledFrom([]string{"0", "1e-30", "-1e-30", "1e-20", "-1e-20", "1e-16", "-1e-16", "1e-3", "-1e-3"}).Draw(t, "nudge"))
			b := new(big.Rat).Add(a, step)
			b.Add(b, nudge.Mul(nudge, a))
			agree(t, o, []byte(a.FloatString(18)), []byte(b.FloatString(40)))
		}
	})
}

// TestNumbersOfExtremeSizeAgreeWithTheReference aims at where doubles end: at
// what is taken for zero, at what is too large, and at numbers with more
// digits than a float is made of.
func TestNumbersOfExtremeSizeAgreeWithTheReference(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		for range 20 {
			tolerances := rapid.SampledFrom([]string{"", "0", "1e-6", "1", "1e-239", "1e-241", "1e-249", "1e-251", "1e-330", "1e-400", "1e-900", "1e240", "1e260", "1e307"})
			o := problem.TokenOptions{FloatAbsolute: tolerances.Draw(t, "abs"), FloatRelative: tolerances.Draw(t, "rel")}
			number := func(what string) string {
				mantissa := rapid.SampledFrom([]string{"0", "0.000", "1", "-1", "1.0", "0.001", "9.99999", "123456789012345678901", strings.Repeat("7", 120), "." + strings.Repeat("0", 110) + "5", "1" + strings.Repeat("0", 119) + "1"})
				exponent := rapid.SampledFrom([]string{"", "e0", "e-239", "e-240", "e-250", "e-251", "e-308", "e-330", "e-500", "e-901", "e239", "e240", "e250", "e308", "e330", "e900"})
				return mantissa.Draw(t, what) + exponent.Draw(t, what+"'s exponent")
			}
			answer, output := number("answer"), number("output")
			c, err := NewTokens(o)
			if err != nil {
				t.Fatal(err)
			}
			got, err := c.Compare(context.Background(), strings.NewReader(answer), strings.NewReader(output))
			if want := (reference{o}).accepts([]byte(answer), []byte(output)); err != nil || got.Accepted != want {
				t.Fatalf("%+v: answer %q, output %q: accepted %t (%s), error %v, the reference says %t", o, answer, output, got.Accepted, got.Message, err, want)
			}
		}
	})
}

func FuzzTokens(f *testing.F) {
	f.Add([]byte("1 2\n"), []byte("1.0 2"), true, false, "1e-6", "")
	f.Add([]byte("a\x00"), []byte("A\x00"), false, true, "", "0.5")
	f.Add([]byte("1e40 .5 5. +1"), []byte("1e-40 nan inf 0x1"), false, false, "0", "0")
	f.Fuzz(func(t *testing.T, answer, output []byte, caseSensitive, spaceSensitive bool, abs, rel string) {
		o := problem.TokenOptions{CaseSensitive: caseSensitive, SpaceChangeSensitive: spaceSensitive, FloatAbsolute: abs, FloatRelative: rel}
		if _, err := NewTokens(o); err != nil {
			t.Skip()
		}
		// Fractions are slow with large exponents, and a number longer than
		// the small window is text to it.
		for _, text := range [][]byte{answer, output, []byte(abs), []byte(rel)} {
			for word := range bytes.FieldsSeq(text) {
				if len(word) >= smallWindow/2 || regexp.MustCompile(`[eE][+-]?[0-9]*[0-9]{3}`).Match(word) {
					t.Skip()
				}
			}
		}
		agree(t, o, answer, output)
	})
}

func BenchmarkTokens(b *testing.B) {
	lines := bytes.Repeat([]byte("123456 789.125 word\n"), 50_000)
	near := bytes.ReplaceAll(lines, []byte("789.125"), []byte("789.1250001"))
	for _, bench := range []struct {
		name   string
		o      problem.TokenOptions
		output []byte
	}{
		{"text", plain, lines},
		{"numbers, equal", tol6, lines},
		{"numbers, near", tol6, near},
	} {
		b.Run(bench.name, func(b *testing.B) {
			c := mustTokens(b, bench.o)
			b.SetBytes(int64(len(bench.output)))
			b.ReportAllocs()
			for b.Loop() {
				if r, err := c.Compare(b.Context(), bytes.NewReader(lines), bytes.NewReader(bench.output)); err != nil || !r.Accepted {
					b.Fatal(r, err)
				}
			}
		})
	}
}
