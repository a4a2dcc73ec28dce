package icpc

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"maps"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

const head2025 = "problem_format_version: 2025-09\nname: Sum\nuuid: 5ca6ba5b-36d5-4eff-8aa7-d967cbc4375e\n"

// pkg makes a package: the files given over a small valid one. A value of ""
// under a path that ends in "-" removes it.
func pkg(files map[string]string) fstest.MapFS {
	all := map[string]string{
		"problem.yaml":       head2025 + "limits:\n  time_limit: 1\n",
		"data/sample/1.in":   "1 2\n",
		"data/sample/1.ans":  "3\n",
		"data/secret/01.in":  "2 2\n",
		"data/secret/01.ans": "4\n",
	}
	maps.Copy(all, files)
	fsys := fstest.MapFS{}
	for p, text := range all {
		if gone, ok := strings.CutSuffix(p, "-"); ok {
			delete(all, gone)
			delete(fsys, gone)
			continue
		}
		fsys[p] = &fstest.MapFile{Data: []byte(text), Mode: 0o644}
	}
	for p := range files {
		if gone, ok := strings.CutSuffix(p, "-"); ok {
			delete(fsys, gone)
		}
	}
	return fsys
}

func load(t *testing.T, fsys fs.FS) *problem.Manifest {
	t.Helper()
	m, err := Import(t.Context(), fsys, Options{Fallback: "sum"})
	if err != nil {
		e, _ := errors.AsType[*apperr.Error](err)
		t.Fatalf("%v (%+v)", err, e)
	}
	return m
}

// wantError checks what a person reads: where, what, what to do.
func wantError(t *testing.T, fsys fs.FS, field, message, hint string) {
	t.Helper()
	_, err := Import(t.Context(), fsys, Options{Fallback: "sum"})
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok {
		t.Fatalf("error %v, want an apperr.Error", err)
	}
	if diff := cmp.Diff([3]string{field, message, hint}, [3]string{e.Field, e.Message, e.Hint}); diff != "" {
		t.Errorf("error differs (-want +got):\n%s", diff)
	}
	if e.Code == apperr.Internal {
		t.Errorf("code %s", e.Code)
	}
}

func wantWarnings(t *testing.T, m *problem.Manifest, want ...string) {
	t.Helper()
	if diff := cmp.Diff(want, m.Warnings); diff != "" {
		t.Errorf("warnings differ (-want +got):\n%s", diff)
	}
}

func TestAWholePackageOf2025(t *testing.T) {
	fsys := pkg(map[string]string{
		"problem.yaml": head2025 + `type: pass-fail
version: 1.2
credits: {authors: [A. Setter]}
license: cc by-sa
keywords: [sums]
languages: [c, cpp, python3]
limits:
  time_multipliers: {ac_to_time_limit: 2, time_limit_to_tle: 1.5}
  time_limit: 1.5
  time_resolution: 0.5
  memory: 256
  output: 4
  code: 64
  compilation_time: 30
  compilation_memory: 512
  validation_time: 10
  validation_memory: 300
  validation_output: 2
`,
		"statement/problem.de.md":           "# Summe\n",
		"data/secret/02-big.in":             "5\n",
		"data/secret/02-big.ans":            "5\n",
		"data/secret/02-big.yaml":           "args: [x, '1 2']\ndescription: big\n",
		"data/secret/g/a.in":                "",
		"data/secret/g/a.ans":               "",
		"data/secret/g/a.hint":              "h",
		"data/invalid_input/x.in":           "junk",
		"submissions/accepted/a.c":          "int main;",
		"submissions/wrong_answer/b.py":     "print(1)",
		"submissions/compile_error/c/x.cpp": "int",
	})
	m := load(t, fsys)
	want := &problem.Manifest{
		Schema: 1, Name: "sum", Titles: map[string]string{"de": "Sum"}, Format: "icpc-2025-09",
		Limits: problem.Limits{
			CPUMS: 1500, MemoryBytes: 256 << 20, OutputBytes: 4 << 20, CodeBytes: 64 << 10, Processes: 64,
			CompileCPUMS: 30_000, CompileMemoryBytes: 512 << 20,
			ValidationCPUMS: 10_000, ValidationMemoryBytes: 300 << 20, ValidationOutputBytes: 2 << 20,
		},
		Languages: []string{"c", "cpp", "python3"},
		Checker:   problem.Checker{Kind: problem.CheckerTokens},
		Tests: []problem.Test{
			{Name: "sample/1", Sample: true, Input: "data/sample/1.in", Answer: "data/sample/1.ans"},
			{Name: "secret/01", Input: "data/secret/01.in", Answer: "data/secret/01.ans"},
			{Name: "secret/02-big", Input: "data/secret/02-big.in", Answer: "data/secret/02-big.ans", Args: []string{"x", "1 2"}},
			{Name: "secret/g/a", Input: "data/secret/g/a.in", Answer: "data/secret/g/a.ans"},
		},
		Submissions: []problem.Example{
			{Path: "submissions/accepted/a.c", Language: "c", Expected: []string{"AC"}},
			{Path: "submissions/compile_error/c/x.cpp", Language: "cpp17", Expected: []string{"CE"}},
			{Path: "submissions/wrong_answer/b.py", Language: "python3", Expected: []string{"WA"}},
		},
		Warnings: []string{"data/invalid_input is not looked at: the package has no input validator that could refuse it"},
	}
	for _, p := range sortedKeys(fsys) {
		sum := sha256.Sum256(fsys[p].Data)
		want.Files = append(want.Files, problem.File{Path: p, SizeBytes: int64(len(fsys[p].Data)), SHA256: hex.EncodeToString(sum[:])})
	}
	if diff := cmp.Diff(want, m); diff != "" {
		t.Errorf("manifest differs (-want +got):\n%s", diff)
	}
	if err := problem.WriteArchive(io.Discard, m, fsys); err != nil {
		t.Error(err)
	}
	if again := load(t, fsys); problem.Digest(again) != problem.Digest(m) {
		t.Error("a second import of the same files gave another digest")
	}
}

