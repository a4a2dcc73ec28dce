package judge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// prepared is the directory with what lang's prepare step left, below dir. One
// that an earlier engine made of the same step and toolchain is taken.
//
// Each step's result is kept as soon as it is whole, so that work that gives
// way, or a worker that is stopped, goes on from there.
func (e *Engine) prepared(ctx context.Context, box *lazyBox, lang *language.Language, t *toolchain, dir string, p place) (string, error) {
	key, err := prepareKey(lang, t.version)
	if err != nil {
		return "", asFault(ctx, err, "identify the toolchain of "+lang.ID)
	}
	path, unfinished := filepath.Join(dir, "prepared-"+key), filepath.Join(dir, "preparing-"+key)
	if fi, err := os.Lstat(path); err == nil && fi.IsDir() {
		if err := os.RemoveAll(unfinished); err != nil { // of a worker that was stopped in between
			e.log.Warn("remove steps that are joined already", "language", lang.ID, "err", err)
		}
		return path, nil
	}
	// What is left of other versions.
	old, err := filepath.Glob(filepath.Join(dir, "prepar*-*"))
	for _, o := range old {
		if o != unfinished {
			err = errors.Join(err, os.RemoveAll(o))
		}
	}
	if err != nil {
		return "", asFault(ctx, err, "remove what was prepared for another version of "+lang.ID)
	}
	from := e.clock.Now()
	if err := makeDir(unfinished); err != nil && !errors.Is(err, fs.ErrExist) {
		return "", asFault(ctx, err, "make a directory for "+lang.ID)
	}
	steps, err := e.prepareSteps(ctx, box, lang, t, unfinished, p)
	if err == nil {
		err = asFault(ctx, joinSteps(steps, filepath.Join(unfinished, "whole"), path), "keep what was prepared for "+lang.ID)
	}
	if ctx.Err() == nil && !errors.Is(err, errGaveWay) {
		err = errors.Join(err, os.RemoveAll(unfinished))
	}
	if err != nil {
		return "", err
	}
	e.log.Info("toolchain prepared", "language", lang.ID, "ms", e.clock.Now().Sub(from).Milliseconds())
	return path, nil
}

// prepareSteps runs those steps that are missing below dir, and returns the
// directories of all.
func (e *Engine) prepareSteps(ctx context.Context, box *lazyBox, lang *language.Language, t *toolchain, dir string, p place) (done []string, err error) {
	steps := lang.Prepare.Steps
	if len(steps) == 0 {
		steps = [][]string{nil}
	}
	mounts := slices.Clone(t.compile)
	for i, words := range steps {
		name := strconv.Itoa(i + 1)
		step, unfinished := filepath.Join(dir, name), filepath.Join(dir, name+".new")
		if fi, err := os.Lstat(step); err != nil || !fi.IsDir() {
			if i > 0 {
				if err := e.between(p); err != nil {
					return nil, err
				}
			}
			if err := errors.Join(os.RemoveAll(unfinished), makeDir(unfinished)); err != nil {
				return nil, asFault(ctx, err, "make a directory for "+lang.ID)
			}
			if err := e.prepareStep(ctx, box, lang, words, mounts, unfinished); err != nil {
				return nil, err
			}
			// The name says that it is whole.
			if err := os.Rename(unfinished, step); err != nil {
				return nil, asFault(ctx, err, "keep what was prepared for "+lang.ID)
			}
			e.log.Debug("toolchain is prepared in part", "language", lang.ID, "step", i+1, "of", len(steps))
		}
		mounts = append(mounts, sandbox.Mount{Host: step, Box: language.PreparedDir + "/" + name})
		done = append(done, step)
	}
	return done, nil
}

// joinSteps makes one directory of those of the steps, first under another
// name. Of two files of a name the earlier one counts.
func joinSteps(steps []string, unfinished, path string) error {
	if len(steps) == 1 {
		return os.Rename(steps[0], path)
	}
	if err := errors.Join(os.RemoveAll(unfinished), makeDir(unfinished)); err != nil {
		return err
	}
	for _, step := range steps {
		err := filepath.WalkDir(step, func(from string, d fs.DirEntry, err error) error {
			if err != nil || from == step {
				return err
			}
			rel, err := filepath.Rel(step, from)
			if err != nil {
				return err
			}
			to := filepath.Join(unfinished, rel)
			if d.IsDir() {
				err = makeDir(to)
			} else {
				err = os.Link(from, to)
			}
			if errors.Is(err, fs.ErrExist) {
				return nil
			}
			return err
		})
		if err != nil {
			return err
		}
	}
	return os.Rename(unfinished, path)
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

// prepareStep runs one step in a box, where what earlier ones left is mounted,
// and unpacks what it leaves to dir.
func (e *Engine) prepareStep(ctx context.Context, box *lazyBox, lang *language.Language, words []string, mounts []sandbox.Mount, dir string) error {
	var log syncBuffer
	limits := lang.Prepare.Limits
	res, err := box.Run(ctx, &sandbox.Spec{
		Argv:    append(slices.Clone(lang.Prepare.Argv), words...),
		Env:     lang.PrepareEnv(),
		Mounts:  mounts,
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
