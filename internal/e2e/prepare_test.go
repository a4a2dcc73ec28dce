package e2e

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// halves is a package of even numbers and their halves, with a checker, an input
// validator and three declared submissions.
var halves = map[string]string{
	"problem.yaml":      "problem_format_version: 2025-09\nname: Halves\nuuid: 7c0ffee0-0000-4000-8000-000000000003\nlimits:\n  time_limit: 5\n  memory: 256\n",
	"data/sample/1.in":  "8\n",
	"data/sample/1.ans": "4\n",
	"data/secret/2.in":  "20\n",
	"data/secret/2.ans": "10\n",
	"output_validator/check.cpp": `#include <fstream>
#include <iostream>
int main(int, char **argv) { std::ifstream in(argv[1]); long n, x; in >> n; return std::cin >> x && 2 * x == n ? 42 : 43; }
`,
	"input_validators/even.cpp":          "#include <cstdio>\nint main() { long n; return scanf(\"%ld\", &n) == 1 && n % 2 == 0 ? 42 : 43; }\n",
	"submissions/accepted/half.c":        "#include <stdio.h>\nint main() { long n; scanf(\"%ld\", &n); printf(\"%ld\\n\", n / 2); }\n",
	"submissions/wrong_answer/four.py":   "print(4)\n",
	"submissions/run_time_error/fails.c": "int main() { return 1; }\n",
}

// importChanged imports the package with changed files and returns what was said.
func (s *site) importChanged(wantCode int, changed map[string]string) string {
	s.t.Helper()
	files := maps.Clone(halves)
	maps.Copy(files, changed)
	dir := filepath.Join(s.t.TempDir(), "halves")
	for name, content := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			s.t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			s.t.Fatal(err)
		}
	}
	return s.gavel(wantCode, "problem", "import", dir, "--name", "halves", "-o", "wide")
}

func TestAPackageIsPublishedOnlyWhenAWorkerHasVerifiedIt(t *testing.T) {
	s := newSite(t)
	s.start("--no-samples")
	wrong := func(what string, changed map[string]string, words ...string) {
		t.Helper()
		out := s.importChanged(2, changed)
		for _, w := range append(words, "halves was not published") {
			if !strings.Contains(out, w) {
				t.Errorf("%s: %q is not in\n%s", what, w, out)
			}
		}
	}
	wrong("a first version that is wrong", map[string]string{"output_validator/check.cpp": "int main() { retrn 42; }\n"}, "checker does not compile", "skipped")
	source := filepath.Join(t.TempDir(), "half.c")
	if err := os.WriteFile(source, []byte(halves["submissions/accepted/half.c"]), 0o644); err != nil {
		t.Fatal(err)
	}
	if out := s.gavel(5, "submit", source, "-p", "halves"); !strings.Contains(out, "its last version failed") {
		t.Error(out)
	}
	if out := s.importChanged(0, nil); !strings.Contains(out, "halves is published as version 1") || strings.Contains(out, "failed") ||
		!strings.Contains(out, "WA, as declared") || !strings.Contains(out, "RE, as declared") {
		t.Error(out)
	}
	wrong("a validator that does not compile", map[string]string{"input_validators/even.cpp": "int main() { retrn 42; }\n"}, "input validator does not compile")
	wrong("an input that is not valid", map[string]string{"data/secret/2.in": "21\n"}, "by input_validators/even.cpp: refused")
	wrong("a wrong answer file", map[string]string{"data/secret/2.ans": "11\n"}, "its own answer is not accepted as an output")
	wrong("an input that nobody refuses, and a wrong output that is accepted", map[string]string{
		"data/invalid_input/four.in": "4\n",
		"data/invalid_output/1.in":   "4\n", "data/invalid_output/1.ans": "2\n", "data/invalid_output/1.out": "2\n",
	}, "no input validator refuses it", "it is wrong, and is accepted")
	wrong("a submission with another verdict", map[string]string{"submissions/wrong_answer/four.py": "print(int(input()) // 2)\n"}, "AC, declared is WA")
	if out := s.gavel(0, "submit", source, "-p", "halves", "--wait"); !strings.Contains(out, "AC") {
		t.Error(out)
	}
	if out := s.gavel(0, "problem", "show", "halves"); !strings.Contains(out, "1, published") || !strings.Contains(out, "was not published") {
		t.Error(out)
	}
	if out := s.importChanged(0, map[string]string{"data/secret/2.in": "22\n", "data/secret/2.ans": "11\n"}); !strings.Contains(out, "halves is published as version 2") {
		t.Error(out)
	}
}