func TestAWholeLegacyPackage(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"problem.yaml": `name: {en: Walk, de: Weg}
author: somebody
source: a contest
license: cc by
keywords: walks paths
limits:
  memory: 512
  time_multiplier: 5
validation: custom
validator_flags: strict 3
`,
		".timelimit":                         "2.5\n",
		"data/secret/testdata.yaml":          "on_reject: break\noutput_validator_flags: late\ngrader_flags: first_error\n",
		"data/secret/g1/testdata.yaml":       "output_validator_flags: {name: v, flags: early}\n",
		"data/secret/g1/a.in":                "x",
		"data/secret/g1/a.ans":               "x",
		"output_validators/check/main.cc":    "int main() {}",
		"output_validators/check/validate.h": "",
		"submissions/run_time_error/x.py":    "1/0",
		"submissions/partially_accepted/x.c": "",
		"problem_statement/problem.en.tex":   "",
		"input_validators/v.py":              "",
	}))
	if diff := cmp.Diff(map[string]string{"en": "Walk", "de": "Weg"}, m.Titles); diff != "" {
		t.Error(diff)
	}
	if m.Format != FormatLegacy || m.Limits.CPUMS != 2500 || m.Limits.MemoryBytes != 512<<20 || m.Limits.OutputBytes != 8<<20 {
		t.Errorf("format %s, limits %+v", m.Format, m.Limits)
	}
	if diff := cmp.Diff(problem.Checker{Kind: "program", Program: "output_validators/check", Language: "cpp20"}, m.Checker); diff != "" {
		t.Errorf("checker (-want +got):\n%s", diff)
	}
	args := map[string][]string{}
	for _, x := range m.Tests {
		args[x.Name] = x.CheckerArgs
	}
	if diff := cmp.Diff(map[string][]string{
		"sample/1": {"strict", "3"}, "secret/01": {"strict", "3", "late"}, "secret/g1/a": {"strict", "3", "early"},
	}, args); diff != "" {
		t.Errorf("checker arguments (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]problem.Example{{Path: "submissions/run_time_error/x.py", Language: "python3", Expected: []string{"RE", "MLE", "OLE"}}}, m.Submissions); diff != "" {
		t.Errorf("submissions (-want +got):\n%s", diff)
	}
	wantWarnings(t, m,
		"submissions/partially_accepted/x.c: nothing says what it is meant to get, or what is said contradicts itself; left out")
	if diff := cmp.Diff([]problem.Program{{Path: "input_validators/v.py", Language: "python3"}}, m.InputValidators); diff != "" {
		t.Error(diff)
	}
}

