package icpc

import (
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/google/go-cmp/cmp"
)

func sortedKeys(fsys fstest.MapFS) []string {
	var names []string
	for p := range fsys {
		names = append(names, p)
	}
	slices.Sort(names)
	return names
}

func TestSubmissionsAndWhatTheyAreMeantToGet(t *testing.T) {
	all := []string{"RE", "MLE", "OLE"}
	tests := map[string]struct {
		files map[string]string // below submissions/
		want  map[string][]string
		warn  []string
	}{
		"directories": {
			map[string]string{
				"accepted/a.c": "", "wrong_answer/a.py": "", "time_limit_exceeded/a.cc": "", "run_time_error/a.cpp": "", "rejected/a.c": "", "brute_force/a.c": "",
				"memory_limit_exceeded/a.c": "", "output_limit_exceeded/a.c": "", "compile_error/a.c": "", "slow_accepted/a.c": "",
			},
			map[string][]string{
				"accepted/a.c c": {"AC"}, "wrong_answer/a.py python3": {"WA"}, "time_limit_exceeded/a.cc cpp17": {"TLE"}, "run_time_error/a.cpp cpp17": all,
				"rejected/a.c c": {"WA", "TLE", "RE", "MLE", "OLE"}, "brute_force/a.c c": {"TLE", "RE", "MLE", "OLE"},
				"memory_limit_exceeded/a.c c": {"MLE"}, "output_limit_exceeded/a.c c": {"OLE"}, "compile_error/a.c c": {"CE"}, "slow_accepted/a.c c": {"AC", "TLE"},
			},
			nil,
		},
		"annotations": {
			map[string]string{
				"mixed/a.c": "// @EXPECTED_RESULTS@: wrong-answer, TIMELIMIT\n", "mixed/b.py": "x = 1\n# @Expected_Results@: NO-OUTPUT", "mixed/c.c": "/* @EXPECTED_RESULTS@: COMPILER-ERROR */",
				"run_time_error/d.c": "// @EXPECTED_RESULTS@: RUN-ERROR", "run_time_error/e.c": "// @EXPECTED_RESULTS@: MEMORY-LIMIT\r\n", "mixed/f.c": "//@EXPECTED_RESULTS@: OUTPUT-LIMIT, ACCEPTED",
			},
			map[string][]string{
				"mixed/a.c c": {"WA", "TLE"}, "mixed/b.py python3": {"WA"}, "mixed/c.c c": {"CE"}, "run_time_error/d.c c": {"RE"}, "run_time_error/e.c c": {"MLE"}, "mixed/f.c c": {"OLE", "AC"},
			},
			nil,
		},
		"annotations that do not help": {
			map[string]string{
				"accepted/a.c": "// @EXPECTED_RESULTS@: WRONG-ANSWER", "mixed/b.c": "// @EXPECTED_RESULTS@: NONSENSE",
				"mixed/c.c": "// @EXPECTED_RESULTS@: CORRECT\n// @EXPECTED_RESULTS@: CORRECT", "mixed/d.c": "",
			},
			map[string][]string{"accepted/a.c c": {"AC"}},
			[]string{
				"submissions/accepted/a.c: its annotation says WA, but its directory says AC, which counts",
				`submissions/mixed/b.c: its annotation says "NONSENSE", which is no verdict; left out`,
				"submissions/mixed/c.c: has the annotation @EXPECTED_RESULTS@ 2 times; left out",
				"submissions/mixed/d.c: nothing says what it is meant to get, or what is said contradicts itself; left out",
			},
		},
		"what gavel cannot judge": {
			map[string]string{
				"accepted/A.java": "", "accepted/multi/a.c": "", "accepted/multi/b.c": "", "accepted/one/a.c": "", "accepted/one/a.h": "", "a.c": "",
				"accepted/big.py": strings.Repeat("#", 128<<10) + "#",
			},
			map[string][]string{"accepted/one/a.c c": {"AC"}, "accepted/big.py python3": {"AC"}},
			[]string{
				"submissions/a.c is not in a directory that says what it is meant to get; left out",
				"submissions/accepted/A.java: its language is not known to gavel; left out",
				"submissions/accepted/big.py: 131073 bytes, more than the 131072 that the problem allows for a source",
				"submissions/accepted/multi: a submission of several files is not supported yet; left out",
			},
		},
		"submissions.yaml": {
			map[string]string{
				"submissions.yaml": `
accepted/a.c: {language: cpp, authors: [x], use_for_time_limit: lower}
"own/{x,y}.py":
  permitted: [AC, WA]
  required: [WA]
"own/z*": {permitted: [AC, RTE], secret/group1: {permitted: [AC]}}
time_limit_exceeded: {permitted: [AC, TLE, RTE], required: [TLE, RTE]}
wrong_answer/b.c: {permitted: [AC, TLE]}
own/j.c: {language: java}
own/k.c: {required: [CE]}
`,
				"accepted/a.c": "", "own/x.py": "", "own/y.py": "", "own/z1.c": "", "time_limit_exceeded/a.c": "", "wrong_answer/b.c": "", "own/j.c": "", "own/k.c": "",
			},
			map[string][]string{
				"accepted/a.c cpp17": {"AC"}, "own/x.py python3": {"WA"}, "own/y.py python3": {"WA"}, "own/z1.c c": {"AC", "RE", "MLE", "OLE"},
				"time_limit_exceeded/a.c c": {"TLE", "RE", "MLE", "OLE"}, "own/k.c c": {"WA", "TLE", "RE", "MLE", "OLE", "CE"},
			},
			[]string{
				"submissions/submissions.yaml:6: own/z*.secret/group1: what is said of single groups is not looked at",
				"submissions/own/j.c: its language java is not known to gavel; left out",
				"submissions/wrong_answer/b.c: nothing says what it is meant to get, or what is said contradicts itself; left out",
			},
		},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			files := map[string]string{}
			for p, text := range tt.files {
				files["submissions/"+p] = text
			}
			m := load(t, pkg(files))
			got := map[string][]string{}
			for _, s := range m.Submissions {
				got[strings.TrimPrefix(s.Path, "submissions/")+" "+s.Language] = s.Expected
			}
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("submissions differ (-want +got):\n%s", diff)
			}
			wantWarnings(t, m, tt.warn...)
		})
	}
}

func TestBracesExpand(t *testing.T) {
	for in, want := range map[string][]string{
		"a": {"a"}, "{a,b}": {"a", "b"}, "x/{a,b}{1,2}*": {"x/a1*", "x/a2*", "x/b1*", "x/b2*"}, "": {""}, "{}": {""},
	} {
		got, err := expandBraces(in)
		if err != nil {
			t.Error(err)
		}
		if in != "" {
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%q: %s", in, diff)
			}
		}
	}
	for _, bad := range []string{"{", "a{b", "{a{b}}", strings.Repeat("{a,b}", 10)} {
		if _, err := expandBraces(bad); err == nil {
			t.Errorf("%q accepted", bad)
		}
	}
}
