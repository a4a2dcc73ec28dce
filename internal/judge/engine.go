package judge

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Config is what an Engine is made of.
type Config struct {
	Provider  sandbox.Provider // stays the caller's; closed after the engine
	Slots     int              // evaluations at once
	Languages *language.Registry
	// CPUs are those to pin boxes to. With more physical cores among them than
	// slots, and when slots have nothing to do, an evaluation runs several
	// tests at once. Without any, boxes are not pinned and each slot runs one
	// program at a time.
	CPUs []sandbox.CPU
	// MemoryBudget bounds the sum of the memory limits of all boxes at work;
	// 0 is DefaultMemoryBudget.
	MemoryBudget int64
	// ScratchDir holds sources, programs and outputs while they are needed.
	// It is made if missing, belongs to one engine at a time, and what an
	// earlier one left in it is removed.
	ScratchDir string
	// CompileCacheBytes bounds the programs kept so that a source is compiled
	// once; 0 is DefaultCompileCacheBytes, below 0 keeps none.
	CompileCacheBytes int64
	// NoPrecompiledHeaders compiles every source from its beginning. Else
	// SelfTest has headers compiled in the background; they are kept in
	// ScratchDir for the next engine.
	NoPrecompiledHeaders bool
	Logger               *slog.Logger // nil drops everything
	Clock                clock.Clock  // nil is the system's
}

// Engine is the Judge. It owns cores with three boxes each; an evaluation has
// one core of its own, and borrows what is idle for its tests.
//
// Invariants:
//
//	E1  A Fault of the system ends in an error, never in a verdict.
//	E2  The answer file is never mounted in a contestant's box, and no output
//	    is checked unless its run kept every limit.
//	E3  A box that returned a Fault is closed and replaced.
//	E4  Nothing of a task is left in the scratch directory after it.
type Engine struct {
	cfg      Config
	log      *slog.Logger
	clock    clock.Clock
	scratch  *scratch
	slots    chan struct{} // one element per evaluation that is in
	own      ownWork
	all      []*core
	cores    cores
	memory   memoryBudget
	checkers checkerCache
	versions versionCache

	toolchains toolchainCache
	sound      soundness
	headers    headers
	compiled   *compileCache // nil: none

	tasks  sync.WaitGroup
	mu     sync.Mutex // guards the fields below
	closed bool
	live   map[int]context.CancelCauseFunc // of the tasks that are in
	serial int
}

var _ Judge = (*Engine)(nil)

var errClosed = errors.New("engine is closed")

// New makes an engine. Boxes are opened when they are first needed; SelfTest
// warms them.
func New(cfg Config) (*Engine, error) {
	switch {
	case cfg.Provider == nil:
		return nil, errors.New("judge: no sandbox provider")
	case cfg.Languages == nil:
		return nil, errors.New("judge: no languages")
	case cfg.Slots < 1:
		return nil, fmt.Errorf("judge: %d slots, need at least 1", cfg.Slots)
	case cfg.MemoryBudget < 0:
		return nil, fmt.Errorf("judge: a memory budget of %d bytes", cfg.MemoryBudget)
	}
	s, err := openScratch(cfg.ScratchDir)
	if err != nil {
		return nil, fmt.Errorf("judge: %w", err)
	}
	e := &Engine{
		cfg: cfg, log: cfg.Logger, clock: cfg.Clock, scratch: s,
		slots: make(chan struct{}, cfg.Slots), memory: memoryBudget{total: cfg.MemoryBudget},
		live: make(map[int]context.CancelCauseFunc),
	}
	if e.log == nil {
		e.log = slog.New(slog.DiscardHandler)
	}
	if e.clock == nil {
		e.clock = clock.System{}
	}
	if e.memory.total == 0 {
		e.memory.total = DefaultMemoryBudget()
	}
	e.makeCores()
	e.removeOldHeaders()
	if cfg.CompileCacheBytes >= 0 {
		e.compiled = newCompileCache(s.compiled(), cmp.Or(cfg.CompileCacheBytes, DefaultCompileCacheBytes), e.log)
	}
	return e, nil
}

// Close ends what runs, waits for it, and releases boxes and scratch space.
func (e *Engine) Close() error {
	e.mu.Lock()
	if e.closed {
		e.mu.Unlock()
		return nil
	}
	e.closed = true
	for _, cancel := range e.live {
		cancel(errClosed)
	}
	e.mu.Unlock()

	e.tasks.Wait()
	var errs []error
	for _, c := range e.all {
		errs = append(errs, c.run.Close(), c.compile.Close(), c.check.Close())
	}
	return errors.Join(append(errs, e.scratch.close())...)
}

// begin admits one task: it returns a context that also ends with the engine,
// a core, and what to call when the task is over. The context of one whose place
// is given also ends when a submission needs it.
func (e *Engine) begin(ctx context.Context, p place) (context.Context, *core, func(), error) {
	ctx, end, err := e.admit(ctx)
	if err != nil {
		return nil, nil, nil, err
	}
	if err := e.takeSlot(ctx, p); err != nil {
		end()
		return nil, nil, nil, err
	}
	drop := func() {}
	if p == placeGiven {
		var cancel context.CancelCauseFunc
		ctx, cancel = context.WithCancelCause(ctx)
		forget := e.own.hold(cancel)
		drop = func() { forget(); cancel(nil) }
	}
	c, err := e.cores.take(ctx)
	if err != nil {
		drop()
		<-e.slots
		end()
		return nil, nil, nil, err
	}
	return ctx, c, func() {
		drop()
		e.cores.put(c)
		<-e.slots
		end()
	}, nil
}

// takeSlot waits for a place among the evaluations.
func (e *Engine) takeSlot(ctx context.Context, p place) error {
	select {
	case e.slots <- struct{}{}:
		return nil
	default:
	}
	if p == placeKept {
		defer e.own.wait()()
	}
	select {
	case e.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// admit makes Close end what the caller does, and wait until it calls end.
func (e *Engine) admit(ctx context.Context) (_ context.Context, end func(), err error) {
	ctx, cancel := context.WithCancelCause(ctx)
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		cancel(nil)
		return nil, nil, errClosed
	}
	e.serial++
	id := e.serial
	e.live[id] = cancel
	e.tasks.Add(1)
	return ctx, func() {
		e.mu.Lock()
		delete(e.live, id)
		e.mu.Unlock()
		cancel(nil)
		e.tasks.Done()
	}, nil
}
