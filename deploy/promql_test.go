package deploy

import (
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"
)

var (
	// selector is a metric of ours, and the labels it is narrowed by.
	selector = regexp.MustCompile(`(gavel_\w+)(?:\{([^}]*)\})?`)
	matcher  = regexp.MustCompile(`(\w+)\s*(=~|!~|!=|=)\s*"([^"]*)"`)
	grouping = regexp.MustCompile(`\b(?:by|without|on|ignoring)\s*\(([^)]*)\)`)
	scraped  = []string{"job", "instance"} // labels that Prometheus adds
	derived  = regexp.MustCompile(`_(bucket|sum|count)$`)
	openSets = []string{"route", "method", "code", "language", "version"} // of which a test sees only some values
)

// wrong lists what an expression says of gavel that is not so: a metric, a
// label, or a value that a label never has.
func wrong(expr string, shown map[string]family) (complaints []string) {
	complain := func(format string, args ...any) { complaints = append(complaints, fmt.Sprintf(format, args...)) }
	labels := slices.Clone(scraped)
	for _, m := range selector.FindAllStringSubmatch(expr, -1) {
		name, narrowed := m[1], m[2]
		f, ok := shown[name]
		if !ok {
			if f, ok = shown[derived.ReplaceAllString(name, "")]; !ok || f.kind != "histogram" {
				complain("%s is not on /metrics", name)
				continue
			}
			labels = append(labels, "le")
		}
		labels = append(labels, f.names()...)
		for _, m := range matcher.FindAllStringSubmatch(narrowed, -1) {
			label, value := m[1], m[3]
			if slices.Contains(labels[:len(scraped)], label) {
				continue
			}
			values, ok := f.labels[label]
			if !ok {
				complain("%s has no label %s", name, label)
				continue
			}
			for v := range strings.SplitSeq(value, "|") {
				if !slices.Contains(openSets, label) && !slices.Contains(values, v) {
					complain("%s of %s is never %q", label, name, v)
				}
			}
		}
	}
	for _, m := range grouping.FindAllStringSubmatch(expr, -1) {
		for label := range strings.SplitSeq(m[1], ",") {
			if label = strings.TrimSpace(label); !slices.Contains(labels, label) {
				complain("nothing in it has the label %s that it groups by", label)
			}
		}
	}
	return complaints
}

// What wrong is to find, it finds.
func TestExpressionsThatSayWhatIsNotSoAreFound(t *testing.T) {
	shown := map[string]family{
		"gavel_alarms":       {kind: "gauge", labels: map[string][]string{"kind": {"unmatched"}}},
		"gavel_took_seconds": {kind: "histogram", labels: map[string][]string{"code": {"200"}}},
	}
	for expr, good := range map[string]bool{
		`sum by (job) (gavel_alarms{kind="unmatched"})`:                 true,
		`sum by (le) (rate(gavel_took_seconds_bucket{code="500"}[5m]))`: true,
		`gavel_alarm`:                          false,
		`gavel_alarms_bucket`:                  false,
		`gavel_alarms{kind="unmached"}`:        false,
		`gavel_alarms{kind=~"unmatched|gone"}`: false,
		`gavel_alarms{sort="unmatched"}`:       false,
		`sum by (lane) (gavel_alarms)`:         false,
	} {
		if got := wrong(expr, shown); good == (len(got) > 0) {
			t.Errorf("%s: %v", expr, got)
		}
	}
}

// promtool runs it in a folder, and returns all it printed.
func promtool(t *testing.T, tool, dir string, args ...string) (string, error) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), tool, args...)
	cmd.Dir = dir
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func readYAML(t *testing.T, path string, into any) {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := yaml.Unmarshal(raw, into); err != nil {
		t.Fatal(err)
	}
}
