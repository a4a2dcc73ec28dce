package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// precompiledDir is where compile boxes find a compiled header, read-only.
const precompiledDir = sandbox.ProgramDir + "/precompiled"

// headerRetry is when a header that the machine failed to make is tried again.
const headerRetry = 10 * time.Minute

// headers are the compiled headers by language. One is made in the background
// and used from then on; without it, compiles only take longer.
//
// Invariants:
//
//	H1  What is mounted was checked against its manifest by this engine, and
//	    neither it nor the toolchain was written to since.
//	H2  Files below a directory that was once mounted are never written to:
//	    a new header comes in a new directory.
type headers struct {
	mu     sync.Mutex
	byLang map[string]*header
	auto   bool // make those that are missing when a source could use them
}

type header struct {
	ready *readyHeader  // nil: not there
	busy  chan struct{} // not nil while it is being prepared; closed then
	err   error         // why it was not there after the last time
	tried time.Time     // when that was
}

// readyHeader is a checked header. It is read-only.
type readyHeader struct {
	include string   // the directory to mount
	watched []string // files whose change makes it unusable
	stamp   string   // of watched and the toolchain
}

// header returns lang's compiled header if it is there and can be used. One
// that is not yet, or was touched, is checked and if need be made in the
// background.
func (e *Engine) header(ctx context.Context, lang *language.Language) *readyHeader {
	if lang.Precompile == nil || e.cfg.NoPrecompiledHeaders {
		return nil
	}
	e.headers.mu.Lock()
	h := e.headers.byLang[lang.ID]
	if h == nil || h.ready == nil {
		wanted := e.headers.auto && h == nil
		if h != nil && h.busy == nil && machineFailed(h.err) && e.clock.Now().Sub(h.tried) >= headerRetry {
			wanted = true
			h.tried = e.clock.Now()
		}
		e.headers.mu.Unlock()
		if wanted {
			e.prepareInBackground(ctx, []*language.Language{lang})
		}
		return nil
	}
	ready := h.ready
	e.headers.mu.Unlock()

	stamp, ok := e.headerStamp(lang, ready)
	if ok && stamp == ready.stamp {
		return ready
	}
	e.headers.mu.Lock()
	first := h.ready == ready
	if first {
		h.ready = nil
	}
	e.headers.mu.Unlock()
	if first {
		e.log.Info("compiled header or its toolchain was written to: to be checked", "language", lang.ID)
		e.prepareInBackground(ctx, []*language.Language{lang})
	}
	return nil
}

// headerLacks is why lang's header could not be used just now; "" when nobody
// makes one.
func (e *Engine) headerLacks(lang *language.Language) string {
	if e.cfg.NoPrecompiledHeaders {
		return ""
	}
	e.headers.mu.Lock()
	defer e.headers.mu.Unlock()
	switch h := e.headers.byLang[lang.ID]; {
	case h == nil && !e.headers.auto:
		return ""
	case h != nil && h.busy == nil && h.err != nil:
		return "failed"
	}
	return "being_made"
}

func (e *Engine) headerStamp(lang *language.Language, h *readyHeader) (string, bool) {
	toolchain, ok := e.toolchainStamp(lang)
	return toolchain + stampOf(h.watched...), ok
}

