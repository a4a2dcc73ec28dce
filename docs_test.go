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

// A page that names a test as its proof names one that exists.
func TestTestsNamedInTheDocumentationExist(t *testing.T) {
	defined := map[string]bool{}
	function := regexp.MustCompile(`(?m)^func (Test\w+)\(`)
	named := regexp.MustCompile("`(Test[A-Z]\\w*)`")
	pages := map[string]string{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		switch {
		case d.IsDir() && (strings.HasPrefix(d.Name(), ".") && path != "." || d.Name() == "tmp"):
			return fs.SkipDir
		case strings.HasSuffix(path, "_test.go"):
			raw, err := os.ReadFile(path)
			for _, m := range function.FindAllStringSubmatch(string(raw), -1) {
				defined[m[1]] = true
			}
			return err
		case strings.HasSuffix(path, ".md"):
			raw, err := os.ReadFile(path)
			pages[path] = string(raw)
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	count := 0
	for path, text := range pages {
		for _, m := range named.FindAllStringSubmatch(text, -1) {
			count++
			if !defined[m[1]] {
				t.Errorf("%s names %s, which is no test", path, m[1])
			}
		}
	}
	if count == 0 {
		t.Error("no page names a test: the search is wrong")
	}
}
