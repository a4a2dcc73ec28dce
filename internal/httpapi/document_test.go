package httpapi_test

import (
	"bytes"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/httpapi"
)

func TestCommittedFilesAreCurrent(t *testing.T) {
	doc, err := httpapi.Document()
	if err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string][]byte{"../../api/openapi.yaml": doc, "../../docs/reference/errors.md": httpapi.ErrorsPage()} {
		have, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(have, want) {
			t.Errorf("%s is stale: run go generate ./internal/httpapi\n%.2000s", path, cmp.Diff(string(have), string(want)))
		}
	}
}

func TestDocumentResolvesAndDescribesErrors(t *testing.T) {
	r := newRig(t)
	text := r.do(call{method: "GET", path: "/openapi.json"}).body
	var doc struct {
		OpenAPI    string
		Components struct{ Schemas map[string]any }
		Paths      map[string]map[string]struct {
			OperationID string
			Summary     string
			Responses   map[string]struct {
				Content map[string]any
			}
			Parameters []struct{ Name string }
		}
	}
	if err := json.Unmarshal([]byte(text), &doc); err != nil {
		t.Fatal(err)
	}
	if doc.OpenAPI != "3.1.0" {
		t.Errorf("version %s", doc.OpenAPI)
	}
	for _, part := range strings.Split(text, `"$ref":"#/components/schemas/`)[1:] {
		name, _, _ := strings.Cut(part, `"`)
		if doc.Components.Schemas[name] == nil {
			t.Errorf("schema %s is referred to and missing", name)
		}
	}
	if doc.Components.Schemas["ErrorModel"] != nil {
		t.Error("huma's own error, which echoes values, is documented")
	}
	for path, ops := range doc.Paths {
		for method, op := range ops {
			if op.OperationID == "" || op.Summary == "" {
				t.Errorf("%s %s lacks an id or a summary", method, path)
			}
			for code, resp := range op.Responses {
				if code >= "400" && code != "416" && resp.Content["application/problem+json"] == nil {
					t.Errorf("%s %s: %s is not a problem", method, path, code)
				}
			}
			names := map[string]bool{}
			for _, p := range op.Parameters {
				names[p.Name] = true
			}
			if strings.HasPrefix(path, "/v1/worker/") != names["Gavel-Protocol"] {
				t.Errorf("%s %s: protocol header documented: %v", method, path, names["Gavel-Protocol"])
			}
		}
	}
	if strings.Contains(text, "unpkg") || strings.Contains(text, "$schema") {
		t.Error("the document points elsewhere")
	}
}

// TestReferenceNamesEveryRoute keeps docs/reference/api.md complete.
func TestReferenceNamesEveryRoute(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/api.md")
	if err != nil {
		t.Fatal(err)
	}
	for path := range newRig(t).document().Paths {
		last := path[strings.LastIndexByte(path, '/')+1:]
		if !strings.Contains(string(page), path) && !strings.Contains(string(page), "`"+last+"`") {
			t.Errorf("the page lacks %s", path)
		}
	}
	for _, limit := range []string{"4 MiB", "16 MiB", "1 GiB", "25 s", "20 s", "2 min / 1 h"} {
		if !strings.Contains(string(page), limit) {
			t.Errorf("the page lacks the limit %s", limit)
		}
	}
}
