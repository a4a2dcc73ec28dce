package linuxbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// scratch is one writable file system of the box. It is a tmpfs: bounded in
// bytes and inodes, charged to the run, and gone with one unmount whatever was
// put into it (names that cannot be typed, a million files, a directory too
// deep for any path).
type scratch struct {
	path    string
	replace bool

	bytes, inodes int64
	fresh         scratchState
}

// scratchState tells an untouched file system from one that was used. Block
// and inode counts alone do not: creating and removing a file leaves them as
// they were, but moves the root's times.
type scratchState struct {
	blocks, inodes uint64
	mtime, ctime   unix.Timespec
}

const (
	defaultScratchBytes  = 64 << 20
	defaultScratchInodes = 1024
)

func (s *scratch) options() string {
	// The box's user owns the file system, whatever is in it.
	return fmt.Sprintf("mode=0755,uid=%d,gid=%d,size=%d,nr_inodes=%d", boxUserUID, boxUserGID, s.bytes, s.inodes)
}

// No access times: reading a directory would leave a mark in an untouched one.
const scratchFlags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOATIME

func (s *scratch) mount() error {
	if s.bytes == 0 {
		s.bytes, s.inodes = defaultScratchBytes, defaultScratchInodes
	}
	if err := unix.Mount("scratch", s.path, "tmpfs", scratchFlags, s.options()); err != nil {
		return err
	}
	var err error
	s.fresh, err = s.state()
	return err
}

func (s *scratch) state() (st scratchState, err error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(s.path, &fs); err != nil {
		return st, err
	}
	var root unix.Stat_t
	if err := unix.Stat(s.path, &root); err != nil {
		return st, err
	}
	// Used counts, not free ones: those change with the limits.
	return scratchState{fs.Blocks - fs.Bfree, fs.Files - fs.Ffree, root.Mtim, root.Ctim}, nil
}

// dirty reports whether anything was done in the file system since it was mounted.
func (s *scratch) dirty() (bool, error) {
	now, err := s.state()
	return now != s.fresh, err
}

// touched are the file systems that are dirty.
func (r *rootFS) touched() (list []*scratch, err error) {
	for _, s := range r.scratch {
		used, err := s.dirty()
		if err != nil {
			return nil, err
		}
		if used {
			list = append(list, s)
		}
	}
	return list, nil
}

// limit sets the bounds for the next run. The file system is untouched then.
func (s *scratch) limit(bytes, inodes int64) error {
	inodes = max(inodes, 2) // the root is one
	if s.bytes == bytes && s.inodes == inodes {
		return nil
	}
	s.bytes, s.inodes = bytes, inodes
	return unix.Mount("scratch", s.path, "", unix.MS_REMOUNT|scratchFlags, s.options())
}

// renew replaces the file system. A lent one, of which the host holds open
// files, is taken out of sight at once and goes when they are closed.
func (s *scratch) renew(lent bool) error {
	flags := 0
	if lent {
		flags = unix.MNT_DETACH
	}
	// Otherwise no process is left that could hold it, so a plain unmount
	// works, and its failure is worth knowing.
	if err := unix.Unmount(s.path, flags); err != nil {
		return fmt.Errorf("unmount %s: %w", s.path, err)
	}
	return s.mount()
}
