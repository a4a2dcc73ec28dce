package pgserver

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"

	"github.com/gavel-oj/gavel/internal/apperr"
)

const (
	lockName      = "owner.lock"
	clusterName   = "cluster"
	partialPrefix = "cluster.partial-"
	socketDirName = "sock"

	port        = "5432" // only part of the socket's name
	socketName  = ".s.PGSQL." + port
	maxSockPath = 107 // sun_path holds 108 bytes, the last one a NUL
)

// layout is where things are.
type layout struct {
	dataDir string // absolute
	cluster string
}

// prepareDataDir makes the data directory and checks that it is one.
// Directories that it creates let others pass through (0711), because the
// server may be another user; existing ones are left as they are.
func prepareDataDir(dataDir string) (layout, error) {
	if dataDir == "" {
		return layout{}, apperr.New(apperr.Invalid, "give --data-dir", "no data directory given for PostgreSQL")
	}
	abs, err := filepath.Abs(dataDir)
	if err != nil {
		return layout{}, fmt.Errorf("data directory: %w", err)
	}
	if strings.ContainsAny(abs, "\n\r\x00") {
		return layout{}, apperr.New(apperr.Invalid, "choose another --data-dir", "the data directory's name contains a line break")
	}
	if err := mkdirs(abs); err != nil {
		return layout{}, dirError(err, abs)
	}
	if _, err := os.Stat(filepath.Join(abs, "PG_VERSION")); err == nil {
		return layout{}, apperr.New(apperr.Conflict,
			"choose another --data-dir, or start that server yourself and name it with --database-url",
			"%s is itself a PostgreSQL cluster, which gavel does not touch", abs)
	}
	return layout{dataDir: abs, cluster: filepath.Join(abs, clusterName)}, nil
}

func mkdirs(dir string) error {
	fi, err := os.Stat(dir)
	if err == nil {
		if !fi.IsDir() {
			return &fs.PathError{Op: "mkdir", Path: dir, Err: syscall.ENOTDIR}
		}
		return nil
	}
	if !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := mkdirs(filepath.Dir(dir)); err != nil {
		return err
	}
	if err := os.Mkdir(dir, 0o711); err != nil && !errors.Is(err, fs.ErrExist) {
		return err
	}
	return os.Chmod(dir, 0o711) // against a strict umask
}

// dirError explains why dir cannot be used.
func dirError(err error, dir string) error {
	path := dir
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		path = pe.Path
	}
	switch {
	case errors.Is(err, syscall.ENOTDIR):
		return apperr.New(apperr.Invalid, "choose another --data-dir, or move the file away", "the data directory %s cannot be used: %s is not a directory", dir, firstNonDir(path))
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS):
		return apperr.Wrap(err, apperr.Forbidden,
			fmt.Sprintf("choose a --data-dir that user %d may write, or: chown %d %s", os.Geteuid(), os.Geteuid(), dir),
			"the data directory %s is not writable for user %d", dir, os.Geteuid())
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return apperr.Wrap(err, apperr.Unavailable, "free some space, or choose a --data-dir on another disk", "no space left for the data directory %s", dir)
	}
	return fmt.Errorf("data directory %s: %w", dir, err)
}

// firstNonDir finds which component of path is in the way.
func firstNonDir(path string) string {
	for p := path; ; p = filepath.Dir(p) {
		if fi, err := os.Stat(p); err == nil && !fi.IsDir() {
			return p
		}
		if p == filepath.Dir(p) {
			return path
		}
	}
}

// takeLock makes this process the owner (P1). The file stays when the owner
// is gone; only the lock on it counts, the pid inside is for the message.
func takeLock(l layout) (*os.File, error) {
	f, err := os.OpenFile(filepath.Join(l.dataDir, lockName), os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o644)
	if err != nil {
		return nil, dirError(err, l.dataDir)
	}
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, syscall.EWOULDBLOCK) {
			return nil, fmt.Errorf("lock %s: %w", f.Name(), err)
		}
		buf := make([]byte, 32)
		n, _ := f.ReadAt(buf, 0) // unreadable: the message names no pid
		pid := strings.TrimSpace(string(buf[:n]))
		if _, err := strconv.Atoi(pid); err != nil {
			pid = "unknown"
		}
		return nil, apperr.New(apperr.Conflict,
			"stop that process first, or give this one another --data-dir",
			"the database in %s is already in use by the gavel with pid %s", l.dataDir, pid)
	}
	err = f.Truncate(0)
	if err == nil {
		_, err = f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0)
	}
	if err != nil {
		f.Close()
		return nil, dirError(err, l.dataDir)
	}
	return f, nil
}

// socketDir makes the directory for the socket: inside the data directory, or,
// when that path is longer than the kernel allows for a socket or holds a
// comma (which separates hosts in a connection string), a short one elsewhere whose name is derived from the data directory, so that a crash
// does not leave a new one behind each time.
func socketDir(l layout, a account, shortParents []string) (string, error) {
	dir := filepath.Join(l.dataDir, socketDirName)
	if fitsSocket(dir) {
		return dir, privateDir(dir, a)
	}
	sum := sha256.Sum256([]byte(l.dataDir))
	name := "gavel-pg-" + strconv.Itoa(a.uid) + "-" + hex.EncodeToString(sum[:6])
	var errs []error
	for _, parent := range shortParents {
		dir := filepath.Join(parent, name)
		if !fitsSocket(dir) {
			continue
		}
		err := privateDir(dir, a)
		if err == nil {
			return dir, nil
		}
		errs = append(errs, err)
	}
	return "", apperr.Wrap(errors.Join(errs...), apperr.Unavailable, "choose a shorter --data-dir without commas",
		"the data directory's path cannot hold a socket (%d bytes of at most %d, and no comma), and no short directory for it can be made in %s",
		len(filepath.Join(l.dataDir, socketDirName, socketName)), maxSockPath, strings.Join(shortParents, ", "))
}

func fitsSocket(dir string) bool {
	return len(dir)+1+len(socketName) <= maxSockPath && !strings.Contains(dir, ",")
}

// shortParents are tried for the short socket directory, in order. A run-time
// directory is emptied at boot and never by a cleaner.
func shortParents(a account) []string {
	run := "/run/user/" + strconv.Itoa(a.uid)
	if os.Geteuid() == 0 {
		run = "/run"
	}
	return []string{run, os.TempDir(), "/tmp"}
}

// privateDir makes dir so that only the server's user (and root) can enter it.
// In a shared parent such as /tmp somebody else may have been there first:
// what exists is used only when it is a real directory of the right owner.
func privateDir(dir string, a account) error {
	err := os.Mkdir(dir, 0o700)
	if err == nil {
		if err := a.own(dir); err != nil {
			return fmt.Errorf("socket directory: %w", err)
		}
	} else if !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("socket directory: %w", err)
	}
	fi, err := os.Lstat(dir)
	if err != nil {
		return fmt.Errorf("socket directory: %w", err)
	}
	// Root may have been killed between making the directory and giving it away.
	if uid := uidOf(fi); fi.IsDir() && a.drop && uid == 0 {
		if err := os.Lchown(dir, a.uid, a.gid); err != nil {
			return fmt.Errorf("socket directory: %w", err)
		}
	} else if !fi.IsDir() || uid != a.uid {
		return apperr.New(apperr.Conflict, "remove it", "%s exists and is not a directory of user %s", dir, a.name)
	}
	if fi.Mode().Perm() != 0o700 {
		if err := os.Chmod(dir, 0o700); err != nil {
			return fmt.Errorf("socket directory: %w", err)
		}
	}
	return nil
}