func TestArgumentsOfTheChecker(t *testing.T) {
	yaml := func(s string) map[string]string {
		return map[string]string{"data/secret/test_group.yaml": s}
	}
	t.Run("a tolerance for a group only", func(t *testing.T) {
		m := load(t, pkg(yaml("output_validator_args: [float_tolerance, 1e-6]\n")))
		if diff := cmp.Diff(problem.TokenOptions{FloatRelative: "1e-6", FloatAbsolute: "1e-6"}, m.Checker.Tokens); diff != "" {
			t.Error(diff)
		}
		if m.Tests[0].Tokens == nil || *m.Tests[0].Tokens != (problem.TokenOptions{}) || m.Tests[1].Tokens != nil {
			t.Errorf("sample %v, secret %v; want none and the common one", m.Tests[0].Tokens, m.Tests[1].Tokens)
		}
	})
	t.Run("a test's own replace its group's", func(t *testing.T) {
		files := yaml("output_validator_args: [case_sensitive]\n")
		files["data/secret/01.yaml"] = "output_validator_args: [float_absolute_tolerance, 0.5]\n"
		m := load(t, pkg(files))
		if diff := cmp.Diff(problem.TokenOptions{FloatAbsolute: "0.5"}, m.Checker.Tokens); diff != "" {
			t.Error(diff)
		}
	})
	t.Run("the same for all tests move to the checker", func(t *testing.T) {
		m := load(t, pkg(map[string]string{
			"data/sample/test_group.yaml": "output_validator_args: [a, 1]\n", "data/secret/test_group.yaml": "output_validator_args: [a, 1]\n",
			"output_validator/v.py": "",
		}))
		if diff := cmp.Diff(problem.Checker{Kind: "program", Program: "output_validator", Language: "python3", Args: []string{"a", "1"}}, m.Checker); diff != "" {
			t.Error(diff)
		}
		if m.Tests[0].CheckerArgs != nil {
			t.Errorf("test has %v", m.Tests[0].CheckerArgs)
		}
	})
	t.Run("a test without stays without, also after encoding", func(t *testing.T) {
		m := load(t, pkg(map[string]string{"data/secret/test_group.yaml": "output_validator_args: [a]\n", "output_validator/v.py": ""}))
		m, _, err := problem.Decode(problem.Encode(m))
		if err != nil {
			t.Fatal(err)
		}
		if len(m.Checker.Args) != 0 || len(m.Tests[0].CheckerArgs) != 0 || len(m.Tests[1].CheckerArgs) != 1 {
			t.Errorf("checker %v, tests %v %v", m.Checker.Args, m.Tests[0].CheckerArgs, m.Tests[1].CheckerArgs)
		}
	})
	t.Run("an unknown flag of the default validator", func(t *testing.T) {
		wantError(t, pkg(yaml("# comment\noutput_validator_args: [float_tolerence, 1e-6]\n")), "data/secret/test_group.yaml:2",
			`the default validator has no flag "float_tolerence" (it has case_sensitive, space_change_sensitive, float_tolerance, float_relative_tolerance, float_absolute_tolerance)`,
			"correct the flags of the default output validator")
	})
	t.Run("in legacy too, at its own line", func(t *testing.T) {
		wantError(t, pkg(map[string]string{"problem.yaml": "name: x\nvalidator_flags: float_tolerance\n"}), "problem.yaml:2",
			"float_tolerance needs a number after it", "correct the flags of the default output validator")
	})
}

func TestInteractiveProblems(t *testing.T) {
	for name, tt := range map[string]struct{ yaml, dir string }{
		"2025-09":                   {head2025 + "type: interactive\n", "output_validator"},
		"2025-09, with its default": {head2025 + "type: [pass-fail, interactive]\n", "output_validator"},
		"draft":                     {"problem_format_version: draft\nname: x\ntype: interactive\n", "output_validators"},
		"legacy":                    {"name: x\nvalidation: custom interactive\n", "output_validators"},
		"legacy, the other way":     {"name: x\nvalidation: interactive custom\n", "output_validators"},
	} {
		t.Run(name, func(t *testing.T) {
			m := load(t, pkg(map[string]string{
				"problem.yaml": tt.yaml, tt.dir + "/talk.py": "", "data/sample/1.interaction": ">1\n",
			}))
			if c := m.Checker; c.Kind != problem.CheckerInteractor || c.Program != tt.dir || c.Language != "python3" {
				t.Errorf("%+v", c)
			}
		})
	}
}

