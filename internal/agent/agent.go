// Package agent turns a machine into a worker: it opens the box, the engine on
// it, and proves which languages work, before anybody hears of the worker. What
// the worker then talks to, an arbiter or the database, is the caller's
// business (worker.Config.Client).
package agent

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/buildinfo"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/worker"
)

// Settings say what of the machine the worker may use.
type Settings struct {
	Slots       int
	ScratchDir  string   // sources, programs and outputs while they are needed
	ReadOnly    []string // further directories that programs may read
	MemoryBytes int64    // for all programs that run at once
	// As judge.Config.
	CompileCacheBytes    int64
	NoPrecompiledHeaders bool
	Degraded             bool // judge also where boxes are weaker
	Logger               *slog.Logger
}

// Agent is a machine that can judge. Close it.
type Agent struct {
	settings  Settings
	provider  *linuxbox.Provider
	info      sandbox.Info
	languages *language.Registry
	engine    *judge.Engine
	offers    *Offers
}

// Open makes the machine ready, as far as its first claim needs it.
func Open(ctx context.Context, s Settings) (_ *Agent, err error) {
	a := &Agent{settings: s}
	defer func() {
		if err != nil {
			err = errors.Join(err, a.Close())
		}
	}()
	boxTmp := filepath.Join(s.ScratchDir, "tmp")
	if err := os.MkdirAll(boxTmp, 0o755); err != nil {
		return nil, apperr.Wrap(err, apperr.Invalid, "give a directory that this user may write to (--scratch-dir)", "the scratch directory cannot be made")
	}
	if a.provider, err = linuxbox.Open(linuxbox.Config{Log: s.Logger, ReadOnly: s.ReadOnly, TempDir: boxTmp, Degraded: s.Degraded}); err != nil {
		return nil, err
	}
	a.info = a.provider.Info()
	for _, what := range a.info.Weaker {
		s.Logger.Warn("boxes are weaker than elsewhere", "weaker", what)
	}
	if a.languages, err = language.Builtin(); err != nil {
		return nil, err
	}
	cpus, err := usableCPUs(s.Slots)
	if err != nil {
		return nil, err
	}
	a.engine, err = judge.New(judge.Config{
		Provider: a.provider, Slots: s.Slots, CPUs: cpus, MemoryBudget: s.MemoryBytes, Languages: a.languages,
		ScratchDir: filepath.Join(s.ScratchDir, "judge"), Logger: s.Logger,
		CompileCacheBytes: s.CompileCacheBytes, NoPrecompiledHeaders: s.NoPrecompiledHeaders,
	})
	if err != nil {
		return nil, err
	}
	// Before anybody hears of this worker: one that can judge nothing never registers.
	a.offers, err = Prove(ctx, a.engine, a.languages, s.Logger)
	return a, err
}

// Close gives back what Open took.
func (a *Agent) Close() error {
	var errs []error
	if a.engine != nil {
		errs = append(errs, a.engine.Close())
	}
	if a.provider != nil {
		errs = append(errs, a.provider.Close())
	}
	return errors.Join(errs...)
}

// Run makes a worker of the machine. It fills in what the machine knows: Judge, Runner, Verifier,
// Slots, Capabilities, CPUMeter, WatchDirs and CompileWall; run runs it. The
// languages that are not proved yet are proved beside the work.
func (a *Agent) Run(ctx context.Context, cfg worker.Config, run func(*worker.Worker) error) error {
	cfg.Runner, cfg.Verifier = a.engine, a.engine
	cfg.Judge, cfg.Slots, cfg.Capabilities, cfg.OfferChanged, cfg.CPUMeter = a.engine, a.settings.Slots, a.capabilities, a.offers.changed, a.info.CPUMeter
	cfg.WatchDirs = append(cfg.WatchDirs, a.settings.ScratchDir)
	cfg.CompileWall = a.compileWall
	w, err := worker.New(cfg)
	if err != nil {
		return err
	}
	background, stop := context.WithCancel(ctx)
	var proving sync.WaitGroup
	proving.Go(func() { a.offers.ProveRest(background) })
	defer func() { stop(); proving.Wait() }()
	return run(w)
}

func (a *Agent) compileWall(id string) time.Duration {
	if l, ok := a.languages.Get(id); ok {
		// Waiting for another's compile of the same source, and an own one in two tries.
		return 3 * l.Compile.Limits.Wall()
	}
	return worker.DefaultCompileWall
}

func (a *Agent) capabilities() gavelapi.Capabilities {
	return gavelapi.Capabilities{
		Languages: a.offers.Now(), Features: []string{gavelapi.FeatureRun, gavelapi.FeaturePrepare, gavelapi.FeatureInteractive}, MemoryBytes: a.settings.MemoryBytes, Cores: runtime.GOMAXPROCS(0), Arch: runtime.GOARCH,
		Build: buildinfo.Version, Kernel: a.info.Kernel, MemoryMeter: a.info.MemoryMeter, Sandbox: a.info.Layout, Weaker: a.info.Weaker,
	}
}

// usableCPUs are those to pin boxes to. A container may have many CPUs and the
// right to fill only some of them, which is what the runtime goes by.
func usableCPUs(slots int) ([]sandbox.CPU, error) {
	cpus, err := linuxbox.CPUs()
	return cpus[:min(len(cpus), max(runtime.GOMAXPROCS(0), slots))], err
}

// DefaultSlots is the number of physical cores: programs on two threads of one
// core slow each other down.
func DefaultSlots() int {
	cpus, err := usableCPUs(1)
	if err != nil {
		return runtime.GOMAXPROCS(0)
	}
	return max(1, len(slices.DeleteFunc(cpus, func(c sandbox.CPU) bool { return c.Sibling })))
}
