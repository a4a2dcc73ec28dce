package judge

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/internal/judge/checker"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox"
)

// versionCache remembers each language's toolchain. A toolchain does not
// change under a running worker: its self-test would be worth nothing then.
type versionCache struct {
	mu   sync.Mutex
	byID map[string]string
}

func (c *versionCache) get(id string) (string, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	v, ok := c.byID[id]
	return v, ok
}

func (c *versionCache) put(id, version string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.byID == nil {
		c.byID = make(map[string]string)
	}
	c.byID[id] = version
}

// version asks the toolchain for its version, in a box, once.
func (e *Engine) version(ctx context.Context, box *lazyBox, lang *language.Language, mounts []sandbox.Mount) (string, error) {
	if v, ok := e.versions.get(lang.ID); ok {
		return v, nil
	}
	text, err := e.ask(ctx, box, lang, mounts, lang.Version.Argv)
	if err != nil {
		return "", err
	}
	line, _, _ := strings.Cut(text, "\n")
	e.versions.put(lang.ID, line)
	return line, nil
}

// ask runs one of a toolchain's programs and returns what it prints about
// itself, which is at least a word.
func (e *Engine) ask(ctx context.Context, box *lazyBox, lang *language.Language, mounts []sandbox.Mount, argv []string) (string, error) {
	const maxBytes = 4 << 10
	var out syncBuffer
	spec := &sandbox.Spec{
		Argv:   argv,
		Env:    lang.CompileEnv(),
		Mounts: mounts,
		Stdout: &out,
		Stderr: &out, // some write it there
		Limits: sandbox.Limits{
			CPU: 10 * time.Second, Wall: 30 * time.Second, MemoryBytes: lang.Compile.Limits.MemoryBytes,
			StdoutBytes: maxBytes, StderrBytes: maxBytes, FileBytes: 1 << 20, DiskBytes: 16 << 20, DiskInodes: 1024,
			Processes: max(16, lang.Run.Processes), OpenFiles: 256,
		},
		Profile: sandbox.ProfileCompile,
	}
	res, err := box.Run(ctx, spec)
	closeFiles(res)
	if err != nil {
		if f, ok := checker.NotStarted(err); ok {
			return "", faultf(BlameToolchain, f.Err, "%s: %s can not be started", lang.ID, spec.Argv[0])
		}
		return "", asFault(ctx, err, "ask for the version of "+lang.ID)
	}
	text, _ := out.text()
	text = strings.TrimSpace(text)
	if res.Fired != sandbox.LimitNone || res.Signal != 0 || res.ExitCode != 0 || text == "" {
		line, _, _ := strings.Cut(text, "\n")
		return "", faultf(BlameToolchain, nil, "%s: %s does not tell its version (exit code %d, signal %d, limit %q): %.200s",
			lang.ID, strings.Join(spec.Argv, " "), res.ExitCode, res.Signal, res.Fired, line)
	}
	return text, nil
}
