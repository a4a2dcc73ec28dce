package doctor

import (
	"strings"
	"testing"
)

// The real machine: whatever it has, each line must be complete, and running
// the checks twice must give the same, since they leave nothing behind; but the
// disk and the load are others' too.
func TestRealMachine(t *testing.T) {
	opts := Options{Box: true, Database: true, DataDir: t.TempDir()}
	checks := Run(t.Context(), opts)
	var report strings.Builder
	if err := Print(&report, checks); err != nil {
		t.Fatal(err)
	}
	t.Logf("report:\n%s", report.String())
	seen := map[string]bool{}
	for _, c := range checks {
		if seen[c.Name] {
			t.Errorf("two checks are called %q", c.Name)
		}
		seen[c.Name] = true
		if c.Detail == "" || (c.Fix == "") != (c.Status == OK) {
			t.Errorf("incomplete check %+v", c)
		}
	}
	for i, c := range Run(t.Context(), opts) {
		if c.Name != "free disk" && c.Name != "load" && c != checks[i] {
			t.Errorf("the second time %+v, the first time %+v", c, checks[i])
		}
	}
}
