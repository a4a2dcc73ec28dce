package langtest

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Boxes is what InBoxes makes an engine of.
type Boxes struct {
	// Open opens the sandbox; it may write below tempDir.
	Open      func(tempDir string) (sandbox.Provider, error)
	Slots     int
	Languages *language.Registry
	Logger    *slog.Logger
}

// InBoxes runs self-tests in boxes of their own, with nothing kept of former
// ones: a worker may be running on this machine.
func InBoxes(ctx context.Context, b Boxes, languages []*language.Language) (_ []Result, err error) {
	scratch, err := os.MkdirTemp("", "gavel-language-test")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.RemoveAll(scratch)) }()
	if err := os.Chmod(scratch, 0o755); err != nil {
		return nil, err
	}
	provider, err := b.Open(scratch)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	engine, err := judge.New(judge.Config{
		Provider: provider, Slots: b.Slots, Languages: b.Languages, ScratchDir: filepath.Join(scratch, "judge"), Logger: b.Logger,
		NoPrecompiledHeaders: true, // no part of a self-test
	})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()
	return Run(ctx, engine, languages)
}
