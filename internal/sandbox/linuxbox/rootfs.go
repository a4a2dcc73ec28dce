package linuxbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// boxWorkDir is sandbox.WorkDir, repeated so that the init's side depends on
// nothing it does not need.
const boxWorkDir = "/w"

// systemPaths are shown read-only in every box. Those that are links on the
// host (/bin on a merged-usr system) become the same links.
var systemPaths = []string{
	"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32",
	"/etc/alternatives", "/etc/ld.so.cache", "/etc/ld.so.conf", "/etc/ld.so.conf.d", "/etc/localtime",
}

// maskedPaths lie below systemPaths and would show the machine, not the system.
var maskedPaths = []string{"/usr/lib/wsl"}

var devices = []string{"null", "zero", "full", "random", "urandom"}

var syntheticFiles = map[string]string{
	"/etc/passwd":        "root:x:0:0:root:/:/usr/sbin/nologin\nbox:x:1000:1000:box:/w:/bin/sh\nnobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n",
	"/etc/group":         "root:x:0:\nbox:x:1000:\nnogroup:x:65534:\n",
	"/etc/hosts":         "127.0.0.1 localhost box\n::1 localhost box\n",
	"/etc/nsswitch.conf": "passwd: files\ngroup: files\nhosts: files\n",
	"/etc/hostname":      "box\n",
}

// rootFS is the box's file tree as the init holds it.
type rootFS struct {
	// write is a detached, writable view of the root's tmpfs. The attached one
	// is read-only; mount points of a run are made and removed through this.
	write   int
	scratch []*scratch
}

// buildRoot makes the tree, enters it and lets go of the host's.
func buildRoot(cfg *setup) (*rootFS, error) {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, step("mount", "", fmt.Errorf("make / private: %w", err))
	}
	base, err := mountPointForRoot()
	if err != nil {
		return nil, err
	}
	if err := unix.Mount("box", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOATIME, "mode=0755,size=1m,nr_inodes=512"); err != nil {
		return nil, step("mount", hintMount, fmt.Errorf("tmpfs for the root: %w", err))
	}
	r := &rootFS{}
	if err := r.fill(base, cfg); err != nil {
		return nil, err
	}
	if err := mountProc(base, !cfg.weak(weakHideProc)); err != nil {
		return nil, err
	}
	if err := enterRoot(base); err != nil {
		return nil, err
	}
	if err := r.mountSpecial(cfg); err != nil {
		return nil, err
	}
	return r, nil
}

const hintMount = "in a container the worker needs CAP_SYS_ADMIN and a security profile that permits mount; on Ubuntu see kernel.apparmor_restrict_unprivileged_userns"

// mountPointForRoot finds a directory of the host to build upon; what it holds
// is only hidden inside this mount namespace.
func mountPointForRoot() (string, error) {
	for _, dir := range []string{"/tmp", "/run", "/mnt", "/var"} {
		if fi, err := os.Stat(dir); err == nil && fi.IsDir() {
			return dir, nil
		}
	}
	return "", step("mount", "create /tmp", errors.New("no directory to build the root upon"))
}

func (r *rootFS) fill(base string, cfg *setup) error {
	for _, dir := range []string{"/etc", "/dev", "/dev/shm", "/proc", "/tmp", "/w", "/box", "/src", "/data", "/usr"} {
		if err := os.MkdirAll(base+dir, 0o755); err != nil {
			return step("root", "", err)
		}
	}
	for _, path := range append(systemPaths, cfg.ReadOnly...) {
		if err := showPath(base, path); err != nil {
			return step("mount", hintMount, fmt.Errorf("show %s: %w", path, err))
		}
	}
	for _, path := range maskedPaths {
		if _, err := os.Stat(base + path); err == nil {
			if err := unix.Mount("masked", base+path, "tmpfs", unix.MS_RDONLY|unix.MS_NOSUID|unix.MS_NODEV, "size=0,mode=0755"); err != nil {
				return step("mount", "", fmt.Errorf("hide %s: %w", path, err))
			}
		}
	}
	for name, content := range syntheticFiles {
		if err := os.WriteFile(base+name, []byte(content), 0o644); err != nil {
			return step("root", "", err)
		}
	}
	for _, dev := range devices {
		point := base + "/dev/" + dev
		if err := os.WriteFile(point, nil, 0o644); err != nil {
			return step("root", "", err)
		}
		// A bind of the node: a user namespace cannot make devices.
		if err := bindTree("/dev/"+dev, point, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC); err != nil {
			return step("mount", "", fmt.Errorf("device %s: %w", dev, err))
		}
	}
	for name, target := range map[string]string{"fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		if err := os.Symlink(target, base+"/dev/"+name); err != nil {
			return step("root", "", err)
		}
	}
	return nil
}

