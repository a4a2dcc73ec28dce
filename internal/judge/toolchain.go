package judge

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// toolchain is what a language's steps see beside the files that they are for.
type toolchain struct {
	version string
	run     []sandbox.Mount // of the machine, for every step
	compile []sandbox.Mount // the same, the helpers, and what was prepared
}

// toolchainCache makes each language's toolchain once: tasks that need one
// being made wait for it. Failures are not kept.
type toolchainCache struct {
	mu   sync.Mutex
	byID map[string]*toolchainEntry
}

type toolchainEntry struct {
	making chan struct{} // of capacity 1: held while value is made or read
	value  *toolchain
}

func (c *toolchainCache) entry(id string) *toolchainEntry {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = make(map[string]*toolchainEntry)
	}
	if c.byID[id] == nil {
		c.byID[id] = &toolchainEntry{making: make(chan struct{}, 1)}
	}
	return c.byID[id]
}

// toolchain is lang's, made in box if it comes to that.
func (e *Engine) toolchain(ctx context.Context, box *lazyBox, lang *language.Language, p place) (*toolchain, error) {
	entry := e.toolchains.entry(lang.ID)
	select {
	case entry.making <- struct{}{}:
		defer func() { <-entry.making }()
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	if entry.value != nil {
		return entry.value, nil
	}
	t, err := e.makeToolchain(ctx, box, lang, p)
	if err != nil {
		return nil, err
	}
	entry.value = t
	return t, nil
}

func (e *Engine) makeToolchain(ctx context.Context, box *lazyBox, lang *language.Language, p place) (*toolchain, error) {
	mounts, err := languageMounts(lang)
	if err != nil {
		return nil, err
	}
	t := &toolchain{run: mounts}
	if t.version, err = e.version(ctx, box, lang, t.run); err != nil {
		return nil, err
	}
	t.compile = append(t.compile, mounts...)
	if len(lang.Helpers) == 0 && lang.Prepare == nil {
		return t, nil
	}
	dir, err := e.scratch.toolchain(lang.ID)
	if err != nil {
		return nil, asFault(ctx, err, "make a directory for "+lang.ID)
	}
	helpers, err := writeHelpers(lang, filepath.Join(dir, "helpers"))
	if err != nil {
		return nil, asFault(ctx, err, "write helpers of "+lang.ID)
	}
	t.compile = append(t.compile, helpers...)
	if lang.Prepare == nil {
		return t, nil
	}
	prepared, err := e.prepared(ctx, box, lang, t, dir, p)
	if err != nil {
		return nil, err
	}
	t.compile = append(t.compile, sandbox.Mount{Host: prepared, Box: language.PreparedDir})
	return t, nil
}

// languageMounts finds on this machine what lang wants shown.
func languageMounts(lang *language.Language) (mounts []sandbox.Mount, err error) {
	for _, m := range lang.Mounts {
		found, err := filepath.Glob(m.Path)
		if err != nil {
			return nil, faultf(BlameToolchain, err, "%s: look for %s", lang.ID, m.Path)
		}
		if len(found) == 0 && !m.Optional {
			return nil, faultf(BlameToolchain, nil, "%s needs %s, which this machine does not have", lang.ID, m.Path)
		}
		for _, path := range found {
			mounts = append(mounts, sandbox.Mount{Host: path, Box: path})
		}
	}
	return mounts, nil
}

func writeHelpers(lang *language.Language, dir string) (mounts []sandbox.Mount, err error) {
	if err := errors.Join(os.RemoveAll(dir), makeDir(dir)); err != nil {
		return nil, err
	}
	for name, text := range lang.Helpers {
		path := filepath.Join(dir, name)
		if err := writeFile(path, strings.NewReader(text), 0o444); err != nil {
			return nil, err
		}
		mounts = append(mounts, sandbox.Mount{Host: path, Box: sandbox.ProgramDir + "/" + name})
	}
	return mounts, nil
}
