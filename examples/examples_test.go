package examples

import (
	"io"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/problem/importer"
	"github.com/gavel-oj/gavel/internal/problem/intake"
)

func manifests(t *testing.T) map[string]*problem.Manifest {
	t.Helper()
	ps, err := Problems()
	if err != nil {
		t.Fatal(err)
	}
	ms := map[string]*problem.Manifest{}
	for _, p := range ps {
		v, err := intake.OpenFS(p.FS)
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		m, files, err := importer.Import(t.Context(), v, importer.Options{Name: p.Name})
		if err != nil {
			t.Fatalf("%s: %v", p.Name, err)
		}
		if err := problem.WriteArchive(io.Discard, m, files); err != nil {
			t.Errorf("%s: %v", p.Name, err)
		}
		ms[p.Name] = m
	}
	return ms
}

func TestExamplesImportWithoutAWarning(t *testing.T) {
	ms := manifests(t)
	want := []string{"garden-rope", "gear-pairs", "long-tape", "lost-page", "two-baskets", "visible-books"}
	if diff := cmp.Diff(want, slices.Sorted(maps.Keys(ms))); diff != "" {
		t.Errorf("examples (-want +got):\n%s", diff)
	}
	var total int64
	for name, m := range ms {
		if len(m.Warnings) > 0 {
			t.Errorf("%s: %q", name, m.Warnings)
		}
		total += m.TotalBytes()
	}
	if total > 8<<20 {
		t.Errorf("the examples have %d bytes; keep them below 8 MiB", total)
	}
}

func TestExamplesShowWhatTheyAreThereFor(t *testing.T) {
	ms := manifests(t)
	if o := ms["garden-rope"].Checker.Tokens; o.FloatAbsolute != "1e-6" || o.FloatRelative != "1e-6" {
		t.Errorf("garden-rope: tolerances %+v", o)
	}
	if c := ms["two-baskets"].Checker; c.Kind != problem.CheckerProgram || c.Language != "cpp20" {
		t.Errorf("two-baskets: checker %+v", c)
	}
	if c := ms["lost-page"].Checker; c.Kind != problem.CheckerInteractor || c.Language != "python3" {
		t.Errorf("lost-page: checker %+v", c)
	}
	gears := ms["gear-pairs"]
	if len(gears.Tests) < 60 || gears.Limits.CPUMS != 500 || gears.Format != "icpc-legacy" {
		t.Errorf("gear-pairs: %d tests, %d ms, %s", len(gears.Tests), gears.Limits.CPUMS, gears.Format)
	}
	large := slices.MaxFunc(ms["long-tape"].Files, func(a, b problem.File) int { return int(a.SizeBytes - b.SizeBytes) })
	if large.SizeBytes < 2<<20 {
		t.Errorf("long-tape: largest file %+v", large)
	}
}

// TestSubmissionsCoverVerdictsAndLanguages keeps the demonstration complete:
// each problem accepted in all three languages, each verdict shown in all three,
// and one verdict expected of each submission.
func TestSubmissionsCoverVerdictsAndLanguages(t *testing.T) {
	byVerdict := map[string]map[string]int{}
	total := 0
	for name, m := range manifests(t) {
		accepted := map[string]bool{}
		for _, s := range m.Submissions {
			total++
			if len(s.Expected) != 1 {
				t.Errorf("%s: %s may get any of %v", name, s.Path, s.Expected)
			}
			v := s.Expected[0]
			if byVerdict[v] == nil {
				byVerdict[v] = map[string]int{}
			}
			byVerdict[v][s.Language]++
			if v == "AC" {
				accepted[s.Language] = true
			}
		}
		for _, lang := range []string{"c", "cpp17", "python3"} {
			if !accepted[lang] {
				t.Errorf("%s: no accepted submission in %s", name, lang)
			}
		}
	}
	if total < 40 || total > 70 {
		t.Errorf("%d submissions", total)
	}
	for _, v := range []string{"AC", "WA", "TLE", "MLE", "RE", "CE", "OLE"} {
		for _, lang := range []string{"c", "cpp17", "python3"} {
			if byVerdict[v][lang] == 0 {
				t.Errorf("no submission in %s that is meant to get %s", lang, v)
			}
		}
	}
	if byVerdict["AC"]["cpp20"] == 0 {
		t.Error("no accepted submission in C++20")
	}
}
