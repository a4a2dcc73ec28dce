package judge

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"os"
	"path/filepath"

	"github.com/gavel-oj/gavel/internal/language"
)

// provenName is the file, in a language's directory, that says what passed its
// self-test last. It outlives the engine, so that a worker that is started
// again offers in a second what it offered before.
const provenName = "proven"

// provenBefore reports whether lang passed its self-test on this machine as it
// is now. It makes the toolchain ready, and asks it for its version, in a box.
func (e *Engine) provenBefore(ctx context.Context, lang *language.Language, p place) bool {
	dir, err := e.scratch.toolchain(lang.ID)
	if err != nil {
		return false
	}
	old, err := os.ReadFile(filepath.Join(dir, provenName))
	if err != nil {
		return false
	}
	ctx, core, end, err := e.begin(ctx, p)
	if err != nil {
		return false
	}
	defer end()
	if _, err := e.toolchain(ctx, core.compile, lang, p); err != nil {
		return false // the self-test says what is wrong
	}
	key, ok := e.provenKey(lang)
	return ok && key == string(old)
}

// remember keeps that lang has passed. That it cannot is no failure: the next
// start tests again.
func (e *Engine) remember(lang *language.Language) {
	key, ok := e.provenKey(lang)
	if !ok {
		return
	}
	dir, err := e.scratch.toolchain(lang.ID)
	if err == nil {
		path := filepath.Join(dir, provenName)
		err = errors.Join(os.WriteFile(path+".new", []byte(key), 0o600), os.Rename(path+".new", path))
	}
	if err != nil {
		e.log.Warn("self-test is not remembered", "language", lang.ID, "err", err)
	}
}

// provenKey identifies all that a self-test's outcome depends on, as far as
// that can change between two starts: the language's file, its toolchain, the
// libraries, this program, the kernel and how boxes are made.
func (e *Engine) provenKey(lang *language.Language) (string, bool) {
	stamp, ok := e.toolchainStamp(lang)
	if !ok {
		return "", false
	}
	text, err := json.Marshal(struct {
		Language  *language.Language
		Toolchain string
		Machine   any
		Program   string
		Runs      int
	}{lang, stamp, e.cfg.Provider.Info(), stampOf("/proc/self/exe", "/etc/ld.so.cache"), selfTestRuns})
	if err != nil {
		return "", false
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:]), true
}
