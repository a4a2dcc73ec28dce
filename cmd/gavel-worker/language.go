package main

import (
	"context"
	"errors"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/judge/langtest"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
)

type languageCmd struct {
	List languageListCmd `cmd:"" help:"List the languages that gavel knows, and how they are compiled and run."`
	Test languageTestCmd `cmd:"" help:"Run self-tests of languages here, in boxes, as the start of a worker does."`
}

type languageListCmd struct {
	Output string `short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *languageListCmd) Run(w world) error {
	languages, err := language.Builtin()
	if err != nil {
		return err
	}
	if c.Output == "json" {
		return langtest.ListJSON(w.out, languages.All())
	}
	return langtest.ListTable(w.out, languages.All())
}

type languageTestCmd struct {
	common

	IDs    []string `arg:"" optional:"" name:"id" help:"Languages to test; all by default."`
	Output string   `short:"o" enum:"table,json" default:"table" help:"Form of the result: ${enum}."`
}

// Run implements the command.
func (c *languageTestCmd) Run(ctx context.Context, w world) error {
	s, err := resolve(c.common, given{}, w.environ)
	if err != nil {
		return err
	}
	registry, err := language.Builtin()
	if err != nil {
		return err
	}
	languages, err := langtest.Select(registry, c.IDs)
	if e, ok := errors.AsType[*apperr.Error](err); ok {
		return usage(e.Hint, "%s", e.Error())
	}
	if err != nil {
		return err
	}
	ctx, stop := untilSignal(ctx, w)
	defer stop()
	log := s.logger(w)
	results, err := langtest.InBoxes(ctx, langtest.Boxes{
		Open: func(tempDir string) (sandbox.Provider, error) {
			return linuxbox.Open(linuxbox.Config{Log: log, ReadOnly: s.readOnly, TempDir: tempDir, Degraded: s.degraded})
		},
		Slots: s.slots, Languages: registry, Logger: log,
	}, languages)
	if err != nil {
		return err
	}
	if c.Output == "json" {
		err = langtest.JSON(w.out, results)
	} else {
		err = langtest.Table(w.out, results)
	}
	if err == nil && langtest.Failed(results) > 0 {
		err = &failure{code: exitFailed}
	}
	return err
}
