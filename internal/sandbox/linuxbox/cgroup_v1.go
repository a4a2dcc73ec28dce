package linuxbox

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
)

// memoryControl is the memory controller in one of its two versions.
type memoryControl interface {
	meter() string
	oomFile() string
	peakFile() string
	peakMode() int // how to open it
	// prepare sets what does not depend on the run.
	prepare(dir string) error
	setLimit(dir string, bytes int64) error
	// resets says whether this controller can make the peak start anew at all.
	resets() bool
	// reset does it. False means that it could not, and that the next run needs
	// a fresh directory.
	reset(g *runGroup) bool
}

// memoryV1 is the controller of cgroup v1. Threads may be in it one by one,
// which is how the forker enters without waiting for a grace period.
type memoryV1 struct{}

func (memoryV1) meter() string   { return "cgroup1" }
func (memoryV1) oomFile() string { return "memory.oom_control" }

func (memoryV1) peakFile() string { return "memory.max_usage_in_bytes" }
func (memoryV1) peakMode() int    { return os.O_RDWR }

func (memoryV1) prepare(string) error { return nil }

func (memoryV1) setLimit(dir string, bytes int64) error {
	value := strconv.FormatInt(bytes, 10)
	plain, withSwap := filepath.Join(dir, "memory.limit_in_bytes"), filepath.Join(dir, "memory.memsw.limit_in_bytes")
	// The kernel insists on limit <= memsw at all times: which of the two has
	// to go first depends on the direction, so try both orders. Swap limits
	// are missing when swap accounting is off.
	swapErr := writeFile(withSwap, value)
	if err := writeFile(plain, value); err != nil {
		return err
	}
	if swapErr != nil && !errors.Is(swapErr, fs.ErrNotExist) {
		return writeFile(withSwap, value)
	}
	return nil
}

func (memoryV1) resets() bool { return true }

func (memoryV1) reset(g *runGroup) bool {
	// The new peak starts from what is charged now. What earlier runs left
	// (page cache of a runtime's files) would be part of it. Dropping that
	// would make the next run read it from disk again; a new directory leaves
	// it cached, charged to the old. Up to 1.2 MiB is only what the kernel
	// frees late after a quick series of runs.
	const tolerated = 2 << 20
	if err := g.peak.reset(); err != nil {
		return false
	}
	now, err := g.peak.int()
	return err == nil && now <= tolerated
}

// writeFile writes a control file in one call; it never creates one.
func writeFile(path, value string) error {
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(value)
	return errors.Join(err, f.Close())
}
