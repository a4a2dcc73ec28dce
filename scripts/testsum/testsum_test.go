package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// files of a small module that is tested by the real go command.
var modules = map[string]map[string]string{
	"good": {
		"a/a_test.go": `package a
import "testing"
func TestPlain(t *testing.T) {}
func TestTable(t *testing.T) {
	t.Run("one", func(t *testing.T) {})
	t.Run("two/with slash", func(t *testing.T) {})
	t.Run("three", func(t *testing.T) { t.Skip("SKIPPED need=pg: no server here") })
}
func TestNeed(t *testing.T) { t.Skip("SKIPPED need=pg: no server here") }
func TestOther(t *testing.T) { t.Skip("not on Tuesdays") }`,
		"b/b.go": "package b",
	},
	"failing": {
		"a/a_test.go": `package a
import "testing"
func TestGood(t *testing.T) {}
func TestTable(t *testing.T) {
	t.Run("one", func(t *testing.T) { t.Error("the reason it failed") })
	t.Run("two", func(t *testing.T) {})
}
func TestParentItself(t *testing.T) {
	t.Run("fine", func(t *testing.T) {})
	t.Error("only the parent")
}`,
		"ok/ok_test.go": "package ok\nimport \"testing\"\nfunc TestGood(t *testing.T) {}",
	},
	"panicking": {
		"a/a_test.go": "package a\nimport \"testing\"\nfunc TestGood(t *testing.T) {}\nfunc TestBang(t *testing.T) { panic(\"bang\") }",
	},
	"dying in TestMain": {
		"a/a_test.go": "package a\nimport (\"os\"; \"testing\")\nfunc TestGood(t *testing.T) {}\n" +
			"func TestMain(m *testing.M) { m.Run(); println(\"a goroutine leaked\"); os.Exit(1) }",
	},
	"not building": {
		"a/a.go":      "package a\nvar X int = \"text\"",
		"a/a_test.go": "package a\nimport \"testing\"\nfunc TestGood(t *testing.T) {}",
		"b/b_test.go": "package b\nimport (\"testing\"; _ \"m/a\")\nfunc TestGood(t *testing.T) {}",
		"c/c_test.go": "package c\nimport \"testing\"\nfunc TestGood(t *testing.T) {}",
	},
	"importing what is not there": {
		"a/a_test.go": "package a\nimport (\"testing\"; _ \"m/nowhere\")\nfunc TestGood(t *testing.T) {}",
		"c/c_test.go": "package c\nimport \"testing\"\nfunc TestGood(t *testing.T) {}",
	},
	"not parsing": {
		"a/a.go":      "package a\nfunc {",
		"c/c_test.go": "package c\nimport \"testing\"\nfunc TestGood(t *testing.T) {}",
	},
	"empty": {"a/a.go": "package a"},
	"all skipped": {
		"a/a_test.go": "package a\nimport \"testing\"\nfunc TestNeed(t *testing.T) { t.Skip() }",
	},
	"racy": {
		"a/a_test.go": `package a
import "testing"
func TestRacy(t *testing.T) {
	n, done := 0, make(chan bool)
	go func() { n++; done <- true }()
	n++
	<-done
}`,
	},
}

func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text+"\n"), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\n\ngo 1.26\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	return dir
}

func TestSummaryOfRealRuns(t *testing.T) {
	tests := []struct {
		module string
		race   []string
		ok     bool
		last   string
		says   []string
	}{
		{"good", nil, true, "3 passed, 0 failed, 3 skipped", []string{
			"SKIPPED need=pg: no server here (2: a TestTable/three, a TestNeed)",
			"SKIPPED: not on Tuesdays (1: a TestOther)",
		}},
		{"failing", nil, false, "4 passed, 2 failed, 0 skipped", []string{
			"the reason it failed", "only the parent", "FAILED a TestTable/one", "FAILED a TestParentItself",
		}},
		{"panicking", nil, false, "1 passed, 1 failed, 0 skipped", []string{"panic: bang", "FAILED a TestBang"}},
		{"dying in TestMain", nil, false, "1 passed, 1 failed, 0 skipped", []string{"a goroutine leaked", "FAILED a (outside its tests)"}},
		{"not building", nil, false, "1 passed, 2 failed, 0 skipped", []string{"cannot use \"text\"", "FAILED a (does not build)", "FAILED b (does not build)"}},
		{"importing what is not there", nil, false, "1 passed, 1 failed, 0 skipped", []string{"m/nowhere", "FAILED a (does not build)"}},
		{"not parsing", nil, false, "1 passed, 1 failed, 0 skipped", []string{"a/a.go:2", "FAILED a (does not build)"}},
		{"empty", nil, false, "0 passed, 0 failed, 0 skipped", []string{"no test ran"}},
		{"all skipped", nil, false, "0 passed, 0 failed, 1 skipped", []string{"no test ran", "SKIPPED: no reason given"}},
		{"racy", []string{"./a"}, false, "0 passed, 1 failed, 0 skipped", []string{"DATA RACE"}},
	}
	for _, tt := range tests {
		t.Run(tt.module, func(t *testing.T) {
			t.Parallel()
			var out bytes.Buffer
			ok, err := run(t.Context(), &out, write(t, modules[tt.module]), tt.race, nil)
			if err != nil {
				t.Fatal(err)
			}
			if ok != tt.ok {
				t.Errorf("ok = %v, want %v", ok, tt.ok)
			}
			lines := strings.Split(strings.TrimSuffix(out.String(), "\n"), "\n")
			if last := lines[len(lines)-1]; last != tt.last {
				t.Errorf("last line %q, want %q", last, tt.last)
			}
			for _, want := range tt.says {
				if !strings.Contains(out.String(), want) {
					t.Errorf("%q is not said", want)
				}
			}
			if t.Failed() {
				t.Log("\n" + out.String())
			}
		})
	}
}

func TestUnknownFlagOfGoTestIsAFailure(t *testing.T) {
	var out bytes.Buffer
	ok, err := run(t.Context(), &out, write(t, modules["good"]), nil, []string{"-no-such-flag"})
	if err != nil || ok {
		t.Fatalf("ok = %v, err = %v, want a failed run", ok, err)
	}
	if !regexp.MustCompile(`(?m)^0 passed, 1 failed, 0 skipped$`).MatchString(out.String()) {
		t.Errorf("the failure is not counted:\n%s", out.String())
	}
}

func TestRaceListNamingAMissingPackageIsRefused(t *testing.T) {
	_, err := run(t.Context(), &bytes.Buffer{}, write(t, modules["good"]), []string{"./gone"}, nil)
	if err == nil || !strings.Contains(err.Error(), "gone") {
		t.Errorf("err = %v, want one that names the package", err)
	}
}
