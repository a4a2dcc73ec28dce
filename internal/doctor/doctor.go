// Package doctor looks at a machine and says what gavel would miss on it, and
// how to fix that. Both programs use it (`gavel doctor`, `gavel-worker
// doctor`), so it depends neither on the box nor on a database driver.
//
// Checks look, and prove where looking does not suffice: a cgroup is writable
// when a child could be made in it, a namespace is available when a program ran
// in it, a compiler works when it compiled something. They leave nothing behind.
package doctor

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

// Status is how a check ended.
type Status string

// The statuses: warn means that gavel works, but worse or less exactly; off is
// something that is not here and need not be, unless somebody wants it.
const (
	OK   Status = "ok"
	Off  Status = "off"
	Warn Status = "warn"
	Fail Status = "fail"
)

// Check is one line of the doctor's report.
type Check struct {
	Name   string `json:"name"`
	Status Status `json:"status"`
	Detail string `json:"detail"`        // what was found
	Fix    string `json:"fix,omitempty"` // what to do; always there unless the status is ok
}

// Options say what the machine is meant to do.
type Options struct {
	// Box: judge here, that is, run the sandbox and the compilers.
	Box bool
	// Database: run the private PostgreSQL here.
	Database bool
	// Postgres says where to look for the server programs.
	Postgres pgbin.Options
	// DataDir is where the program keeps its files; "" skips these checks.
	// It need not exist.
	DataDir string
	// DirFlag is the flag that chooses it, for the cures; "" is --data-dir.
	DirFlag string

	// Boxes opens boxes, weaker ones where need be, has them stop programs at
	// their limits, closes them, and says in words what is weaker. Nil skips it.
	Boxes func() (weaker []string, err error)
	// Degraded: weaker boxes are wanted (--allow-degraded), so what makes them
	// weaker is no failure.
	Degraded bool

	host *host // tests
}

// Run does the checks, in the order in which a person would fix things. With
// Box it takes some seconds, nearly all of it for what the languages' toolchains
// take to compile a small program.
func Run(ctx context.Context, opts Options) []Check {
	h := opts.host
	if h == nil {
		h = realHost()
	}
	dirFlag := cmp.Or(opts.DirFlag, "--data-dir")
	var checks []Check
	if opts.Box {
		checks = append(checks, h.root(), h.kernel())
		checks = append(checks, h.cgroups()...)
		checks = append(checks, h.namespaces(ctx), h.mounts(ctx), h.seccomp())
		if opts.Degraded {
			for i := range checks {
				if c := &checks[i]; c.Status == Fail && (c.Name == "root" || strings.HasPrefix(c.Name, "cgroup")) {
					c.Status = Warn
				}
			}
		}
		if opts.Boxes != nil {
			checks = append(checks, h.boxes(opts, checks))
		}
		checks = append(checks, h.load(), h.swap(), h.hugePages(), h.smt(), h.governor(), h.corePattern())
		checks = append(checks, h.compilers(ctx)...)
		checks = append(checks, h.languages(ctx)...)
	}
	if opts.Database {
		checks = append(checks, h.postgres(ctx, opts.Postgres), h.postgresUser())
	}
	if opts.DataDir != "" {
		checks = append(checks, h.dataDir(opts.DataDir, dirFlag, opts.Database), h.freeDisk(opts.DataDir, dirFlag))
	}
	return append(checks, h.openFiles(opts.Box))
}

// boxes tries the real thing; before are the checks that came first.
func (h *host) boxes(opts Options, before []Check) Check {
	const name = "boxes"
	weaker, err := opts.Boxes()
	switch {
	case err != nil:
		return fail(name, "see the lines above; `gavel-worker run` says the same with a cure", "none can be opened: %v", err)
	case len(weaker) == 0:
		return ok(name, "programs were stopped at their limits")
	}
	noCgroups := slices.ContainsFunc(before, func(c Check) bool { return c.Status != OK && strings.HasPrefix(c.Name, "cgroup") })
	fix := "run as root with writable cgroups"
	switch {
	case h.euid != 0:
	case noCgroups:
		fix = "cure the lines above about cgroups"
	default:
		give := "give the worker what is named there"
		if h.inContainer() {
			give = "give the container the capabilities for what is named there"
		}
		return warn(name, give+"; it starts as it is, and reports this", "weaker than elsewhere: %s", strings.Join(weaker, "; "))
	}
	until := "; until then a worker starts with --allow-degraded only, and reports it"
	if opts.Degraded {
		until = "; until then this is what the worker reports"
	}
	return warn(name, fix+until, "weaker than elsewhere: %s", strings.Join(weaker, "; "))
}

// Worst returns the gravest status: ok of none, and of what is only off.
func Worst(checks []Check) Status {
	worst := OK
	for _, c := range checks {
		if c.Status == Fail || c.Status == Warn && worst == OK {
			worst = c.Status
		}
	}
	return worst
}

// Print writes the report for people, with the cure below each line that
// needs one.
func Print(w io.Writer, checks []Check) error {
	width, count := 0, map[Status]int{}
	for _, c := range checks {
		width = max(width, len(c.Name))
		count[c.Status]++
	}
	var b strings.Builder
	for _, c := range checks {
		fmt.Fprintf(&b, "%-4s  %-*s  %s\n", c.Status, width, c.Name, c.Detail)
		if c.Fix != "" {
			fmt.Fprintf(&b, "%*s  fix: %s\n", 6+width, "", c.Fix)
		}
	}
	off := ""
	if count[Off] > 0 {
		off = fmt.Sprintf(", %d off", count[Off])
	}
	fmt.Fprintf(&b, "%d ok, %d warnings, %d failed%s\n", count[OK], count[Warn], count[Fail], off)
	_, err := io.WriteString(w, b.String())
	return err
}

func ok(name, format string, args ...any) Check {
	return Check{Name: name, Status: OK, Detail: fmt.Sprintf(format, args...)}
}

func warn(name, fix, format string, args ...any) Check {
	return Check{Name: name, Status: Warn, Fix: fix, Detail: fmt.Sprintf(format, args...)}
}

func fail(name, fix, format string, args ...any) Check {
	return Check{Name: name, Status: Fail, Fix: fix, Detail: fmt.Sprintf(format, args...)}
}
