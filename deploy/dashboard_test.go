package deploy

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/goccy/go-yaml"

	"github.com/gavel-oj/gavel/internal/testkit"
)

// dashboard is what is looked at of deploy/grafana/gavel.json.
type dashboard struct {
	Title, UID string
	Templating struct {
		List []struct{ Name, Type string }
	}
	Panels []panel
}

type panel struct {
	ID         int
	Title      string
	Datasource struct{ Type, UID string }
	GridPos    struct{ H, W, X, Y int }
	Targets    []struct {
		RefID, Expr string
		Datasource  struct{ Type, UID string }
	}
}

func readDashboard(t *testing.T) (d dashboard) {
	t.Helper()
	raw, err := os.ReadFile("grafana/gavel.json")
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(raw, &d); err != nil {
		t.Fatal(err)
	}
	if d.Title == "" || d.UID == "" || len(d.Panels) == 0 {
		t.Fatalf("the dashboard was not read: %+v", d)
	}
	return d
}

// expressions are those of the dashboard with its variables filled in, by
// panel and target.
func (d dashboard) expressions() map[string]string {
	fill := strings.NewReplacer("$__rate_interval", "5m", "$job", "gavel")
	all := map[string]string{}
	for _, p := range d.Panels {
		for _, target := range p.Targets {
			all[p.Title+" "+target.RefID] = fill.Replace(target.Expr)
		}
	}
	return all
}

func TestThePanelsAreInOrder(t *testing.T) {
	d := readDashboard(t)
	variables := map[string]string{}
	for _, v := range d.Templating.List {
		variables[v.Name] = v.Type
	}
	if variables["datasource"] != "datasource" || variables["job"] != "query" {
		t.Errorf("the data source and the job are not chosen at the top: %v", variables)
	}
	ids, taken := map[int]bool{}, map[[2]int]string{}
	for _, p := range d.Panels {
		if p.ID <= 0 || ids[p.ID] {
			t.Errorf("%s: its id %d is another's, or none", p.Title, p.ID)
		}
		ids[p.ID] = true
		// Of 24 columns: narrower ones cannot be read beside each other.
		if g := p.GridPos; g.W < 6 || g.H < 3 || g.X < 0 || g.X+g.W > 24 {
			t.Errorf("%s does not fit: %+v", p.Title, g)
		}
		for x := p.GridPos.X; x < p.GridPos.X+p.GridPos.W; x++ {
			for y := p.GridPos.Y; y < p.GridPos.Y+p.GridPos.H; y++ {
				if other := taken[[2]int{x, y}]; other != "" {
					t.Fatalf("%s lies over %s", p.Title, other)
				}
				taken[[2]int{x, y}] = p.Title
			}
		}
		if len(p.Targets) == 0 {
			t.Errorf("%s shows nothing", p.Title)
		}
		refs := map[string]bool{}
		for _, target := range p.Targets {
			if target.Datasource.UID != "${datasource}" || p.Datasource.UID != "${datasource}" || refs[target.RefID] {
				t.Errorf("%s %s: not of the chosen data source, or the name is there twice", p.Title, target.RefID)
			}
			refs[target.RefID] = true
			if !strings.Contains(target.Expr, `job="$job"`) {
				t.Errorf("%s %s is not of the chosen job: %s", p.Title, target.RefID, target.Expr)
			}
		}
	}
}

// promtool has no command for a single expression, but reads rules of them.
func TestPromtoolReadsTheDashboardsExpressions(t *testing.T) {
	tool := testkit.PromtoolPath(t)
	check := func(name string, expressions map[string]string) (string, error) {
		type record struct {
			Record string            `yaml:"record"`
			Expr   string            `yaml:"expr"`
			Labels map[string]string `yaml:"labels"`
		}
		var records []record
		for where, expr := range expressions {
			records = append(records, record{"gavel:" + name + strconv.Itoa(len(records)), expr, map[string]string{"panel": where}})
		}
		raw, err := yaml.Marshal(map[string]any{"groups": []any{map[string]any{"name": name, "rules": records}}})
		if err != nil {
			t.Fatal(err)
		}
		dir := t.TempDir()
		if err := os.WriteFile(filepath.Join(dir, "rules.yml"), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		return promtool(t, tool, dir, "check", "rules", "rules.yml")
	}
	all := readDashboard(t).expressions()
	out, err := check("dashboard", all)
	if err != nil || !strings.Contains(out, strconv.Itoa(len(all))+" rules found") {
		t.Errorf("%v\n%s", err, out)
	}
	if out, err := check("broken", map[string]string{"none": "sum by (job (gavel_leader)"}); err == nil {
		t.Errorf("an expression that cannot be read is accepted: %s", out)
	}
}