func TestWhatIsWrongInProblemYAMLIsNamedWithItsLine(t *testing.T) {
	const notYet = "this version judges pass-fail and interactive problems only"
	const talker = "add the source of the program that talks with submissions in output_validator/ (before 2025-09: output_validators/)"
	const plain = "write a plain number, such as 2 or 1.5"
	const positive = "give a limit greater than 0, or remove the key for the default"
	limit := func(s string) string { return head2025 + "limits:\n  " + s + "\n" }
	tests := map[string]struct{ yaml, field, message, hint string }{
		"unknown key":               {head2025 + "colour: red\n", "problem.yaml:4", "colour: the key is not known in format 2025-09", "remove it, or correct its name"},
		"unknown limit":             {limit("tme_limit: 1"), "problem.yaml:5", "limits.tme_limit: the key is not known in format 2025-09", "remove it, or correct its name"},
		"a key of the older format": {head2025 + "validation: custom\n", "problem.yaml:4", "validation: the key is not known in format 2025-09", "remove it; the directory output_validator/ makes the validator custom"},
		"unknown version":           {"problem_format_version: 2031-01\nname: x\n", "problem.yaml:1", `problem_format_version: version "2031-01" of the format is not known`, "known are 2023-07, 2023-07-draft, 2025-09, 2025-09-draft, draft, legacy, legacy-icpc"},
		"no name":                   {"problem_format_version: 2025-09\n", "problem.yaml", "the key name is missing", "add a line 'name: …' with the title"},
		"interactive":               {head2025 + "type: [pass-fail, interactive]\n", "problem.yaml:4", "the problem is interactive, but the package has no output validator", talker},
		"scoring":                   {head2025 + "type: scoring\n", "problem.yaml:4", "type: scoring problems are not supported yet", notYet},
		"multi-pass":                {head2025 + "type:\n- multi-pass\n", "problem.yaml:5", "type: multi-pass problems are not supported yet", notYet},
		"submit-answer":             {head2025 + "type: submit-answer\n", "problem.yaml:4", "type: submit-answer problems are not supported yet", notYet},
		"an unknown type":           {head2025 + "type: puzzle\n", "problem.yaml:4", `type: type "puzzle" is not known`, "write pass-fail or interactive"},
		"legacy interactive":        {"name: x\nvalidation: custom interactive\n", "problem.yaml:2", "validation is custom, but the package has no output validator", "add the validator's source in output_validators/, or set validation: default"},
		"legacy score":              {"name: x\nvalidation: custom score\n", "problem.yaml:2", "validation: scoring problems are not supported yet", notYet},
		"legacy multi-pass":         {"name: x\nvalidation: custom multi-pass\n", "problem.yaml:2", "validation: multi-pass problems are not supported yet", notYet},
		"custom without validator":  {"name: x\nvalidation: custom\n", "problem.yaml:2", "validation is custom, but the package has no output validator", "add the validator's source in output_validators/, or set validation: default"},
		"time limit 0":              {limit("time_limit: 0"), "problem.yaml:5", "limits.time_limit: is 0; a limit of 0 lets nothing run", positive},
		"negative memory":           {limit("memory: -1"), "problem.yaml:5", "limits.memory: -1 is negative", positive},
		"a word for a number":       {limit("memory: lots"), "problem.yaml:5", `limits.memory: "lots" is not a number of MiB`, plain},
		"text for a number":         {limit("memory: '256'"), "problem.yaml:5", `limits.memory: "256" is text; a number of MiB is wanted`, "take the quotes off"},
		"hexadecimal":               {limit("memory: 0x100"), "problem.yaml:5", `limits.memory: "0x100" is not a number of MiB`, plain},
		"infinite":                  {limit("time_limit: .inf"), "problem.yaml:5", `limits.time_limit: ".inf" is not a number of s`, plain},
		"finer than a millisecond":  {limit("time_limit: 0.0005"), "problem.yaml:5", "limits.time_limit: 0.0005 s is finer than a millisecond", "round it to milliseconds"},
		"a limit too large":         {limit("time_limit: 3601"), "problem.yaml:5", "limits.time_limit: 3601 s is more than gavel allows", "give at most 3600 s"},
		"a huge exponent":           {limit("memory: 1e9999"), "problem.yaml:5", "limits.memory: 1e9999 MiB is more than gavel allows", "give at most 1048576 MiB"},
		"a limit without value":     {limit("memory:"), "problem.yaml:5", "limits.memory: has no value", "give a value, or remove the key"},
		"limits as a list":          {head2025 + "limits: [1, 2]\n", "problem.yaml:4", "limits: must be a mapping", "write 'key: value' lines"},
		"a list for a number":       {limit("memory: [1]"), "problem.yaml:5", "limits.memory: must be a single value, not a list or mapping", "write a single value"},
		"not YAML":                  {head2025 + "credits: a: b\n", "problem.yaml:4", "not valid YAML: mapping value is not allowed in this context", "correct the YAML; indent with spaces, and quote text that holds ': ' or '#'"},
		"a tab":                     {"name: x\nlimits:\n\tmemory: 1\n", "problem.yaml:3", "not valid YAML: found character '\t' that cannot start any token", "correct the YAML; indent with spaces, and quote text that holds ': ' or '#'"},
		"a key twice":               {"name: x\nname: y\n", "problem.yaml:2", `not valid YAML: mapping key "name" already defined at [1:1]`, "correct the YAML; indent with spaces, and quote text that holds ': ' or '#'"},
		"two documents":             {"name: x\n---\nname: y\n", "problem.yaml:3", "holds more than one YAML document", "remove the second one"},
		"no mapping at all":         {"just text\n", "problem.yaml:1", "must be a mapping", "write 'key: value' lines"},
		"an alias":                  {"name: &x y\nsource: *x\nlicense: z\nvalidation: *x\n", "problem.yaml:1", "name: anchors and aliases are not read", "write the value itself"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			wantError(t, pkg(map[string]string{"problem.yaml": tt.yaml}), tt.field, tt.message, tt.hint)
		})
	}
}

