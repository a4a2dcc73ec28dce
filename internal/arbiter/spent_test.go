package arbiter_test

import (
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Of finished work the explanation says where the time went, and why a compile
// was slow, in parts that together are the time.
func TestWhereTheTimeOfAJudgingWentIsExplained(t *testing.T) {
	t.Parallel()
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	for name, c := range map[string]struct {
		compile gavelapi.CompileInfo
		want    string
	}{
		"nothing to say":       {gavelapi.CompileInfo{WallUS: 100}, "compiling"},
		"with a header":        {gavelapi.CompileInfo{WallUS: 100, Precompiled: true}, "compiling, with the header compiled ahead"},
		"the header is coming": {gavelapi.CompileInfo{WallUS: 100, Header: "being_made"}, "the worker was still making it"},
		"no header can be":     {gavelapi.CompileInfo{WallUS: 100, Header: "failed"}, "could not make it, and its log says why"},
		"compiled twice":       {gavelapi.CompileInfo{WallUS: 100, Header: "redone"}, "once more without the header"},
		"from the cache":       {gavelapi.CompileInfo{WallUS: 100, Cached: true}, "an earlier compile of the same source was used"},
	} {
		sub := s.submit("c")
		l := w.claim()
		report := verdictReport("AC")
		report.Compile = c.compile
		report.Tests[0].WallUS = 70
		w.report(l.LeaseToken, report)
		e, err := s.Explain(t.Context(), sub.ID)
		if err != nil || len(e.Spent) != 4 || !strings.Contains(e.Spent[1].What, c.want) ||
			e.Spent[2].US != 70 || !strings.Contains(e.Spent[2].What, "on 1 tests") {
			t.Errorf("%s: %s, error %v", name, asJSON(e), err)
			continue
		}
		done, sum := s.read(sub.ID), int64(0)
		for _, part := range e.Spent {
			sum += part.US
		}
		attempt := done.Detail.Attempts[0]
		if all := attempt.EndedAt.Sub(done.CreatedAt).Microseconds(); sum < all-2 || sum > all+2 {
			t.Errorf("%s: the parts are %d us of %d", name, sum, all)
		}
	}
}

// A run that is repeated takes its time of the judging, and not of the rest.
func TestRepeatedRunsAreTimeOfTheProgram(t *testing.T) {
	s := newStand(t, quick)
	w := s.worker("w", 1, "c")
	sub := s.submit("c")
	l := w.claim()
	report := verdictReport("AC")
	report.Tests[0].WallUS = 70
	report.Tests[0].Attempts = []gavelapi.TestAttempt{{WallUS: 90}, {WallUS: 70}}
	w.report(l.LeaseToken, report)
	e, err := s.Explain(t.Context(), sub.ID)
	if err != nil || len(e.Spent) != 4 || e.Spent[2].US != 160 || !strings.Contains(e.Spent[2].What, "on 1 tests and 1 times more") {
		t.Errorf("%s, %v", asJSON(e), err)
	}
}
