package cli

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
)

func testApp(out *bytes.Buffer, output string, width int) *App {
	return &App{
		Streams: Streams{Out: out, Err: out, Columns: width, Getenv: func(string) string { return "" }},
		Globals: &Globals{Output: output},
	}
}

func TestUnits(t *testing.T) {
	for us, want := range map[int64]string{0: "0", 1: "1", 999: "1", 1000: "1", 1001: "2", 1_000_400: "1001"} {
		if got := ms(us); got != want {
			t.Errorf("%d µs: %s ms, want %s", us, got, want)
		}
	}
	for n, want := range map[int64]string{0: "0 B", 1023: "1023 B", 1024: "1.0 KiB", 3 << 20: "3.0 MiB", 5 << 30: "5.0 GiB"} {
		if got := size(n); got != want {
			t.Errorf("%d: %s, want %s", n, got, want)
		}
	}
	if mib(256<<20) != "256.0" {
		t.Error(mib(256 << 20))
	}
}

func TestCutKeepsWithinItsColumns(t *testing.T) {
	for _, s := range []string{"plain text", "题目的名字很长", "mixed 题目 text", "e\u0301e\u0301e\u0301e\u0301e\u0301", "👍👍👍👍👍👍"} {
		for w := 1; w <= 12; w++ {
			got := cut(s, w)
			if columns(got) > w {
				t.Errorf("cut(%q, %d) = %q has %d columns", s, w, got, columns(got))
			}
			if columns(s) <= w && got != s {
				t.Errorf("cut(%q, %d) = %q", s, w, got)
			}
		}
	}
}

func TestTablesFitAndAlign(t *testing.T) {
	var out bytes.Buffer
	a := testApp(&out, "table", 40)
	w := bufio.NewWriter(&out)
	table(w, a, []string{"短い題", strings.Repeat("long ", 20), "a"}, []column[string]{
		{name: "N", right: true, cell: func(s string) cell { return number(int64(len(s))) }},
		{name: "TEXT", flex: 5, cell: text},
		{name: "END", cell: func(string) cell { return text("x") }},
	})
	w.Flush()
	var ends []int
	for line := range strings.SplitSeq(strings.TrimRight(out.String(), "\n"), "\n") {
		if columns(line) > 40 {
			t.Errorf("%q has %d columns", line, columns(line))
		}
		i := strings.LastIndexByte(line, ' ')
		ends = append(ends, columns(line[:i]))
	}
	if diff := cmp.Diff([]int{ends[0], ends[0], ends[0], ends[0]}, ends); diff != "" {
		t.Errorf("the last column is not aligned: %s\n%s", diff, &out)
	}
}

func TestManyTestsShowOnlyWhatMatters(t *testing.T) {
	tests := make([]gavelapi.TestResult, 120)
	for i := range tests {
		tests[i] = gavelapi.TestResult{Name: fmt.Sprintf("secret/%03d", i), Verdict: "AC"}
	}
	tests[50].Verdict, tests[50].Reason, tests[50].Signal = "RE", "signal", 11
	for i := 60; i < 120; i++ {
		tests[i].Verdict = gavelapi.SkippedTest
	}
	var out bytes.Buffer
	a := testApp(&out, "table", 80)
	w := bufio.NewWriter(&out)
	a.printTests(w, tests)
	w.Flush()
	if got := strings.Count(out.String(), "secret/"); got != 1 || !strings.Contains(out.String(), "signal 11") || !strings.Contains(out.String(), "120 tests: 59 AC, 60 skipped") {
		t.Errorf("%s", &out)
	}
	out.Reset()
	a.Output = "wide"
	a.printTests(w, tests)
	w.Flush()
	if got := strings.Count(out.String(), "secret/"); got != 120 {
		t.Errorf("-o wide shows %d tests", got)
	}
}

func TestChooseLanguage(t *testing.T) {
	langs := []gavelapi.LanguageInfo{
		{ID: "c", Extensions: []string{"c"}},
		{ID: "cpp17", Extensions: []string{"cpp", "C"}, DefaultFor: []string{"cpp"}},
		{ID: "cpp20", Extensions: []string{"cpp", "cxx"}},
		{ID: "cpp23", Extensions: []string{"cxx"}},
	}
	for ext, want := range map[string]string{"c": "c", "C": "cpp17", "cpp": "cpp17", "CPP": "cpp17", "cxx": "", "xyz": ""} {
		lang, others, ok := chooseLanguage(langs, ext)
		if lang.ID != want || ok != (want != "") {
			t.Errorf(".%s: %q, %v, others %v", ext, lang.ID, ok, others)
		}
	}
}

func TestCompileLogsKeepTheirLines(t *testing.T) {
	got := cleanLines("a.c:1:\x1b[31merror\r\n\tx\n\n")
	if diff := cmp.Diff([]string{"a.c:1:\uFFFD[31merror", "    x"}, got); diff != "" {
		t.Error(diff)
	}
}

func TestTheDefaultTokenFileIsForArbitersOnThisMachineOnly(t *testing.T) {
	t.Chdir(t.TempDir())
	if err := os.MkdirAll(filepath.Dir(DefaultTokenFile), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(DefaultTokenFile, []byte("gvl_a_X\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for address, want := range map[string]string{
		"": "gvl_a_X", "http://127.0.0.1:1": "gvl_a_X", "http://localhost:1": "gvl_a_X", "http://[::1]:1": "gvl_a_X",
		"http://192.0.2.1": "", "https://judge.example": "", "http://127.0.0.1.example": "", "http://localhost.example": "", "://": "",
	} {
		a := testApp(&bytes.Buffer{}, "table", 80)
		a.Globals.URL = address
		if got, err := a.token(); got != want || err != nil {
			t.Errorf("%q: token %q, %v", address, got, err)
		}
	}
}

// What a standby says is what the leader wrote down, and of when.
func TestAStandbySaysOfWhenItsReasonsAre(t *testing.T) {
	at := time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)
	var out bytes.Buffer
	app := testApp(&out, "table", 100)
	err := app.printQueue(&gavelapi.Queue{ReasonsAt: &at, Waiting: []gavelapi.QueueCount{
		{Lane: "judge", Language: "c", Jobs: 3, Reasons: []gavelapi.QueueReason{{Cause: "no_worker", Reason: "no worker is online", Jobs: 2, Since: &at}}},
	}})
	if err == nil {
		err = app.printExplanation(&gavelapi.Explanation{
			SubmissionID: 7, Summary: "no worker is online (as of 2 s ago)", Cause: "no_worker", CauseSince: &at, StoredAt: &at, Lane: "judge", Priority: "practice",
		})
	}
	want := `this arbiter does not lead: why work waits is as the leader wrote it down at 2026-03-01 10:00:00 UTC
LANE OR KIND  LANGUAGE OR NAME  JOBS  STATE
judge         c                    2  waiting: no worker is online
judge         c                    1  waiting
submission 7: no worker is online (as of 2 s ago)
  judge lane, practice
  for this reason since 2026-03-01 10:00:00 UTC
  written down by the leader at 2026-03-01 10:00:00 UTC; ask the leader for its place and for each worker
`
	if diff := cmp.Diff(want, out.String()); diff != "" || err != nil {
		t.Errorf("%v (-want +got):\n%s", err, diff)
	}
}
