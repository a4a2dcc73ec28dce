package sim

import "testing"

// A history is a function of its seed: two runs tell the same story.
func TestAHistoryIsAFunctionOfItsSeed(t *testing.T) {
	for seed := uint64(1); seed <= 40; seed++ {
		var first []string
		Trace(NewConfig(seed), 3000, func(s string) { first = append(first, s) })
		i := 0
		Trace(NewConfig(seed), 3000, func(s string) {
			if i < len(first) && first[i] != s {
				t.Fatalf("seed %d: the second run says\n%s\nthe first\n%s", seed, s, first[i])
			}
			i++
		})
		if i != len(first) {
			t.Fatalf("seed %d: %d lines, then %d", seed, len(first), i)
		}
	}
}
