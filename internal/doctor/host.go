package doctor

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// host is the machine as the checks see it. Tests give another one: a
// directory tree as dir, and functions that answer as they like.
type host struct {
	dir        string // before every path: "" on the real machine
	euid       int
	release    func() (string, error)             // of the kernel, as uname -r
	spawn      func(context.Context, spawn) error // runs a program in new namespaces
	freeSpace  func(path string) (space, error)   // of the file system there
	openLimit  func() (uint64, error)             // the hard limit of open files
	lookupUser func(name string) (uid int, ok bool)
	cpus       func() int
}

// spawn is a program to run in new namespaces, as root of the user namespace
// when there is a new one.
type spawn struct {
	flags uintptr
	argv  []string
}

type space struct {
	freeBytes, freeInodes uint64
	noInodes              bool // the file system does not count inodes
}

func realHost() *host {
	return &host{
		euid: os.Geteuid(), release: kernelRelease, spawn: runSpawn, freeSpace: statFree, openLimit: openFilesLimit, cpus: runtime.NumCPU,
		lookupUser: func(name string) (int, bool) {
			u, err := user.Lookup(name)
			if err != nil {
				return 0, false
			}
			var uid int
			_, err = fmt.Sscan(u.Uid, &uid)
			return uid, err == nil
		},
	}
}

func (h *host) path(p string) string { return filepath.Join(h.dir, p) }

// read returns a small file's text without surrounding space, "" when it is
// not there: absence is an answer to most checks.
func (h *host) read(p string) string {
	text, err := os.ReadFile(h.path(p))
	if err != nil {
		return ""
	}
	return strings.TrimSpace(string(text))
}

func (h *host) exists(p string) bool {
	_, err := os.Stat(h.path(p))
	return err == nil
}

// firstNamespaces are the kernel's own, which have fixed numbers.
var firstNamespaces = map[string]string{"pid": "pid:[4026531836]", "uts": "uts:[4026531838]", "ipc": "ipc:[4026531839]"}

// inContainer recognises the usual ones by the marks they leave. A machine made
// from a container's image has them as well, but none of its namespaces.
func (h *host) inContainer() bool {
	if !h.exists("/.dockerenv") && !h.exists("/run/.containerenv") && !h.exists("/run/systemd/container") {
		return false
	}
	for kind, first := range firstNamespaces {
		if is, err := os.Readlink(h.path("/proc/self/ns/" + kind)); err != nil || is != first {
			return true
		}
	}
	return false
}

func kernelRelease() (string, error) {
	var u unix.Utsname
	if err := unix.Uname(&u); err != nil {
		return "", err
	}
	return unix.ByteSliceToString(u.Release[:]), nil
}

func runSpawn(ctx context.Context, s spawn) error {
	cmd := exec.CommandContext(ctx, s.argv[0], s.argv[1:]...)
	cmd.Dir = "/"
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: s.flags, Pdeathsig: syscall.SIGKILL}
	if s.flags&unix.CLONE_NEWUSER != 0 {
		cmd.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{HostID: os.Geteuid(), Size: 1}}
		cmd.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{HostID: os.Getegid(), Size: 1}}
	}
	out, err := cmd.CombinedOutput()
	if err == nil {
		return nil
	}
	if text := strings.TrimSpace(string(out)); text != "" {
		return errors.New(text)
	}
	return err
}

func statFree(path string) (space, error) {
	var fs unix.Statfs_t
	if err := unix.Statfs(path, &fs); err != nil {
		return space{}, err
	}
	return space{freeBytes: fs.Bavail * uint64(fs.Bsize), freeInodes: fs.Ffree, noInodes: fs.Files == 0}, nil
}

func openFilesLimit() (uint64, error) {
	var r unix.Rlimit
	// Go raises the soft limit to the hard one at start.
	if err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r); err != nil {
		return 0, err
	}
	return r.Max, nil
}
