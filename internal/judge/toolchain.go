package judge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
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
func (e *Engine) toolchain(ctx context.Context, box *lazyBox, lang *language.Language) (*toolchain, error) {
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
	t, err := e.makeToolchain(ctx, box, lang)
	if err != nil {
		return nil, err
	}
	entry.value = t
	return t, nil
}

func (e *Engine) makeToolchain(ctx context.Context, box *lazyBox, lang *language.Language) (*toolchain, error) {
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
	prepared, err := e.prepared(ctx, box, lang, t, dir)
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

// prepared is the directory with what lang's prepare step left, below dir. One
// that an earlier engine made of the same step and toolchain is taken.
func (e *Engine) prepared(ctx context.Context, box *lazyBox, lang *language.Language, t *toolchain, dir string) (string, error) {
	key, err := prepareKey(lang, t.version)
	if err != nil {
		return "", asFault(ctx, err, "identify the toolchain of "+lang.ID)
	}
	path := filepath.Join(dir, "prepared-"+key)
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
		return path, nil
	}
	// What is left of other versions, and of a step that was interrupted.
	old, err := filepath.Glob(filepath.Join(dir, "prepar*-*"))
	for _, o := range old {
		err = errors.Join(err, os.RemoveAll(o))
	}
	if err != nil {
		return "", asFault(ctx, err, "remove what was prepared for another version of "+lang.ID)
	}
	from := e.clock.Now()
	unfinished := filepath.Join(dir, "preparing-"+key)
	if err := makeDir(unfinished); err != nil {
		return "", asFault(ctx, err, "make a directory for "+lang.ID)
	}
	err = e.prepare(ctx, box, lang, t, unfinished)
	if err == nil {
		// The name says that it is whole.
		err = asFault(ctx, os.Rename(unfinished, path), "keep what was prepared for "+lang.ID)
	}
	if err != nil {
		return "", errors.Join(err, os.RemoveAll(unfinished))
	}
	e.log.Info("toolchain prepared", "language", lang.ID, "took", e.clock.Now().Sub(from))
	return path, nil
}

// prepareKey names all that decides what a prepare step leaves.
func prepareKey(lang *language.Language, version string) (string, error) {
	text, err := json.Marshal(struct {
		Version string
		Prepare *language.Prepare
		Helpers map[string]string
	}{version, lang.Prepare, lang.Helpers})
	if err != nil {
		return "", err
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:12]), nil
}

func (e *Engine) prepare(ctx context.Context, box *lazyBox, lang *language.Language, t *toolchain, dir string) error {
	var log syncBuffer
	limits := lang.Prepare.Limits
	res, err := box.Run(ctx, &sandbox.Spec{
		Argv:    lang.Prepare.Argv,
		Env:     lang.PrepareEnv(),
		Mounts:  t.compile,
		Stdout:  &log,
		Stderr:  &log,
		CopyOut: []sandbox.CopyOut{{Path: language.PreparedTar, MaxBytes: limits.FileBytes}},
		Limits:  compileLimits(limits),
		Profile: sandbox.ProfileCompile,
	})
	defer closeFiles(res)
	if err != nil {
		if f, ok := checker.NotStarted(err); ok {
			return faultf(BlameToolchain, f.Err, "%s: %s can not be started", lang.ID, lang.Prepare.Argv[0])
		}
		return asFault(ctx, err, "prepare "+lang.ID)
	}
	why, err := compileFailure(res, limits)
	if err != nil {
		return err
	}
	text, _ := log.text()
	f := res.Files[language.PreparedTar]
	if why == "" && f.State != sandbox.FileOK {
		why = fmt.Sprintf("%s is %s", language.PreparedTar, strings.ReplaceAll(string(f.State), "_", " "))
	}
	if why != "" {
		return faultf(BlameToolchain, nil, "%s: the prepare step failed after %v: %s", lang.ID, res.CPU.Round(time.Millisecond), joinLog(why, text))
	}
	if err := unpackBuilt(f.Content, dir); err != nil {
		if errors.Is(err, errBadBuilt) {
			return faultf(BlameToolchain, err, "%s: the prepare step left something that can not be kept", lang.ID)
		}
		return asFault(ctx, err, "keep what was prepared for "+lang.ID)
	}
	return nil
}
