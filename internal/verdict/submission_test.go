package verdict

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

func TestOfSubmission(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name  string
		tests []Verdict
		want  Verdict
	}{
		{"all accepted", []Verdict{AC, AC, AC}, AC},
		{"first failing in order", []Verdict{AC, WA, TLE, AC}, WA},
		{"later failure does not matter", []Verdict{AC, TLE, WA}, TLE},
		{"rest skipped", []Verdict{AC, RE, Skipped, Skipped}, RE},
		{"a fault on a test before a failure", []Verdict{SE, WA}, SE},
		{"no tests is never AC", nil, SE},
		{"skipped without a reason is not final", []Verdict{AC, Skipped, AC}, SE},
		{"skipped before the failure is not final", []Verdict{Skipped, WA}, SE},
		{"a test can not have CE", []Verdict{CE}, SE},
		{"unknown word", []Verdict{AC, "??"}, SE},
		{"empty word", []Verdict{""}, SE},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			if got := OfSubmission(tt.tests); got != tt.want {
				t.Errorf("OfSubmission(%v) = %s, want %s", tt.tests, got, tt.want)
			}
		})
	}
}

func TestOfSubmissionProperties(t *testing.T) {
	t.Parallel()
	verdicts := rapid.SliceOfN(rapid.SampledFrom([]Verdict{AC, AC, AC, WA, TLE, MLE, OLE, RE}), 1, 20)
	rapid.Check(t, func(t *rapid.T) {
		list := verdicts.Draw(t, "tests")
		got := OfSubmission(list)
		i := FirstFailing(list)
		if (got == AC) != (i < 0) {
			t.Fatalf("%s for %v", got, list)
		}
		if i < 0 {
			return
		}
		// Whatever comes after the first failing test, run or skipped, changes nothing.
		skipped := slices.Clone(list)
		for j := i + 1; j < len(skipped); j++ {
			skipped[j] = Skipped
		}
		if after := OfSubmission(skipped); after != got || got != list[i] {
			t.Fatalf("%s with the rest run, %s with the rest skipped, test %d has %s", got, after, i, list[i])
		}
	})
}

func TestFinal(t *testing.T) {
	t.Parallel()
	for _, v := range []Verdict{AC, WA, TLE, MLE, OLE, RE, CE} {
		if !v.Final() {
			t.Errorf("%s is not final", v)
		}
	}
	for _, v := range []Verdict{SE, Skipped, "", "??"} {
		if v.Final() {
			t.Errorf("%q is final", v)
		}
	}
}
