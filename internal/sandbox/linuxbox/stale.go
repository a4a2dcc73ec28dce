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

// mostGroups bounds the looking for stale cgroups: a machine with more groups
// than this has them looked for beside ours first, and elsewhere as far as it
// goes.
const mostGroups = 20_000

// removeStale removes what workers that died left in the hierarchy, and kills
// what may still run there. They may have been in another cgroup than we are:
// another session, service or container. Directories of living owners are
// locked.
func removeStale(clk clock.Clock, base string, log *slog.Logger) {
	for _, dir := range ownersIn(base, mostGroups) {
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

// ownersIn finds the directories of providers in the whole hierarchy that base
// is in, those beside ours first. It reads at most so many groups, level by
// level: workers are near the top, in the slices of the machine.
func ownersIn(base string, most int) (found []string) {
	top := base
	for isGroup(filepath.Dir(top)) {
		top = filepath.Dir(top)
	}
	seen := map[string]bool{}
	for queue := []string{base, top}; len(queue) > 0 && most > 0; queue = queue[1:] {
		dir := queue[0]
		if seen[dir] {
			continue
		}
		seen[dir] = true
		most--
		entries, err := os.ReadDir(dir)
		if err != nil {
			continue // it went meanwhile, or is not ours to read
		}
		for _, e := range entries {
			switch path := filepath.Join(dir, e.Name()); {
			case !e.IsDir():
			case strings.HasPrefix(e.Name(), ownerPrefix):
				found = append(found, path)
			default:
				queue = append(queue, path)
			}
		}
	}
	return found
}

// isGroup says whether a directory is a cgroup; the one that mounts are in is
// none.
func isGroup(dir string) bool {
	_, err := os.Lstat(filepath.Join(dir, "cgroup.procs"))
	return err == nil
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
