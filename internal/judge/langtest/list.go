package langtest

import (
	"encoding/json"
	"fmt"
	"io"
	"path"
	"strings"
	"text/tabwriter"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// listed is one language, as it is printed.
type listed struct {
	ID         string   `json:"id"`
	Name       string   `json:"name"`
	Extensions []string `json:"extensions"`
	Source     string   `json:"source"`
	Compile    []string `json:"compile"`
	Run        []string `json:"run"`
}

// ListJSON prints what languages there are, for programs.
func ListJSON(w io.Writer, languages []*language.Language) error {
	out := make([]listed, len(languages))
	for i, l := range languages {
		out[i] = listed{
			ID: l.ID, Name: l.Name, Extensions: l.Extensions, Source: l.Source,
			Compile: l.CompileArgv(sandbox.SourceDir + "/" + l.Source), Run: l.Run.Argv,
		}
	}
	return json.NewEncoder(w).Encode(map[string]any{"languages": out})
}

// ListTable prints what languages there are, for people.
func ListTable(w io.Writer, languages []*language.Language) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "LANGUAGE\tNAME\tFILES\tRUN BY")
	for _, l := range languages {
		by := "itself"
		if l.Run.Argv[0] != language.ArgProgram {
			by = path.Base(l.Run.Argv[0])
		}
		fmt.Fprintf(tw, "%s\t%s\t.%s\t%s\n", l.ID, l.Name, strings.Join(l.Extensions, " ."), by)
	}
	return tw.Flush()
}