func TestWhatIsWrongElsewhere(t *testing.T) {
	const pairs = "give each X.in its X.ans, an empty X.in where the program reads nothing; or remove the single ones"
	noTests := map[string]string{"data/sample/1.in-": "", "data/sample/1.ans-": "", "data/secret/01.in-": "", "data/secret/01.ans-": ""}
	legacy := "name: x\nvalidation: custom\n"
	tests := map[string]struct {
		files                map[string]string
		field, message, hint string
	}{
		"no problem.yaml":               {map[string]string{"problem.yaml-": ""}, "", "there is no problem.yaml: this is not a problem package of the ICPC formats", "add a problem.yaml at the top of the package"},
		"no tests":                      {noTests, "data", "the package has no tests: data/sample and data/secret hold no .in and no .ans files", "put pairs such as data/secret/1.in and data/secret/1.ans into it"},
		"inputs without answers":        {map[string]string{"data/secret/01.ans-": "", "data/secret/02.in": ""}, "data", "inputs without an answer (.ans): data/secret/01.in, data/secret/02.in", pairs},
		"answers without inputs":        {map[string]string{"data/secret/01.in-": ""}, "data", "answers without an input (.in): data/secret/01.ans", pairs},
		"both":                          {map[string]string{"data/secret/01.in-": "", "data/secret/x.in": ""}, "data", "inputs without an answer (.ans): data/secret/x.in; answers without an input (.in): data/secret/01.ans", pairs},
		"an answer called .out":         {map[string]string{"data/secret/01.ans-": "", "data/secret/01.out": ""}, "data", "inputs without an answer (.ans): data/secret/01.in", pairs},
		"two letter cases":              {map[string]string{"data/secret/01.IN": ""}, "data/secret/01.in", "the names of data/secret/01.IN and data/secret/01.in differ in letter case only", "keep one of them"},
		"files beside an input":         {map[string]string{"data/secret/01.files/x": ""}, "data/secret/01.files/x", "files beside the input of a test (data/secret/01.files/) are not supported yet", "let the test use its input file only"},
		"an unknown key of a test":      {map[string]string{"data/secret/01.yaml": "arg: [x]\n"}, "data/secret/01.yaml:1", "arg: the key is not known in format 2025-09", "remove it, or correct its name"},
		"a scoring key":                 {map[string]string{"data/secret/test_group.yaml": "\nmax_score: 3\n"}, "data/secret/test_group.yaml:2", "max_score: the key belongs to scoring problems", "remove it; this version judges pass-fail and interactive problems only"},
		"args as text":                  {map[string]string{"data/secret/01.yaml": "args: x y\n"}, "data/secret/01.yaml:1", "args: must be a list", "write a list, such as [a, b]"},
		"a grader that forgives":        {map[string]string{"problem.yaml": "name: x\n", "data/testdata.yaml": "grader_flags: always_accept\n"}, "data/testdata.yaml:1", "grader_flags: the grader flag always_accept is not supported yet", "this version judges pass-fail and interactive problems only"},
		"a grader of its own":           {map[string]string{"problem.yaml": "name: x\n", "data/secret/testdata.yaml": "grading: custom\n"}, "data/secret/testdata.yaml:1", "grading: graders of the package's own are not supported yet", "this version judges pass-fail and interactive problems only"},
		"time limits that differ":       {map[string]string{".timelimit": "3\n"}, ".timelimit", "the limit 3 s contradicts 1 s in problem.yaml:5", "keep one of them, or make them equal"},
		"an ini that differs":           {map[string]string{"domjudge-problem.ini": "short-name = a\ntimelimit='2'\n"}, "domjudge-problem.ini:2", "the limit 2 s contradicts 1 s in problem.yaml:5", "keep one of them, or make them equal"},
		"a time limit that is none":     {map[string]string{".timelimit": "two\n"}, ".timelimit", `"two" is not a number of s`, "write a plain number, such as 2 or 1.5"},
		"a time limit of 0":             {map[string]string{".timelimit": "0\n"}, ".timelimit", "is 0; a limit of 0 lets nothing run", "give a limit greater than 0, or remove the key for the default"},
		"an ini line that is none":      {map[string]string{"domjudge-problem.ini": "hello\n"}, "domjudge-problem.ini:1", `"hello" is not a setting`, "write key = value"},
		"a compare script elsewhere":    {map[string]string{"domjudge-problem.ini": "special_compare = float\n"}, "domjudge-problem.ini:1", "special_compare names a program of a DOMjudge installation, which is not in the package", "put the program into the package and set validation: custom"},
		"files to compile with":         {map[string]string{"include/default/x.h": ""}, "include/default/x.h", "files to be compiled with each submission are not supported yet", "remove include/ if submissions compile without it"},
		"a constant in a program":       {map[string]string{"problem.yaml": head2025 + "constants: {maxn: 5}\n", "submissions/accepted/a.c": "int a[{{maxn}}];"}, "submissions/accepted/a.c", "uses {{maxn}}; constants are replaced in statements only, not yet in programs", "write the value itself there"},
		"the older validator directory": {map[string]string{"output_validators/v.py": ""}, "output_validators/v.py", "format 2025-09 has no directory output_validators/", "rename it to output_validator"},
		"several validators":            {map[string]string{"problem.yaml": legacy, "output_validators/a/v.py": "", "output_validators/b/v.py": ""}, "output_validators", "output_validators/ holds 2 programs (a, b); one output validator is supported", "keep the one that decides"},
		"a validator in Java":           {map[string]string{"output_validator/V.java": ""}, "output_validator", "the output validator V.java is in a language that gavel does not build", "write the output validator in C (.c), C++ (.cc, .cpp, .cxx) or Python 3 (.py), or bring executables build and run"},
		"a validator without source":    {map[string]string{"output_validator/README": ""}, "output_validator", "the directory holds no source of an output validator", "write the output validator in C (.c), C++ (.cc, .cpp, .cxx) or Python 3 (.py), or bring executables build and run"},
		"a validator in two languages":  {map[string]string{"output_validator/a.py": "", "output_validator/b.c": ""}, "output_validator", "the output validator is written in several languages", "keep one language"},
		"two Python files":              {map[string]string{"output_validator/a.py": "", "output_validator/b.py": ""}, "output_validator", "the output validator has 2 Python files", "name the one to start main.py"},
		"a build script not executable": {map[string]string{"output_validator/build": "#!/bin/sh\n"}, "output_validator/build", "is not executable", "chmod +x it, and pack the package with a program that keeps modes"},
		"both validator directories":    {map[string]string{"problem.yaml": legacy, "output_validators/v.py": "", "output_validator/v.py": ""}, "", "the package has both output_validator/ and output_validators/", "keep one of them"},
		"a configuration that is large": {map[string]string{"problem.yaml": "# " + strings.Repeat("x", 64<<10)}, "problem.yaml", "is larger than 64 KiB", "make it smaller"},
		"a broken submissions.yaml":     {map[string]string{"submissions/submissions.yaml": "accepted/*:\n  required: [WRONG]\n"}, "submissions/submissions.yaml:2", `accepted/*.required: "WRONG" is not a verdict`, "use AC, WA, TLE and RTE"},
		"a pattern that is none":        {map[string]string{"submissions/submissions.yaml": "'{a':\n  language: c\n"}, "submissions/submissions.yaml:2", "{a: the pattern has a brace that is not closed, or one in another", "correct the pattern"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantError(t, pkg(tt.files), tt.field, tt.message, tt.hint) })
	}
}

