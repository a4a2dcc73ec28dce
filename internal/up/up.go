// Package up is `gavel up`: everything on one machine. It starts a private
// PostgreSQL, the arbiter and one worker as a separate process, imports the
// example problems, judges their example submissions over the public API and
// compares the verdicts with what each was meant to get. It stops all of it in
// order: worker, arbiter, database.
package up

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/examples"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/pgserver"
	"github.com/gavel-oj/gavel/internal/serve"
)

// Config says what to start.
type Config struct {
	DataDir  string
	Listen   string
	Slots    int    // 0 lets the worker choose
	Worker   string // path of gavel-worker
	Examples []examples.Problem
	// Again judges the examples also when this build judged them on this data before.
	Again   bool
	Once    bool // stop when the examples are judged
	Logger  *slog.Logger
	Clock   clock.Clock
	Environ []string // of the worker
	// Listener is one of Listen that is open already; Run takes it over.
	Listener          net.Listener
	RunKeep           time.Duration // 0 is the default
	MaxWaitingPerUser int           // 0 is any number
	WebhookPrivate    bool          // webhooks may go to addresses that are not public
}

// View is told how it goes. Its methods are called from one goroutine at a
// time and should return soon.
type View interface {
	// Step says what is being done now.
	Step(text string)
	// Progress is how many example submissions are judged.
	Progress(done, total int, verdicts map[string]int)
	// Judged shows all example submissions at the end.
	Judged(results []Sample)
	// Running says that everything is up and stays up.
	Running(url, tokenFile, logFile string)
}

// ErrNotAsDeclared is returned by Run with Once when a verdict differs.
var ErrNotAsDeclared = errors.New("some verdicts are not as declared")

// Steps of stopping are bounded, so that Ctrl-C ends in any case.
const (
	workerStopWait   = 15 * time.Second
	databaseStopWait = 30 * time.Second
	readyWait        = 60 * time.Second
)

// Run starts everything, and stops it when ctx ends or, with Once, when the
// examples are judged.
func Run(ctx context.Context, cfg Config, view View) (err error) {
	if cfg.Clock == nil {
		cfg.Clock = clock.System{}
	}
	if cfg.Listener != nil {
		defer cfg.Listener.Close() // again, when the server has closed it already
	}
	dir, err := filepath.Abs(cfg.DataDir)
	if err != nil {
		return fmt.Errorf("data directory: %w", err)
	}
	// Not by way of a link that lies where the database's user cannot walk.
	if to, err := filepath.EvalSymlinks(dir); err == nil {
		dir = to
	}
	cfg.DataDir = dir
	// 0711: the database's unprivileged user must be able to walk through;
	// everything inside has its own, closer mode.
	if err := os.MkdirAll(dir, 0o711); err != nil {
		return apperr.Wrap(err, apperr.Forbidden, "choose a directory that this user may write with --data-dir", "the data directory %s cannot be made", dir)
	}

	view.Step("starting PostgreSQL")
	pg, err := pgserver.Start(ctx, pgserver.Config{DataDir: filepath.Join(dir, "postgres"), Logger: cfg.Logger, Clock: cfg.Clock})
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stopping(ctx, view, databaseStopWait, "stopping PostgreSQL", pg.Stop))
	}()

	view.Step("starting the arbiter")
	srv, err := serve.Start(ctx, serve.Config{
		DatabaseURL: pg.URL(), DataDir: filepath.Join(dir, "arbiter"), Listen: cfg.Listen, Listener: cfg.Listener, Logger: cfg.Logger, Clock: cfg.Clock,
		Health:  health.Default,
		RunKeep: cfg.RunKeep, MaxWaitingPerUser: cfg.MaxWaitingPerUser, WebhookPrivate: cfg.WebhookPrivate,
	})
	if err != nil {
		return err
	}
	defer func() {
		if ctx.Err() != nil {
			view.Step("stopping the arbiter")
		}
		err = errors.Join(err, srv.Close(ctx))
	}()
	tokenFile := filepath.Join(dir, "admin-token")
	token, err := srv.AdminToken(ctx, tokenFile)
	if err != nil {
		return err
	}
	api, err := client.New(srv.URL(), token, client.Options{UserAgent: "gavel-up"})
	if err != nil {
		return fmt.Errorf("client for %s: %w", srv.URL(), err)
	}
	defer api.Close()
	if err := ready(ctx, cfg.Clock, api); err != nil {
		return err
	}

	view.Step("starting a worker")
	worker, err := startWorker(ctx, cfg, srv.URL(), api)
	if err != nil {
		return err
	}
	defer func() {
		err = errors.Join(err, stopping(ctx, view, workerStopWait, "stopping the worker, which hands back what it has not finished", worker.stop))
	}()

	view.Step("waiting for the worker's self-test")
	if err := worker.online(ctx, api); err != nil {
		return err
	}

	mark := newMark(dir, cfg.Examples)
	switch {
	case cfg.Examples == nil && cfg.Once:
		view.Step("everything has started, and no example is to be judged: that is all")
	case cfg.Examples == nil:
	case !cfg.Again && !cfg.Once && mark.set():
		view.Step("the examples were judged on this data before, by this build; --samples judges them again")
	default:
		results, err := judgeExamples(ctx, cfg.Examples, api, view)
		if err != nil {
			return err
		}
		view.Judged(results)
		good := !slices.ContainsFunc(results, func(r Sample) bool { return !r.AsDeclared() })
		if good {
			mark.leave(cfg.Logger)
		} else if cfg.Once {
			return ErrNotAsDeclared
		}
	}
	if cfg.Once {
		return nil
	}
	view.Running(srv.URL(), tokenFile, LogFile(dir))
	select {
	case <-ctx.Done():
		return nil
	case <-pg.Done():
		return fmt.Errorf("PostgreSQL ended: %w", pg.Err())
	}
}

// LogFile is where `gavel up` logs.
func LogFile(dataDir string) string { return filepath.Join(dataDir, "gavel.log") }

// stopping does one step of the stop, and says so to somebody who waits for it.
func stopping(ctx context.Context, view View, wait time.Duration, what string, stop func(context.Context) error) error {
	if ctx.Err() != nil {
		view.Step(what)
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), wait)
	defer cancel()
	if err := stop(ctx); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// ready waits until the arbiter grants.
func ready(ctx context.Context, c clock.Clock, api *client.Client) error {
	ctx, cancel := context.WithTimeoutCause(ctx, readyWait, errors.New("the arbiter is not ready"))
	defer cancel()
	for {
		health, err := api.Ready(ctx)
		if err == nil && health.Status == "ok" {
			return nil
		}
		select {
		case <-c.After(20 * time.Millisecond):
		case <-ctx.Done():
			if health != nil {
				return fmt.Errorf("%w: %v", context.Cause(ctx), health.Checks)
			}
			return context.Cause(ctx)
		}
	}
}

// Sample is one example submission with what it was meant to get and got.
type Sample struct {
	Problem, Path, Language string
	Expected                []string
	Submission              gavelapi.Submission
}

// AsDeclared says whether the verdict is one of those expected.
func (s Sample) AsDeclared() bool { return slices.Contains(s.Expected, s.Submission.Verdict) }
