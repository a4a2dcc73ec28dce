package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"syscall"
)

const (
	fewBytes  = 256 << 20 // not enough to start
	lowBytes  = 2 << 30   // enough for a while
	lowInodes = 20_000
	lowFiles  = 4096
	boxFiles  = 1024 // linuxbox.MinOpenFiles
	mib       = 1 << 20
)

// dataDir checks that the directory can be written, or made. With a private
// PostgreSQL under root, the server's user must be able to get there too.
func (h *host) dataDir(dir, flag string, database bool) Check {
	const title = "data directory"
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fail(title, "give an absolute "+flag, "%s: %v", dir, err)
	}
	at, fi, err := h.nearest(abs)
	if err != nil {
		return fail(title, "choose another "+flag, "%s: %v", abs, err)
	}
	if !fi.IsDir() {
		return fail(title, "choose another "+flag+", or move the file away", "%s cannot be used: %s is not a directory", abs, at)
	}
	// Only trying tells: modes say nothing of read-only mounts, nor to root.
	f, err := os.CreateTemp(h.path(at), ".gavel-doctor-*")
	if err != nil {
		return fail(title, h.dirFix(abs, at, flag), "%s is not writable for user %d: %v", at, h.euid, bare(err))
	}
	_ = f.Close() // nothing was written
	if err := os.Remove(f.Name()); err != nil {
		return warn(title, "remove "+f.Name(), "cannot remove a file in %s: %v", at, bare(err))
	}
	if blocked := h.closedParent(at); database && h.euid == 0 && blocked != "" {
		return fail(title, fmt.Sprintf("chmod o+x %s, or choose a %s outside of it, for example /var/lib/gavel", blocked, flag),
			"PostgreSQL cannot run as root, and other users cannot pass through %s", blocked)
	}
	if at != abs {
		return ok(title, "%s will be made", abs)
	}
	return ok(title, "%s is writable", abs)
}

// dirFix says how the directory becomes writable. Only the program's own is to
// change hands: what is above it belongs to the system.
func (h *host) dirFix(dir, at, flag string) string {
	switch {
	case h.euid == 0:
		return "mount it for writing, or choose another " + flag
	case at == dir:
		return fmt.Sprintf("let user %d write there, if %s is for gavel alone, or choose another %s", h.euid, dir, flag)
	}
	return fmt.Sprintf("make it for that user, as root: install -d -m 0700 -o %d %s; or choose another %s", h.euid, dir, flag)
}

// nearest is the path itself or its first parent that exists.
func (h *host) nearest(path string) (string, os.FileInfo, error) {
	for {
		fi, err := os.Stat(h.path(path))
		if err == nil {
			return path, fi, nil
		}
		if path == "/" || os.IsPermission(err) {
			return path, nil, bare(err)
		}
		path = filepath.Dir(path)
	}
}

// closedParent returns the topmost directory on the way to dir that is closed
// to users who neither own it nor share its group.
func (h *host) closedParent(dir string) string {
	blocked := ""
	for p := dir; p != "/"; p = filepath.Dir(p) {
		fi, err := os.Stat(h.path(p))
		if err != nil {
			continue
		}
		if st, isUnix := fi.Sys().(*syscall.Stat_t); isUnix && st.Uid == 0 && fi.Mode().Perm()&0o001 == 0 {
			blocked = p
		}
	}
	return blocked
}

func (h *host) freeDisk(dir, flag string) Check {
	const title = "free disk"
	abs, err := filepath.Abs(dir)
	if err != nil {
		return fail(title, "give an absolute "+flag, "%s: %v", dir, err)
	}
	at, _, err := h.nearest(abs)
	if err != nil {
		return fail(title, "choose another "+flag, "%s: %v", abs, err)
	}
	s, err := h.freeSpace(h.path(at))
	fix := "free some space, or choose a " + flag + " on another disk"
	switch {
	case err != nil:
		return warn(title, "look with: df "+at, "cannot tell the free space of %s: %v", at, err)
	case s.freeBytes < fewBytes:
		return fail(title, fix, "%d MiB at %s, too little to work", s.freeBytes/mib, at)
	case s.freeBytes < lowBytes:
		return warn(title, fix, "%d MiB at %s", s.freeBytes/mib, at)
	case !s.noInodes && s.freeInodes < lowInodes:
		return warn(title, "remove small files there, or choose a "+flag+" on another disk", "only %d inodes at %s", s.freeInodes, at)
	}
	return ok(title, "%d MiB at %s", s.freeBytes/mib, at)
}

func (h *host) openFiles(box bool) Check {
	n, err := h.openLimit()
	const fix = "raise it: LimitNOFILE=65536 in the systemd unit, or ulimit -n 65536"
	switch {
	case err != nil:
		return warn("open files", fix, "cannot tell the limit: %v", err)
	case box && n < boxFiles:
		return fail("open files", fix, "limit %d, boxes need %d", n, boxFiles)
	case n < lowFiles:
		return warn("open files", fix, "limit %d, wanted %d: many workers or slots need more", n, lowFiles)
	}
	return ok("open files", "limit %d", n)
}
