package cli

import (
	"errors"
	"log/slog"
	"strings"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/judge/langtest"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

// LanguageCmd is `gavel language`.
type LanguageCmd struct {
	List LanguageListCmd `cmd:"" help:"List languages and who offers them."`
	Test LanguageTestCmd `cmd:"" help:"Run self-tests of languages here, in boxes, as the start of a worker does."`
}

// LanguageListCmd is `gavel language list`.
type LanguageListCmd struct{}

// Run implements kong's command.
func (cmd *LanguageListCmd) Run(app *App) error {
	c, err := app.connect()
	if err != nil {
		return err
	}
	defer c.Close()
	list, err := c.LanguageList(app.Ctx)
	if err != nil {
		return err
	}
	type L = gavelapi.LanguageInfo
	return printItems(app, list.Languages, list, func(l L) string { return l.ID }, []column[L]{
		{name: "ID", cell: func(l L) cell { return text(l.ID) }},
		{name: "NAME", flex: 8, cell: func(l L) cell { return text(l.Name) }},
		{name: "ENDINGS", flex: 8, cell: func(l L) cell { return text(endings(l)) }},
		{name: "OFFERED NOW", flex: 12, cell: func(l L) cell {
			if len(l.Versions) == 0 {
				return shade("by no worker", dim)
			}
			return text(strings.Join(l.Versions, ", "))
		}},
	})
}

// endings marks those for which the language is the default.
func endings(l gavelapi.LanguageInfo) string {
	var parts []string
	for _, e := range l.Extensions {
		mark := ""
		for _, d := range l.DefaultFor {
			if d == e {
				mark = "*"
			}
		}
		parts = append(parts, "."+e+mark)
	}
	return strings.Join(parts, " ")
}

// LanguageTestCmd is `gavel language test`.
type LanguageTestCmd struct {
	IDs []string `arg:"" optional:"" name:"id" help:"Languages to test; all by default."`
}

// Run implements kong's command. The arbiter is not asked.
func (cmd *LanguageTestCmd) Run(app *App) error {
	registry, err := language.Builtin()
	if err != nil {
		return err
	}
	languages, err := langtest.Select(registry, cmd.IDs)
	if e, ok := errors.AsType[*apperr.Error](err); ok {
		return usage(e.Hint, "%s", e.Message)
	}
	if err != nil {
		return err
	}
	cpus, err := linuxbox.CPUs()
	if err != nil {
		return err
	}
	results, err := langtest.InBoxes(app.Ctx, langtest.Boxes{
		Open: func(tempDir string) (sandbox.Provider, error) {
			return linuxbox.Open(linuxbox.Config{TempDir: tempDir})
		},
		Slots: max(1, physical(cpus)), Languages: registry, Logger: slog.New(slog.DiscardHandler),
	}, languages)
	if err != nil {
		return boxError(err)
	}
	switch app.Output {
	case "json":
		err = langtest.JSON(app.Out, results)
	case "table":
		err = langtest.Table(app.Out, results)
	default:
		err = app.printSelfTests(results)
	}
	if err == nil && langtest.Failed(results) > 0 {
		err = &Error{Code: ExitFailed} // the rows have said it
	}
	return err
}

// printSelfTests prints in the forms that gavel-worker does not have.
func (a *App) printSelfTests(results []langtest.Result) error {
	type R = langtest.Result
	return printItems(a, results, nil, func(r R) string { return r.ID }, []column[R]{
		{name: "LANGUAGE", cell: func(r R) cell { return text(r.ID) }},
		{name: "NAME", cell: func(r R) cell { return text(r.Name) }},
		{name: "RESULT", cell: func(r R) cell {
			if r.OK {
				return shade("ok", green)
			}
			return shade("failed", red)
		}},
		{name: "MS", right: true, cell: func(r R) cell { return number(r.MS) }},
		{name: "VERSION OR REASON", cell: func(r R) cell { return text(r.Version + r.Reason) }},
	})
}
