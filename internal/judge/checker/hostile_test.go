package checker

import (
	"bytes"
	"runtime"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/problem"
)

// hostileNumbers are numbers that are right and meant to be dear, each with
// its answer: what a contestant can print as often as the output limit lets.
var hostileNumbers = []struct {
	name           string
	options        problem.TokenOptions
	answer, output string
	// What one comparison may allocate; nearly all of it is digits of big
	// numbers, so it counts the work.
	bytes uint64
}{
	{"tiny", abs6, "0", "1e-999999", 100},
	{"tiny, long", abs6, "0", "1" + strings.Repeat("0", 500) + "e-999999", 1000},
	{"zero with an exponent", abs6, "0", "0e999999", 100},
	{"zero with an exponent, relative", rel6, "0", "0e-999999", 100},
	{"huge answer", tol6, "1e999999", "1.0e999999", 200},
	{"tiny answer", rel6, "1e-999999", "1.0e-999999", 100},
	{"huge answer, other digits", tol6, "1e999999", "1.0000000000000000000000001e999999", 5000},
	{"at the edge", abs6, "0", "1e-6", 100},
	{"at the edge, with zeros", abs6, "0", "0.0000010000000000000000000000", 100},
	{"over the edge, as far as a float can say", abs6, "0", "1.00000000000000000000000001e-6", 1000},
	{"below the edge, as the exact rule alone says", abs6, "1", "1.00000099999999999999999999", 3000},
	{"below the edge in 60,000 digits", abs6, "1", "1.000000" + strings.Repeat("9", 60_000), 12 << 20},
	{"no tolerance", problem.TokenOptions{FloatAbsolute: "0"}, "0.1", "1e-1", 100},
}

// TestHostileNumbersCostWhatTheirDigitsCost counts what comparing allocates: a
// power of ten for an exponent of six digits is kilobytes, however made.
func TestHostileNumbersCostWhatTheirDigitsCost(t *testing.T) {
	const times = 100
	for _, tt := range hostileNumbers {
		c := mustTokens(t, tt.options)
		want, got := strings.Repeat(tt.answer+"\n", times), strings.Repeat(tt.output+"\n", times)
		compare := func() {
			if r, err := c.Compare(t.Context(), strings.NewReader(want), strings.NewReader(got)); err != nil || !r.Accepted {
				t.Fatalf("%s: %+v, error %v", tt.name, r, err)
			}
		}
		compare() // what is made once
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		compare()
		runtime.ReadMemStats(&after)
		each := (after.TotalAlloc - before.TotalAlloc - 2*windowBytes) / times
		t.Logf("%s: %d bytes", tt.name, each)
		if each > tt.bytes {
			t.Errorf("%s: each comparison allocates %d bytes, want at most %d", tt.name, each, tt.bytes)
		}
	}
}

func BenchmarkHostileNumbers(b *testing.B) {
	const size = 1 << 20
	run := func(name string, o problem.TokenOptions, answer, output string) {
		b.Run(name, func(b *testing.B) {
			c := mustTokens(b, o)
			times := size / (len(output) + 1)
			want, got := []byte(strings.Repeat(answer+"\n", times)), []byte(strings.Repeat(output+"\n", times))
			b.SetBytes(size)
			for b.Loop() {
				if r, err := c.Compare(b.Context(), bytes.NewReader(want), bytes.NewReader(got)); err != nil || !r.Accepted {
					b.Fatal(r, err)
				}
			}
		})
	}
	run("base=ordinary", abs6, "3.25", "3.2500001")
	for _, tt := range hostileNumbers {
		run(tt.name, tt.options, tt.answer, tt.output)
	}
}
