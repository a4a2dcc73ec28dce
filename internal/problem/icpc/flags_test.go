package icpc

import (
	"errors"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

func TestFlagsOfTheDefaultValidator(t *testing.T) {
	tests := map[string]struct {
		args   string
		strict bool
		want   problem.TokenOptions
		err    string
	}{
		"none":                     {"", true, problem.TokenOptions{}, ""},
		"all":                      {"case_sensitive space_change_sensitive float_relative_tolerance 1e-6 float_absolute_tolerance .5", true, problem.TokenOptions{CaseSensitive: true, SpaceChangeSensitive: true, FloatRelative: "1e-6", FloatAbsolute: ".5"}, ""},
		"both tolerances at once":  {"float_tolerance 1e-9", true, problem.TokenOptions{FloatRelative: "1e-9", FloatAbsolute: "1e-9"}, ""},
		"a tolerance of 0":         {"float_tolerance 0", true, problem.TokenOptions{FloatRelative: "0", FloatAbsolute: "0"}, ""},
		"twice, strictly":          {"case_sensitive case_sensitive", true, problem.TokenOptions{}, "case_sensitive is given twice"},
		"twice in two ways":        {"float_tolerance 1 float_absolute_tolerance 2", true, problem.TokenOptions{}, "float_absolute_tolerance is given twice"},
		"twice in an older format": {"float_tolerance 1 float_absolute_tolerance 2", false, problem.TokenOptions{FloatRelative: "1", FloatAbsolute: "2"}, ""},
		"no number":                {"float_tolerance", false, problem.TokenOptions{}, "float_tolerance needs a number after it"},
		"no decimal number":        {"float_tolerance 0x1", false, problem.TokenOptions{}, `float_tolerance needs a decimal number such as 1e-6, not "0x1"`},
		"nan":                      {"float_tolerance nan", false, problem.TokenOptions{}, `not "nan"`},
		"negative":                 {"float_tolerance -1e-6", false, problem.TokenOptions{}, "must not be negative"},
		"minus zero":               {"float_tolerance -0", false, problem.TokenOptions{}, "must not be negative"},
		"in the wrong letters":     {"Case_Sensitive", false, problem.TokenOptions{}, `no flag "Case_Sensitive"`},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			got, err := ParseFlags(strings.Fields(tt.args), tt.strict)
			if tt.err != "" {
				if err == nil || !strings.Contains(err.Error(), tt.err) {
					t.Errorf("error %v, want %q", err, tt.err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestDecimalsFollowOneGrammar(t *testing.T) {
	for _, good := range []string{"1", "1.", ".5", "1.5e3", "+2E-7", "-0", "007"} {
		if _, ok := parseDecimal(good); !ok {
			t.Errorf("%q refused", good)
		}
	}
	for _, bad := range []string{"", ".", "e5", "1e", "0x10", "1_000", "inf", "nan", " 1", "1/2", "1e99999", strings.Repeat("1", 65)} {
		if _, ok := parseDecimal(bad); ok {
			t.Errorf("%q accepted", bad)
		}
	}
}

func FuzzParseFlags(f *testing.F) {
	f.Add("case_sensitive float_tolerance 1e-6", true)
	f.Add("float_absolute_tolerance .5 float_relative_tolerance 1.", false)
	f.Add("float_tolerance 1e9999", true)
	f.Fuzz(func(t *testing.T, args string, strict bool) {
		o, err := ParseFlags(strings.Fields(args), strict)
		if err != nil {
			return
		}
		for _, s := range []string{o.FloatAbsolute, o.FloatRelative} {
			if s == "" {
				continue
			}
			if r, ok := parseDecimal(s); !ok || r.Sign() < 0 {
				t.Errorf("accepted tolerance %q", s)
			}
		}
	})
}

// fuzzImport imports a package and holds it to its promise: a manifest that
// is valid, or an error with a place and a cure.
func fuzzImport(t *testing.T, fsys fstest.MapFS) {
	t.Helper()
	m, err := Import(t.Context(), fsys, Options{Fallback: "x"})
	if err != nil {
		if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Hint == "" || e.Message == "" || e.Code == apperr.Internal {
			t.Errorf("an error that helps nobody: %v", err)
		}
		return
	}
	if _, _, err := problem.Decode(problem.Encode(m)); err != nil {
		t.Errorf("manifest is not valid: %v", err)
	}
}

func FuzzProblemYAML(f *testing.F) {
	f.Add(head2025 + "limits: {time_limit: 1.5, memory: 256}\nlanguages: [c]\ntype: pass-fail\n")
	f.Add("name: {en: a, de: b}\nvalidation: custom\nvalidator_flags: float_tolerance 1e-6\n")
	f.Add("name: x\nlimits:\n  memory: .inf\n<<: *a\n")
	f.Add("? [a]\n: b\n")
	f.Fuzz(func(t *testing.T, yaml string) {
		if len(yaml) > 4<<10 {
			t.Skip() // the parser's time grows with the square; the real limit is tested elsewhere
		}
		fuzzImport(t, pkg(map[string]string{"problem.yaml": yaml}))
	})
}

func FuzzCompanions(f *testing.F) {
	f.Add("output_validator_args: [float_tolerance, 1e-6]\n", "accepted/*: {permitted: [AC], required: [AC]}\n", "timelimit=1\n", "// @EXPECTED_RESULTS@: CORRECT\n")
	f.Add("args: [a]\n", "'{a,b}/*': {language: c}\n", "[x]\nshort-name='a'\n", "/* @EXPECTED_RESULTS@: */")
	f.Fuzz(func(t *testing.T, group, rules, ini, source string) {
		if len(group)+len(rules) > 4<<10 {
			t.Skip()
		}
		fuzzImport(t, pkg(map[string]string{
			"data/secret/test_group.yaml":  group,
			"submissions/submissions.yaml": rules,
			"submissions/accepted/a.c":     source,
			"domjudge-problem.ini":         ini,
		}))
	})
}
