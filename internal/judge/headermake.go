package judge

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// What making a header may take at least; nobody waits for it. Everything else
// is limited as any compile.
const (
	headerFileBytes = 512 << 20
	headerDiskBytes = 768 << 20
	headerCPUMS     = 60_000
	headerWallMS    = 300_000
)

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
// what it made. The limits are the language's or larger.
func (e *Engine) compileFor(ctx context.Context, box *lazyBox, lang *language.Language, mounts []sandbox.Mount, tmp string, words []string) (string, error) {
	limits := lang.Compile.Limits
	limits.CPUMS, limits.WallMS = max(limits.CPUMS, headerCPUMS), max(limits.WallMS, headerWallMS)
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
