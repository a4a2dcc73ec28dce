package drill

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/drill/transcript"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/worker"
)

// RoleArgument as first argument makes this program one of the processes of a
// drill; the second argument names which, its settings come on standard input.
const RoleArgument = "drill-role"

// Role carries out a role when the arguments ask for one. Programs that run
// drills call it first. handled is false when they do not ask.
func Role(ctx context.Context, args []string, in io.Reader, log io.Writer) (code int, handled bool) {
	if len(args) != 2 || args[0] != RoleArgument {
		return 0, false
	}
	logger := slog.New(slog.NewTextHandler(log, nil))
	var err error
	switch args[1] {
	case "worker":
		err = play(ctx, in, logger, playWorker)
	case "old-worker":
		err = play(ctx, in, logger, playOldWorker)
	case "arbiter":
		err = play(ctx, in, logger, playArbiter)
	case "locker":
		err = play(ctx, in, logger, playLocker)
	case "small-disk":
		err = play(ctx, in, logger, playSmallDisk)
	default:
		err = fmt.Errorf("no role %q", args[1])
	}
	if err != nil {
		logger.Error("role ended", "role", args[1], "error", err)
		return 1, true
	}
	return 0, true
}

func play[S any](ctx context.Context, in io.Reader, log *slog.Logger, part func(context.Context, S, *slog.Logger) error) error {
	var settings S
	if err := json.NewDecoder(in).Decode(&settings); err != nil {
		return fmt.Errorf("settings: %w", err)
	}
	return part(ctx, settings, log)
}

// workerSettings are those of the role worker.
type workerSettings struct {
	Name     string
	URL      string
	Token    string
	StateDir string
	Gates    string // directory of gates, see script
	// Transcripts is where it writes down what it asks and is answered; "": nowhere.
	Transcripts string
	Slots       int
	Languages   []string
	ClockAway   time.Duration // its wall clock is wrong by so much
	DiskBytes   int64         // > 0: the state directory is a disk of that size
	Sound       bool          // it passes known-answer probes; else they are scripts that it does not understand

	// Of a worker straight on the database, which has neither URL nor token.
	DatabaseURL string
	PackagesDir string
	Pool        string
	Rank        int
	Poll, Sweep time.Duration // 0 is the default, and a second
}

func playWorker(ctx context.Context, s workerSettings, log *slog.Logger) error {
	if s.DiskBytes > 0 {
		if err := smallDisk(s.StateDir, s.DiskBytes); err != nil {
			return err
		}
	}
	calls, done, err := callsOf(ctx, s, log)
	if err != nil {
		return err
	}
	defer done()
	if s.Transcripts != "" {
		written, err := transcript.Create(s.Transcripts, s.Name)
		if err != nil {
			return err
		}
		defer written.Close()
		calls = written.Of(calls)
	}
	clk := awayClock{away: s.ClockAway}
	capabilities := gavelapi.Capabilities{Cores: 1, MemoryBytes: int64(s.Slots) << 30, Arch: "drill", Build: "drill", Kernel: "drill", MemoryMeter: "none"}
	for _, id := range s.Languages {
		capabilities.Languages = append(capabilities.Languages, gavelapi.LanguageOffer{ID: id, Version: "drill"})
	}
	w, err := worker.New(worker.Config{
		Client: calls, Judge: actor{name: s.Name, gates: s.Gates, sound: s.Sound, clk: clk, log: log}, StateDir: s.StateDir, Slots: s.Slots,
		Capabilities: func() gavelapi.Capabilities { return capabilities }, Clock: clk, Logger: log,
	})
	if err != nil {
		return err
	}
	signals := make(chan os.Signal, 4)
	signal.Notify(signals, unix.SIGTERM, unix.SIGINT)
	return w.RunSignalled(ctx, signals, os.Exit)
}

// awayClock is a machine whose wall clock is wrong. Differences stay right, as
// on a real one, where they are taken from the monotonic clock.
type awayClock struct {
	clock.System

	away time.Duration
}

func (c awayClock) Now() time.Time { return c.System.Now().Add(c.away) }

// lockerSettings are those of the role locker: a session of gavel's own that
// holds the locks of a reclaim in mid-transaction, and does nothing more.
type lockerSettings struct {
	DatabaseURL string
	JobID       int64
	Unguarded   bool
	Ready       string // file to make when the locks are held
}

func playLocker(ctx context.Context, s lockerSettings, _ *slog.Logger) error {
	guards := store.DefaultGuards
	if s.Unguarded {
		guards.IdleInTransaction = 0
	}
	db, err := store.Open(ctx, s.DatabaseURL, store.Options{MaxConns: 1, Guards: guards, AppName: "gavel-locker"})
	if err != nil {
		return err
	}
	defer db.Close()
	tx, err := db.Pool.Begin(ctx)
	if err != nil {
		return err
	}
	for _, sql := range []string{
		"select term from leadership where shard = 0 for key share",
		fmt.Sprintf("select id from jobs where id = %d for update", s.JobID),
	} {
		if _, err := tx.Exec(ctx, sql); err != nil {
			return err
		}
	}
	if err := os.WriteFile(s.Ready, nil, 0o600); err != nil {
		return err
	}
	<-ctx.Done()
	return nil
}

// smallDiskSettings are those of the role small-disk: another program with a
// directory on a disk of its own.
type smallDiskSettings struct {
	Dir     string
	Bytes   int64
	Program string
	Args    []string
	Env     []string
}

func playSmallDisk(_ context.Context, s smallDiskSettings, _ *slog.Logger) error {
	if err := smallDisk(s.Dir, s.Bytes); err != nil {
		return err
	}
	return unix.Exec(s.Program, append([]string{s.Program}, s.Args...), s.Env)
}

// smallDisk mounts a disk that only this process and its children see: the
// drill has started it in a mount namespace of its own, and fills the disk
// through /proc/PID/root. It vanishes with the last of them.
func smallDisk(dir string, bytes int64) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("keep mounts to ourselves: %w", err)
	}
	if err := unix.Mount("drill", dir, "tmpfs", 0, fmt.Sprintf("size=%d,mode=755", bytes)); err != nil {
		return fmt.Errorf("mount a disk of %d bytes: %w", bytes, err)
	}
	return nil
}
