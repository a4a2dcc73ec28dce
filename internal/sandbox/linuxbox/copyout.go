package linuxbox

import (
	"errors"

	"golang.org/x/sys/unix"
)

// copyOut opens the files that the host wants. All processes are dead, but
// what they left is hostile: links to anywhere, FIFOs that block an open,
// directories, files with a claimed size of exabytes.
func (r *initRun) copyOut() (fds []int) {
	if len(r.req.copyOut) == 0 {
		return nil
	}
	dir, err := unix.Open(boxWorkDir, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		r.out.fault, r.out.faultErr = "copy out", err.Error()
		return nil
	}
	defer unix.Close(dir)
	for _, c := range r.req.copyOut {
		fd, f := r.openOut(dir, c)
		if f.state == fileOK {
			fds = append(fds, fd)
		}
		r.out.files = append(r.out.files, f)
	}
	return fds
}

func (r *initRun) openOut(dir int, c copyReq) (int, fileOutcome) {
	how := unix.OpenHow{
		// Without O_NONBLOCK a FIFO would hold us until somebody writes.
		Flags:   unix.O_RDONLY | unix.O_NONBLOCK | unix.O_NOFOLLOW | unix.O_NOCTTY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_MAGICLINKS | unix.RESOLVE_NO_XDEV,
	}
	fd, err := unix.Openat2(dir, c.path, &how)
	if r.cfg.weak(weakOpenat2) {
		fd, err = unix.Openat(dir, c.path, unix.O_RDONLY|unix.O_NONBLOCK|unix.O_CLOEXEC, 0)
	}
	switch {
	case errors.Is(err, unix.ENOENT), errors.Is(err, unix.ENOTDIR), errors.Is(err, unix.ENAMETOOLONG):
		return -1, fileOutcome{state: fileMissing}
	case err != nil:
		return -1, fileOutcome{state: fileNotRegular}
	}
	var st unix.Stat_t
	switch err := unix.Fstat(fd, &st); {
	case err != nil || st.Mode&unix.S_IFMT != unix.S_IFREG:
		unix.Close(fd)
		return -1, fileOutcome{state: fileNotRegular}
	case st.Size > c.maxBytes:
		unix.Close(fd)
		return -1, fileOutcome{state: fileTooLarge, size: st.Size}
	}
	return fd, fileOutcome{state: fileOK, size: st.Size}
}

// Bounds of the search for a file at its size limit: a program that hides one
// behind more than this has earned whatever verdict it gets otherwise.
const (
	scanMaxEntries = 4096
	scanMaxDepth   = 16
)

// hitFileLimit reports whether a regular file as large as the file limit is in
// the scratch file systems. A program that ignores SIGXFSZ and the error of
// its write exits well, yet its output is cut.
func (r *initRun) hitFileLimit() bool {
	left := scanMaxEntries
	for _, s := range r.touched {
		fd, err := unix.Open(s.path, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
		if err != nil {
			continue
		}
		if scanForSize(fd, r.req.fileBytes, scanMaxDepth, &left) {
			return true
		}
	}
	return false
}

// scanForSize takes dir.
func scanForSize(dir int, size int64, depth int, left *int) bool {
	defer unix.Close(dir)
	buf := make([]byte, 8<<10)
	for {
		n, err := unix.Getdents(dir, buf)
		if err != nil || n <= 0 {
			return false
		}
		_, _, names := unix.ParseDirent(buf[:n], -1, nil)
		for _, name := range names {
			if *left--; *left < 0 {
				return false
			}
			var st unix.Stat_t
			if unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW) != nil {
				continue
			}
			switch st.Mode & unix.S_IFMT {
			case unix.S_IFREG:
				if st.Size >= size {
					return true
				}
			case unix.S_IFDIR:
				if depth == 0 {
					continue
				}
				sub, err := unix.Openat(dir, name, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
				if err == nil && scanForSize(sub, size, depth-1, left) {
					return true
				}
			}
		}
	}
}
