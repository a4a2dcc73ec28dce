package icpc

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/problem"
)

func TestTrialsOfThePackagesOwnPrograms(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"input_validators/v.py":               "",
		"data/sample/1.out":                   "3.0\n",
		"data/secret/test_group.yaml":         "output_validator_args: [case_sensitive]\n",
		"data/invalid_input/b/2.in":           "",
		"data/invalid_input/1.in":             "x",
		"data/invalid_input/1.yaml":           "input_validator_args: [--strict]\nargs: [a]\n",
		"data/invalid_input/1.ans":            "",
		"data/invalid_output/1.in":            "1 1\n",
		"data/invalid_output/1.ans":           "2\n",
		"data/invalid_output/1.out":           "3\n",
		"data/invalid_output/test_group.yaml": "output_validator_args: [float_tolerance, '0.5']\n",
		"data/invalid_output/half.in":         "1 1\n",
		"data/invalid_output/half.ans":        "2\n",
		"data/valid_output/1.in":              "1 1\n",
		"data/valid_output/1.ans":             "Two\n",
		"data/valid_output/1.out":             "Two\n",
		"data/valid_output/1.yaml":            "output_validator_args: [case_sensitive]\n",
		"data/valid_output/lonely.yaml":       "args: []\n",
	}))
	plain := problem.TokenOptions{}
	if diff := cmp.Diff([]problem.Trial{
		{Test: problem.Test{Name: "sample/1", Input: "data/sample/1.in", Answer: "data/sample/1.ans", Tokens: &plain}, Kind: problem.TrialValidOutput, Output: "data/sample/1.out"},
		{Test: problem.Test{Name: "invalid_input/1", Input: "data/invalid_input/1.in", InputArgs: []string{"--strict", "a"}}, Kind: problem.TrialInvalidInput},
		{Test: problem.Test{Name: "invalid_input/b/2", Input: "data/invalid_input/b/2.in"}, Kind: problem.TrialInvalidInput},
		{
			Test: problem.Test{
				Name: "invalid_output/1", Input: "data/invalid_output/1.in", Answer: "data/invalid_output/1.ans",
				Tokens: &problem.TokenOptions{FloatRelative: "0.5", FloatAbsolute: "0.5"},
			}, Kind: problem.TrialInvalidOutput, Output: "data/invalid_output/1.out",
		},
		{ // the same flags as the secret tests
			Test: problem.Test{Name: "valid_output/1", Input: "data/valid_output/1.in", Answer: "data/valid_output/1.ans"},
			Kind: problem.TrialValidOutput, Output: "data/valid_output/1.out",
		},
	}, m.Trials); diff != "" {
		t.Error(diff)
	}
	if n := len(m.Tests); n != 2 {
		t.Errorf("%d tests", n)
	}
	wantWarnings(t, m,
		"not looked at in data/invalid_input: data/invalid_input/1.ans",
		"not looked at in data/invalid_output: data/invalid_output/half.in",
		"not looked at in data/valid_output: data/valid_output/lonely.yaml")
}

// With a program of the package's own an empty list of arguments cannot be told
// from the common one, so trials count for what is common.
func TestArgumentsOfTrialsAreKept(t *testing.T) {
	files := map[string]string{
		"output_validator/check.py":   "",
		"data/sample/test_group.yaml": "output_validator_args: [a]\n",
		"data/secret/test_group.yaml": "output_validator_args: [a]\n",
		"data/valid_output/1.in":      "",
		"data/valid_output/1.ans":     "",
		"data/valid_output/1.out":     "",
	}
	if m := load(t, pkg(files)); m.Checker.Args != nil || !cmp.Equal(m.Tests[0].CheckerArgs, []string{"a"}) || len(m.Trials[0].CheckerArgs) > 0 {
		t.Errorf("%+v", m)
	}
	files["data/valid_output/test_group.yaml"] = "output_validator_args: [a]\n"
	if m := load(t, pkg(files)); !cmp.Equal(m.Checker.Args, []string{"a"}) || m.Tests[0].CheckerArgs != nil || m.Trials[0].CheckerArgs != nil {
		t.Errorf("%+v", m)
	}
}

func TestTrialsThatNobodyCanJudgeAreToldOf(t *testing.T) {
	invalid := map[string]string{"data/invalid_input/1.in": "x"}
	m := load(t, pkg(invalid))
	if m.Trials != nil {
		t.Errorf("%+v", m.Trials)
	}
	wantWarnings(t, m, "data/invalid_input is not looked at: the package has no input validator that could refuse it")

	invalid["input_validators/v.py"], invalid["input_validators/rules.ctd"] = "", ""
	m = load(t, pkg(invalid))
	if m.Trials != nil || len(m.InputValidators) != 1 {
		t.Errorf("%+v", m)
	}
	wantWarnings(t, m,
		"input_validators/rules.ctd: the inputs are not validated by it, because gavel does not build its language",
		"data/invalid_input is not looked at, because not all input validators are run")

	m = load(t, pkg(map[string]string{
		"problem.yaml":            head2025 + "type: interactive\nlimits: {time_limit: 1}\n",
		"output_validator/v.py":   "",
		"data/sample/1.out":       "",
		"data/valid_output/1.in":  "",
		"data/valid_output/1.ans": "",
		"data/valid_output/1.out": "",
	}))
	if m.Trials != nil {
		t.Errorf("%+v", m.Trials)
	}
	wantWarnings(t, m, "data/valid_output is not looked at: an interactive problem has no outputs to try its validator with")
}

func TestAPackageWithoutTrialsKeepsItsDigest(t *testing.T) {
	plain := load(t, pkg(nil))
	if m := string(problem.Encode(plain)); plain.Trials != nil || cmp.Equal(problem.Digest(plain), problem.Digest(load(t, pkg(map[string]string{"data/sample/1.out": "3\n"})))) {
		t.Errorf("%s", m)
	}
}
