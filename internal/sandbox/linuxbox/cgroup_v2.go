package linuxbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// memoryV2 is the controller of cgroup v2. Its peak cannot be reset before
// Linux 6.12, so every run gets a fresh leaf.
type memoryV2 struct{}

func (memoryV2) meter() string   { return "cgroup2" }
func (memoryV2) oomFile() string { return "memory.events" }

func (memoryV2) peakFile() string { return "memory.peak" }
func (memoryV2) peakMode() int    { return os.O_RDONLY }

func (memoryV2) prepare(dir string) error {
	// An out-of-memory kill of one process ends them all: the program is over
	// its limit as a whole.
	if err := writeFile(filepath.Join(dir, "memory.oom.group"), "1"); err != nil {
		return err
	}
	// Missing without swap support, and then not needed.
	if err := writeFile(filepath.Join(dir, "memory.swap.max"), "0"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

func (memoryV2) setLimit(dir string, bytes int64) error {
	return writeFile(filepath.Join(dir, "memory.max"), strconv.FormatInt(bytes, 10))
}

func (memoryV2) resets() bool { return false }

func (memoryV2) reset(*runGroup) bool { return false }

// enableV2 makes the wanted controllers usable for children of dir. A cgroup
// with processes cannot have such children (but for the root of the real
// hierarchy), so those in dir are moved to a leaf of their own.
func enableV2(dir string, controllers []string) error {
	if len(controllers) == 0 {
		return nil
	}
	err := enableControllers(dir, controllers)
	if errors.Is(err, unix.EBUSY) {
		if err := moveAside(dir); err != nil {
			return cgroupFault(dir, fmt.Errorf("move the worker's processes to a leaf: %w", err))
		}
		err = enableControllers(dir, controllers)
	}
	if err != nil {
		return cgroupFault(dir, fmt.Errorf("enable controllers for children of %s: %w", dir, err))
	}
	return nil
}

func enableControllers(dir string, controllers []string) error {
	return writeFile(filepath.Join(dir, "cgroup.subtree_control"), "+"+strings.Join(controllers, " +"))
}

// moveAside moves every process of dir to its leaf, until none is left:
// processes may be forking meanwhile.
func moveAside(dir string) error {
	leaf := filepath.Join(dir, workerLeaf)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return moveProcesses(dir, leaf)
}

// moveBack undoes moveAside when the last provider here closes: with other
// directories than the leaf left, the kernel refuses, and that is fine.
func moveBack(dir string, controllers []string) error {
	leaf := filepath.Join(dir, workerLeaf)
	others, err := filepath.Glob(filepath.Join(dir, ownerPrefix+"*"))
	if err != nil || len(others) > 0 || len(controllers) == 0 {
		return err
	}
	if _, err := os.Stat(leaf); err != nil {
		return nil //nolint:nilerr // nothing was moved
	}
	if err := writeFile(filepath.Join(dir, "cgroup.subtree_control"), "-"+strings.Join(controllers, " -")); err != nil {
		return nil //nolint:nilerr // somebody else's children use them
	}
	if err := moveProcesses(leaf, dir); err != nil {
		return err
	}
	return unix.Rmdir(leaf)
}

func moveProcesses(from, to string) error {
	for range 100 {
		b, err := os.ReadFile(filepath.Join(from, "cgroup.procs"))
		if err != nil {
			return err
		}
		pids := strings.Fields(string(b))
		if len(pids) == 0 {
			return nil
		}
		for _, pid := range pids {
			err := writeFile(filepath.Join(to, "cgroup.procs"), pid)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				return fmt.Errorf("process %s: %w", pid, err)
			}
		}
	}
	return errors.New("processes keep appearing in " + from)
}

func cgroupFault(dir string, err error) error {
	hint := ""
	switch {
	case errors.Is(err, fs.ErrPermission):
		hint = "the worker must run as root, or own " + dir
	case errors.Is(err, unix.EROFS):
		hint = dir + " is read-only: in Docker add --security-opt writable-cgroups=true (28 or newer) or --privileged"
	}
	return &sandbox.Fault{Op: "cgroup", Hint: hint, Err: err}
}