func TestWhatIsHarmlessIsAWarning(t *testing.T) {
	legacy := func(s string) map[string]string {
		return map[string]string{"problem.yaml": "name: x\nlimits: {time_limit: 1}\n" + s}
	}
	tests := map[string]struct {
		files map[string]string
		want  []string
	}{
		"nothing": {nil, nil},
		"no time limit": {map[string]string{"problem.yaml": head2025}, []string{
			"no time limit is given (problem.yaml: limits.time_limit); it is 1 s, which no submission has been measured against",
		}},
		"unknown keys of the older format": {legacy("colour: red\ngrading: {objective: max, x: 1}\n"), []string{
			"problem.yaml:3: colour: the key is not known and has no effect", "problem.yaml:4: grading.x: the key is not known and has no effect",
		}},
		"a byte order mark and CRLF": {map[string]string{"data/secret/01.in": "\xef\xbb\xbf1 2\r\n", "data/secret/01.ans": "3\r\n"}, []string{
			"a byte order mark starts data/secret/01.in; programs will read it as part of the first word",
			"Windows line ends (CRLF) in data/secret/01.ans, data/secret/01.in; programs that read whole lines will see the CR",
		}},
		"integers among fractions": {map[string]string{"data/secret/01.ans": "1.5 2\n", "data/sample/1.ans": "3 4\n", "data/secret/test_group.yaml": "output_validator_args: [float_tolerance, 1e-6]"}, []string{
			"integers and fractions are mixed in data/secret/01.ans; with a tolerance, the integers are compared with it too",
		}},
		"no test has an input": {map[string]string{"data/secret/01.in-": "", "data/sample/1.in-": "", "data/secret/02.yaml": "", "data/secret/03.ANS": "5\n"}, []string{
			"not part of any test: data/secret/02.yaml",
			"no test has an input (.in), so each is run with an empty one: data/sample/1.in, data/secret/01.in, data/secret/03.in",
		}},
		"no test has an input, and answers are called .out": {map[string]string{
			"problem.yaml": "name: x\nlimits: {time_limit: 1}\n", "data/secret/01.in-": "", "data/sample/1.in-": "", "data/secret/01.ans-": "", "data/secret/01.out": "4",
		}, []string{
			"the format wants .ans for answers; used instead: data/secret/01.out",
			"no test has an input (.in), so each is run with an empty one: data/sample/1.in, data/secret/01.in",
		}},
		"samples only": {map[string]string{"data/secret/01.in-": "", "data/secret/01.ans-": ""}, []string{"the package has samples only; data/secret holds no tests"}},
		"names that do not exist for the format": {map[string]string{"data/secret/1 (copy).in": "", "a b/c": "", "é": ""}, []string{
			"left out, because the format allows only letters, digits, '.', '_' and '-' in names: a b, data/secret/1 (copy).in, é",
		}},
		"data beside the tests": {map[string]string{"data/1.in": "", "data/extra/1.in": "", "data/secret/gen.py": "", "data/secret/02.yaml": "", "data/secret/03.out": ""}, []string{
			"not part of any test: data/secret/gen.py, data/secret/02.yaml, data/secret/03.out",
			"not judged, because it is in neither data/sample nor data/secret: data/1.in, data/extra/1.in",
		}},
		"an answer called .out in the older format": {map[string]string{"problem.yaml": "name: x\nlimits: {time_limit: 1}\n", "data/secret/01.ans-": "", "data/secret/01.out": "4"}, []string{
			"the format wants .ans for answers; used instead: data/secret/01.out",
		}},
		"testdata.yaml in 2025-09": {map[string]string{"data/secret/testdata.yaml": "on_reject: continue\nfoo: 1\n"}, []string{
			"data/secret/testdata.yaml is of the older format; it is read as such, since the package has no test_group.yaml",
			"data/secret/testdata.yaml:2: foo: the key is not known and has no effect",
		}},
		"testdata.yaml beside test_group.yaml": {map[string]string{"data/secret/testdata.yaml": "x: 1", "data/sample/test_group.yaml": ""}, []string{
			"data/secret/testdata.yaml is left out: the package has test_group.yaml files, as format 2025-09 wants",
		}},
		"test_group.yaml at the root": {map[string]string{"data/test_group.yaml": "output_validator_args: [case_sensitive]"}, []string{
			"data/test_group.yaml: the format has no such file at this place; it is read for all tests",
		}},
		"a validator that is not used": {map[string]string{"problem.yaml": "name: x\nlimits: {time_limit: 1}\n", "output_validators/v.py": ""}, []string{
			"output_validators/ is not used, because validation is not custom",
		}},
		"a file with gavel's own name": {map[string]string{"manifest.json": "{}"}, []string{"manifest.json is left out: the name is gavel's own"}},
		"a resolution that does not fit": {map[string]string{"problem.yaml": head2025 + "limits: {time_limit: 1.5, time_resolution: 1}\n"}, []string{
			"problem.yaml:4: limits.time_limit 1.5 s is not a multiple of limits.time_resolution; it is used as written",
		}},
		"no title": {map[string]string{"problem.yaml": "limits: {time_limit: 1}\n"}, []string{"problem.yaml gives no name; the short name is shown as the title"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) { wantWarnings(t, load(t, pkg(tt.files)), tt.want...) })
	}
}

