package checker

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"testing/iotest"
	"unicode/utf8"

	"github.com/gavel-oj/gavel/internal/problem"
)

func mustTokens(t testing.TB, o problem.TokenOptions) *Tokens {
	t.Helper()
	c, err := NewTokens(o)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

var (
	plain    = problem.TokenOptions{}
	caseSens = problem.TokenOptions{CaseSensitive: true}
	spaces   = problem.TokenOptions{SpaceChangeSensitive: true}
	tol0     = problem.TokenOptions{FloatAbsolute: "0", FloatRelative: "0"}
	tol6     = problem.TokenOptions{FloatAbsolute: "1e-6", FloatRelative: "1e-6"}
	abs6     = problem.TokenOptions{FloatAbsolute: "1e-6"}
	rel6     = problem.TokenOptions{FloatRelative: "1e-6"}
)

func TestTokens(t *testing.T) {
	t.Parallel()
	zeros44 := strings.Repeat("0", 44)
	tests := []struct {
		name           string
		options        problem.TokenOptions
		answer, output string
		want           bool
	}{
		// Where the implementations of the default validator differ.
		{"NUL is an ordinary byte at the end of a token", plain, "a", "a\x00", false},
		{"NUL does not end a token", plain, "a", "a\x00a", false},
		{"NUL equals NUL", plain, "a\x00b", "a\x00b", true},
		{"NUL is no number", tol6, "1", "1\x00", false},
		{"hexadecimal is not a number", tol6, "16", "0x10", false},
		{"exponent without digits", tol0, "100", "100e", false},
		{"exponent with a sign only", tol0, "0", "0e+", false},
		{"no underflow at 1e-4000", tol0, "0", "1e-4000", false},
		{"no underflow at 1e-20000", tol0, "0", "1e-20000", false},
		{"inf is text", tol6, "inf", "infinity", false},
		{"inf equals itself as text", tol6, "inf", "inf", true},
		{"nan is text, case folded", tol6, "nan", "NaN", true},
		{"nan is text, case kept", problem.TokenOptions{CaseSensitive: true, FloatAbsolute: "1e-6"}, "nan", "NaN", false},
		{"nan equals itself as text", tol6, "nan", "nan", true},
		{"a number is not nan", tol6, "1", "nan", false},
		{"a number is not inf", tol6, "1e1000", "inf", false},
		{"the edge is inclusive", tol6, "1.0", "1.000001", true},
		{"just beyond the edge", abs6, "1.0", "1.00000100000000001", false},
		{"44 zeros are the closest representable number", tol0, "100", "100." + zeros44 + "1", true},
		{"relative tolerance does not underflow", rel6, "1e-400", "0", false},
		{"digit separators are not numbers", tol6, "1000", "1_000", false},
		{"comma is not a point", tol6, "1.5", "1,5", false},

		// Numbers.
		{"without a tolerance numbers are text", plain, "1", "1.0", false},
		{"plus is text without a tolerance", plain, "1", "+1", false},
		{"plus is a sign with one", tol0, "1", "+1", true},
		{"minus zero is zero", tol0, "0", "-0", true},
		{"minus zero is text without a tolerance", plain, "0", "-0", false},
		{"signs matter", tol6, "1", "-1", false},
		{"bare points", tol0, "0.5", ".5", true},
		{"trailing points", tol0, "5", "5.", true},
		{"a point alone is text", tol6, ".", ".", true},
		{"a sign alone is text", tol6, "+", "-", false},
		{"two signs", tol6, "1", "+-1", false},
		{"two points", tol6, "1", "1.0.0", false},
		{"exponents", tol0, "100", "1E+2", true},
		{"leading zeros of an exponent", tol0, "100", "1e0000000000000000002", true},
		{"relative to the answer, not to the output", problem.TokenOptions{FloatRelative: "0.5"}, "2", "3.5", false},
		{"what is taken for zero still counts", problem.TokenOptions{FloatAbsolute: "1e-249"}, "9.5e-250", "-9e-251", false},
		{"what is beyond every double is near itself", rel6, "1e999999", "1.0000001e999999", true},
		{"and far from ten times as much", rel6, "1e999999", "1e1000000", false},
		{"what is below every double is near zero", abs6, "0", "-1e-999999", true},
		{"a size that only the exponent makes an ordinary one", abs6, "1", "0." + strings.Repeat("0", 999) + "1e1000", true},
		{"relative with answer 0 takes only 0", rel6, "0", "1e-300", false},
		{"relative with answer 0 takes 0.0", rel6, "0", "0.0", true},
		{"absolute alone does not scale", abs6, "1000000", "1000000.5", false},
		{"relative alone scales", rel6, "1000000", "1000000.5", true},
		{"either is enough", tol6, "1000000", "1000000.5", true},
		{"large integers are floats under a tolerance", rel6, "100000000000000000", "100000000000000001", true},
		{"large integers are text without one", plain, "100000000000000000", "100000000000000001", false},
		{"tolerance 0 keeps large integers apart", tol0, "100000000000000000", "100000000000000001", false},
		{"answer is a word, output a number", tol6, "yes", "1", false},
		{"answer is a number, output a word", tol6, "1", "one", false},
		{"words under a tolerance", tol6, "x 1.0 y", "X 1.0000001 Y", true},
		{"negative numbers within", abs6, "-3.1415926", "-3.1415930", true},
		{"the largest exponent is a number", tol0, "1e1000000", "10e999999", true},
		{"beyond it the answer is text", tol6, "1e1000001", "10e1000000", false},
		{"beyond it the output is no number", tol6, "1", "1e1000001", false},
		{"beyond it equal text is equal", tol6, "1e1000001", "1E1000001", true},
		{"a number of 64 KiB", tol0, "1", "1." + strings.Repeat("0", maxNumberBytes-2), true},
		{"a longer one is no number", tol0, "1", "1." + strings.Repeat("0", maxNumberBytes-1), false},
		{"huge exponents of both signs", abs6, "1e1000000", "1e-1000000", false},

		// White space.
		{"runs of white space are equal", plain, "a b\n", " a\t\r\n\v\f b", true},
		{"CRLF is white space", plain, "1\n2\n", "1\r\n2\r\n", true},
		{"VT and FF are white space", plain, "1 2", "1\v2\f", true},
		{"a missing line end is nothing", plain, "a\n", "a", true},
		{"NBSP is not white space", plain, "a b", "a\u00a0b", false},
		{"U+2028 is not white space", plain, "a b", "a\u2028b", false},
		{"0x85 is not white space", plain, "a b", "a\x85b", false},
		{"0x1a is not white space", plain, "a", "a \x1a", false},
		{"a BOM is part of the token", plain, "a", "\ufeffa", false},
		{"a BOM on both sides", plain, "\ufeffa", "\ufeffa", true},
		{"white space counts", spaces, "a b\n", "a b\n", true},
		{"one more blank", spaces, "a b\n", "a  b\n", false},
		{"another blank", spaces, "a b\n", "a\tb\n", false},
		{"trailing line end", spaces, "a\n", "a", false},
		{"trailing blank", spaces, "a\n", "a \n", false},
		{"leading blank", spaces, "a\n", " a\n", false},
		{"CRLF when white space counts", spaces, "a\n", "a\r\n", false},
		{"case is still folded when white space counts", spaces, "a B\n", "A b\n", true},
		{
			"tolerance when white space counts",
			problem.TokenOptions{SpaceChangeSensitive: true, FloatAbsolute: "0.1"},
			"1.0 2.0\n", "1.05 1.95\n", true,
		},

		// Case.
		{"case is folded", plain, "Yes", "yES", true},
		{"case counts", caseSens, "Yes", "yes", false},
		{"case counts and agrees", caseSens, "Yes", "Yes", true},
		{"only ASCII is folded", plain, "\u00c9", "\u00e9", false},
		{"fold is not bitwise", plain, "@[", "`{", false},

		// Ends.
		{"both empty", plain, "", "", true},
		{"white space only for an empty answer", plain, "", " \n\n\t", true},
		{"empty output", plain, "a", "", false},
		{"white space only output", plain, "a", " \n", false},
		{"output for an empty answer", plain, "", "a", false},
		{"output ends early", plain, "1 2 3", "1 2", false},
		{"one token more", plain, "1 2", "1 2 3", false},
		{"token is a prefix", plain, "abc", "ab", false},
		{"token is longer", plain, "ab", "abc", false},
		{"tokens joined", plain, "a b", "ab", false},
		{"invalid UTF-8 is bytes", plain, "\xff\xfe", "\xff\xfe", true},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			c := mustTokens(t, tt.options)
			got, err := c.Compare(t.Context(), strings.NewReader(tt.answer), strings.NewReader(tt.output))
			if err != nil {
				t.Fatal(err)
			}
			if got.Accepted != tt.want {
				t.Errorf("accepted %t, want %t (%s)", got.Accepted, tt.want, got.Message)
			}
			if got.Accepted != (got.Message == "") {
				t.Errorf("accepted %t with message %q", got.Accepted, got.Message)
			}
		})
	}
}

