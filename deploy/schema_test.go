package deploy

import (
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/grafana/grafana-foundation-sdk/go/cog/plugins"
	grafana "github.com/grafana/grafana-foundation-sdk/go/dashboard"
)

// schemaErrors are what Grafana's own types of a dashboard, its panels and its
// queries say of one: unknown fields, missing ones, wrong types and values.
func schemaErrors(raw []byte) []string {
	plugins.RegisterDefaultPlugins()
	var d grafana.Dashboard //nolint:staticcheck // its successor is of another format, which fewer Grafanas read
	var found []string
	for _, err := range []error{d.UnmarshalJSONStrict(raw), d.Validate()} {
		if err != nil && err.Error() != "" { // it returns an empty list of errors for none
			found = append(found, strings.Split(err.Error(), "\n")...)
		}
	}
	return found
}

func TestTheDashboardIsWhatGrafanaReads(t *testing.T) {
	raw, err := os.ReadFile("grafana/gavel.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range schemaErrors(raw) {
		t.Error(e)
	}
	for _, spoil := range []struct{ in, word string }{
		{`"editable"`, `"edible"`},
		{`"legendFormat"`, `"legendForm"`},
		{`"reduceOptions"`, `"reducedOptions"`},
		{`"fiscalYearStartMonth": 0`, `"fiscalYearStartMonth": 13`},
	} {
		if !strings.Contains(string(raw), spoil.in) {
			t.Fatalf("the dashboard has no %s to spoil", spoil.in)
		}
		wrong := strings.Replace(string(raw), spoil.in, spoil.word, 1)
		if !json.Valid([]byte(wrong)) {
			t.Fatalf("with %s it is no JSON", spoil.word)
		}
		if len(schemaErrors([]byte(wrong))) == 0 {
			t.Errorf("nothing is said of %s in the place of %s", spoil.word, spoil.in)
		}
	}
}
