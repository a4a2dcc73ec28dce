package icpc

import (
	"context"
	"path"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// testFiles are the files of one test, by role.
type testFiles struct {
	in, ans, out, yaml string
}

// extras belong to a test and do not take part in judging.
var extras = []string{
	".in.statement", ".ans.statement", ".in.download", ".ans.download",
	".interaction", ".hint", ".desc", ".png", ".jpg", ".jpeg", ".svg",
}

// testParts are the directories below data/ that hold tests, in their order.
var testParts = []string{"sample", "secret"}

// found is what data/sample and data/secret hold.
type found struct {
	byBase  map[string]*testFiles
	odd     sample
	outUsed sample // instead of .ans
}

// findTests lists the tests in the order in which they are judged: samples,
// then secret ones, each by their paths' bytes.
func (im *importer) findTests() error {
	g := newGroups(im)
	noInputs := im.noInputs()
	for _, part := range testParts {
		f, err := im.pairFiles("data/" + part)
		if err != nil {
			return err
		}
		if noInputs {
			im.addInputs(f)
		}
		bases, err := im.complete(f)
		if err != nil {
			return err
		}
		for _, base := range bases {
			if im.ctx.Err() != nil {
				return context.Cause(im.ctx)
			}
			if err := im.addTest(g, base, f.byBase[base], part == "sample"); err != nil {
				return err
			}
		}
		if f.odd.n > 0 {
			im.warn.add("not part of any test: %s", &f.odd)
		}
	}
	if len(im.files.paths) > problem.MaxFiles {
		return apperr.New(apperr.TooLarge, "use fewer tests", "with an empty input for each test the package holds more than %d files", problem.MaxFiles).At("data")
	}
	if im.added.n > 0 {
		im.warn.add("no test has an input (.in), so each is run with an empty one: %s", &im.added)
	}
	im.warnOfOtherData()
	if err := im.findTrials(g); err != nil {
		return err
	}
	if len(im.m.Tests) == 0 {
		return apperr.New(apperr.Invalid, "put pairs such as data/secret/1.in and data/secret/1.ans into it",
			"the package has no tests: data/sample and data/secret hold no .in and no .ans files").At("data")
	}
	if im.m.Tests[len(im.m.Tests)-1].Sample {
		im.warn.add("the package has samples only; data/secret holds no tests")
	}
	im.commonArgs()
	return nil
}

// pairFiles sorts the files below dir by test and role.
func (im *importer) pairFiles(dir string) (*found, error) {
	f := &found{byBase: map[string]*testFiles{}}
	at := func(base string) *testFiles {
		t := f.byBase[base]
		if t == nil {
			t = &testFiles{}
			f.byBase[base] = t
		}
		return t
	}
	for _, p := range im.files.below(dir) {
		if i := strings.Index(p, ".files/"); i >= 0 {
			return nil, apperr.New(apperr.Unsupported, "let the test use its input file only", "files beside the input of a test (%s) are not supported yet", p[:i+len(".files/")]).At(p)
		}
		if b := path.Base(p); b == groupName || b == legacyName {
			continue
		}
		base, ext := splitExt(p)
		var role *string
		switch ext {
		case ".in":
			role = &at(base).in
		case ".ans":
			role = &at(base).ans
		case ".out":
			role = &at(base).out
		case ".yaml":
			role = &at(base).yaml
		default:
			if !slices.Contains(extras, ext) {
				f.odd.add(p)
			}
			continue
		}
		if *role != "" {
			return nil, apperr.New(apperr.Invalid, "keep one of them", "the names of %s and %s differ in letter case only", *role, p).At(p)
		}
		*role = p
	}
	return f, nil
}

// splitExt splits a path before its extension, in lower case.
func splitExt(p string) (base, ext string) {
	lower := strings.ToLower(p)
	for _, e := range extras[:4] {
		if strings.HasSuffix(lower, e) {
			return p[:len(p)-len(e)], e
		}
	}
	e := path.Ext(p)
	return strings.TrimSuffix(p, e), strings.ToLower(e)
}

// complete returns the bases of the tests in order. Files without their other
// half are all named at once.
func (im *importer) complete(f *found) ([]string, error) {
	var bases []string
	var noAnswer, noInput sample
	for base := range f.byBase {
		bases = append(bases, base)
	}
	slices.Sort(bases)
	keep := bases[:0]
	for _, base := range bases {
		t := f.byBase[base]
		if t.in != "" && t.ans == "" && t.out != "" && im.conf.dialect != dialect2025 {
			f.outUsed.add(t.out)
			t.ans, t.out = t.out, ""
		}
		switch {
		case t.in == "" && t.ans == "":
			for _, p := range []string{t.out, t.yaml} {
				if p != "" {
					f.odd.add(p)
				}
			}
		case t.in == "":
			noInput.add(t.ans)
		case t.ans == "":
			noAnswer.add(t.in)
		default:
			keep = append(keep, base)
		}
	}
	if f.outUsed.n > 0 {
		im.warn.add("the format wants .ans for answers; used instead: %s", &f.outUsed)
	}
	if noAnswer.n+noInput.n == 0 {
		return keep, nil
	}
	var parts []string
	if noAnswer.n > 0 {
		parts = append(parts, "inputs without an answer (.ans): "+noAnswer.String())
	}
	if noInput.n > 0 {
		parts = append(parts, "answers without an input (.in): "+noInput.String())
	}
	return nil, apperr.New(apperr.Invalid, "give each X.in its X.ans, an empty X.in where the program reads nothing; or remove the single ones", "%s", strings.Join(parts, "; ")).At("data")
}

// addTest adds one test, and what a sample shows as an output.
func (im *importer) addTest(g *groups, base string, f *testFiles, isSample bool) error {
	t, err := im.newTest(g, base, f)
	if err != nil {
		return err
	}
	t.Sample = isSample
	im.m.Tests = append(im.m.Tests, t)
	if isSample && f.out != "" && im.conf.dialect == dialect2025 && im.m.Checker.Kind != problem.CheckerInteractor {
		t.Sample, t.Args = false, nil
		im.m.Trials = append(im.m.Trials, problem.Trial{Test: t, Kind: problem.TrialValidOutput, Output: f.out})
	}
	return nil
}

// newTest is a test with its arguments. They are put into it as they are;
// commonArgs moves them up.
func (im *importer) newTest(g *groups, base string, f *testFiles) (problem.Test, error) {
	s, err := g.of(path.Dir(base))
	if err != nil {
		return problem.Test{}, err
	}
	if f.yaml != "" {
		if err := im.readSettings(f.yaml, im.caseKeys(&s), im.unknownKey); err != nil {
			return problem.Test{}, err
		}
	}
	t := problem.Test{Name: testName(base), Input: f.in, Answer: f.ans, Args: s.args}
	args := append(slices.Clone(im.conf.validatorFlags), s.checkerArgs...)
	if im.m.Checker.Kind == problem.CheckerTokens {
		o, err := ParseFlags(args, im.conf.dialect == dialect2025)
		if err != nil {
			return t, apperr.New(apperr.Invalid, "correct the flags of the default output validator", "%v", err).At(s.checkerAt)
		}
		t.Tokens = &o
	} else {
		t.CheckerArgs = args
	}
	if im.files.first("input_validators") != "" || im.files.first("input_format_validators") != "" {
		if t.InputArgs = s.inputArgs; im.conf.dialect == dialect2025 {
			t.InputArgs = append(slices.Clone(s.inputArgs), s.args...)
		}
	}
	return t, nil
}

// commonArgs moves what most tests share into the checker. An empty list in a
// test cannot be told from none, so arguments move only when all tests have
// the same.
func (im *importer) commonArgs() {
	m := im.m
	if m.Checker.Kind == problem.CheckerTokens {
		m.Checker.Tokens = *m.Tests[len(m.Tests)-1].Tokens
		for _, t := range im.checked() {
			if *t.Tokens == m.Checker.Tokens {
				t.Tokens = nil
			}
		}
		return
	}
	tests := im.checked()
	for _, t := range tests {
		if !slices.Equal(t.CheckerArgs, m.Tests[0].CheckerArgs) {
			return
		}
	}
	m.Checker.Args = m.Tests[0].CheckerArgs
	for _, t := range tests {
		t.CheckerArgs = nil
	}
}

// checked are all the cases that the checker gets to see.
func (im *importer) checked() (tests []*problem.Test) {
	for i := range im.m.Tests {
		tests = append(tests, &im.m.Tests[i])
	}
	for i := range im.m.Trials {
		if t := &im.m.Trials[i]; t.Kind != problem.TrialInvalidInput {
			tests = append(tests, &t.Test)
		}
	}
	return tests
}

// warnOfOtherData tells of data that look like tests and are none.
func (im *importer) warnOfOtherData() {
	var odd sample
	for _, p := range im.files.below("data") {
		rest := strings.TrimPrefix(p, "data/")
		part, _, nested := strings.Cut(rest, "/")
		switch {
		case !nested && part != groupName && part != legacyName:
			odd.add(p)
		case nested && !slices.Contains([]string{"sample", "secret", "invalid_input", "invalid_output", "valid_output"}, part):
			odd.add(p)
		}
	}
	if odd.n > 0 {
		im.warn.add("not judged, because it is in neither data/sample nor data/secret: %s", &odd)
	}
}
