package judge

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// precompiledDir is where compile boxes find a compiled header, read-only.
const precompiledDir = sandbox.ProgramDir + "/precompiled"

// What making a header may leave; everything else is limited as any compile.
const (
	headerFileBytes = 512 << 20
	headerDiskBytes = 768 << 20
)

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
}

type header struct {
	ready *readyHeader  // nil: not there
	busy  chan struct{} // not nil while it is being prepared; closed then
	err   error         // why it was not there after the last time
}

// readyHeader is a checked header. It is read-only.
type readyHeader struct {
	include string   // the directory to mount
	watched []string // files whose change makes it unusable
	stamp   string   // of watched and the toolchain
}

// header returns lang's compiled header if it is there and can be used. One
// that was touched is checked, and if need be made, again in the background.
func (e *Engine) header(ctx context.Context, lang *language.Language) *readyHeader {
	if lang.Precompile == nil || e.cfg.NoPrecompiledHeaders {
		return nil
	}
	e.headers.mu.Lock()
	h := e.headers.byLang[lang.ID]
	if h == nil || h.ready == nil {
		e.headers.mu.Unlock()
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
		if err := e.prepareHeader(ctx, lang); err != nil {
			errs = append(errs, fmt.Errorf("header of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// prepareInBackground prepares headers one after the other, for as long as the
// engine lives.
func (e *Engine) prepareInBackground(ctx context.Context, languages []*language.Language) {
	ctx, end, err := e.admit(context.WithoutCancel(ctx))
	if err != nil {
		return
	}
	go func() {
		defer end()
		for _, lang := range languages {
			if err := e.prepareHeader(ctx, lang); err != nil && ctx.Err() == nil {
				e.log.Warn("header cannot be compiled ahead: sources are compiled without", "language", lang.ID, "err", err)
			}
		}
	}()
}

// prepareHeader makes lang's header ready, or waits for who does.
func (e *Engine) prepareHeader(ctx context.Context, lang *language.Language) error {
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

	ready, err := e.loadOrMakeHeader(ctx, lang)
	e.headers.mu.Lock()
	defer e.headers.mu.Unlock()
	h.ready, h.err = ready, err
	close(h.busy)
	h.busy = nil
	return err
}

func (e *Engine) loadOrMakeHeader(ctx context.Context, lang *language.Language) (*readyHeader, error) {
	ctx, core, end, err := e.begin(ctx)
	if err != nil {
		return nil, err
	}
	defer end()
	from := e.clock.Now()
	tools, err := e.toolchain(ctx, core.compile, lang)
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
	e.log.Info("header is compiled ahead", "language", lang.ID, "kept", kept, "took", e.clock.Now().Sub(from))
	return h, nil
}

// makeHeader compiles lang's header into dir, in a box.
func (e *Engine) makeHeader(ctx context.Context, box *lazyBox, lang *language.Language, tools *toolchain, dir string) (*headerManifest, error) {
	tmp, err := e.scratch.newTask()
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(tmp) }()
	parts, err := e.headerParts(ctx, box, lang, tools, tmp)
	if err != nil {
		return nil, err
	}
	source, err := headerAmong(parts, lang.Precompile.Header)
	if err != nil {
		return nil, err
	}
	m := &headerManifest{Version: tools.version, Command: lang.CompileArgv(lang.Precompile.ForHeader(source)...), Env: lang.CompileEnv()}
	if err := m.addParts(parts); err != nil {
		return nil, err
	}
	made, err := e.compileFor(ctx, box, lang, tools.compile, tmp, lang.Precompile.ForHeader(source))
	if err != nil {
		return nil, fmt.Errorf("compile %s: %w", lang.Precompile.Header, err)
	}

	work := filepath.Join(tmp, "made")
	include := filepath.Join(work, includeDir)
	file := filepath.Join(include, lang.Precompile.File)
	if err := errors.Join(makeDirs(tmp, filepath.Dir(file)), os.Rename(made, file), os.Chmod(file, 0o444)); err != nil {
		return nil, err
	}
	if m.SHA256, err = hashFile(file); err != nil {
		return nil, err
	}
	if err := m.write(work); err != nil {
		return nil, err
	}
	if err := e.proveHeader(ctx, box, lang, tools, tmp, file); err != nil {
		return nil, fmt.Errorf("the compiler does not use what it made: %w", err)
	}
	return m, errors.Join(os.RemoveAll(dir), os.Rename(work, dir)) // H2
}

// headerParts asks the compiler what the header is made of, itself included.
func (e *Engine) headerParts(ctx context.Context, box *lazyBox, lang *language.Language, tools *toolchain, tmp string) ([]string, error) {
	list, err := e.compileFor(ctx, box, lang, tools.compile, tmp, lang.Precompile.List)
	if err != nil {
		return nil, fmt.Errorf("list what %s is made of: %w", lang.Precompile.Header, err)
	}
	rule, err := os.ReadFile(list)
	if err != nil {
		return nil, err
	}
	parts, err := partsOfRule(string(rule))
	if err != nil {
		return nil, err
	}
	parts = append(parts, lang.CompileArgv()[0])
	if argv := lang.PrecompileToolsArgv(); argv != nil {
		text, err := e.ask(ctx, box, lang, tools.compile, argv)
		if err != nil {
			return nil, err
		}
		parts = append(parts, strings.Fields(text)...)
	}
	return cleanParts(parts)
}

// compileFor runs the compile step on other words than sources and returns
// what it made. The limits are the language's, but for the size of files.
func (e *Engine) compileFor(ctx context.Context, box *lazyBox, lang *language.Language, mounts []sandbox.Mount, tmp string, words []string) (string, error) {
	limits := lang.Compile.Limits
	limits.FileBytes = max(limits.FileBytes, headerFileBytes)
	limits.DiskBytes = max(limits.DiskBytes, headerDiskBytes)
	dir, err := os.MkdirTemp(tmp, "")
	if err != nil {
		return "", err
	}
	b, err := e.build(ctx, box, lang, limits, mounts, words, dir)
	switch {
	case err != nil:
		return "", err
	case !b.compile.OK || b.compile.Log != "":
		return "", fmt.Errorf("the compiler says: %.1000s", b.compile.Log)
	}
	return b.program, nil
}

// proveHeader compiles a source in a place where the header itself is not fit
// for use, so that only the compiled one makes it succeed.
func (e *Engine) proveHeader(ctx context.Context, box *lazyBox, lang *language.Language, tools *toolchain, tmp, file string) error {
	p := lang.Precompile
	include := filepath.Join(tmp, "proof")
	linked, unfit := filepath.Join(include, p.File), filepath.Join(include, p.Header)
	source := filepath.Join(tmp, lang.Source)
	if err := errors.Join(
		makeDirs(tmp, filepath.Dir(linked)), makeDirs(tmp, filepath.Dir(unfit)), os.Link(file, linked),
		writeFile(unfit, strings.NewReader("#error the compiled header is not used\n"), 0o444),
		writeFile(source, strings.NewReader("#include <"+p.Header+">\nint main() { return 0; }\n"), 0o444),
	); err != nil {
		return err
	}
	inBox := sandbox.SourceDir + "/" + lang.Source
	mounts := append(slices.Clone(tools.compile), sandbox.Mount{Host: source, Box: inBox}, sandbox.Mount{Host: include, Box: precompiledDir})
	_, err := e.compileFor(ctx, box, lang, mounts, tmp, p.ForSources(precompiledDir, inBox))
	return err
}

// makeDirs makes what is missing of dir below base, for boxes to read.
func makeDirs(base, dir string) error {
	rel, err := filepath.Rel(base, dir)
	if err != nil {
		return err
	}
	at := base
	for elem := range strings.SplitSeq(rel, string(filepath.Separator)) {
		at = filepath.Join(at, elem)
		if err := makeDir(at); err != nil && !errors.Is(err, os.ErrExist) {
			return err
		}
	}
	return nil
}

// withHeader are those languages offered that have a header to compile ahead,
// the ones that people get by default first.
func withHeader(languages []*language.Language, offers []Offer) (with []*language.Language) {
	for i, l := range languages {
		if l.Precompile != nil && offers[i].OK {
			with = append(with, l)
		}
	}
	slices.SortStableFunc(with, func(a, b *language.Language) int {
		return min(len(b.DefaultFor), 1) - min(len(a.DefaultFor), 1)
	})
	return with
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
	return slices.ContainsFunc(lang.Precompile.Redo, func(s string) bool { return bytes.Contains([]byte(log), []byte(s)) })
}
