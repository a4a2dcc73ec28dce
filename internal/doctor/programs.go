package doctor

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

// visible are the folders that a box sees of the machine.
var visible = []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc/alternatives"}

// programTimeout is for a large compiler, or a virtual machine, on a busy machine.
const programTimeout = time.Minute

// compiler is a program that the shipped languages are made of.
type compiler struct {
	name, languages string
	probe           []string // arguments that prove it; the source is standard input
	source          string
	debian          string // package
}

var compilerList = []compiler{
	// -static as the languages compile: the static C library is a package of its own on some distributions.
	{"gcc", "C", []string{"-static", "-x", "c", "-o", "/dev/null", "-"}, "#include <stdio.h>\nint main(void) { return puts(\"\") < 0; }\n", "gcc libc6-dev"},
	{"g++", "C++", []string{"-static", "-x", "c++", "-o", "/dev/null", "-"}, "#include <iostream>\nint main() { std::cout << 1; }\n", "g++"},
	{"python3", "Python", []string{"-I", "-"}, "import math, sys, heapq, collections\n", "python3"},
}

func (h *host) compilers(ctx context.Context) []Check {
	var checks []Check
	for _, c := range compilerList {
		checks = append(checks, h.compiler(ctx, c))
	}
	return checks
}

func (h *host) compiler(ctx context.Context, c compiler) Check {
	path := "/usr/bin/" + c.name
	fix := fmt.Sprintf("install it: apt-get install %s (or your distribution's package); without it submissions in %s are not judged here", c.debian, c.languages)
	if outside := h.leavesBox(path); outside != "" {
		return fail(c.name, fix, "%s is a link to %s, which boxes do not see", path, outside)
	}
	if !h.exists(path) {
		return fail(c.name, fix, "%s is missing (boxes see nothing outside /usr, so another place on PATH does not count)", path)
	}
	ctx, cancel := context.WithTimeout(ctx, programTimeout)
	defer cancel()
	line, err := h.run(ctx, path, "", "--version")
	if err != nil {
		return fail(c.name, fix, "%s does not run: %v", path, err)
	}
	if _, err := h.run(ctx, path, c.source, c.probe...); err != nil {
		return fail(c.name, fix, "%s cannot build a small program: %v", path, err)
	}
	version, _, _ := strings.Cut(line, "\n")
	return ok(c.name, "%s", strings.TrimSpace(version))
}

// leavesBox follows the links of path and returns the first one that leads to
// where a box sees nothing.
func (h *host) leavesBox(path string) string {
	for range 40 { // the kernel's own limit
		target, err := os.Readlink(h.path(path))
		if err != nil {
			return ""
		}
		if !filepath.IsAbs(target) {
			target = filepath.Join(filepath.Dir(path), target)
		}
		path = filepath.Clean(target)
		inside := false
		for _, v := range visible {
			inside = inside || strings.HasPrefix(path, v+"/")
		}
		if !inside {
			return path
		}
	}
	return path
}

func (h *host) run(ctx context.Context, path, stdin string, args ...string) (string, error) {
	return h.runWith(ctx, []string{"PATH=/usr/bin:/bin", "LC_ALL=C"}, path, stdin, args...)
}

func (h *host) runWith(ctx context.Context, env []string, path, stdin string, args ...string) (string, error) {
	return h.runIn(ctx, "/", env, path, stdin, args...)
}

func (h *host) runIn(ctx context.Context, dir string, env []string, path, stdin string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, h.path(path), args...)
	cmd.Dir = dir
	cmd.Env = env
	cmd.Stdin = strings.NewReader(stdin)
	cmd.WaitDelay = time.Second
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Run(); err != nil {
		if text := strings.TrimSpace(out.String()); text != "" {
			return "", errors.New(cause(text))
		}
		return "", bare(err)
	}
	return out.String(), nil
}

// cause is the line that says why a program failed: the first that calls itself
// an error, as compilers write it, else the last.
func cause(text string) string {
	lines := strings.Split(text, "\n")
	at := slices.IndexFunc(lines, func(l string) bool { return strings.Contains(l, "error: ") })
	if at < 0 {
		at = len(lines) - 1
	}
	return strings.TrimSpace(lines[at])
}

func (h *host) postgres(ctx context.Context, opts pgbin.Options) Check {
	found, err := pgbin.Find(ctx, opts)
	if e, isApp := errors.AsType[*apperr.Error](err); isApp {
		return fail("postgres", e.Hint, "%s", e.Message)
	}
	if err != nil {
		return fail("postgres", "try again", "%v", err)
	}
	return ok("postgres", "version %s in %s", found[0].Version, found[0].Dir)
}

// postgresUser: the private server refuses to run as root.
func (h *host) postgresUser() Check {
	if h.euid != 0 {
		return ok("postgres user", "runs as user %d, like gavel", h.euid)
	}
	for _, name := range []string{"postgres", "nobody"} {
		if uid, found := h.lookupUser(name); found && uid != 0 {
			return ok("postgres user", "runs as %s", name)
		}
	}
	return fail("postgres user", "useradd --system postgres, or run gavel as an ordinary user",
		"PostgreSQL refuses to run as root, and there is no user postgres or nobody to run it as")
}

// bare drops the path of a file error where the line names it already.
func bare(err error) error {
	if pe, isPath := errors.AsType[*os.PathError](err); isPath {
		return pe.Err
	}
	return err
}