func TestCheckersAreFound(t *testing.T) {
	legacy := "name: x\nvalidation: custom\n"
	tests := map[string]struct {
		files map[string]string
		want  problem.Checker
	}{
		"C++":                        {map[string]string{"output_validator/v.cpp": "", "output_validator/v.h": ""}, problem.Checker{Kind: "program", Program: "output_validator", Language: "cpp20"}},
		"C":                          {map[string]string{"output_validator/v.c": ""}, problem.Checker{Kind: "program", Program: "output_validator", Language: "c"}},
		"Python with helpers":        {map[string]string{"output_validator/main.py": "", "output_validator/x.py": ""}, problem.Checker{Kind: "program", Program: "output_validator", Language: "python3"}},
		"one file in a legacy one":   {map[string]string{"problem.yaml": legacy, "output_validators/v.cc": ""}, problem.Checker{Kind: "program", Program: "output_validators", Language: "cpp20"}},
		"a directory in a legacy":    {map[string]string{"problem.yaml": legacy, "output_validators/v/v.cc": ""}, problem.Checker{Kind: "program", Program: "output_validators/v", Language: "cpp20"}},
		"custom in the new place":    {map[string]string{"problem.yaml": legacy, "output_validator/v.cc": ""}, problem.Checker{Kind: "program", Program: "output_validator", Language: "cpp20"}},
		"a draft with the old place": {map[string]string{"problem.yaml": "problem_format_version: 2023-07-draft\nname: x\n", "output_validators/v.cc": ""}, problem.Checker{Kind: "program", Program: "output_validators", Language: "cpp20"}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, load(t, pkg(tt.files)).Checker); diff != "" {
				t.Errorf("checker (-want +got):\n%s", diff)
			}
		})
	}
	t.Run("build and run scripts", func(t *testing.T) {
		fsys := pkg(map[string]string{"output_validator/v.rs": ""})
		for _, name := range []string{"build", "run"} {
			fsys["output_validator/"+name] = &fstest.MapFile{Data: []byte("#!/bin/sh\n"), Mode: 0o755}
		}
		m := load(t, fsys)
		if diff := cmp.Diff(problem.Checker{Kind: "program", Program: "output_validator", Language: "script"}, m.Checker); diff != "" {
			t.Error(diff)
		}
	})
}

