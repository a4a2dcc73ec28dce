package judge

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// How long a toolchain that has just compiled its self-test program is
// believed. Compiling it again costs what a small submission does, so that all
// checks of a language together take no more than a tenth of one core.
const (
	soundAtLeast = 10 * time.Second
	soundTimes   = 10
)

// soundness remembers, by language, until when a compiler's errors are believed.
type soundness struct {
	mu   sync.Mutex
	byID map[string]*soundEntry
}

type soundEntry struct {
	checking chan struct{} // of capacity 1: held while the fields below are used
	stamp    string        // of the toolchain that passed
	until    time.Time
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

// recheck asks, after a source did not compile for no limit's sake, whether lang's self-test program
// still does: an assembler that is gone or a header that can not be read makes
// every source a compile error. It returns a fault if not. Sources that fail
// while one is checked wait for what comes of it. What it compiles is never
// served from the cache.
func (e *Engine) recheck(ctx context.Context, box *lazyBox, lang *language.Language, tools *toolchain) error {
	entry := e.sound.entry(lang.ID)
	select {
	case entry.checking <- struct{}{}:
		defer func() { <-entry.checking }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	from := e.clock.Now()
	stamp, known := e.toolchainStamp(lang)
	if known && stamp == entry.stamp && from.Before(entry.until) {
		return nil
	}
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
		entry.stamp = ""
		return faultf(BlameToolchain, nil, "%s: its self-test program does not compile any more: %.1000s", lang.ID, b.compile.Log)
	}
	now := e.clock.Now()
	entry.stamp, entry.until = stamp, now.Add(max(soundAtLeast, soundTimes*now.Sub(from)))
	return nil
}
