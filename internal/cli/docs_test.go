package cli_test

import (
	"os"
	"strings"
	"testing"

	"github.com/alecthomas/kong"

	"github.com/gavel-oj/gavel/internal/cli"
)

// TestReferenceNamesEveryCommandAndFlag keeps docs/reference/cli.md complete.
func TestReferenceNamesEveryCommandAndFlag(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/cli.md")
	if err != nil {
		t.Fatal(err)
	}
	parser, err := kong.New(&struct{ cli.Commands }{}, kong.Name("gavel"), kong.Vars{"default_url": cli.DefaultURL})
	if err != nil {
		t.Fatal(err)
	}
	for _, leaf := range parser.Model.Leaves(true) {
		name, _, _ := strings.Cut(leaf.FullPath(), " <")
		if !strings.Contains(string(page), "`"+name) {
			t.Errorf("the page lacks %s", name)
		}
		for _, group := range leaf.AllFlags(true) {
			for _, f := range group {
				short := f.Short != 0 && strings.Contains(string(page), "-"+string(f.Short))
				if f.Name != "help" && !short && !strings.Contains(string(page), "--"+f.Name) {
					t.Errorf("the page lacks --%s of %s", f.Name, name)
				}
			}
		}
	}
	if !strings.Contains(string(page), cli.DefaultURL) || !strings.Contains(string(page), cli.DefaultTokenFile) {
		t.Error("the page names other defaults than the program")
	}
}

func TestConfigurationPageListsEverySetting(t *testing.T) {
	page, err := os.ReadFile("../../docs/reference/configuration.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := 0
	for line := range strings.Lines(string(page)) {
		if strings.HasPrefix(line, "| `") && strings.Contains(line, "` | `--") {
			rows++
		}
	}
	settings := cli.Settings("serve").Settings
	for _, s := range settings {
		who := "both"
		if !cli.Concerns("up", s.Key) {
			who = "serve"
		} else if !cli.Concerns("serve", s.Key) {
			who = "up"
		}
		value := s.Note
		if s.Default != "" {
			value = "`" + s.Default + "`"
		}
		if s.Key == "data_dir" {
			value += "; up: `.data`"
		}
		row := "| `" + s.Key + "` | `" + s.Flag() + "` | `" + s.Env + "` | " + value + " | " + who + " | " + s.Says + " |"
		if !strings.Contains(string(page), row) {
			t.Errorf("the page lacks\n%s", row)
		}
	}
	if rows != len(settings) {
		t.Errorf("the page has %d rows, there are %d settings", rows, len(settings))
	}
}
