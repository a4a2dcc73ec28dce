package icpc

import (
	"fmt"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/problem"
)

func TestInputValidators(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"input_validators/validate.py":       "",
		"input_validators/tree/main.cpp":     "",
		"input_validators/tree/graph.h":      "",
		"input_validators/README":            "",
		"input_validators/rules.ctd":         "",
		"input_validators/java/Check.java":   "",
		"input_validators/bounds.c":          "int max = {{max}};",
		"problem.yaml":                       "problem_format_version: 2025-09\nname: x\nuuid: 7c0ffee0-0000-4000-8000-000000000002\nconstants: {max: 5}\nlimits: {time_limit: 1}\n",
		"data/secret/test_group.yaml":        "input_validator_args: [--max, '10']\nargs: [a]\n",
		"data/invalid_input/1.in":            "",
		"input_format_validators/ignored.py": "", // no name of this format
	}))
	if diff := cmp.Diff([]problem.Program{
		{Path: "input_validators/tree", Language: "cpp20"}, {Path: "input_validators/validate.py", Language: "python3"},
	}, m.InputValidators); diff != "" {
		t.Error(diff)
	}
	args := map[string][]string{}
	for _, x := range m.Tests {
		args[x.Name] = x.InputArgs
	}
	if diff := cmp.Diff(map[string][]string{"sample/1": nil, "secret/01": {"--max", "10", "a"}}, args); diff != "" {
		t.Error(diff)
	}
	wantWarnings(t, m,
		"input_validators/bounds.c: the inputs are not validated by it, because it uses {{max}}; constants are not replaced in programs yet",
		"input_validators/java: the input validator Check.java is in a language that gavel does not build; the inputs are not validated by it",
		"input_validators/rules.ctd: the inputs are not validated by it, because gavel does not build its language",
		"data/invalid_input is not looked at, because not all input validators are run")
}

func TestInputValidatorsOfTheOlderFormat(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"problem.yaml":                   "name: x\n",
		"input_format_validators/v.py":   "",
		"data/secret/testdata.yaml":      "input_validator_flags: -n 7\n",
		"data/secret/more/testdata.yaml": "input_validator_flags: -n 9\n",
		"data/secret/more/2.in":          "",
		"data/secret/more/2.ans":         "",
	}))
	if diff := cmp.Diff([]problem.Program{{Path: "input_format_validators/v.py", Language: "python3"}}, m.InputValidators); diff != "" {
		t.Error(diff)
	}
	if n := len(m.Tests); n != 3 || !cmp.Equal(m.Tests[1].InputArgs, []string{"-n", "7"}) || !cmp.Equal(m.Tests[2].InputArgs, []string{"-n", "9"}) {
		t.Errorf("%+v", m.Tests)
	}
}

func TestArgumentsForSingleInputValidatorsAreToldOf(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"input_validators/v.py":       "",
		"data/secret/test_group.yaml": "input_validator_args: {v.py: [1]}\n",
	}))
	if m.InputValidators != nil {
		t.Errorf("%+v", m.InputValidators)
	}
	wantWarnings(t, m, "input_validators/v.py: the inputs are not validated by it, because arguments for single validators (data/secret/test_group.yaml:1) are not supported yet")
}

func TestInputValidatorsAreBounded(t *testing.T) {
	files := map[string]string{}
	for i := range 21 {
		files[fmt.Sprintf("input_validators/v%02d.py", i)] = ""
	}
	m := load(t, pkg(files))
	if n := len(m.InputValidators); n != 20 {
		t.Errorf("%d validators", n)
	}
	wantWarnings(t, m, "input_validators/v20.py: the inputs are not validated by it; a package has at most 20 input validators")
}

func TestAPackageWithoutInputValidatorsKeepsItsDigest(t *testing.T) {
	plain, with := load(t, pkg(map[string]string{"data/secret/test_group.yaml": "args: [a]\n"})), load(t, pkg(map[string]string{
		"data/secret/test_group.yaml": "args: [a]\n", "input_validators/v.py": "",
	}))
	if plain.Tests[1].InputArgs != nil || with.Tests[1].InputArgs == nil {
		t.Errorf("%v %v", plain.Tests[1].InputArgs, with.Tests[1].InputArgs)
	}
}
