package judge_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// evenPackage has two tests whose inputs are to be even and whose answers are
// their halves, a checker and a validator. changed files replace these.
func evenPackage(t *testing.T, changed files) *problem.Package {
	t.Helper()
	content := files{
		"data/1.in": "8\n", "data/1.ans": "4\n", "data/2.in": "2\n", "data/2.ans": "1\n",
		"checker/check.cpp": `#include <fstream>
#include <iostream>
int main(int argc, char **argv) {
    std::ifstream in(argv[1]);
    long n, got;
    in >> n;
    if (std::cin >> got && 2 * got == n) return 42;
    std::ofstream(std::string(argv[3]) + "judgemessage.txt") << "not half of " << n;
    return 43;
}
`,
		"validators/even.py":  "import sys\nassert int(sys.stdin.read()) % 2 == 0, 'odd'\nsys.exit(42)\n",
		"validators/flat.cpp": "#include <cstdio>\nint main() { int n; return scanf(\"%d\", &n) == 1 ? 42 : 43; }\n",
		"submissions/half.c":  "#include <stdio.h>\nint main() { int n; scanf(\"%d\", &n); printf(\"%d\\n\", n / 2); }\n",
		"submissions/four.py": "print(4)\n",
	}
	maps.Copy(content, changed)
	pkg := writePackage(t, content,
		[]problem.Test{{Name: "1", Input: "data/1.in", Answer: "data/1.ans"}, {Name: "2", Input: "data/2.in", Answer: "data/2.ans"}},
		problem.Checker{Kind: problem.CheckerProgram, Program: "checker", Language: "cpp20"})
	pkg.Manifest.InputValidators = []problem.Program{{Path: "validators/even.py", Language: "python3"}, {Path: "validators/flat.cpp", Language: "cpp20"}}
	return pkg
}

func verify(t *testing.T, e *judge.Engine, task judge.VerifyTask) *judge.VerifyReport {
	t.Helper()
	task.Limits = judge.Limits{CPU: 5 * time.Second, Wall: 11 * time.Second, MemoryBytes: 256 << 20, OutputBytes: 1 << 20, Processes: 64}
	rep, err := e.Verify(t.Context(), task, func(judge.Progress) {})
	if err != nil {
		t.Fatal(err)
	}
	return rep
}

// wantFindings compares findings with lines of "step what outcome words": the
// detail must hold the words.
func wantFindings(t *testing.T, rep *judge.VerifyReport, want ...[4]string) {
	t.Helper()
	ok := len(rep.Findings) == len(want)
	for i := 0; ok && i < len(want); i++ {
		f := rep.Findings[i]
		outcome := map[bool]string{true: "failed", false: "ok"}[f.Failed]
		ok = f.Step == want[i][0] && f.What == want[i][1] && outcome == want[i][2] && strings.Contains(f.Detail, want[i][3])
	}
	if !ok {
		t.Errorf("findings\n%+v\nwant\n%q", rep.Findings, want)
	}
}

func TestVerifyFindsNothingWrongWithAGoodPackage(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := evenPackage(t, nil)
	wantFindings(t, verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifyChecker}),
		[4]string{"build", "checker", "ok", ""}, [4]string{"answers", "2 tests", "ok", "accepted"}, [4]string{"empty output", "2 tests", "ok", ""})
	for _, v := range pkg.Manifest.InputValidators {
		wantFindings(t, verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifyValidator, Path: v.Path}),
			[4]string{"build", v.Path, "ok", ""}, [4]string{"inputs", "2 tests", "ok", v.Path})
	}
	rep := verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifySubmission, Path: "submissions/half.c", Language: "c"})
	wantFindings(t, rep, [4]string{"submission", "submissions/half.c", "ok", "of 5000 ms CPU, 2 tests"})
	if rep.Verdict != verdict.AC || rep.Judged == nil || rep.Findings[0].Took <= 0 {
		t.Errorf("%+v", rep)
	}
	rep = verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifySubmission, Path: "submissions/four.py", Language: "python3"})
	wantFindings(t, rep, [4]string{"submission", "submissions/four.py", "ok", "on test 2: not half of 2"})
	if rep.Verdict != verdict.WA {
		t.Errorf("%+v", rep)
	}
}

