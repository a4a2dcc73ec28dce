package icpc

import (
	"fmt"
	"path"
	"slices"
	"strings"
)

// rulesName is the file that says of submissions what their directories do not.
const rulesName = "submissions/submissions.yaml"

// rule is one entry of submissions.yaml.
type rule struct {
	globs               []string // braces expanded
	language            string
	permitted, required []string // gavel's verdicts; nil when not given
}

// formatVerdicts are those of submissions.yaml.
var formatVerdicts = map[string][]string{
	"AC": onlyAC, "WA": onlyWA, "TLE": onlyTLE, "RTE": runError,
	// gavel's own, for its own verdicts:
	"MLE": onlyMLE, "OLE": onlyOLE, "CE": onlyCE, "RE": onlyRE,
}

// readRules reads submissions.yaml, if there is one.
func (im *importer) readRules() ([]rule, error) {
	if !im.files.has(rulesName) {
		return nil, nil
	}
	b, err := readSmall(im.fsys, rulesName, maxConfigBytes)
	if err != nil {
		return nil, err
	}
	root, err := parseYAML(im.ctx, rulesName, b)
	if err != nil {
		return nil, err
	}
	var rules []rule
	err = root.each(nil, func(glob string, v value) error {
		r, err := im.readRule(glob, v)
		rules = append(rules, r)
		return err
	})
	return rules, err
}

func (im *importer) readRule(glob string, v value) (rule, error) {
	var r rule
	var err error
	if r.globs, err = expandBraces(glob); err != nil {
		return r, v.fail("correct the pattern", "%v", err)
	}
	for _, g := range r.globs {
		if _, err := path.Match(g, ""); err != nil {
			return r, v.fail("correct the pattern", "the pattern cannot be read")
		}
	}
	verdicts := func(to *[]string) func(value) error {
		return func(v value) error {
			words, err := v.texts()
			if err != nil {
				return err
			}
			*to = []string{}
			for _, w := range words {
				vs, ok := formatVerdicts[w]
				if !ok {
					return v.fail("use AC, WA, TLE and RTE", "%q is not a verdict", cut(w))
				}
				*to = append(*to, vs...)
			}
			return nil
		}
	}
	return r, v.each(map[string]func(value) error{
		"language":           func(v value) error { r.language, err = v.text(); return err },
		"permitted":          verdicts(&r.permitted),
		"required":           verdicts(&r.required),
		"entrypoint":         nil,
		"authors":            nil,
		"model_solution":     nil,
		"score":              nil,
		"message":            nil,
		"use_for_time_limit": nil,
	}, func(_ string, v value) error {
		// Anything else names groups of tests.
		im.warn.add("%s: %s: what is said of single groups is not looked at", v.place(), v.key)
		return nil
	})
}

// matches reports whether the rule is about the submission p, a path below
// submissions/: the file itself, or a directory above it.
func (r *rule) matches(p string) bool {
	for ; p != "."; p = path.Dir(p) {
		for _, g := range r.globs {
			if ok, err := path.Match(g, p); err == nil && ok {
				return true
			}
		}
	}
	return false
}

// apply narrows the verdicts that a submission may get. The rule speaks of
// tests, the result of the first test that fails. A rule for a whole default
// directory takes the place of the directory's own.
func (r *rule) apply(expected []string, dir string) []string {
	if r.permitted == nil && r.required == nil {
		return expected
	}
	possible := r.permitted
	if possible == nil {
		possible = union([]string{"AC", "WA", "TLE", "RE", "MLE", "OLE"}, r.required)
	}
	if r.required != nil && !slices.Contains(r.required, "AC") {
		// Some test has to fail, so the result is not AC, and another failure
		// that is permitted may come first.
		possible = slices.DeleteFunc(slices.Clone(possible), func(v string) bool { return v == "AC" })
	}
	if expected == nil || slices.Contains(r.globs, dir) {
		return slices.Clone(possible)
	}
	return intersect(expected, possible)
}

func union(a, b []string) []string {
	out := slices.Clone(a)
	for _, v := range b {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// maxExpanded bounds what one pattern with braces turns into.
const maxExpanded = 64

// expandBraces turns "{a,b}/*" into "a/*" and "b/*". Braces do not nest.
func expandBraces(s string) ([]string, error) {
	out := []string{""}
	for s != "" {
		head, rest, found := strings.Cut(s, "{")
		choices := []string{""}
		s = ""
		if found {
			inner, tail, closed := strings.Cut(rest, "}")
			if !closed || strings.Contains(inner, "{") {
				return nil, fmt.Errorf("the pattern has a brace that is not closed, or one in another")
			}
			choices, s = strings.Split(inner, ","), tail
		}
		var next []string
		for _, o := range out {
			for _, c := range choices {
				next = append(next, o+head+c)
			}
		}
		if out = next; len(out) > maxExpanded {
			return nil, fmt.Errorf("the pattern has more than %d variants", maxExpanded)
		}
	}
	return out, nil
}
