package language

import (
	"os"
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
		compile := strings.Join(l.CompileArgv(l.Source), " ")
		if l.Interpreted() || l.Compile.Argv[0] == "/usr/bin/sh" {
			compile = "" // said in words
		}
		run := strings.Join(l.Run.Argv, " ")
		if run == ArgProgram {
			run = ""
		}
		tidy := strings.NewReplacer("/w/", "", ArgProgram, l.ProgramName(), ArgMemory, "N", ArgHeap, "N")
		for _, want := range []string{row, "`" + tidy.Replace(compile) + "`", "`" + tidy.Replace(run) + "`"} {
			if want == "``" {
				continue
			}
			if !strings.Contains(string(page), want) {
				t.Errorf("the page lacks %q", want)
			}
		}
	}
}
