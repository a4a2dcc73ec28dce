package worker

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// probeBytes is written to find out whether a failing disk works again. It is
// the size of a long report.
const probeBytes = 256 << 10

// minFreeInodes is how many files must be possible, on file systems that count.
const minFreeInodes = 64

// keepInMemory notes a result that could not be saved.
func (w *Worker) keepInMemory(e entry, err error) {
	w.mu.Lock()
	w.unsaved[e.LeaseToken] = e
	w.mu.Unlock()
	w.diskFailed(err)
}

// diskFailed notes that nothing can be saved.
func (w *Worker) diskFailed(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.diskErr = err
}

// obstacle says why nothing should be claimed now, or "".
func (w *Worker) obstacle() string {
	w.mu.Lock()
	pending, broken := w.pending, w.diskErr
	w.mu.Unlock()
	if pending > 2*w.cfg.Slots {
		return fmt.Sprintf("%d finished results wait for the arbiter to take them", pending)
	}
	for _, dir := range append([]string{w.cfg.StateDir}, w.cfg.WatchDirs...) {
		short := w.shortOfRoom(dir)
		if short > 0 && sameDisk(dir, w.cache.dir) && w.cache.shrink(short) > 0 {
			// Old packages go first; only what they cannot give is missing.
			w.log.Warn("disk is short of room, old packages were removed", "dir", dir)
			short = w.shortOfRoom(dir)
		}
		if short > 0 {
			return fmt.Sprintf("the disk of %s is full (it needs %d MiB free); free some room there", dir, w.cfg.MinFreeBytes>>20)
		}
	}
	if broken != nil {
		probe := filepath.Join(w.cfg.StateDir, "outbox", "probe"+tmpSuffix)
		err := writeFile(probe, bytes.Repeat([]byte{'x'}, probeBytes))
		if rmErr := os.Remove(probe); err == nil && rmErr != nil {
			err = rmErr
		}
		if err != nil {
			return fmt.Sprintf("results cannot be saved in %s: %v", w.cfg.StateDir, err)
		}
		w.saveAgain()
	}
	return ""
}

// shortOfRoom is how many bytes are missing in dir. What cannot be measured is
// not short.
func (w *Worker) shortOfRoom(dir string) int64 {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0
	}
	free := int64(st.Bavail) * int64(st.Bsize) //nolint:unconvert // the types differ between architectures
	if st.Files > 0 && st.Ffree < minFreeInodes {
		return max(1, w.cfg.MinFreeBytes-free)
	}
	return max(0, w.cfg.MinFreeBytes-free)
}

func sameDisk(a, b string) bool {
	var sa, sb unix.Stat_t
	return unix.Stat(a, &sa) == nil && unix.Stat(b, &sb) == nil && sa.Dev == sb.Dev
}

// saveAgain puts on disk what is only in memory, now that the disk works.
func (w *Worker) saveAgain() {
	w.mu.Lock()
	var todo []entry
	for _, e := range w.unsaved {
		todo = append(todo, e)
	}
	w.mu.Unlock()
	for _, e := range todo {
		if err := w.outbox.put(e); err != nil {
			w.diskFailed(err)
			return
		}
		w.mu.Lock()
		_, still := w.unsaved[e.LeaseToken]
		delete(w.unsaved, e.LeaseToken)
		w.mu.Unlock()
		if !still { // answered in between: its file would be sent once more
			_ = w.outbox.remove(e.LeaseToken)
		}
	}
	w.mu.Lock()
	w.diskErr = nil
	w.mu.Unlock()
	w.log.Info("results can be saved again")
}
