package judge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// soundness numbers the checks of each language's toolchain.
type soundness struct {
	mu   sync.Mutex
	byID map[string]*soundEntry
}

type soundEntry struct {
	checking chan struct{} // of capacity 1: held while one checks
	started  atomic.Int64  // checks so far, and so the number of the last one
	passed   int64         // the number of the last one that passed; under checking
}

func (s *soundness) entry(id string) *soundEntry {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.byID == nil {
		s.byID = make(map[string]*soundEntry)
	}
	if s.byID[id] == nil {
		s.byID[id] = &soundEntry{checking: make(chan struct{}, 1)}
	}
	return s.byID[id]
}

// recheck asks, after a source did not compile for no limit's sake, whether
// lang's self-test program still does: an assembler that is gone or a header
// that can not be read makes every source a compile error. It returns a fault
// if not.
//
// Only a check that started after the source had failed tells: one from before
// says nothing of a toolchain that broke in between. Sources that fail while
// one is checked share the next check. What it compiles is never served from
// the cache.
func (e *Engine) recheck(ctx context.Context, box *lazyBox, lang *language.Language, tools *toolchain) error {
	entry := e.sound.entry(lang.ID)
	before := entry.started.Load()
	select {
	case entry.checking <- struct{}{}:
		defer func() { <-entry.checking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	if entry.passed > before {
		return nil
	}
	number := entry.started.Add(1)
	dir, err := e.scratch.newTask()
	if err != nil {
		return asFault(ctx, err, "check the toolchain of "+lang.ID)
	}
	defer func() { _ = os.RemoveAll(dir) }()
	source := filepath.Join(dir, lang.Source)
	if err := writeFile(source, strings.NewReader(lang.SelfTest.Source), 0o444); err != nil {
		return asFault(ctx, err, "check the toolchain of "+lang.ID)
	}
	inBox := sandbox.SourceDir + "/" + lang.Source
	b, err := e.buildSource(ctx, box, lang, lang.CompileLimits(problem.Limits{}), []sourceFile{{lang.Source, []byte(lang.SelfTest.Source)}},
		append([]sandbox.Mount{{Host: source, Box: inBox}}, tools.compile...), []string{inBox}, dir)
	switch {
	case err != nil:
		return err
	case !b.compile.OK:
		return faultf(BlameToolchain, nil, "%s: its self-test program does not compile any more: %.1000s", lang.ID, b.compile.Log)
	}
	entry.passed = number
	return nil
}