// Precompile makes the compiled headers of these languages ready for use, from
// what an earlier engine left in the scratch directory if that can be used. It
// takes one slot meanwhile. An error means only that a language's sources are
// compiled without.
func (e *Engine) Precompile(ctx context.Context, languages ...string) error {
	var errs []error
	for _, id := range languages {
		lang, ok := e.cfg.Languages.Get(id)
		if !ok {
			errs = append(errs, fmt.Errorf("language %q is not known to this engine", id))
			continue
		}
		if err := e.prepareHeader(ctx, lang, placeKept); err != nil {
			errs = append(errs, fmt.Errorf("header of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// prepareInBackground prepares headers one after the other, for as long as the
// engine lives. Submissions go first.
func (e *Engine) prepareInBackground(ctx context.Context, languages []*language.Language) {
	ctx, end, err := e.admit(context.WithoutCancel(ctx))
	if err != nil {
		return
	}
	go func() {
		defer end()
		for _, lang := range languages {
			err := e.givingWay(ctx, headerPatience, func(p place) error { return e.prepareHeader(ctx, lang, p) })
			if err != nil && ctx.Err() == nil {
				e.log.Warn("header cannot be compiled ahead: sources are compiled without", "language", lang.ID, "err", err)
			}
		}
	}()
}

// prepareHeader makes lang's header ready, or waits for who does.
func (e *Engine) prepareHeader(ctx context.Context, lang *language.Language, p place) error {
	if lang.Precompile == nil || e.cfg.NoPrecompiledHeaders {
		return nil
	}
	e.headers.mu.Lock()
	h := e.headers.byLang[lang.ID]
	if h == nil {
		h = &header{}
		if e.headers.byLang == nil {
			e.headers.byLang = make(map[string]*header)
		}
		e.headers.byLang[lang.ID] = h
	}
	ready, busy := h.ready, h.busy
	if ready == nil && busy == nil {
		h.busy = make(chan struct{})
	}
	e.headers.mu.Unlock()
	switch {
	case ready != nil:
		return nil
	case busy != nil:
		select {
		case <-busy:
			e.headers.mu.Lock()
			defer e.headers.mu.Unlock()
			return h.err
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}

	ready, err := e.loadOrMakeHeader(ctx, lang, p)
	e.headers.mu.Lock()
	defer e.headers.mu.Unlock()
	h.ready, h.err, h.tried = ready, err, e.clock.Now()
	close(h.busy)
	h.busy = nil
	return err
}

func (e *Engine) loadOrMakeHeader(ctx context.Context, lang *language.Language, p place) (*readyHeader, error) {
	ctx, core, end, err := e.begin(ctx, p)
	if err != nil {
		return nil, err
	}
	defer end()
	from := e.clock.Now()
	tools, err := e.toolchain(ctx, core.compile, lang, p)
	if err != nil {
		return nil, err
	}
	// Before anything is read, so that what changes meanwhile shows.
	stamp, ok := e.toolchainStamp(lang)
	if !ok {
		return nil, errors.New("the toolchain is not complete")
	}
	dir := filepath.Join(e.scratch.headers(), lang.ID)
	kept := true
	m, err := readHeader(dir, lang, tools.version)
	if err != nil {
		kept = false
		if !errors.Is(err, os.ErrNotExist) {
			e.log.Info("compiled header is made anew", "language", lang.ID, "why", err)
		}
		if m, err = e.makeHeader(ctx, core.compile, lang, tools, dir); err != nil {
			if cause := context.Cause(ctx); errors.Is(cause, errGaveWay) {
				return nil, cause
			}
			return nil, err
		}
	}
	h := &readyHeader{include: filepath.Join(dir, includeDir)}
	h.watched = []string{filepath.Join(h.include, lang.Precompile.File), filepath.Join(dir, manifestFile)}
	for _, p := range m.paths() {
		if !strings.Contains(p, "/include/") {
			h.watched = append(h.watched, p) // headers come with the system's packages, which are watched as such
		}
	}
	h.stamp = stamp + stampOf(h.watched...)
	e.log.Info("header is compiled ahead", "language", lang.ID, "kept", kept, "ms", e.clock.Now().Sub(from).Milliseconds())
	return h, nil
}

// machineFailed reports whether err may be another one later.
func machineFailed(err error) bool {
	f, ok := errors.AsType[*Fault](err)
	return ok && f.Blame == BlameHost
}

// removeOldHeaders removes those of languages that no longer have one.
func (e *Engine) removeOldHeaders() {
	kept, err := os.ReadDir(e.scratch.headers())
	for _, entry := range kept {
		if lang, ok := e.cfg.Languages.Get(entry.Name()); !ok || lang.Precompile == nil {
			err = errors.Join(err, os.RemoveAll(filepath.Join(e.scratch.headers(), entry.Name())))
		}
	}
	if err != nil {
		e.log.Warn("remove compiled headers that no language has", "err", err)
	}
}

// prepareOffered prepares, in the background, the headers that will be wanted:
// of the languages that people get by default, and those kept by an earlier
// engine. The others wait for the first source that could use them: each takes
// some seconds and 100 MB.
func (e *Engine) prepareOffered(ctx context.Context, languages []*language.Language, offers []Offer) {
	var soon []*language.Language
	for i, l := range languages {
		if l.Precompile == nil || !offers[i].OK {
			continue
		}
		_, err := os.Stat(filepath.Join(e.scratch.headers(), l.ID))
		if len(l.DefaultFor) > 0 {
			soon = slices.Insert(soon, 0, l)
		} else if err == nil {
			soon = append(soon, l)
		}
	}
	e.headers.mu.Lock()
	e.headers.auto = true
	e.headers.mu.Unlock()
	e.prepareInBackground(ctx, soon)
}

// usesHeader reports whether every one of these sources begins with lang's
// header.
func usesHeader(lang *language.Language, files []sourceFile) bool {
	alone := len(files) == 1 // else one of the files may have the header's name
	for _, f := range files {
		if !beginsWith(f.text, lang.Precompile.Header, alone) {
			return false
		}
	}
	return len(files) > 0
}

// mustRedo reports whether a compile log shows that it would be another one
// without the compiled header.
func mustRedo(lang *language.Language, log string) bool {
	return slices.ContainsFunc(lang.Precompile.Redo, func(s string) bool { return strings.Contains(log, s) })
}
