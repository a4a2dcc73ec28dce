package main

import (
	"bytes"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestCommandLine(t *testing.T) {
	empty := t.TempDir()
	own := filepath.Join(empty, "own.csv")
	if err := os.WriteFile(own, []byte("at_ms,user,lane,priority,language,package,memory_mib,takes_ms\n5,ann,judge,practice,c,p,64,100\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name, args string
		code       int
		out, err   string
	}{
		{"help", "--help", 0, "run", ""},
		{"nothing", "", 2, "", "Usage: gavel-drill"},
		{"list", "list", 0, "a7-leader-frozen", ""},
		{"list says how each is switched off", "list", 0, "nobody tells the arbiter of the plan", ""},
		{"ids", "list -o id", 0, "a1-worker-killed\n", ""},
		{"nothing chosen", "run", 2, "", "gavel-drill list shows them"},
		{"both chosen", "run A1 --all", 2, "", "name scenarios, or give --all"},
		{"unknown scenario", "run a99-nothing", 4, "", `no scenario "a99-nothing"`},
		{"unknown flag", "run --harder", 2, "", "gavel-drill run --help"},
		{"rounds", "run A1 --rounds 0", 2, "", "--rounds"},
		{"unknown fleet of a run", "run A1 --fleet some", 2, "", "arbiter"},
		{"a fleet that a scenario has not", "run A6 --fleet mixed", 2, "", "which can"},
		{"a counter-test of a fleet that a scenario has not", "run A6 --fleet mixed --sabotage", 2, "", "which can"},
		{"load of nothing", "load --claims 0", 2, "", "cannot be measured"},
		{"more leases than workers", "load --claims 5 --leased 6", 2, "", "leased up to claims"},
		{"load without programs", "load --bin-dir " + empty, 1, "", "make build"},
		{"waiting times", "simulate home-sleeps --policy gavel,first-come", 0, "lane judge    first-come  4500", ""},
		{"waiting times as JSON", "simulate rejudge-storm --policy gavel -o json", 0, `"group": "lane rejudge"`, ""},
		{"a trace as a file", "simulate contest-peak -o csv", 0, "at_ms,user,lane,priority", ""},
		{"unknown trace", "simulate nights", 2, "", "contest-peak, home-sleeps, rejudge-storm"},
		{"unknown fleet", "simulate home-sleeps --fleet moon", 2, "", "home-and-cloud, home-sleeps, school"},
		{"an own trace without a fleet", "simulate " + own, 2, "", "needs --fleet"},
		{"unknown policy", "simulate home-sleeps --policy luck", 2, "", `there is no policy "luck"`},
		{"plot where there is no directory", "simulate home-sleeps --policy gavel --plot " + empty + "/no/such.svg", 1, "", "name a file"},
		{"replays", "replay", 0, "five-nights", ""},
		{"replays as JSON", "replay -o json", 0, `"name": "sep-17"`, ""},
		{"unknown replay", "replay six-nights", 4, "", "gavel-drill replay lists them"},
		{"a replay that is slower", "replay sep-17 --factor 0.5", 2, "", "from 1 to 200"},
		{"a slack that excuses everything", "replay sep-17 --slack 2h", 2, "", "--slack"},
		{"drawing where there is no directory", "replay sep-17 --svg " + empty + "/no/such.svg", 1, "", "name a file"},
		{"no programs", "run A1 --bin-dir " + empty, 1, "", "make build"},
	} {
		t.Run(c.name, func(t *testing.T) {
			var out, errOut bytes.Buffer
			if code := execute(t.Context(), strings.Fields(c.args), &out, &errOut); code != c.code {
				t.Errorf("exit code %d, want %d\n%s", code, c.code, errOut.String())
			}
			if !strings.Contains(out.String(), c.out) || !strings.Contains(errOut.String(), c.err) {
				t.Errorf("output %q, errors %q", out.String(), errOut.String())
			}
		})
	}
}

func TestListAsJSON(t *testing.T) {
	var out, errOut bytes.Buffer
	if code := execute(t.Context(), []string{"list", "-o", "json"}, &out, &errOut); code != 0 {
		t.Fatalf("exit code %d: %s", code, errOut.String())
	}
	var rows []map[string]any
	if err := json.Unmarshal(out.Bytes(), &rows); err != nil || len(rows) < 24 || rows[0]["name"] == "" || rows[0]["number"] != "A1" || rows[0]["mixed"] != true {
		t.Errorf("%v: %s", err, out.String())
	}
}