func TestMessages(t *testing.T) {
	t.Parallel()
	long := strings.Repeat("x", 1<<20)
	tests := []struct {
		name           string
		options        problem.TokenOptions
		answer, output string
		want           string
	}{
		{"place of the first difference", plain, "1 2\n3 4\n", "1 2\n\n  3 5\n", `token 4 (line 3, column 5): want "4", got "5"`},
		{"bytes are escaped", plain, "a", "\x00\x1b[31m\"\\é", `token 1 (line 1, column 1): want "a", got "\x00\x1b[31m\"\\\xc3\xa9"`},
		{"no output", plain, "42", " \n", `no output: want "42"`},
		{"output ends", plain, "1 2 3", "1 2\n", `output ends after token 2 (line 2): want "3" next`},
		{"more output", plain, "1", "1 1 1", `token 2 (line 1, column 3): unexpected "1" after the end of the answer`},
		{"number", tol6, "1", "2", `token 1 (line 1, column 1): want "1" within absolute 1e-6 or relative 1e-6, got "2"`},
		{"not a number", abs6, "1", "x", `token 1 (line 1, column 1): want the number "1", got "x"`},
		{"white space", spaces, "a b", "a  b", `token 1 (line 1, column 2): white space after it differs: want " ", got "  "`},
		{"deep in a huge token", plain, long + "ab", long + "cd", `token 1 (line 1, column 1048577): from here want "ab", got "cd"`},
		{
			"long tokens are cut", plain, "a" + long, "b" + long,
			`token 1 (line 1, column 1): want "a` + strings.Repeat("x", 94) + `"..., got "b` + strings.Repeat("x", 94) + `"...`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, err := mustTokens(t, tt.options).Compare(t.Context(), strings.NewReader(tt.answer), strings.NewReader(tt.output))
			if err != nil || got.Accepted {
				t.Fatalf("accepted %t, error %v", got.Accepted, err)
			}
			if got.Message != tt.want {
				t.Errorf("message\n%s\nwant\n%s", got.Message, tt.want)
			}
		})
	}
}

