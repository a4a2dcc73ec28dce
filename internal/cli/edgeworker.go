package cli

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/internal/agent"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/edge"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/worker"
)

// EdgeWorkerCmd is a worker straight on the database. Its state directory has
// the same form as gavel-worker's, so that a machine can change from one to the
// other with its outbox and its session.
type EdgeWorkerCmd struct {
	DatabaseURL string        `name:"database-url" env:"GAVEL_DATABASE_URL" placeholder:"URL" help:"PostgreSQL to take work from, with a login that is a member of gavel_edge."`
	Name        string        `name:"name" env:"GAVEL_WORKER_NAME" placeholder:"NAME" help:"Unique name of this worker (default the host's name)."`
	Pool        string        `name:"pool" env:"GAVEL_WORKER_POOL" default:"default" placeholder:"NAME" help:"Pool it belongs to."`
	Rank        int           `name:"rank" env:"GAVEL_WORKER_RANK" default:"100" placeholder:"N" help:"Rank of the pool, if nobody has named the pool yet: new work is left for a moment to workers with a lower one."`
	Slots       int           `name:"slots" env:"GAVEL_WORKER_SLOTS" placeholder:"N" help:"Judgings at once (default the number of cores)."`
	PackagesDir string        `name:"packages-dir" env:"GAVEL_PACKAGES_DIR" placeholder:"DIR" help:"Packages as files: blobs/packages in the arbiter's data directory, or a copy. Without it they come from the arbiter of --url, with this worker's token."`
	StateDir    string        `name:"state-dir" env:"GAVEL_WORKER_STATE_DIR" placeholder:"DIR" help:"Outbox and cached packages (default /var/lib/gavel-worker)."`
	ScratchDir  string        `name:"scratch-dir" env:"GAVEL_WORKER_SCRATCH_DIR" placeholder:"DIR" help:"Sources, programs and outputs while they are needed (default scratch in the state directory)."`
	Grace       time.Duration `name:"grace" env:"GAVEL_WORKER_GRACE" default:"0s" help:"How long running work may go on after SIGTERM (default: hand it back at once)."`
	Poll        time.Duration `name:"poll" default:"500ms" help:"How often it looks for work while a slot is free."`
}

// Run implements the command.
func (c *EdgeWorkerCmd) Run(a *App) error {
	if err := c.check(a); err != nil {
		return err
	}
	packages, closePackages, err := c.packages(a)
	if err != nil {
		return serverError(err)
	}
	defer closePackages()
	// Taken first: two processes must not share scratch files or boxes either.
	state, err := worker.OpenState(c.StateDir)
	if err != nil {
		return serverError(err)
	}
	defer state.Close()
	err = c.work(a, packages, state, slog.New(logHandler(a.Err, a.ErrTerminal && a.style.err)))
	if a.Ctx.Err() != nil && errors.Is(err, context.Canceled) {
		return nil // a stop during the start is an orderly one
	}
	return serverError(err)
}

// check completes the flags.
func (c *EdgeWorkerCmd) check(a *App) error {
	switch {
	case c.DatabaseURL == "":
		return usage("set --database-url or GAVEL_DATABASE_URL", "no database is given")
	case c.Slots < 0 || c.Slots > 1024:
		return usage("give the number of judgings at once, 1 to 1024", "--slots is not a number of slots")
	case c.PackagesDir == "" && !a.urlGiven():
		return usage("give --packages-dir, or an arbiter with --url and this worker's token with --token-file", "there is nowhere to get packages from")
	}
	if err := cmp.Or(between("--poll", c.Poll, 10*time.Millisecond, time.Minute), between("--grace", c.Grace, 0, 24*time.Hour)); err != nil {
		return err
	}
	if c.Slots == 0 {
		c.Slots = agent.DefaultSlots()
	}
	if c.Name == "" {
		host, err := os.Hostname()
		if err != nil || host == "" {
			return usage("give one with --name", "this machine has no name to use")
		}
		c.Name, _, _ = strings.Cut(host, ".")
	}
	var err error
	if c.StateDir, err = filepath.Abs(cmp.Or(c.StateDir, a.Getenv("STATE_DIRECTORY"), "/var/lib/gavel-worker")); err != nil {
		return err
	}
	c.ScratchDir, err = filepath.Abs(cmp.Or(c.ScratchDir, filepath.Join(c.StateDir, "scratch")))
	return err
}

