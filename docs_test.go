package gavel

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var link = regexp.MustCompile(`\]\(([^)\s]+)\)`)

func TestLinksInTheDocumentationLeadSomewhere(t *testing.T) {
	seen := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != "." && (strings.HasPrefix(d.Name(), ".") || d.Name() == "testdata") {
			return filepath.SkipDir
		}
		if filepath.Ext(path) != ".md" {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			target, _, _ := strings.Cut(m[1], "#")
			if target == "" || strings.Contains(target, "://") {
				continue
			}
			seen++
			if _, err := os.Stat(filepath.Join(filepath.Dir(path), target)); err != nil {
				t.Errorf("%s links to %s, which is not there", path, m[1])
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if seen == 0 {
		t.Error("no links were found: the pattern is wrong")
	}
}

func TestEveryPageIsOnTheMap(t *testing.T) {
	for dir, index := range map[string]string{"docs/tutorial": "docs/README.md", "docs/reference": "docs/README.md", "docs/design": "docs/README.md", "docs/adr": "docs/adr/README.md"} {
		text, err := os.ReadFile(index)
		if err != nil {
			t.Fatal(err)
		}
		pages, err := filepath.Glob(dir + "/*.md")
		if err != nil {
			t.Fatal(err)
		}
		for _, page := range pages {
			rel, err := filepath.Rel(filepath.Dir(index), page)
			if err != nil {
				t.Fatal(err)
			}
			if page != index && !strings.Contains(string(text), "]("+rel+")") {
				t.Errorf("%s does not link to %s", index, page)
			}
		}
	}
}