func TestVerifySaysWhatIsWrongWithAPackage(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	checker, even, flat := judge.VerifyTask{Step: judge.VerifyChecker}, judge.VerifyTask{Step: judge.VerifyValidator, Path: "validators/even.py"},
		judge.VerifyTask{Step: judge.VerifyValidator, Path: "validators/flat.cpp"}
	fine := [4]string{"answers", "2 tests", "ok", ""}
	for name, c := range map[string]struct {
		changed files
		task    judge.VerifyTask
		want    [][4]string
	}{
		"a checker that does not compile": {files{"checker/check.cpp": "int main() { retrn 42; }\n"}, checker, [][4]string{
			{"build", "checker", "failed", "checker does not compile: "},
		}},
		"a wrong answer file": {files{"data/2.ans": "2\n"}, checker, [][4]string{
			{"build", "checker", "ok", ""}, {"answers", "2", "failed", "its own answer is not accepted as an output: not half of 2"}, {"empty output", "2 tests", "ok", ""},
		}},
		"a checker that dies of an empty output": {files{"checker/check.cpp": "#include <iostream>\nint main() { int n; if (!(std::cin >> n)) __builtin_trap(); return 42; }\n"}, checker, [][4]string{
			{"build", "checker", "ok", ""}, fine, {"empty output", "1", "failed", "ended by signal"}, {"empty output", "2", "failed", "ended by signal"},
		}},
		"a validator that does not compile": {files{"validators/flat.cpp": "int main() { retrn 42; }\n"}, flat, [][4]string{
			{"build", "validators/flat.cpp", "failed", "input validator does not compile: "},
		}},
		"an input that is not valid": {files{"data/1.in": "7\n"}, even, [][4]string{
			{"build", "validators/even.py", "ok", ""}, {"inputs", "1", "failed", "it ended with exit code 1; a validator accepts with 42"},
		}},
		"a validator that refuses": {files{"data/1.in": "x\n"}, flat, [][4]string{
			{"build", "validators/flat.cpp", "ok", ""}, {"inputs", "1", "failed", "by validators/flat.cpp: refused"},
		}},
		"a validator that runs for ever": {files{"validators/flat.cpp": "int main() { for (volatile int x = 0;;) x = x + 1; }\n"}, flat, [][4]string{
			{"build", "validators/flat.cpp", "ok", ""}, {"inputs", "1", "failed", "by validators/flat.cpp: it "}, {"inputs", "2", "failed", "by validators/flat.cpp: it "},
		}},
		"a checker that dies of a submission": {
			files{"checker/check.cpp": "#include <iostream>\nint main() { int n; std::cin >> n; if (n == 4) __builtin_trap(); return 42; }\n"},
			judge.VerifyTask{Step: judge.VerifySubmission, Path: "submissions/four.py", Language: "python3"},
			[][4]string{{"submission", "submissions/four.py", "failed", "checker was ended by signal"}},
		},
		"a submission that does not compile": {
			files{"submissions/half.c": "int main() { retrn 0; }\n"},
			judge.VerifyTask{Step: judge.VerifySubmission, Path: "submissions/half.c", Language: "c"},
			[][4]string{{"submission", "submissions/half.c", "ok", "error: "}}, // whether it may is the declaration's to say
		},
	} {
		t.Run(name, func(t *testing.T) {
			c.task.Package = evenPackage(t, c.changed)
			c.task.Package.Manifest.Limits.ValidationCPUMS = 1000
			wantFindings(t, verify(t, e, c.task), c.want...)
		})
	}
}

// trialsOfEven are trials of the programs of evenPackage, with one of each kind.
func trialsOfEven(pkg *problem.Package) {
	trial := func(kind, name string) problem.Trial {
		base := "data/" + kind + "/" + name
		t := problem.Trial{Test: problem.Test{Name: kind + "/" + name, Input: base + ".in"}, Kind: kind}
		if kind != problem.TrialInvalidInput {
			t.Answer, t.Output = base+".ans", base+".out"
		}
		return t
	}
	pkg.Manifest.Trials = []problem.Trial{
		trial(problem.TrialInvalidInput, "odd"), trial(problem.TrialInvalidInput, "digit"),
		trial(problem.TrialInvalidOutput, "1"), trial(problem.TrialValidOutput, "1"),
	}
}

var evenTrials = files{
	// Each is refused by one validator only: Python takes any script's digits.
	"data/invalid_input/odd.in": "7\n", "data/invalid_input/digit.in": "٤\n",
	"data/invalid_output/1.in": "6\n", "data/invalid_output/1.ans": "3\n", "data/invalid_output/1.out": "4\n",
	"data/valid_output/1.in": "6\n", "data/valid_output/1.ans": "3\n", "data/valid_output/1.out": "03\n",
}