func (c *EdgeWorkerCmd) packages(a *App) (edge.Packages, func(), error) {
	if c.PackagesDir != "" {
		dir, err := edge.OpenDirectory(c.PackagesDir)
		if err != nil {
			return nil, nil, err
		}
		return dir, func() { _ = dir.Close() }, nil
	}
	api, err := a.connect()
	if err != nil {
		return nil, nil, err
	}
	return edge.Remote{Client: api}, func() { api.Close() }, nil
}

func (c *EdgeWorkerCmd) work(a *App, packages edge.Packages, state *worker.State, log *slog.Logger) (err error) {
	// First, because to prove the languages takes a while.
	db, calls, err := c.reach(a.Ctx, packages, log)
	if err != nil {
		return err
	}
	defer db.Close()
	machine, err := agent.Open(a.Ctx, agent.Settings{
		Slots: c.Slots, ScratchDir: c.ScratchDir, MemoryBytes: judge.DefaultMemoryBudget(), Logger: log,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	keeping, stop := context.WithCancel(a.Ctx)
	var sweep sync.WaitGroup
	sweep.Go(func() { calls.Keep(keeping) })
	defer func() { stop(); sweep.Wait() }()
	return machine.Run(a.Ctx, worker.Config{Client: calls, State: state, Clock: clock.System{}, Logger: log, Grace: c.Grace},
		func(w *worker.Worker) error { return w.Run(a.Ctx) })
}

// reach connects and makes the worker known. A server that cannot be reached is
// waited for; what else is the matter does not pass by waiting.
func (c *EdgeWorkerCmd) reach(ctx context.Context, packages edge.Packages, log *slog.Logger) (*store.DB, *edge.Client, error) {
	pause := client.NewPause(500*time.Millisecond, 15*time.Second)
	for {
		db, calls, err := c.tryReach(ctx, packages, log)
		if err == nil || ctx.Err() != nil || !worthWaiting(err) {
			return db, calls, err
		}
		wait := pause.Next(nil)
		log.Warn("the database cannot be reached yet", "error", err, "wait_ms", wait.Milliseconds())
		if err := client.Sleep(ctx, wait); err != nil {
			return nil, nil, err
		}
	}
}

func (c *EdgeWorkerCmd) tryReach(ctx context.Context, packages edge.Packages, log *slog.Logger) (*store.DB, *edge.Client, error) {
	// One for the claim, one for the sweep, the rest for heartbeats and results.
	db, err := store.Open(ctx, c.DatabaseURL, store.Options{MaxConns: 4, AppName: "gavel-edge:" + c.Name, Role: store.EdgeRole})
	if err != nil {
		return nil, nil, noEntry(err)
	}
	calls, err := edge.New(edge.Config{
		DB: db, Name: c.Name, Pool: c.Pool, Rank: c.Rank, Poll: c.Poll, Packages: packages, Clock: clock.System{}, Logger: log,
	})
	if err == nil {
		err = calls.Check(ctx)
	}
	if err != nil {
		db.Close()
		return nil, nil, err
	}
	return db, calls, nil
}

// noEntry gives the refusals of a server that was reached the codes that they
// have elsewhere.
func noEntry(err error) error {
	refused, ok := errors.AsType[*pgconn.PgError](err)
	e, explained := errors.AsType[*apperr.Error](err)
	if !ok || !explained {
		return err
	}
	code := e.Code
	switch refused.Code {
	case "28P01", "28000", "42501":
		code = apperr.Forbidden
	case "3D000":
		code = apperr.NotFound
	}
	return apperr.Wrap(e.Err, code, e.Hint, "%s", e.Message)
}

func worthWaiting(err error) bool {
	if _, away := errors.AsType[*client.Unreachable](err); !away && apperr.CodeOf(err) != apperr.Unavailable {
		return false
	}
	return store.IsUnavailable(err)
}
