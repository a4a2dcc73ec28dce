package cli

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// ProblemReportCmd is `gavel problem report`.
type ProblemReportCmd struct {
	Name string `arg:"" help:"Name of the problem."`
	ID   int64  `placeholder:"ID" help:"Of an earlier import; by default the newest."`
	Wait bool   `help:"Wait until the preparation has ended."`
}

// Run implements kong's command.
func (cmd *ProblemReportCmd) Run(app *App) error {
	if cmd.Name == "" {
		return usage("gavel problem list shows the names", "the name of the problem is empty")
	}
	if cmd.ID < 0 {
		return usage("leave it out for the newest", "--id cannot be negative")
	}
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	rep, err := c.ProblemReport(app.Ctx, cmd.Name, cmd.ID, 0)
	if err == nil && cmd.Wait {
		rep, err = app.awaitPreparation(c, cmd.Name, rep.ID)
	}
	if err != nil {
		return err
	}
	if err := app.printReport(rep); err != nil {
		return err
	}
	if cmd.Wait {
		return prepared(rep)
	}
	if !app.machine() {
		app.note("%s", preparationLine(&rep.Preparation))
	}
	return nil
}

// awaitPreparation waits for the end of a preparation and shows how it goes.
func (a *App) awaitPreparation(c *client.Client, name string, id int64) (*gavelapi.PreparationReport, error) {
	live := &liveLine{app: a}
	defer live.clear()
	failed, last := 0, ""
	pause := client.NewPause(500*time.Millisecond, 8*time.Second)
	for wait := time.Duration(0); ; wait = pollWait {
		ctx, stop := context.WithCancelCause(a.Ctx)
		rep, err := client.Retry(ctx, pause, func(ctx context.Context) (*gavelapi.PreparationReport, error) {
			return c.ProblemReport(ctx, name, id, wait)
		}, func(err error, wait time.Duration) {
			if failed++; failed >= patience {
				stop(err)
				return
			}
			live.show(fmt.Sprintf("%s: the arbiter does not answer, asking again in %s", name, took(wait)), "away")
		})
		stop(nil)
		switch {
		case a.Ctx.Err() != nil:
			live.clear()
			return nil, &Error{
				Code: ExitInterrupted, Message: fmt.Sprintf("interrupted; %s goes on being prepared", name),
				Hint: "gavel problem report --wait waits again",
			}
		case err != nil:
			return nil, err
		case rep.State != gavelapi.PreparationPreparing:
			return rep, nil
		}
		failed = 0
		line := preparationLine(&rep.Preparation)
		live.show(line, rep.State+rep.Waiting)
		if line == last {
			if err := client.Sleep(a.Ctx, idlePause); err != nil {
				continue // the next look says that it was interrupted
			}
		}
		last = line
	}
}

// preparationLine says in a line what a preparation is at.
func preparationLine(p *gavelapi.Preparation) string {
	switch p.State {
	case gavelapi.PreparationPreparing:
		line := fmt.Sprintf("%s is being prepared: %d of %d steps are done", p.Problem, p.StepsDone, p.Steps)
		switch {
		case p.Worker != "":
			line += ", on " + p.Worker
		case p.Waiting != "":
			line += "; " + p.Waiting
		}
		return line
	case gavelapi.PreparationPublished:
		line := fmt.Sprintf("%s is published as version %d", p.Problem, p.Version)
		if p.Verify == gavelapi.VerifyNone {
			line += ", without being verified"
		}
		return line
	}
	return fmt.Sprintf("%s was not published: %s", p.Problem, p.Message)
}

// prepared turns the end of a preparation into the exit code.
func prepared(rep *gavelapi.PreparationReport) error {
	report := "gavel problem report " + rep.Problem + " shows the report again"
	switch {
	case rep.State == gavelapi.PreparationSuperseded:
		return &Error{Code: ExitConflict, Message: preparationLine(&rep.Preparation), Hint: "the newest import decides; gavel problem show says what is live"}
	case rep.Fault != nil:
		return failed("import it again when the workers are well; "+report, "%s was not published, by a fault of the system and not of the package: %s: %s",
			rep.Problem, rep.Fault.Blame, rep.Fault.Message)
	case rep.State == gavelapi.PreparationFailed:
		return usage("correct the package and import it again; what was live stays live; "+report, "%s", preparationLine(&rep.Preparation))
	}
	return nil
}

func (a *App) printReport(rep *gavelapi.PreparationReport) error {
	type R = gavelapi.ReportRow
	colors := map[string]color{
		gavelapi.FindingOK: green, gavelapi.FindingFailed: red, gavelapi.FindingFault: red,
		gavelapi.FindingWaiting: dim, gavelapi.FindingSkipped: dim,
	}
	err := printItems(a, rep.Rows, rep, func(r R) string { return r.What }, []column[R]{
		{name: "STEP", cell: func(r R) cell { return text(r.Step) }},
		{name: "WHAT", cell: func(r R) cell { return text(r.What) }},
		{name: "OUTCOME", cell: func(r R) cell { return shade(r.Outcome, colors[r.Outcome]) }},
		{name: "TIME", right: true, cell: func(r R) cell {
			if r.TookUS == 0 {
				return text("")
			}
			return text(took(time.Duration(r.TookUS) * time.Microsecond))
		}},
		{name: "WORKER", wide: true, cell: func(r R) cell { return text(r.Worker) }},
		{name: "DETAIL", flex: 20, cell: func(r R) cell {
			first, _, _ := strings.Cut(r.Detail, "\n")
			return text(first)
		}},
	})
	if err != nil || a.machine() {
		return err
	}
	for _, r := range rep.Rows { // what a table may cut
		if r.Detail == "" || r.Outcome != gavelapi.FindingFailed && r.Outcome != gavelapi.FindingFault {
			continue
		}
		fmt.Fprintf(a.Out, "\n%s\n", a.style.paint(clean(r.Step+" "+r.What), bold, a.style.out))
		for _, line := range cleanLines(strings.TrimSpace(r.Detail)) {
			fmt.Fprintf(a.Out, "  %s\n", line)
		}
	}
	return nil
}

// imported waits, if it is to, and prints what became of an import.
func (cmd *ProblemImportCmd) imported(app *App, c *client.Client, info *gavelapi.ProblemInfo) error {
	p := info.Preparation
	if cmd.NoWait || p == nil || p.State != gavelapi.PreparationPreparing {
		if p != nil && !info.Unchanged {
			app.note("%s", preparationLine(p))
		}
		return app.printProblems([]gavelapi.ProblemInfo{*info}, info)
	}
	rep, err := app.awaitPreparation(c, info.Name, p.ID)
	if err != nil {
		return err
	}
	outcome := prepared(rep)
	if app.machine() {
		info, err := c.ProblemGet(app.Ctx, info.Name)
		if err != nil {
			return errors.Join(outcome, err)
		}
		info.Preparation = &rep.Preparation
		if err := app.printProblems([]gavelapi.ProblemInfo{*info}, info); err != nil {
			return err
		}
		return outcome
	}
	if err := app.printReport(rep); err != nil {
		return err
	}
	if outcome == nil {
		app.note("%s", preparationLine(&rep.Preparation))
	}
	return outcome
}