func TestVerifyTriesThePackagesProgramsWithWhatIsWrong(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	checker, refusal := judge.VerifyTask{Step: judge.VerifyChecker}, judge.VerifyTask{Step: judge.VerifyRefusal, Path: "data/invalid_input"}
	even := judge.VerifyTask{Step: judge.VerifyValidator, Path: "validators/even.py"}
	built := [4]string{"build", "checker", "ok", ""}
	answers, right := [4]string{"answers", "2 tests", "ok", ""}, [4]string{"outputs", "1 outputs that are right", "ok", "accepted"}
	wrong, empty := [4]string{"outputs", "1 outputs that are wrong", "ok", "refused"}, [4]string{"empty output", "2 tests", "ok", ""}
	inputs := [4]string{"inputs", "2 tests", "ok", ""}
	builtEven, builtFlat := [4]string{"build", "validators/even.py", "ok", ""}, [4]string{"build", "validators/flat.cpp", "ok", ""}
	for name, c := range map[string]struct {
		changed files
		change  func(*problem.Manifest)
		task    judge.VerifyTask
		want    [][4]string
	}{
		"outputs as they are said to be":  {nil, nil, checker, [][4]string{built, answers, right, wrong, empty}},
		"inputs that are refused":         {nil, nil, refusal, [][4]string{builtEven, builtFlat, {"invalid inputs", "2 inputs that are not valid", "ok", "refused"}}},
		"inputs of outputs that are fine": {nil, nil, even, [][4]string{builtEven, inputs, {"inputs", "2 inputs of outputs to try", "ok", "even.py"}}},
		"a checker that accepts what is wrong": {files{"data/invalid_output/1.out": "3\n"}, nil, checker, [][4]string{
			built, answers, right, {"outputs", "invalid_output/1", "failed", "it is wrong, and is accepted"}, empty,
		}},
		"a checker that refuses what is right": {files{"data/valid_output/1.out": "4\n"}, nil, checker, [][4]string{
			built, answers, {"outputs", "valid_output/1", "failed", "it is right, and is not accepted: not half of 6"}, wrong, empty,
		}},
		"the comparator, with flags of its own for one": {
			nil,
			func(m *problem.Manifest) {
				m.Checker = problem.Checker{Kind: problem.CheckerTokens}
				m.Trials[3].Tokens = &problem.TokenOptions{FloatAbsolute: "0.1"} // 03 is 3 as a number only
				m.Trials = append(m.Trials, m.Trials[3])
				m.Trials[4].Name, m.Trials[4].Tokens = "valid_output/2", nil
			},
			checker,
			[][4]string{
				{"build", "default output validator", "ok", ""},
				answers,
				{"outputs", "valid_output/2", "failed", "it is right, and is not accepted: "},
				wrong,
			},
		},
		"an input that nobody refuses": {files{"data/invalid_input/odd.in": "8\n"}, nil, refusal, [][4]string{
			builtEven, builtFlat, {"invalid inputs", "invalid_input/odd", "failed", "it is not valid, and no input validator refuses it"},
		}},
		"an output whose input is not valid": {files{"data/valid_output/1.in": "7\n"}, nil, even, [][4]string{
			builtEven, inputs, {"inputs", "valid_output/1", "failed", "by validators/even.py: "},
		}},
		"a validator that cannot be built": {files{"validators/flat.cpp": "int main() { retrn 42; }\n"}, nil, refusal, [][4]string{
			builtEven, {"build", "validators/flat.cpp", "failed", "input validator does not compile: "},
		}},
	} {
		t.Run(name, func(t *testing.T) {
			changed := maps.Clone(evenTrials)
			maps.Copy(changed, c.changed)
			c.task.Package = evenPackage(t, changed)
			trialsOfEven(c.task.Package)
			if c.change != nil {
				c.change(&c.task.Package.Manifest)
			}
			wantFindings(t, verify(t, e, c.task), c.want...)
		})
	}
}

func TestVerifyBlamesTheMachineForWhatIsItsOwn(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := evenPackage(t, nil)
	pkg.Manifest.Files[0].SizeBytes++ // what is on disk is not what the manifest says
	_, err := e.Verify(t.Context(), judge.VerifyTask{Package: pkg, Step: judge.VerifyChecker}, func(judge.Progress) {})
	if f, ok := err.(*judge.Fault); !ok || f.Blame != judge.BlameHost { //nolint:errorlint // Verify returns it as it is
		t.Errorf("%v", err)
	}
}

func TestVerifyNamesSomeOfManyTests(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	content, tests := files{}, []problem.Test{}
	for i := range 30 {
		name := string(rune('a'+i/10)) + string(rune('0'+i%10))
		content["data/"+name+".in"], content["data/"+name+".ans"] = "", "x"
		tests = append(tests, problem.Test{Name: name, Input: "data/" + name + ".in", Answer: "data/" + name + ".ans"})
	}
	content["checker/run"] = "#!/bin/sh\nexit 43\n"
	pkg := writePackage(t, content, tests, problem.Checker{Kind: problem.CheckerProgram, Program: "checker", Language: "script"})
	rep := verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifyChecker})
	if n := len(rep.Findings); n != 1+20+1+1 || rep.Findings[21].Detail != "and 10 more" || rep.Findings[20].What != "b9" {
		t.Errorf("%d findings: %+v", n, rep.Findings)
	}
	// When they take long, the others are left.
	e = newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, Clock: &quickClock{}})
	rep = verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifyChecker})
	i := slices.IndexFunc(rep.Findings, func(f judge.Finding) bool { return strings.HasPrefix(f.Detail, "not looked at") })
	if i < 2 || i > 7 || !rep.Findings[i].Failed || rep.Findings[i].What != fmt.Sprintf("%d tests", 30-i+1) {
		t.Errorf("findings when each takes long: %+v", rep.Findings)
	}
}

// quickClock shows ten seconds more each time.
type quickClock struct {
	clock.System
	looks atomic.Int64
}

func (c *quickClock) Now() time.Time {
	return c.System.Now().Add(time.Duration(c.looks.Add(1)) * 10 * time.Second)
}

func TestVerifyBuildsAnInteractorAndAsksItNothing(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := evenPackage(t, nil)
	pkg.Manifest.Checker.Kind = problem.CheckerInteractor
	wantFindings(t, verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifyChecker}), [4]string{"build", "checker", "ok", ""})
}
