package linuxbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// minMemoryBytes is what the kernel needs to start any program at all.
const minMemoryBytes = 1 << 20

// checkSpec refuses what would be a caller's mistake. Its errors are no
// faults: another machine would say the same. It returns what the mounts are.
func checkSpec(s *sandbox.Spec) (mounts []mountID, err error) {
	if err := checkArgs(s); err != nil {
		return nil, err
	}
	if err := checkLimits(&s.Limits); err != nil {
		return nil, err
	}
	if err := checkPaths(s); err != nil {
		return nil, err
	}
	for _, m := range s.Mounts {
		id, err := checkMount(m)
		if err != nil {
			return nil, err
		}
		mounts = append(mounts, id)
	}
	return mounts, nil
}

func checkPaths(s *sandbox.Spec) error {
	for _, d := range s.Dirs {
		if !filepath.IsLocal(d) || strings.ContainsRune(d, 0) {
			return fmt.Errorf("spec: directory %q is not a path below %s", d, sandbox.WorkDir)
		}
	}
	seen := map[string]bool{}
	for _, c := range s.CopyOut {
		switch {
		case !filepath.IsLocal(c.Path) || strings.ContainsRune(c.Path, 0):
			return fmt.Errorf("spec: copy-out %q is not a path below %s", c.Path, sandbox.WorkDir)
		case c.MaxBytes <= 0:
			return fmt.Errorf("spec: copy-out %q without a size limit", c.Path)
		case seen[c.Path]:
			return fmt.Errorf("spec: copy-out %q twice", c.Path)
		}
		seen[c.Path] = true
	}
	if len(s.CopyOut) > maxFDs/2 || len(s.Mounts) > maxFDs/2 {
		return fmt.Errorf("spec: %d mounts and %d copy-outs, at most %d each", len(s.Mounts), len(s.CopyOut), maxFDs/2)
	}
	return nil
}

func checkArgs(s *sandbox.Spec) error {
	switch {
	case len(s.Argv) == 0:
		return errors.New("spec: no program")
	case !path.IsAbs(s.Argv[0]):
		return fmt.Errorf("spec: program %q is not an absolute path", s.Argv[0])
	case !slices.Contains([]sandbox.Profile{sandbox.ProfileRun, sandbox.ProfileCompile, sandbox.ProfileChecker}, s.Profile):
		return fmt.Errorf("spec: unknown profile %q", s.Profile)
	}
	for _, a := range slices.Concat(s.Argv, s.Env) {
		if strings.ContainsRune(a, 0) {
			return errors.New("spec: NUL byte in an argument or the environment")
		}
	}
	for _, e := range s.Env {
		if !strings.Contains(e, "=") {
			return fmt.Errorf("spec: environment entry %q without =", e)
		}
	}
	return nil
}

func checkLimits(l *sandbox.Limits) error {
	for _, f := range []struct {
		name  string
		value int64
	}{
		{"CPU", int64(l.CPU)},
		{"Wall", int64(l.Wall)},
		{"MemoryBytes", l.MemoryBytes},
		{"StdoutBytes", l.StdoutBytes},
		{"StderrBytes", l.StderrBytes},
		{"FileBytes", l.FileBytes},
		{"DiskBytes", l.DiskBytes},
		{"DiskInodes", l.DiskInodes},
		{"Processes", int64(l.Processes)},
		{"OpenFiles", int64(l.OpenFiles)},
	} {
		if f.value <= 0 {
			return fmt.Errorf("spec: limit %s is %d, a run without a limit is refused", f.name, f.value)
		}
	}
	if l.Asleep < 0 {
		return fmt.Errorf("spec: limit Asleep is %v", l.Asleep)
	}
	if l.StackBytes < 0 {
		return fmt.Errorf("spec: limit StackBytes is %d", l.StackBytes)
	}
	if l.MemoryBytes < minMemoryBytes {
		return fmt.Errorf("spec: limit MemoryBytes is %d, no program starts with less than %d", l.MemoryBytes, minMemoryBytes)
	}
	return nil
}

// mountDirs are where mounts may go: at them or below.
var mountDirs = []string{sandbox.ProgramDir, sandbox.SourceDir, sandbox.DataDir}

// systemDirs are where parts of the machine may be shown under their own name,
// for languages that need more than /usr.
var systemDirs = []string{"/etc/", "/opt/", "/var/lib/"}

func checkMount(m sandbox.Mount) (id mountID, err error) {
	allowed := slices.ContainsFunc(mountDirs, func(d string) bool { return m.Box == d || strings.HasPrefix(m.Box, d+"/") }) ||
		m.Host == m.Box && slices.ContainsFunc(systemDirs, func(d string) bool { return strings.HasPrefix(m.Box, d) })
	if !allowed || path.Clean(m.Box) != m.Box || strings.ContainsRune(m.Box, 0) {
		return id, fmt.Errorf("spec: mount at %q, want a clean path at or below one of %s, or its own name below %s",
			m.Box, strings.Join(mountDirs, ", "), strings.Join(systemDirs, ", "))
	}
	if !filepath.IsAbs(m.Host) {
		return id, fmt.Errorf("spec: mount of %q is not an absolute path", m.Host)
	}
	var st unix.Stat_t
	if err := unix.Stat(m.Host, &st); err != nil {
		return id, fmt.Errorf("spec: mount: %w", &os.PathError{Op: "stat", Path: m.Host, Err: err})
	}
	need := uint32(0o004)
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFDIR:
		need = 0o005
	case unix.S_IFREG:
	default:
		return id, fmt.Errorf("spec: mount of %s: neither a file nor a directory", m.Host)
	}
	if st.Mode&need != need {
		return id, fmt.Errorf("spec: mount of %s: mode %v keeps the box's user out, chmod o+rX it", m.Host, fs.FileMode(st.Mode&0o777))
	}
	return mountID{m.Box, st.Dev, st.Ino}, nil
}
