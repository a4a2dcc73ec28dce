package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// rule is one of deploy/prometheus/gavel.rules.yml.
type rule struct {
	Alert       string
	Expr        string
	For         string
	Labels      map[string]string
	Annotations map[string]string
}

func rules(t *testing.T) (list []rule) {
	t.Helper()
	var file struct{ Groups []struct{ Rules []rule } }
	readYAML(t, "prometheus/gavel.rules.yml", &file)
	for _, g := range file.Groups {
		list = append(list, g.Rules...)
	}
	if len(list) == 0 {
		t.Fatal("no rules were read")
	}
	return list
}

func TestPromtoolAcceptsTheRulesAndTheirTestsPass(t *testing.T) {
	tool := testkit.PromtoolPath(t)
	if out, err := promtool(t, tool, "prometheus", "check", "rules", "gavel.rules.yml"); err != nil {
		t.Errorf("check rules: %v\n%s", err, out)
	}
	if out, err := promtool(t, tool, "prometheus", "test", "rules", "gavel.test.yml"); err != nil {
		t.Errorf("test rules: %v\n%s", err, out)
	}
}

// A rule is tested when promtool sees it silent, then firing, then silent again.
func TestEachRuleIsSeenSilentFiringAndEnded(t *testing.T) {
	var file struct {
		Tests []struct {
			Cases []struct {
				Alert  string `yaml:"alertname"`
				Alerts []any  `yaml:"exp_alerts"`
			} `yaml:"alert_rule_test"`
		}
	}
	readYAML(t, "prometheus/gavel.test.yml", &file)
	seen := map[string]string{}
	for _, test := range file.Tests {
		story := map[string]string{}
		for _, c := range test.Cases {
			step := "."
			if len(c.Alerts) > 0 {
				step = "!"
			}
			story[c.Alert] += step
		}
		for alert, s := range story {
			if strings.Contains(s, ".!") && strings.HasSuffix(s, "!.") {
				seen[alert] = s
			}
		}
	}
	for _, r := range rules(t) {
		if seen[r.Alert] == "" {
			t.Errorf("no test sees %s silent, then firing, then silent again", r.Alert)
		}
		delete(seen, r.Alert)
	}
	for alert := range seen {
		t.Errorf("%s is tested, and is no rule", alert)
	}
}

// What a person is told at night: how soon, what, and what to do, with a page
// that says more.
func TestEachRuleSaysHowSoonWhatAndWhatToDo(t *testing.T) {
	page, err := os.ReadFile("../docs/reference/alarms.md")
	if err != nil {
		t.Fatal(err)
	}
	headings := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^### `?(\\w+)`?$").FindAllStringSubmatch(string(page), -1) {
		headings[strings.ToLower(m[1])] = true
	}
	severities := []string{string(alarm.Page), string(alarm.Ticket), string(alarm.Info)}
	const base = "https://github.com/gavel-oj/gavel/blob/main/docs/reference/alarms.md#"
	names := map[string]bool{}
	for _, r := range rules(t) {
		if !strings.HasPrefix(r.Alert, "Gavel") || names[r.Alert] {
			t.Errorf("%s: the name does not begin with Gavel, or is there twice", r.Alert)
		}
		names[r.Alert] = true
		if !slices.Contains(severities, r.Labels["severity"]) {
			t.Errorf("%s: severity %q", r.Alert, r.Labels["severity"])
		}
		anchor, ok := strings.CutPrefix(r.Annotations["runbook_url"], base)
		if !ok || !headings[anchor] {
			t.Errorf("%s leads to %s, which is no heading of docs/reference/alarms.md", r.Alert, r.Annotations["runbook_url"])
		}
		if r.Annotations["summary"] == "" || r.Annotations["description"] == "" {
			t.Errorf("%s has no summary or no description", r.Alert)
		}
	}
}

// Each kind of alarm has an alert, as urgent as the alarm unless it is one that
// wants nobody and whose alert comes when there are many.
func TestEachKindOfAlarmHasAnAlert(t *testing.T) {
	found := map[alarm.Kind]bool{}
	kinds := alarm.Default.Rules()
	for _, r := range rules(t) {
		kind := alarm.Kind(r.Labels["alarm"])
		if kind == "" {
			continue
		}
		found[kind] = true
		want := kinds[kind].Severity
		if want == alarm.Info {
			want = alarm.Ticket
		}
		if r.Labels["severity"] != string(want) {
			t.Errorf("%s is a %s, the alarm %q a %s", r.Alert, r.Labels["severity"], kind, want)
		}
		if kinds[kind].Severity != alarm.Info && !strings.Contains(r.Expr, `gavel_alarms{kind="`+string(kind)+`"}`) {
			t.Errorf("%s does not look at the alarm %q: %s", r.Alert, kind, r.Expr)
		}
	}
	for _, kind := range alarm.Kinds() {
		if !found[kind] {
			t.Errorf("%s has no alert", kind)
		}
	}
}
