package main

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/lmittmann/tint"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/buildinfo"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/worker"
)

type runCmd struct {
	common

	Name                 string `placeholder:"NAME" help:"Name to enrol under at the first run (default the host's name)."`
	Invitation           string `placeholder:"CODE" help:"Enrol with it when there is no token yet. Better in $$GAVEL_WORKER_INVITATION."`
	ScratchDir           string `placeholder:"DIR" help:"Sources, programs and outputs while they are needed; wants a fast disk (default scratch in the state directory)."`
	Slots                string `placeholder:"N" help:"Judgings at once (default the number of cores)."`
	Grace                string `placeholder:"TIME" help:"How long running work may go on after SIGTERM (default 0s: hand it back at once)."`
	CacheBytes           string `placeholder:"SIZE" help:"Room for cached packages (default 4GiB)."`
	MinFreeBytes         string `placeholder:"SIZE" help:"Claim nothing with less room than this (default 8MiB)."`
	MemoryBytes          string `placeholder:"SIZE" help:"Memory for all programs that run at once, by their limits (default the machine's less a quarter, at most 2GiB)."`
	CompileCacheBytes    string `placeholder:"SIZE" help:"Room for compiled programs, so that a source is compiled once; 0 keeps none (default 512MiB)."`
	NoPrecompiledHeaders bool   `help:"Compile every source from its beginning, and keep no compiled headers."`
	Degraded             bool   `name:"allow-degraded" help:"Judge also without root or without cgroups, with weaker boxes; the arbiter is told what is weaker."`
	Log                  string `placeholder:"FORM" help:"auto, json or text (default auto: text at a terminal)."`
}

// Run implements the command.
func (c *runCmd) Run(ctx context.Context, w world) error {
	whenSet := func(flag bool) string { // false is not given
		if flag {
			return "true"
		}
		return ""
	}
	s, err := resolve(c.common, given{
		"compile_cache_bytes": c.CompileCacheBytes, "no_precompiled_headers": whenSet(c.NoPrecompiledHeaders), "allow_degraded": whenSet(c.Degraded),
		"name": c.Name, "scratch_dir": c.ScratchDir, "slots": c.Slots, "grace": c.Grace,
		"cache_bytes": c.CacheBytes, "min_free_bytes": c.MinFreeBytes, "memory_bytes": c.MemoryBytes, "log": c.Log,
	}, w.environ)
	if err != nil {
		return err
	}
	s.invitation = first(c.Invitation, s.invitation)
	if _, err := s.client(""); err != nil { // before the machine is looked at for seconds
		return err
	}
	log := s.logger(w)
	// Taken first: two processes must not share scratch files or boxes either.
	state, err := worker.OpenState(s.stateDir)
	if err != nil {
		return err
	}
	defer state.Close()
	return s.judge(ctx, w, state, log)
}

// judge opens the engine, proves what it can do, and works.
func (s *settings) judge(ctx context.Context, w world, state *worker.State, log *slog.Logger) (err error) {
	start, stopStart := untilSignal(ctx, w)
	defer stopStart()
	boxTmp := filepath.Join(s.scratchDir, "tmp")
	if err := os.MkdirAll(boxTmp, 0o755); err != nil {
		return apperr.Wrap(err, apperr.Invalid, "give a directory that this user may write to (--scratch-dir)", "the scratch directory cannot be made")
	}
	provider, err := linuxbox.Open(linuxbox.Config{Log: log, ReadOnly: s.readOnly, TempDir: boxTmp, Degraded: s.degraded})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, provider.Close()) }()
	for _, what := range provider.Info().Weaker {
		log.Warn("boxes are weaker than elsewhere", "weaker", what)
	}
	languages, err := language.Builtin()
	if err != nil {
		return err
	}
	cpus, err := usableCPUs(s.slots)
	if err != nil {
		return err
	}
	engine, err := judge.New(judge.Config{
		Provider: provider, Slots: s.slots, CPUs: cpus, MemoryBudget: s.memoryBytes, Languages: languages, ScratchDir: filepath.Join(s.scratchDir, "judge"), Logger: log,
		CompileCacheBytes: s.compileCache, NoPrecompiledHeaders: s.noHeaders,
	})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, engine.Close()) }()

	// Before the arbiter hears of this worker: one that can judge nothing
	// never registers.
	offers, err := proveSome(start, engine, languages, log)
	if err != nil {
		if start.Err() != nil {
			return nil // a stop during the start is an orderly one
		}
		return err
	}
	token, err := s.credentials(start, state, log)
	if err != nil {
		if start.Err() != nil {
			return nil // as above
		}
		return err
	}
	c, err := s.client(token)
	if err != nil {
		return err
	}
	defer c.Close()
	info := provider.Info()
	agent, err := worker.New(worker.Config{
		Client: c, Judge: engine, State: state, Slots: s.slots,
		Capabilities: func() gavelapi.Capabilities { return s.capabilities(info, offers.now()) }, OfferChanged: offers.changed, CPUMeter: info.CPUMeter,
		Clock: clock.System{}, Logger: log, Grace: s.grace,
		CacheQuotaBytes: s.cacheBytes, MinFreeBytes: s.minFreeBytes, WatchDirs: []string{s.scratchDir},
		CompileWall: func(id string) time.Duration {
			if l, ok := languages.Get(id); ok {
				// Waiting for another's compile of the same source, and an own one in two tries.
				return 3 * l.Compile.Limits.Wall()
			}
			return worker.DefaultCompileWall
		},
	})
	if err != nil {
		return err
	}
	background, stopBackground := context.WithCancel(ctx)
	var proving sync.WaitGroup
	proving.Go(func() { offers.proveRest(background) })
	defer func() { stopBackground(); proving.Wait() }()
	signals := stopStart() // what came meanwhile is not lost
	return agent.RunSignalled(ctx, signals, w.exit)
}

// usableCPUs are those to pin boxes to. A container may have many CPUs and the
// right to fill only some of them, which is what the runtime goes by.
func usableCPUs(slots int) ([]sandbox.CPU, error) {
	cpus, err := linuxbox.CPUs()
	return cpus[:min(len(cpus), max(runtime.GOMAXPROCS(0), slots))], err
}

// defaultSlots is the number of physical cores: programs on two threads of one
// core slow each other down.
func defaultSlots() int {
	cpus, err := usableCPUs(1)
	if err != nil {
		return runtime.GOMAXPROCS(0)
	}
	return max(1, len(slices.DeleteFunc(cpus, func(c sandbox.CPU) bool { return c.Sibling })))
}

func (s *settings) capabilities(info sandbox.Info, offers []gavelapi.LanguageOffer) gavelapi.Capabilities {
	return gavelapi.Capabilities{
		Languages: offers, MemoryBytes: s.memoryBytes, Cores: runtime.GOMAXPROCS(0), Arch: runtime.GOARCH,
		Build: buildinfo.Version, Kernel: info.Kernel, MemoryMeter: info.MemoryMeter, Sandbox: info.Layout, Weaker: info.Weaker,
	}
}

func logHandler(w world, form string) slog.Handler {
	if form == "text" || form == "auto" && w.terminal {
		return tint.NewTextHandler(w.err, &tint.Options{TimeFormat: "15:04:05", NoColor: !w.terminal || noColor(w.environ)})
	}
	return slog.NewJSONHandler(w.err, nil)
}

func noColor(environ []string) bool {
	for _, kv := range environ {
		if v, ok := strings.CutPrefix(kv, "NO_COLOR="); ok && v != "" {
			return true
		}
	}
	return false
}