func TestNewTokensRefusesBadTolerances(t *testing.T) {
	t.Parallel()
	for _, bad := range []string{"-1", "nan", "inf", "0x1", "1e", "1_0", " 1", "1e1000001", "1e400", "x"} {
		if _, err := NewTokens(problem.TokenOptions{FloatAbsolute: bad}); err == nil || !strings.Contains(err.Error(), "float_absolute_tolerance") {
			t.Errorf("absolute %q: error %v", bad, err)
		}
		if _, err := NewTokens(problem.TokenOptions{FloatRelative: bad}); err == nil || !strings.Contains(err.Error(), "float_relative_tolerance") {
			t.Errorf("relative %q: error %v", bad, err)
		}
	}
}

func TestReadErrorsAreNotVerdicts(t *testing.T) {
	t.Parallel()
	broken := errors.New("disk gone")
	bad := io.MultiReader(strings.NewReader("1 "), iotest.ErrReader(broken))
	if _, err := mustTokens(t, plain).Compare(t.Context(), bad, strings.NewReader("1 2")); !errors.Is(err, broken) || !strings.Contains(err.Error(), "answer") {
		t.Errorf("answer: %v", err)
	}
	bad = io.MultiReader(strings.NewReader("1 "), iotest.ErrReader(broken))
	if _, err := mustTokens(t, plain).Compare(t.Context(), strings.NewReader("1 2"), bad); !errors.Is(err, broken) || !strings.Contains(err.Error(), "output") {
		t.Errorf("output: %v", err)
	}
}

func TestComparisonEndsWithItsContext(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithCancelCause(t.Context())
	gone := errors.New("lease lost")
	cancel(gone)
	endless := iotest.DataErrReader(endlessReader{})
	if _, err := mustTokens(t, plain).Compare(ctx, endless, endless); !errors.Is(err, gone) {
		t.Errorf("error %v", err)
	}
}

type endlessReader struct{}

func (endlessReader) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = 'x'
	}
	return len(p), nil
}

// TestHugeTokensNeedConstantMemory compares tokens of 64 MiB.
func TestHugeTokensNeedConstantMemory(t *testing.T) {
	const size = 64 << 20
	c := mustTokens(t, tol6)
	side := func() io.Reader { return io.LimitReader(endlessReader{}, size) }
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	result, err := c.Compare(t.Context(), side(), side())
	if err != nil {
		t.Fatal(err)
	}
	runtime.ReadMemStats(&after)
	if !result.Accepted {
		t.Errorf("not accepted: %s", result.Message)
	}
	if allocated := after.TotalAlloc - before.TotalAlloc; allocated > 1<<20 {
		t.Errorf("allocated %d bytes", allocated)
	}
}

func TestExcerptIsShortPrintableASCII(t *testing.T) {
	t.Parallel()
	random := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		b := make([]byte, random.IntN(300))
		for i := range b {
			b[i] = byte(random.Uint32())
		}
		got := excerpt(b)
		if len(got) > excerptBytes {
			t.Fatalf("excerpt of %d bytes: %s", len(got), got)
		}
		for _, c := range []byte(got) {
			if c < ' ' || c > '~' {
				t.Fatalf("byte %#x in %q", c, got)
			}
		}
	}
}

func TestClean(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, in, want string
		max            int
		cut            bool
	}{
		{"plain", "wrong\tanswer\nhere\n", "wrong\tanswer\nhere", 100, false},
		{"CR is dropped", "a\r\nb", "a\nb", 100, false},
		{"control characters", "a\x00\x1b[31mb\x7f", "a\ufffd\ufffd[31mb\ufffd", 100, false},
		{"direction overrides", "a\u202eb", "a\ufffdb", 100, false},
		{"invalid UTF-8", "a\xffb", "a\ufffdb", 100, false},
		{"cut", "abcdef", "abc", 3, true},
		{"cut never splits a character", "aé", "a", 2, true},
		{"exactly at the limit", "abc", "abc", 3, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			got, cut := Clean([]byte(tt.in), tt.max)
			if got != tt.want || cut != tt.cut || !utf8.ValidString(got) {
				t.Errorf("Clean = %q, %t, want %q, %t", got, cut, tt.want, tt.cut)
			}
		})
	}
}
