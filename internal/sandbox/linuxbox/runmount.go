package linuxbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"
)

// runMount is one mount of a run, inside the init.
type runMount struct {
	point string
	made  []string // directories or file made for it in the root, outermost first
	isDir bool
}

// attach puts the mounts that the host prepared (read-only, detached) where
// the request says. It takes all descriptors.
func (r *initRun) attach(fds []int) error {
	defer closeFDs(fds)
	for i, point := range r.req.mountPoints {
		var st unix.Stat_t
		if err := unix.Fstat(fds[i], &st); err != nil {
			return step("mount", "", fmt.Errorf("%s: %w", point, err))
		}
		m := runMount{point: point, isDir: st.Mode&unix.S_IFMT == unix.S_IFDIR}
		err := r.root.makePoint(&m)
		// Noted before the mount: what was made has to be removed in any case.
		r.boxInit.mounts = append(r.boxInit.mounts, m)
		if err != nil {
			return step("mount", "", fmt.Errorf("make mount point %s: %w", point, err))
		}
		if err := unix.MoveMount(fds[i], "", unix.AT_FDCWD, point, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
			return step("mount", "", fmt.Errorf("attach %s: %w", point, err))
		}
	}
	return nil
}

// makePoint makes what is missing of a mount point, through the writable view
// of the root.
func (r *rootFS) makePoint(m *runMount) error {
	if _, err := os.Lstat(m.point); err == nil {
		return nil
	}
	elems := strings.Split(strings.Trim(m.point, "/"), "/")
	for i := range elems {
		rel := filepath.Join(elems[:i+1]...)
		var err error
		if last := i == len(elems)-1; last && !m.isDir {
			var fd int
			if fd, err = unix.Openat(r.write, rel, unix.O_CREAT|unix.O_EXCL|unix.O_RDONLY|unix.O_CLOEXEC|unix.O_NOFOLLOW, 0o444); err == nil {
				unix.Close(fd)
			}
		} else {
			err = unix.Mkdirat(r.write, rel, 0o755)
		}
		switch {
		case errors.Is(err, unix.EEXIST):
		case err != nil:
			return err
		default:
			m.made = append(m.made, rel)
		}
	}
	return nil
}

// detach undoes attach, in reverse.
func (r *rootFS) detach(mounts []runMount) error {
	var errs []error
	for _, m := range slices.Backward(mounts) {
		// A mount that never came about is EINVAL.
		if err := unix.Unmount(m.point, unix.UMOUNT_NOFOLLOW); err != nil && !errors.Is(err, unix.EINVAL) && !errors.Is(err, unix.ENOENT) {
			errs = append(errs, fmt.Errorf("unmount %s: %w", m.point, err))
			continue
		}
		for j, made := range slices.Backward(m.made) {
			flags := unix.AT_REMOVEDIR
			if j == len(m.made)-1 && !m.isDir {
				flags = 0
			}
			if err := unix.Unlinkat(r.write, made, flags); err != nil && !errors.Is(err, unix.ENOENT) {
				errs = append(errs, fmt.Errorf("remove mount point /%s: %w", made, err))
			}
		}
	}
	return errors.Join(errs...)
}

// wantsChange reports whether the box differs from what the run asks for in a
// way that the janitor has to arrange.
func (r *initRun) wantsChange() bool {
	if !r.req.keepMounts || len(r.req.dirs) > 0 {
		return true
	}
	for _, s := range r.root.scratch {
		if s.bytes != r.req.diskBytes || s.inodes != r.req.diskInodes {
			return true
		}
	}
	return false
}

// arrange makes limits, mounts and directories as the run asks. It runs on
// the janitor and takes the mounts' descriptors.
func (r *initRun) arrange(mounts []int) error {
	if !r.req.keepMounts {
		err := r.root.detach(r.boxInit.mounts)
		r.boxInit.mounts = nil
		if err != nil {
			closeFDs(mounts)
			return step("mount", "", err)
		}
	}
	if err := r.attach(mounts); err != nil {
		return err
	}
	for _, s := range r.root.scratch {
		if err := s.limit(r.req.diskBytes, r.req.diskInodes); err != nil {
			return step("mount", "", fmt.Errorf("limit %s: %w", s.path, err))
		}
	}
	return r.makeDirs()
}

// clean replaces touched file systems. The mounts stay, read-only as they are,
// until a run wants others: most runs want the same. An error means that the
// slot must not be used again.
func (r *initRun) clean() error {
	touched, err := r.root.touched() // again: the run may have failed before it looked
	if err != nil {
		return err
	}
	for _, s := range touched {
		if s.replace {
			// The host may still be reading what it was given of it.
			lent := s.path == boxWorkDir && len(r.req.copyOut) > 0
			if err := r.onJanitor(func() error { return s.renew(lent) }); err != nil {
				return err
			}
		}
	}
	return nil
}

// makeDirsBelow makes a relative directory and its parents in an untouched
// file system, for the box's user.
func makeDirsBelow(base, rel string) error {
	if !filepath.IsLocal(rel) {
		return errors.New("not a path below the working directory")
	}
	path := base
	for elem := range strings.SplitSeq(filepath.Clean(rel), "/") {
		path = filepath.Join(path, elem)
		err := unix.Mkdir(path, 0o755)
		if errors.Is(err, unix.EEXIST) {
			continue
		}
		if err == nil {
			err = unix.Lchown(path, boxUserUID, boxUserGID)
		}
		if err != nil {
			return err
		}
	}
	return nil
}