// showPath makes path of the host visible at base+path, read-only. A missing
// path is no error: systems differ.
func showPath(base, path string) error {
	fi, err := os.Lstat(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	point := base + path
	if err := os.MkdirAll(filepath.Dir(point), 0o755); err != nil {
		return err
	}
	switch {
	case fi.Mode()&fs.ModeSymlink != 0 && !strings.HasPrefix(path, "/etc/"):
		target, err := os.Readlink(path)
		if err != nil {
			return err
		}
		return os.Symlink(target, point)
	case fi.IsDir():
		err = os.MkdirAll(point, 0o755)
	default:
		err = os.WriteFile(point, nil, 0o644)
	}
	if err != nil {
		return err
	}
	return bindTree(path, point, unix.MOUNT_ATTR_RDONLY|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// bindTree binds a tree with attributes that hold for all mounts below it too.
// The copy is complete before it becomes visible.
func bindTree(from, to string, attr uint64) error {
	fd, err := unix.OpenTree(unix.AT_FDCWD, from, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return fmt.Errorf("open_tree: %w", err)
	}
	defer unix.Close(fd)
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: attr, Propagation: unix.MS_PRIVATE}); err != nil {
		return fmt.Errorf("mount_setattr: %w", err)
	}
	if err := unix.MoveMount(fd, "", unix.AT_FDCWD, to, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return fmt.Errorf("move_mount: %w", err)
	}
	return nil
}

// enterRoot makes base the root of every thread and lets the old tree go.
func enterRoot(base string) error {
	if err := unix.Chdir(base); err != nil {
		return step("root", "", err)
	}
	// Both arguments the same: the old root ends up on top of the new one, and
	// the unmount takes it away. No directory for it is needed.
	if err := unix.PivotRoot(".", "."); err != nil {
		return step("pivot_root", "the worker's root must be a mount, not the kernel's first ramfs", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return step("umount", "", fmt.Errorf("old root: %w", err))
	}
	return step("root", "", unix.Chdir("/"))
}

// mountProc is called while the host's /proc is still in sight: a user
// namespace may mount a proc that shows no more than one it can see.
func mountProc(base string, hide bool) error {
	options := ""
	if hide {
		options = "hidepid=2" // other users' processes, so the init, are invisible
	}
	if err := unix.Mount("proc", base+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, options); err != nil {
		return step("mount", "in a container /proc must not be masked (docker: --security-opt systempaths=unconfined)", fmt.Errorf("proc: %w", err))
	}
	return nil
}

// mountSpecial adds what has to be mounted from inside: the scratch file systems,
// and the read-only state of the root.
func (r *rootFS) mountSpecial(cfg *setup) error {
	if err := errors.Join(unix.Sethostname([]byte("box")), unix.Setdomainname([]byte("(none)"))); err != nil {
		return step("namespaces", "", err)
	}
	for _, path := range []string{boxWorkDir, "/tmp", "/dev/shm"} {
		s := &scratch{path: path, replace: !cfg.weak(weakScratch)}
		if err := s.mount(); err != nil {
			return step("mount", "", fmt.Errorf("scratch %s: %w", path, err))
		}
		r.scratch = append(r.scratch, s)
	}
	var err error
	if r.write, err = unix.OpenTree(unix.AT_FDCWD, "/", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC); err != nil {
		return step("mount", "", fmt.Errorf("writable view of the root: %w", err))
	}
	if r.write, err = keep(r.write); err != nil {
		return step("descriptors", "", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV}
	if err := unix.MountSetattr(unix.AT_FDCWD, "/", 0, &attr); err != nil {
		return step("mount", "", fmt.Errorf("read-only root: %w", err))
	}
	return nil
}
