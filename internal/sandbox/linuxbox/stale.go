package linuxbox

import (
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/clock"
)

// ownerPrefix starts the name of each provider's directory.
const ownerPrefix = "gavel-boxes-"

var ownerSerial atomic.Int64

// claim makes the provider's directory in a tree and locks it. The lock, not
// the process id in the name, says whether the owner lives: it goes with the
// process however it ends, and means the same in every pid namespace.
func (t *tree) claim() error {
	for range 10 {
		dir := filepath.Join(t.base, fmt.Sprintf("%s%d-%d", ownerPrefix, os.Getpid(), ownerSerial.Add(1)))
		if err := os.Mkdir(dir, 0o755); err != nil {
			if errors.Is(err, os.ErrExist) {
				continue // a dead namesake's, removed by removeStale
			}
			return err
		}
		lock, err := lockDir(dir)
		if err == nil {
			t.dir, t.lock = dir, lock
			return nil
		}
		// Another worker's cleaning took it before we held the lock: again.
	}
	return errors.New("no directory of our own could be made and locked")
}

// lockDir locks a directory that still exists afterwards.
func lockDir(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		f.Close()
		return nil, err
	}
	if _, err := os.Stat(dir); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// lockBase keeps providers that share a parent from opening and closing at the
// same time: one may just be taking away what the other builds upon.
func lockBase(base string) (unlock func(), err error) {
	f, err := os.Open(base)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX); err != nil {
		f.Close()
		return nil, err
	}
	return func() { _ = f.Close() }, nil
}

// removeStale removes what workers that died left beside our directory, and
// kills what may still run there. Directories of living owners are locked.
func removeStale(clk clock.Clock, base string, log *slog.Logger) {
	found, err := filepath.Glob(filepath.Join(base, ownerPrefix+"*"))
	if err != nil {
		return
	}
	for _, dir := range found {
		lock, err := lockDir(dir)
		if err != nil {
			continue
		}
		killed := killTree(dir)
		err = removeGroup(clk, dir)
		lock.Close()
		if err != nil {
			log.Warn("stale cgroup not removed", "cgroup", dir, "err", err)
			continue
		}
		log.Info("stale cgroup removed", "cgroup", dir, "processes", killed)
	}
}

// killTree kills the processes of a cgroup and those below it.
func killTree(dir string) (killed int) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err != nil || !d.IsDir() {
			return nil //nolint:nilerr // a cgroup that is gone has no processes
		}
		b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
		for line := range strings.FieldsSeq(string(b)) {
			// 0 stands for a process outside our pid namespace.
			if pid, err := strconv.Atoi(line); err == nil && pid > 1 && pid != os.Getpid() {
				if unix.Kill(pid, unix.SIGKILL) == nil {
					killed++
				}
			}
		}
		return nil
	})
	return killed
}
