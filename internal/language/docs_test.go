package language

import (
	"os"
	"path"
	"strings"
	"testing"
)

func TestReferencePageShowsEveryLanguage(t *testing.T) {
	t.Parallel()
	page, err := os.ReadFile("../../docs/reference/languages.md")
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range mustBuiltin(t).All() {
		row := "| `" + l.ID + "` | " + l.Name + " |"
		command := strings.ReplaceAll(strings.Join(l.CompileArgv(l.Source), " "), "/w/", "")
		if l.Interpreted() {
			argv := l.RunArgv(l.ProgramName(), 1<<20)
			argv[len(argv)-1] = path.Base(argv[len(argv)-1])
			command = strings.Join(argv, " ")
		}
		for _, want := range []string{row, "`" + command + "`"} {
			if !strings.Contains(string(page), want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
}
