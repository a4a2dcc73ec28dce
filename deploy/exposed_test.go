package deploy

import (
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/alarm"
)

// described reads the table of docs/reference/metrics.md: the type and the
// labels of each name.
func described(t *testing.T) map[string]string {
	t.Helper()
	page, err := os.ReadFile("../docs/reference/metrics.md")
	if err != nil {
		t.Fatal(err)
	}
	name, all := regexp.MustCompile("`(\\w+)`"), map[string]string{}
	for line := range strings.Lines(string(page)) {
		cells := strings.Split(line, "|")
		if len(cells) < 8 || !strings.Contains(cells[1], "`gavel_") {
			continue
		}
		var labels []string
		for _, m := range name.FindAllStringSubmatch(cells[3], -1) {
			labels = append(labels, m[1])
		}
		slices.Sort(labels)
		for _, m := range name.FindAllStringSubmatch(cells[1], -1) {
			all[m[1]] = strings.TrimSpace(cells[2]) + " " + strings.Join(labels, " ")
		}
	}
	return all
}

// The reference, the rules and the dashboard against what a running arbiter shows.
func TestWhatIsWrittenIsWhatAnArbiterShows(t *testing.T) {
	shown := exposed(t)
	t.Run("the reference names each metric with its type and labels, and no other", func(t *testing.T) {
		got := map[string]string{}
		for name, f := range shown {
			got[name] = f.kind + " " + strings.Join(f.names(), " ")
		}
		if diff := cmp.Diff(got, described(t)); diff != "" {
			t.Errorf("docs/reference/metrics.md (-shown +written):\n%s", diff)
		}
	})
	t.Run("each kind of alarm is shown", func(t *testing.T) {
		for _, k := range alarm.Kinds() {
			if !slices.Contains(shown["gavel_alarms"].labels["kind"], string(k)) {
				t.Errorf("%s is not", k)
			}
		}
	})
	t.Run("the rules speak of it", func(t *testing.T) {
		for _, r := range rules(t) {
			for _, complaint := range wrong(r.Expr, shown) {
				t.Errorf("%s: %s", r.Alert, complaint)
			}
		}
	})
	t.Run("the dashboard speaks of it, and of all of it", func(t *testing.T) {
		var all strings.Builder
		for where, expr := range readDashboard(t).expressions() {
			all.WriteString(expr + "\n")
			for _, complaint := range wrong(expr, shown) {
				t.Errorf("%s: %s", where, complaint)
			}
		}
		for name := range shown {
			if name != "gavel_build_info" && !strings.Contains(all.String(), name) {
				t.Errorf("%s is on no panel", name)
			}
		}
	})
}
