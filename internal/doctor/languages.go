package doctor

import (
	"context"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"

	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// probesAtOnce bounds the probes: some toolchains take a second to say who they
// are, and more to compile.
const probesAtOnce = 4

// languages says of every language which toolchain is here, or what is missing
// for it. It compiles what the worker's self-test does, but in no box and without
// running it: that a language works, the self-test proves.
func (h *host) languages(ctx context.Context) []Check {
	registry, err := language.Builtin()
	if err != nil {
		return []Check{fail("languages", "build gavel again", "the language files cannot be read: %v", err)}
	}
	all := registry.All()
	checks := make([]Check, len(all))
	slots := make(chan struct{}, probesAtOnce)
	var wg sync.WaitGroup
	for i, l := range all {
		wg.Go(func() {
			slots <- struct{}{}
			defer func() { <-slots }()
			checks[i] = h.language(ctx, l)
		})
	}
	wg.Wait()
	return checks
}

func (h *host) language(ctx context.Context, l *language.Language) Check {
	title := "language " + l.ID
	withheld := func(format string, args ...any) Check {
		c := fail(title, "install its toolchain, if submissions in "+l.Name+" are wanted here (docs/reference/languages.md names packages); "+
			"gavel-worker language test "+l.ID+" proves it", format, args...)
		c.Status = Off
		return c
	}
	for _, m := range l.Mounts {
		if found, err := filepath.Glob(h.path(m.Path)); !m.Optional && (err != nil || len(found) == 0) {
			return withheld("not offered: %s is missing", m.Path)
		}
	}
	steps := [][]string{l.Version.Argv, l.Compile.Argv, l.Run.Argv}
	if l.Prepare != nil {
		steps = append(steps, l.Prepare.Argv)
	}
	for _, argv := range steps {
		if _, missing := h.find(argv, l.CompileEnv()); missing != "" {
			return withheld("not offered: %s", missing)
		}
	}
	argv, _ := h.find(l.Version.Argv, l.CompileEnv())
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	text, err := h.runWith(ctx, append(l.CompileEnv(), "HOME=/nonexistent"), argv[0], "", argv[1:]...)
	switch {
	case ctx.Err() != nil:
		return withheld("not offered: %s did not say its version within %v", argv[0], programTimeout)
	case err != nil:
		return withheld("not offered: %s does not run: %v", argv[0], err)
	}
	switch err := h.compiles(ctx, l); {
	case ctx.Err() != nil:
		return withheld("not offered: its version and its self-test program took longer than %v", programTimeout)
	case err != nil:
		c := withheld("not offered: its self-test program does not compile: %v", err)
		c.Fix = "install its toolchain again, with what it needs (docs/reference/languages.md names packages); gavel-worker language test " + l.ID + " proves it"
		return c
	}
	return ok(title, "%s", language.ShortVersion(argv[0], text))
}

// boxDirs are the names in a command of the folders that a box would have.
var boxDirs = regexp.MustCompile("(" + sandbox.WorkDir + "|" + sandbox.SourceDir + ")(/|$)")

// compiles tries to compile the self-test program, in a temporary folder that it
// removes. A language that first has much to prepare is left to the self-test.
func (h *host) compiles(ctx context.Context, l *language.Language) error {
	if l.Prepare != nil {
		return nil
	}
	dir, err := os.MkdirTemp("", "gavel-doctor-")
	if err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(dir) }()
	for _, sub := range []string{sandbox.WorkDir, sandbox.SourceDir} {
		if err := os.Mkdir(filepath.Join(dir, sub), 0o700); err != nil {
			return err
		}
	}
	source := filepath.Join(sandbox.SourceDir, l.Source)
	if err := os.WriteFile(filepath.Join(dir, source), []byte(l.SelfTest.Source), 0o600); err != nil {
		return err
	}
	here := func(words []string) []string {
		for i, w := range words {
			words[i] = boxDirs.ReplaceAllString(w, dir+"$1$2")
		}
		return words
	}
	argv, _ := h.find(l.CompileArgv(source), l.CompileEnv())
	if len(argv) == 0 {
		return nil // nothing to check
	}
	argv = here(argv)
	_, err = h.runIn(ctx, filepath.Join(dir, sandbox.WorkDir), here(l.CompileEnv()), argv[0], "", argv[1:]...)
	return err
}

// find resolves a command as a box would; missing says what is not there. What
// is no absolute path is the program itself, which is made later.
func (h *host) find(argv, env []string) (command []string, missing string) {
	if len(argv) == 0 || !strings.HasPrefix(argv[0], "/usr/") {
		return argv, ""
	}
	if argv[0] != "/usr/bin/env" || len(argv) < 2 {
		return argv, h.lacks(argv[0])
	}
	var dirs []string
	for _, kv := range env { // the last one wins
		if path, found := strings.CutPrefix(kv, "PATH="); found {
			dirs = filepath.SplitList(path)
		}
	}
	for _, dir := range dirs {
		if at := filepath.Join(dir, argv[1]); h.lacks(at) == "" {
			return append([]string{at}, argv[2:]...), ""
		}
	}
	return nil, argv[1] + " is missing in " + strings.Join(dirs, ", ")
}

func (h *host) lacks(path string) string {
	if outside := h.leavesBox(path); outside != "" {
		return path + " is a link to " + outside + ", which boxes do not see"
	}
	if !h.exists(path) {
		return path + " is missing"
	}
	return ""
}
