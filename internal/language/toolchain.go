package language

import (
	"fmt"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Placeholders, anywhere in a word of Run.Argv or Run.Env, for runtimes with a
// limit of their own.
const (
	// ArgMemory stands for the run's memory limit in MiB.
	ArgMemory = "{memory_mib}"
	// ArgHeap stands for the part of it that is not the runtime's own: without
	// Factors.MemoryExtraBytes.
	ArgHeap = "{heap_mib}"
)

// PreparedDir is where a language's steps find what its Prepare step left.
const PreparedDir = sandbox.ProgramDir + "/prepared"

// PreparedTar is the file that a Prepare step leaves in its working directory.
const PreparedTar = "prepared.tar"

// DefaultOpenFiles is how many descriptors a program may have open when its
// language does not say.
const DefaultOpenFiles = 64

// Mount is a file or directory of the machine, outside of what every box shows
// anyway, that a language's boxes show read-only under the same name.
type Mount struct {
	// Path may have * in its elements.
	Path string `yaml:"path"`
	// Optional is for what only some systems have: without it, nothing is
	// found at Path, the language is not offered.
	Optional bool `yaml:"optional"`
}

// Prepare is what a toolchain needs done once per machine and version, before
// it compiles anything: a warm cache, a helper compiled. It runs in a box
// without any submission, and leaves PreparedTar, whose files are then shown at
// PreparedDir to every other step of the language but runs.
//
// With Steps it is done in parts, so that it can be interrupted: Argv runs once
// for each, with the step's words appended, finds what the earlier ones left
// below PreparedDir/1, PreparedDir/2 and so on, and leaves what it adds.
type Prepare struct {
	Argv   []string      `yaml:"argv"`
	Steps  [][]string    `yaml:"steps"`
	Env    []string      `yaml:"env"`
	Limits CompileLimits `yaml:"limits"`
}

// PrepareEnv is the whole environment of the prepare step.
func (l *Language) PrepareEnv() []string { return environment(l.Prepare.Env) }

// RunOpenFiles is how many descriptors a program may have open.
func (l *Language) RunOpenFiles() int {
	if l.Run.OpenFiles == 0 {
		return DefaultOpenFiles
	}
	return l.Run.OpenFiles
}

// withMemory fills in the memory limit.
func (l *Language) withMemory(words []string, memoryBytes int64) []string {
	mib := func(bytes int64) string { return strconv.FormatInt(max(bytes>>20, 1), 10) }
	r := strings.NewReplacer(ArgMemory, mib(memoryBytes), ArgHeap, mib(memoryBytes-l.Factors.MemoryExtraBytes))
	for i, w := range words {
		words[i] = r.Replace(w)
	}
	return words
}

// mountRoots are where a language's Mounts may lie: nowhere near user data,
// the work of others or the kernel's file systems.
var mountRoots = []string{"/etc/", "/opt/", "/var/lib/"}

// neverMounted are what a box has of its own, or must not see whatever a file
// says.
var neverMounted = []string{
	"/etc/passwd", "/etc/shadow", "/etc/group", "/etc/gshadow", "/etc/hosts", "/etc/hostname", "/etc/nsswitch.conf",
	"/etc/ssl", "/etc/ssh", "/etc/gavel", "/var/lib/gavel", "/var/lib/gavel-worker", "/var/lib/gavel-dev", "/var/lib/postgresql",
}

var validMount = regexp.MustCompile(`^(/[A-Za-z0-9._+*-]+)+$`)

func (m Mount) problem() string {
	switch {
	case !validMount.MatchString(m.Path) || path.Clean(m.Path) != m.Path:
		return fmt.Sprintf("%q is not a clean absolute path", m.Path)
	case !slices.ContainsFunc(mountRoots, func(root string) bool { return strings.HasPrefix(m.Path, root) }):
		return fmt.Sprintf("%q must lie below one of %s", m.Path, strings.Join(mountRoots, ", "))
	case slices.ContainsFunc(neverMounted, func(p string) bool { return couldShow(m.Path, p) }):
		return fmt.Sprintf("%q could show what a box must not see", m.Path)
	}
	return ""
}

// couldShow reports whether pattern may stand for path, for what it lies in, or
// for something in it.
func couldShow(pattern, p string) bool {
	want, have := strings.Split(p, "/"), strings.Split(pattern, "/")
	for i := range min(len(want), len(have)) {
		if ok, err := path.Match(have[i], want[i]); err != nil || !ok {
			return false
		}
	}
	return true
}

// problems are what is wrong with the limits of a step.
func (l CompileLimits) problems(where string) (errs []error) {
	for name, value := range map[string]int64{
		"cpu_ms": l.CPUMS, "wall_ms": l.WallMS, "memory_bytes": l.MemoryBytes,
		"file_bytes": l.FileBytes, "disk_bytes": l.DiskBytes, "processes": int64(l.Processes),
	} {
		if value <= 0 {
			errs = append(errs, fmt.Errorf("%s.%s must be above 0", where, name))
		}
	}
	if l.WallMS < l.CPUMS {
		errs = append(errs, fmt.Errorf("%s.wall_ms is below cpu_ms", where))
	}
	return errs
}

// toolchainProblems are what is wrong with Mounts, Helpers and Prepare.
func (l *Language) toolchainProblems() (errs []error) {
	for _, m := range l.Mounts {
		if p := m.problem(); p != "" {
			errs = append(errs, fmt.Errorf("mounts: %s", p))
		}
	}
	for name := range l.Helpers {
		if !validFile.MatchString(name) || name == path.Base(PreparedDir) {
			errs = append(errs, fmt.Errorf("helpers: file name %q must match %s and not be %q", name, validFile, path.Base(PreparedDir)))
		}
	}
	if l.Run.OpenFiles < 0 || l.Run.OpenFiles > 4096 {
		errs = append(errs, fmt.Errorf("run.open_files must be 0 (for %d) to 4096", DefaultOpenFiles))
	}
	if l.Prepare == nil {
		return errs
	}
	if len(l.Prepare.Argv) == 0 || !strings.HasPrefix(l.Prepare.Argv[0], "/usr/") {
		errs = append(errs, fmt.Errorf("prepare.argv must start with an absolute path below /usr"))
	}
	for i, words := range l.Prepare.Steps {
		if len(words) == 0 {
			errs = append(errs, fmt.Errorf("prepare.steps: step %d has no words", i+1))
		}
	}
	for _, entry := range l.Prepare.Env {
		if !validEnv.MatchString(entry) {
			errs = append(errs, fmt.Errorf("env entry %q is not NAME=value", entry))
		}
	}
	return append(errs, l.Prepare.Limits.problems("prepare.limits")...)
}
