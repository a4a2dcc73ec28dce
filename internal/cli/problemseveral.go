package cli

import (
	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// several imports packages: all are sent before any is waited for, so that
// workers prepare them side by side. One that is wrong keeps none of the
// others; the exit code is the first one's.
func (cmd *ProblemImportCmd) several(app *App, c *client.Client) error {
	list := gavelapi.ProblemList{Problems: []gavelapi.ProblemInfo{}}
	code := ExitOK
	failed := func(err error) {
		if n := app.report(err); code == ExitOK {
			code = n
		}
	}
	for _, path := range cmd.Paths {
		info, ofPackage, err := cmd.send(app, c, path)
		switch {
		case err == nil:
			list.Problems = append(list.Problems, *info)
		case ofPackage:
			failed(err)
		default:
			return err
		}
	}
	for i := range list.Problems {
		p := &list.Problems[i]
		if p.Preparation == nil || p.Unchanged {
			continue
		}
		if cmd.NoWait || p.Preparation.State != gavelapi.PreparationPreparing {
			app.note("%s", preparationLine(p.Preparation))
			continue
		}
		rep, err := app.awaitPreparation(c, p.Name, p.Preparation.ID)
		if err != nil {
			return err
		}
		outcome := prepared(rep)
		if now, err := c.ProblemGet(app.Ctx, p.Name); err == nil {
			*p = *now
		}
		p.Preparation = &rep.Preparation
		if outcome != nil {
			failed(outcome)
			continue
		}
		app.note("%s", preparationLine(p.Preparation))
	}
	if err := app.printProblems(list.Problems, list); err != nil {
		return err
	}
	if code != ExitOK {
		return &Error{Code: code}
	}
	return nil
}