func TestFormatsAndTheirVersions(t *testing.T) {
	for version, want := range map[string]string{
		"": FormatLegacy, "legacy": FormatLegacy, "legacy-icpc": FormatLegacy,
		"2023-07-draft": FormatDraft, "2023-07": FormatDraft,
		"draft": Format2025, "2025-09-draft": Format2025, "2025-09": Format2025,
	} {
		yaml := "name: x\n"
		if version != "" {
			yaml += "problem_format_version: " + version + "\n"
		}
		if got := load(t, pkg(map[string]string{"problem.yaml": yaml})).Format; got != want {
			t.Errorf("%q: format %s, want %s", version, got, want)
		}
	}
}

func TestDOMjudgePackagesWithoutProblemYAML(t *testing.T) {
	m := load(t, pkg(map[string]string{
		"problem.yaml-": "",
		"domjudge-problem.ini": "; settings\n[problem]\nshort-name = A1\nname='Apples'\ntimelimit = 2.5\nmemlimit=262144\noutputlimit = 4096\n" +
			"special_compare_args = float_absolute_tolerance 1e-3\ncolor = \"#ff0000\"\nodd = 1\n",
	}))
	if m.Name != "a1" || m.Titles["en"] != "Apples" || m.Limits.CPUMS != 2500 || m.Limits.MemoryBytes != 256<<20 || m.Limits.OutputBytes != 4<<20 || m.Checker.Tokens.FloatAbsolute != "1e-3" {
		t.Errorf("%+v", m)
	}
	wantWarnings(t, m, "domjudge-problem.ini:10: odd: the key is not known and has no effect")
}

func TestShortNames(t *testing.T) {
	for _, tt := range []struct{ name, fallback, want string }{
		{"given", "dir", "given"},
		{"", "Sum-Of_2.zip", "sum-of_2"},
		{"", "my problem", "my-problem"},
		{"", "..hidden", "hidden"},
		{"", strings.Repeat("x", 80), strings.Repeat("x", 64)},
	} {
		m, err := Import(t.Context(), pkg(nil), Options{Name: tt.name, Fallback: tt.fallback})
		if err != nil {
			t.Fatal(err)
		}
		if m.Name != tt.want {
			t.Errorf("%q, %q: %q, want %q", tt.name, tt.fallback, m.Name, tt.want)
		}
	}
	for _, o := range []Options{{Name: "Not A Name"}, {Fallback: "…"}, {}} {
		_, err := Import(t.Context(), pkg(nil), o)
		if e, ok := errors.AsType[*apperr.Error](err); !ok || e.Code != apperr.Invalid || e.Hint == "" {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

func TestImportEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cause := errors.New("client gone")
	cancel(cause)
	if _, err := Import(ctx, pkg(nil), Options{Fallback: "x"}); !errors.Is(err, cause) {
		t.Errorf("error %v", err)
	}
}

func TestManyWarningsAreCutShort(t *testing.T) {
	yaml := "name: x\n"
	for i := range 300 {
		yaml += strings.Repeat("k", i+1) + ": 1\n"
	}
	m := load(t, pkg(map[string]string{"problem.yaml": yaml}))
	if n := len(m.Warnings); n != maxWarnings+1 || m.Warnings[n-1] != "more warnings were left out" {
		t.Errorf("%d warnings", n)
	}
}
