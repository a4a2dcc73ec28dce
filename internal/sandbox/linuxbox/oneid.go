package linuxbox

import (
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"syscall"

	seccomp "github.com/elastic/go-seccomp-bpf"
	"golang.org/x/sys/unix"
)

// A worker that is not root may map one user id only, its own, and so the
// box's init and its program are the same user. What two ids do elsewhere has
// to be done otherwise:
//
//   - The init has its rights over the namespaces as ambient capabilities, not
//     as user 0; the forker drops what a program would inherit.
//   - The kernel lets a user's processes change each other's limits and
//     priorities; the filter refuses that for any process but the caller.
//     Signals: process 1 cannot be killed or stopped from inside, and handles
//     all others.
//   - The worker may not clone mounts; a thread of the init does it, which
//     stays in a mount namespace that has the host's files.

// oneIDWeaker says what is not as good as with root.
func oneIDWeaker() []string {
	weaker := []string{"programs run as the worker's own user, for it is not root: only the filter keeps them from the init of their box, which has the host's files in sight"}
	groups, err := os.Getgroups()
	for _, g := range groups {
		if err == nil && g != os.Getegid() {
			return append(weaker, "programs keep the worker's supplementary groups")
		}
	}
	return weaker
}

// oneIDAttr is how an init is started then.
func oneIDAttr(attr *syscall.SysProcAttr) {
	attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: boxUserUID, HostID: os.Geteuid(), Size: 1}}
	attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: boxUserGID, HostID: os.Getegid(), Size: 1}}
	for c := uintptr(0); c <= lastCapability(); c++ {
		attr.AmbientCaps = append(attr.AmbientCaps, c)
	}
}

func lastCapability() uintptr {
	b, err := os.ReadFile("/proc/sys/kernel/cap_last_cap")
	n, convErr := strconv.Atoi(strings.TrimSpace(string(b)))
	if err != nil || convErr != nil {
		return unix.CAP_LAST_CAP
	}
	return uintptr(n)
}

// oneIDRefusals are what programs may not do to other processes of their user.
// Where a call names a process, 0 is the caller.
func oneIDRefusals(not func(arg uint32, values ...uint64) seccomp.ArgumentConditions, action seccomp.Action) (groups []seccomp.SyscallGroup) {
	groups = []seccomp.SyscallGroup{{Names: []string{"setpriority", "ioprio_set"}, Action: action}}
	for _, name := range []string{"prlimit64", "sched_setscheduler", "sched_setparam", "sched_setattr"} {
		groups = append(groups, seccomp.SyscallGroup{
			NamesWithCondtions: []seccomp.NameWithConditions{{Name: name, Conditions: not(0, 0)}}, Action: action,
		})
	}
	for _, name := range []string{"kill", "tgkill", "rt_sigqueueinfo", "rt_tgsigqueueinfo", "pidfd_open"} {
		is1 := seccomp.ArgumentConditions{{Argument: 0, Operation: seccomp.Equal, Value: 1}}
		groups = append(groups, seccomp.SyscallGroup{
			NamesWithCondtions: []seccomp.NameWithConditions{{Name: name, Conditions: is1}}, Action: action,
		})
	}
	return groups
}

// hostTree is a thread of the init in a mount namespace that still has the
// host's files. The program cannot reach it: it is a thread of a process that
// is hidden and cannot be traced.
type hostTree struct {
	jobs chan func()
}

// keepHostTree is called before the box's root is entered.
func keepHostTree() (*hostTree, error) {
	h := &hostTree{jobs: make(chan func())}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := unix.Unshare(unix.CLONE_NEWNS)
		if err == nil {
			err = unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "")
		}
		ready <- err
		if err != nil {
			return
		}
		for job := range h.jobs {
			job()
		}
	}()
	return h, step("mount", hintMount, <-ready)
}

// open is openMounts, in the init.
func (h *hostTree) open(paths []string) (fds []int, err error) {
	done := make(chan struct{})
	h.jobs <- func() {
		defer close(done)
		for _, path := range paths {
			var fd int
			if fd, err = h.openOne(path); err != nil {
				closeFDs(fds)
				err = step("mount", "", fmt.Errorf("%s: %w", path, err))
				return
			}
			fds = append(fds, fd)
		}
	}
	<-done
	return fds, err
}

func (h *hostTree) openOne(path string) (int, error) {
	// With all below: the host's mounts are locked together in here.
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return -1, fmt.Errorf("open_tree: %w", err)
	}
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
		unix.Close(fd)
		return -1, fmt.Errorf("mount_setattr: %w", err)
	}
	return fd, nil
}
