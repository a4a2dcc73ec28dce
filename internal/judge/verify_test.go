package judge_test

import (
	"maps"
	"strings"
	"testing"
	"time"

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
}

func TestVerifyBuildsAnInteractorAndAsksItNothing(t *testing.T) {
	e := newEngine(t, realProvider(t), 1)
	pkg := evenPackage(t, nil)
	pkg.Manifest.Checker.Kind = problem.CheckerInteractor
	wantFindings(t, verify(t, e, judge.VerifyTask{Package: pkg, Step: judge.VerifyChecker}), [4]string{"build", "checker", "ok", ""})
}
