package judge

import (
	"context"
	"errors"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Defaults of a checker's limits, for packages that give none.
const (
	defaultCheckCPU         = 10 * time.Second
	defaultCheckMemoryBytes = 1 << 30
	defaultCheckOutputBytes = 8 << 20
)

// scriptLanguage is the language of programs that bring executables build and
// run instead of sources.
const scriptLanguage = problem.LanguageScript

// packaged is a program of a package to build: its checker, or an input
// validator.
type packaged struct {
	what     string // in messages
	path     string // a source file or the sources' directory, relative to the package
	language string
}

func checkerOf(pkg *problem.Package) packaged {
	c := pkg.Manifest.Checker
	return packaged{what: "checker", path: c.Program, language: c.Language}
}

// maxCachedCheckers bounds the built checkers kept on disk.
const maxCachedCheckers = 64

// builtChecker is a checker ready to run.
type builtChecker struct {
	program   checker.Program
	toolchain string
}

// checkerCache builds each package's checker once: tasks that need one being
// built wait for it.
type checkerCache struct {
	mu    sync.Mutex
	byKey map[string]*checkerEntry
	tick  int64
}

type checkerEntry struct {
	ready chan struct{} // closed when value or err is set
	value *builtChecker
	err   error
	users int
	used  int64 // tick of the last use
	dir   string
}

// checkerFor returns pkg's checker, built, and what to call when it is no
// longer needed. box is used for building, if it comes to that.
func (e *Engine) checkerFor(ctx context.Context, box *lazyBox, pkg *problem.Package) (*builtChecker, func(), error) {
	c := &e.checkers
	for {
		c.mu.Lock()
		entry, found := c.byKey[pkg.Digest]
		if !found {
			entry = &checkerEntry{ready: make(chan struct{}), dir: filepath.Join(e.scratch.checkers(), dirName(pkg.Digest))}
			if c.byKey == nil {
				c.byKey = make(map[string]*checkerEntry)
			}
			c.byKey[pkg.Digest] = entry
		}
		entry.users++
		c.tick++
		entry.used = c.tick
		c.mu.Unlock()

		if !found {
			entry.value, entry.err = e.buildChecker(ctx, box, pkg, entry.dir)
			c.settle(pkg.Digest, entry, e.evict)
		}
		select {
		case <-entry.ready:
		case <-ctx.Done():
			c.release(entry)
			return nil, nil, context.Cause(ctx)
		}
		if entry.err == nil {
			return entry.value, func() { c.release(entry) }, nil
		}
		c.release(entry)
		if found && !permanent(entry.err) {
			continue // the builder was cancelled or its machine failed: try ourselves
		}
		return nil, nil, entry.err
	}
}

// permanent reports whether building again would fail again.
func permanent(err error) bool {
	var f *Fault
	return errors.As(err, &f) && (f.Blame == BlameChecker || f.Blame == BlamePackage)
}

func dirName(digest string) string { return strings.ReplaceAll(digest, ":", "-") }

func (c *checkerCache) release(entry *checkerEntry) {
	c.mu.Lock()
	defer c.mu.Unlock()
	entry.users--
}

// settle publishes the outcome of a build and makes room.
func (c *checkerCache) settle(key string, entry *checkerEntry, evict func(dir string)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if entry.err != nil {
		evict(entry.dir)
		if !permanent(entry.err) {
			delete(c.byKey, key)
		}
	}
	close(entry.ready)
	for len(c.byKey) > maxCachedCheckers {
		oldest := ""
		for k, other := range c.byKey {
			if other.users == 0 && (oldest == "" || other.used < c.byKey[oldest].used) {
				oldest = k
			}
		}
		if oldest == "" {
			return
		}
		evict(c.byKey[oldest].dir)
		delete(c.byKey, oldest)
	}
}

func (e *Engine) evict(dir string) {
	if err := os.RemoveAll(dir); err != nil {
		e.log.Warn("remove built checker", "dir", dir, "err", err)
	}
}

func (e *Engine) buildChecker(ctx context.Context, box *lazyBox, pkg *problem.Package, dir string) (*builtChecker, error) {
	if err := makeDir(dir); err != nil {
		return nil, asFault(ctx, err, "make directory for checker")
	}
	return e.buildPackaged(ctx, box, pkg, checkerOf(pkg), dir)
}

// buildPackaged builds a program of a package below dir. A fault blamed on the
// checker or the package says that the program is at fault.
func (e *Engine) buildPackaged(ctx context.Context, box *lazyBox, pkg *problem.Package, c packaged, dir string) (*builtChecker, error) {
	var b *builtChecker
	var err error
	if c.language == scriptLanguage {
		b, err = e.buildScript(ctx, box, pkg, c, dir)
	} else {
		b, err = e.buildSources(ctx, box, pkg, c, dir)
	}
	if err != nil {
		return nil, err
	}
	l := pkg.Manifest.Limits
	b.program.Limits = checker.ProgramLimits{CPU: defaultCheckCPU, MemoryBytes: defaultCheckMemoryBytes, OutputBytes: defaultCheckOutputBytes}
	if l.ValidationCPUMS > 0 {
		b.program.Limits.CPU = time.Duration(l.ValidationCPUMS) * time.Millisecond
	}
	if l.ValidationMemoryBytes > 0 {
		b.program.Limits.MemoryBytes = l.ValidationMemoryBytes
	}
	if l.ValidationOutputBytes > 0 {
		b.program.Limits.OutputBytes = l.ValidationOutputBytes
	}
	return b, nil
}

// buildSources compiles a program's sources, or checks an interpreter's.
func (e *Engine) buildSources(ctx context.Context, box *lazyBox, pkg *problem.Package, c packaged, dir string) (*builtChecker, error) {
	lang, ok := e.cfg.Languages.Get(c.language)
	if !ok {
		return nil, faultf(BlameChecker, nil, "%s is written in %q, a language this worker does not have", c.what, c.language)
	}
	tools, err := e.toolchain(ctx, box, lang, placeKept)
	if err != nil {
		return nil, err
	}
	root, names := c.sources(pkg, lang)
	if len(names) == 0 {
		return nil, faultf(BlameChecker, nil, "no %s source in the package's directory %q", lang.ID, c.path)
	}
	sources := make([]string, len(names))
	for i, name := range names {
		sources[i] = sandbox.SourceDir + "/" + name
	}
	host := pkg.Path(root)
	b, err := e.build(ctx, box, lang, lang.Compile.Limits, append([]sandbox.Mount{{Host: host, Box: sandbox.SourceDir}}, tools.compile...), sources, dir)
	if err != nil {
		return nil, err
	}
	if b.suspect {
		if err := e.recheck(ctx, box, lang, tools); err != nil {
			return nil, err
		}
	}
	if !b.compile.OK {
		return nil, faultf(BlameChecker, nil, "%s does not compile: %s", c.what, b.compile.Log)
	}
	memory := int64(defaultCheckMemoryBytes)
	if l := pkg.Manifest.Limits; l.ValidationMemoryBytes > 0 {
		memory = l.ValidationMemoryBytes
	}
	program := checker.Program{Env: lang.RunEnv(memory)}
	if lang.Interpreted() {
		entry := entryPoint(names, lang)
		if entry == "" {
			return nil, faultf(BlameChecker, nil, "%s has %d %s files in %q; name the one to start %s", c.what, len(names), lang.ID, c.path, lang.Source)
		}
		program.Argv = lang.RunArgv(entry, memory)
		program.Mounts = append([]sandbox.Mount{{Host: host, Box: sandbox.ProgramDir}}, tools.run...)
	} else {
		program.Argv = lang.RunArgv(lang.ProgramName(), memory)
		program.Mounts = append([]sandbox.Mount{{Host: b.program, Box: sandbox.ProgramDir + "/" + lang.ProgramName()}}, tools.run...)
	}
	return &builtChecker{program: program, toolchain: tools.version}, nil
}

// sources are the program's directory and the sources directly in it, or the
// one file that it is.
func (c packaged) sources(pkg *problem.Package, lang *language.Language) (root string, names []string) {
	for _, f := range pkg.Manifest.Files {
		if f.Path == c.path {
			return path.Dir(c.path), []string{path.Base(c.path)}
		}
		if path.Dir(f.Path) == path.Clean(c.path) && lang.HasExtension(f.Path) {
			names = append(names, path.Base(f.Path))
		}
	}
	slices.Sort(names)
	return c.path, names
}

// entryPoint is the file that an interpreter starts.
func entryPoint(names []string, lang *language.Language) string {
	if len(names) == 1 {
		return names[0]
	}
	for _, name := range []string{lang.Source, "__main__.py"} {
		if slices.Contains(names, name) {
			return name
		}
	}
	return ""
}
