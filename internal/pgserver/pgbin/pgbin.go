// Package pgbin finds the PostgreSQL server programs of this machine. It is a
// package of its own, without a database driver, because the worker's doctor
// asks the same question and must not link one.
package pgbin

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// MinMajor is the oldest PostgreSQL that gavel runs on: the oldest one that
// still gets fixes.
const MinMajor = 14

// Install is one set of server programs.
type Install struct {
	Dir     string // the directory that holds initdb and postgres
	Major   int    // 15
	Version string // "15.18"
}

// Path returns the full path of one of the programs.
func (i Install) Path(program string) string { return filepath.Join(i.Dir, program) }

// Options say where to look. The zero value looks where the distributions put
// the server.
type Options struct {
	// Dirs are the directories to look at; nil means PATH and DefaultPatterns.
	Dirs []string
	// OSRelease is the file that names the distribution, for the hint.
	// "" means /etc/os-release.
	OSRelease string
}

// DefaultPatterns are the versioned folders of the distributions, which keep
// the server programs off PATH: Debian, the PostgreSQL project's RPMs, Alpine.
var DefaultPatterns = []string{
	"/usr/lib/postgresql/*/bin",
	"/usr/pgsql-*/bin",
	"/usr/libexec/postgresql*",
}

// Find returns the usable installations, newest first. When there is none the
// error is an *apperr.Error whose hint names the package to install.
func Find(ctx context.Context, opts Options) ([]Install, error) {
	var found []Install
	var rejected []string
	seen := map[string]bool{}
	for _, dir := range candidates(opts) {
		in, err := inspect(ctx, dir)
		switch {
		case errors.Is(err, os.ErrNotExist):
			continue
		case err != nil:
			rejected = append(rejected, err.Error())
			continue
		case seen[in.Dir]:
			continue
		}
		seen[in.Dir] = true
		if in.Major < MinMajor {
			rejected = append(rejected, fmt.Sprintf("%s is PostgreSQL %s, older than %d", in.Dir, in.Version, MinMajor))
			continue
		}
		found = append(found, in)
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("find PostgreSQL: %w", err)
	}
	if len(found) == 0 {
		return nil, missing(opts, rejected)
	}
	slices.SortStableFunc(found, func(a, b Install) int {
		return cmp.Or(cmp.Compare(b.Major, a.Major), cmp.Compare(minor(b.Version), minor(a.Version)))
	})
	return found, nil
}

func candidates(opts Options) []string {
	if opts.Dirs != nil {
		return opts.Dirs
	}
	var dirs []string
	if p, err := exec.LookPath("postgres"); err == nil {
		dirs = append(dirs, filepath.Dir(p))
	}
	for _, pattern := range DefaultPatterns {
		m, _ := filepath.Glob(pattern) // the only error is a bad pattern, and these are constants
		dirs = append(dirs, m...)
	}
	return dirs
}

var versionLine = regexp.MustCompile(`^postgres \(PostgreSQL\) (\d+)(\S*)`)

// inspect asks the programs in dir for their version. Symbolic links are
// followed first: distributions link single programs onto PATH, and initdb
// looks for postgres beside its real self.
func inspect(ctx context.Context, dir string) (Install, error) {
	server, err := filepath.EvalSymlinks(filepath.Join(dir, "postgres"))
	if err != nil {
		return Install{}, fmt.Errorf("%s: %w", dir, err)
	}
	dir = filepath.Dir(server)
	if fi, err := os.Stat(filepath.Join(dir, "initdb")); err != nil || fi.Mode()&0o111 == 0 {
		return Install{}, fmt.Errorf("%s has postgres but no executable initdb", dir)
	}
	cmd := exec.CommandContext(ctx, server, "--version")
	cmd.Env = []string{"LC_ALL=C"}
	out, err := cmd.Output()
	if err != nil {
		return Install{}, fmt.Errorf("%s does not run: %w", server, err)
	}
	m := versionLine.FindSubmatch(bytes.TrimSpace(out))
	if m == nil {
		return Install{}, fmt.Errorf("%s does not say its version", server)
	}
	major, err := strconv.Atoi(string(m[1]))
	if err != nil {
		return Install{}, fmt.Errorf("%s says an impossible version", server)
	}
	return Install{Dir: dir, Major: major, Version: string(m[1]) + string(m[2])}, nil
}

// minor returns the number behind the first dot: 18 of "15.18", 0 of "17beta2".
func minor(version string) int {
	_, rest, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(rest)
	return n
}

func missing(opts Options, rejected []string) error {
	msg := "no PostgreSQL server programs (postgres, initdb) found on PATH or in " + strings.Join(DefaultPatterns, ", ")
	if opts.Dirs != nil {
		msg = "no PostgreSQL server programs (postgres, initdb) found in " + strings.Join(opts.Dirs, ", ")
	}
	if len(rejected) > 0 {
		msg = "no usable PostgreSQL server programs: " + strings.Join(rejected, "; ")
	}
	return &apperr.Error{
		Code:    apperr.Unavailable,
		Message: msg,
		Hint: fmt.Sprintf("install the server, version %d or newer: %s; or use a server that runs: gavel serve --database-url",
			MinMajor, InstallCommand(opts.OSRelease)),
	}
}

// InstallCommand says how the distribution described by the os-release file
// installs the server ("" means /etc/os-release).
func InstallCommand(osRelease string) string {
	return installCommand(cmp.Or(osRelease, "/etc/os-release"), "")
}

// InstallCommandFor says how the same distribution installs one major version.
func InstallCommandFor(osRelease string, major int) string {
	return installCommand(cmp.Or(osRelease, "/etc/os-release"), strconv.Itoa(major))
}

func installCommand(osRelease, major string) string {
	text, _ := os.ReadFile(osRelease) // unknown distribution: the general advice below
	var family []string
	for line := range strings.Lines(string(text)) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), "=")
		if key == "ID" || key == "ID_LIKE" {
			family = append(family, strings.Fields(strings.Trim(value, `"'`))...)
		}
	}
	is := func(names ...string) bool {
		return slices.ContainsFunc(names, func(n string) bool { return slices.Contains(family, n) })
	}
	dashed := func(name string) string {
		if major == "" {
			return name
		}
		return name + "-" + major
	}
	switch {
	case is("debian", "ubuntu"):
		return "apt-get install " + dashed("postgresql")
	case is("fedora", "rhel", "centos"):
		if major != "" {
			return "dnf install postgresql" + major + "-server"
		}
		return "dnf install postgresql-server"
	case is("alpine"):
		return "apk add postgresql" + major
	case is("arch"):
		return "pacman -S postgresql"
	case is("suse", "opensuse"):
		return "zypper install postgresql" + major + "-server"
	}
	return "the package is called postgresql or postgresql-server"
}
