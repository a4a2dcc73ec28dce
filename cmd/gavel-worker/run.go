package main

import (
	"context"
	"errors"
	"log/slog"
	"strings"

	"github.com/lmittmann/tint"

	"github.com/gavel-oj/gavel/internal/agent"
	"github.com/gavel-oj/gavel/internal/clock"
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

// judge makes the machine ready, proves what it can do, and works.
func (s *settings) judge(ctx context.Context, w world, state *worker.State, log *slog.Logger) (err error) {
	start, stopStart := untilSignal(ctx, w)
	defer stopStart()
	// An invitation that is no good is said at once, not after the self-tests.
	token, err := s.credentials(start, state, log)
	if err != nil {
		if start.Err() != nil {
			return nil // a stop during the start is an orderly one
		}
		return err
	}
	// Before the first claim, by which the arbiter hears what this worker can:
	// one that can judge nothing never claims.
	machine, err := agent.Open(start, agent.Settings{
		Slots: s.slots, ScratchDir: s.scratchDir, ReadOnly: s.readOnly, MemoryBytes: s.memoryBytes,
		CompileCacheBytes: s.compileCache, NoPrecompiledHeaders: s.noHeaders, Degraded: s.degraded, Logger: log,
	})
	if err != nil {
		if start.Err() != nil {
			return nil // as above
		}
		return err
	}
	defer func() { err = errors.Join(err, machine.Close()) }()
	c, err := s.client(token)
	if err != nil {
		return err
	}
	defer c.Close()
	return machine.Run(ctx, worker.Config{
		Client: c, State: state, Clock: clock.System{}, Logger: log, Grace: s.grace,
		CacheQuotaBytes: s.cacheBytes, MinFreeBytes: s.minFreeBytes,
	}, func(worker *worker.Worker) error {
		signals := stopStart() // what came meanwhile is not lost
		return worker.RunSignalled(ctx, signals, w.exit)
	})
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
