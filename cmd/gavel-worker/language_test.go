package main

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// languageTests is what `language test -o json` prints.
type languageTests struct {
	Languages []struct {
		ID, Version, Reason string
		OK                  bool
		MS                  int64
	}
}

func TestLanguageListNamesEveryLanguage(t *testing.T) {
	code, out, stderr := invoke(t, nil, "language", "list")
	for _, want := range []string{"LANGUAGE", "cpp20", "C++20 (GCC)", ".cc .cpp", "haskell"} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d, no %q in:\n%s%s", code, want, out, stderr)
		}
	}
	code, out, _ = invoke(t, nil, "language", "list", "-o", "json")
	var got struct {
		Languages []struct {
			ID, Source   string
			Compile, Run []string
		}
	}
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Languages) < 16 {
		t.Fatalf("exit code %d, %v: %s", code, err, out)
	}
	for _, l := range got.Languages {
		if l.ID == "" || l.Source == "" || len(l.Compile) == 0 || len(l.Run) == 0 {
			t.Errorf("%+v", l)
		}
	}
}

func TestLanguageTestRunsSelfTestsInBoxes(t *testing.T) {
	p, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
	dir := "--state-dir=" + t.TempDir()
	code, out, stderr := invoke(t, nil, "language", "test", "python3", "c", "-o", "json", dir)
	var got languageTests
	if err := json.Unmarshal([]byte(out), &got); err != nil || code != 0 || len(got.Languages) != 2 {
		t.Fatalf("exit code %d, %v: %s%s", code, err, out, stderr)
	}
	for i, id := range []string{"python3", "c"} {
		if l := got.Languages[i]; l.ID != id || !l.OK || l.Version == "" || l.Reason != "" || l.MS <= 0 {
			t.Errorf("%+v", l)
		}
	}
	if code, out, _ := invoke(t, nil, "language", "test", "c", dir); code != 0 || !strings.Contains(out, "c         ok ") {
		t.Errorf("exit code %d:\n%s", code, out)
	}
	code, _, stderr = invoke(t, nil, "language", "test", "cobol", dir)
	if code != exitUsage || !strings.Contains(stderr, `no language "cobol"`) || !strings.Contains(stderr, "hint: choose among bash, c, cpp17") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}
