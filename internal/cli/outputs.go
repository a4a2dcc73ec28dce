package cli

import (
	"bufio"
	"fmt"
	"io"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// SubmissionOutputCmd is `gavel submission output`.
type SubmissionOutputCmd struct {
	ID string `arg:"" help:"Number of the submission."`
}

// Run implements kong's command.
func (cmd *SubmissionOutputCmd) Run(app *App) error {
	return withSubmission(app, cmd.ID, func(c *client.Client, id int64) error {
		got, err := c.SubmissionOutputs(app.Ctx, id)
		if err != nil {
			return err
		}
		if app.machine() {
			type O = gavelapi.TestOutput
			return printItems(app, got.Outputs, got, func(o O) string { return o.Test }, []column[O]{{name: "TEST", cell: func(o O) cell { return text(o.Test) }}})
		}
		if len(got.Outputs) == 0 {
			app.note("nothing is kept: it failed no test, wrote nothing in those that it failed, or was judged more than 30 days ago")
			return nil
		}
		w := bufio.NewWriter(app.Out)
		for i, o := range got.Outputs {
			if i > 0 {
				fmt.Fprintln(w)
			}
			printOutput(w, o, 0)
		}
		return w.Flush()
	})
}

// printOutput shows what was written in a test, at most so many lines of each
// stream; 0 is all that was kept.
func printOutput(w io.Writer, o gavelapi.TestOutput, most int) {
	for _, s := range []struct {
		name, text string
		cut        bool
	}{{"output", o.Stdout, o.StdoutCut}, {"error text", o.Stderr, o.StderrCut}} {
		if s.text == "" {
			continue
		}
		fmt.Fprintf(w, "%s of %s:\n", s.name, clean(o.Test))
		lines := cleanLines(s.text)
		if most > 0 && len(lines) > most {
			lines, s.cut = lines[:most], true
		}
		for _, l := range lines {
			fmt.Fprintln(w, "  "+l)
		}
		if s.cut {
			fmt.Fprintln(w, "  … (cut)")
		}
	}
}
