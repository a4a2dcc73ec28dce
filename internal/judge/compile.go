package judge

import (
	"context"
	"path/filepath"
	"slices"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// compileSource compiles a contestant's source, or takes it from the cache.
// mounts and inBox are for build; files is all that they show.
func (e *Engine) compileSource(ctx context.Context, box *lazyBox, lang *language.Language, limits language.CompileLimits,
	files []sourceFile, mounts []sandbox.Mount, inBox []string, dir string,
) (built, error) {
	toolchain, ok := e.toolchainStamp(lang)
	if e.compiled == nil || !ok {
		return e.buildSource(ctx, box, lang, limits, files, mounts, inBox, dir)
	}
	key, err := compileKey(lang, toolchain, limits, files)
	if err != nil {
		return built{}, asFault(ctx, err, "identify compile")
	}
	hit, leave, err := e.compiled.enter(ctx, key)
	if err != nil {
		return built{}, err
	}
	defer leave()
	if hit != nil {
		b := built{compile: hit.compile}
		b.compile.Cached = true
		if hit.file == "" {
			return b, nil
		}
		b.program = filepath.Join(dir, lang.Compile.Program)
		if err = e.compiled.restore(hit, b.program); err == nil {
			return b, nil
		}
		e.log.Warn("program in the compile cache is not usable: compiled again", "language", lang.ID, "err", err)
	}
	b, err := e.buildSource(ctx, box, lang, limits, files, mounts, inBox, dir)
	if err == nil && b.compile.OK {
		if err := e.compiled.keep(key, b); err != nil {
			e.log.Warn("keep program in the compile cache", "language", lang.ID, "err", err)
		}
	}
	return b, err
}

// buildSource compiles, with the language's compiled header where that makes
// no difference but to the time.
//
// Only a clean success counts; after anything else the source is compiled
// without, under its full limits, and that is the outcome. So that both
// together stay within bounds, the first has half of the limits.
func (e *Engine) buildSource(ctx context.Context, box *lazyBox, lang *language.Language, limits language.CompileLimits,
	files []sourceFile, mounts []sandbox.Mount, inBox []string, dir string,
) (built, error) {
	if lang.Precompile == nil || !usesHeader(lang, files) {
		return e.build(ctx, box, lang, limits, mounts, inBox, dir)
	}
	h := e.header(ctx, lang)
	if h == nil {
		why := e.headerLacks(lang)
		b, err := e.build(ctx, box, lang, limits, mounts, inBox, dir)
		b.compile.Header = why
		return b, err
	}
	half := limits
	half.CPUMS, half.WallMS = max(1, limits.CPUMS/2), max(1, limits.WallMS/2)
	with := append(slices.Clone(mounts), sandbox.Mount{Host: h.include, Box: precompiledDir})
	b, err := e.build(ctx, box, lang, half, with, lang.Precompile.ForSources(precompiledDir, inBox...), dir)
	if err == nil && b.compile.OK && !mustRedo(lang, b.compile.Log) {
		b.compile.Precompiled = true
		return b, nil
	}
	if err == nil && b.compile.Fired == sandbox.LimitAsleep {
		return b, nil // it would wait again, and longer
	}
	if ctx.Err() != nil {
		return built{}, asFault(ctx, err, "compile")
	}
	// A fault of the machine will meet the second one as well.
	if err := removeIfThere(filepath.Join(dir, lang.Compile.Program)); err != nil {
		return built{}, asFault(ctx, err, "remove program")
	}
	b, err = e.build(ctx, box, lang, limits, mounts, inBox, dir)
	b.compile.Header = "redone"
	return b, err
}
