package doctor

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// The box needs mount_setattr (5.12) everywhere and memory.peak (5.19) where
// memory is limited by cgroup v2.
var (
	minKernel   = version{5, 12}
	minKernelV2 = version{5, 19}
)

type version struct{ major, minor int }

func (v version) String() string { return fmt.Sprintf("%d.%d", v.major, v.minor) }

func (v version) before(w version) bool {
	return v.major < w.major || v.major == w.major && v.minor < w.minor
}

func (h *host) root() Check {
	if h.euid == 0 {
		return ok("root", "running as root; programs of submissions never do")
	}
	return fail("root", "run the worker as root (sudo gavel-worker …, or its systemd unit); boxes run as ids of nobody",
		"running as user %d, but only root can limit programs by cgroups and give boxes ids of their own", h.euid)
}

func (h *host) kernelVersion() (version, string, error) {
	release, err := h.release()
	if err != nil {
		return version{}, "", err
	}
	var v version
	if _, err := fmt.Sscanf(release, "%d.%d", &v.major, &v.minor); err != nil {
		return version{}, release, fmt.Errorf("version %q: %w", release, err)
	}
	return v, release, nil
}

func (h *host) kernel() Check {
	v, release, err := h.kernelVersion()
	switch {
	case err != nil:
		return warn("kernel", "report this with the output of uname -a", "cannot tell the kernel's version: %v", err)
	case v.before(minKernel):
		return fail("kernel", "upgrade the distribution or its kernel", "Linux %s, the box needs %s or newer", release, minKernel)
	}
	return ok("kernel", "Linux %s", release)
}

const boxNamespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET | unix.CLONE_NEWIPC | unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

var namespaceNames = []struct {
	flag uintptr
	name string
}{
	{unix.CLONE_NEWUSER, "user"},
	{unix.CLONE_NEWPID, "pid"},
	{unix.CLONE_NEWNS, "mount"},
	{unix.CLONE_NEWNET, "net"},
	{unix.CLONE_NEWIPC, "ipc"},
	{unix.CLONE_NEWUTS, "uts"},
	{unix.CLONE_NEWCGROUP, "cgroup"},
}

// namespaces runs a program that does nothing in all the namespaces of a box,
// and on failure in each one alone, to name those that are refused.
func (h *host) namespaces(ctx context.Context) Check {
	argv := []string{"/bin/true"}
	all := h.spawn(ctx, spawn{boxNamespaces, argv})
	if all == nil {
		return ok("namespaces", "user, pid, mount, net, ipc, uts and cgroup can be created")
	}
	var refused []string
	for _, n := range namespaceNames {
		if h.spawn(ctx, spawn{unix.CLONE_NEWUSER | n.flag, argv}) != nil {
			refused = append(refused, n.name)
		}
	}
	what := strings.Join(refused, ", ")
	if what == "" {
		what = "all of them together"
	}
	return fail("namespaces", h.namespaceFix(), "refused: %s (%v)", what, all)
}

// namespaceFix finds which of the known obstacles is in the way.
func (h *host) namespaceFix() string {
	switch {
	case h.read("/proc/sys/user/max_user_namespaces") == "0":
		return "sysctl -w user.max_user_namespaces=15000"
	case h.read("/proc/sys/kernel/unprivileged_userns_clone") == "0" && h.euid != 0:
		return "sysctl -w kernel.unprivileged_userns_clone=1, or run as root"
	case h.read("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == "1" && h.euid != 0:
		return "run as root, or sysctl -w kernel.apparmor_restrict_unprivileged_userns=0"
	case h.inContainer():
		return containerFix
	}
	return "the kernel needs CONFIG_NAMESPACES with user, pid and net namespaces, and nothing (seccomp, AppArmor, SELinux) may forbid unshare"
}

const containerFix = "start the container with --privileged, or with: --security-opt seccomp=unconfined --security-opt apparmor=unconfined " +
	"--security-opt systempaths=unconfined --security-opt writable-cgroups=true --cgroupns=private --cap-add SYS_ADMIN"

// mounts tries the two mounts that containers forbid while they allow the
// namespaces. They happen in a mount namespace of their own.
func (h *host) mounts(ctx context.Context) Check {
	err := h.spawn(ctx, spawn{
		unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS,
		[]string{"/bin/sh", "-c", "mount -t tmpfs doctor /tmp && mount -t proc doctor /proc"},
	})
	if err != nil {
		fix := "nothing (seccomp, AppArmor, SELinux) may forbid mounts inside a user namespace"
		if h.inContainer() {
			fix = containerFix
		}
		return fail("mounts", fix, "a box cannot mount its own file systems: %v", err)
	}
	return ok("mounts", "tmpfs and proc can be mounted inside a box")
}

func (h *host) seccomp() Check {
	actions := strings.Fields(h.read("/proc/sys/kernel/seccomp/actions_avail"))
	if slices.Contains(actions, "errno") && slices.Contains(actions, "kill_process") {
		return ok("seccomp", "filters available")
	}
	return fail("seccomp", "use a kernel with CONFIG_SECCOMP_FILTER", "the kernel offers no seccomp filters (found: %s)", strings.Join(actions, " "))
}

// load: who waits for a CPU reaches a wall limit sooner, and shares caches.
func (h *host) load() Check {
	lastMinute, _, _ := strings.Cut(h.read("/proc/loadavg"), " ")
	load, err := strconv.ParseFloat(lastMinute, 64)
	if cpus := h.cpus(); err == nil && load > 2*float64(cpus) {
		return warn("load", "find with top what else runs here, and give judging a machine of its own",
			"%s on %d CPUs: measured times and wall limits are not to be trusted", lastMinute, cpus)
	}
	return ok("load", "what runs has CPUs enough")
}

// swap matters when the memory controller cannot limit it: a program would be
// slow instead of over its memory limit.
func (h *host) swap() Check {
	if strings.Count(h.read("/proc/swaps"), "\n") == 0 { // only the heading
		return ok("swap", "none")
	}
	if p, err := h.controller("memory", "memory"); err == nil && h.limitsSwap(p) {
		return ok("swap", "on; boxes get none")
	}
	return warn("swap", "swapoff -a and remove it from /etc/fstab, or boot with swapaccount=1",
		"on, and cgroups cannot keep boxes from it: programs over their memory limit become slow first")
}

func (h *host) limitsSwap(p place) bool {
	if !p.v2 {
		return h.exists(p.dir + "/memory.memsw.limit_in_bytes")
	}
	// The root of the hierarchy has no such files, whatever its children get.
	atRoot := !h.exists(p.dir + "/memory.events")
	return atRoot || h.exists(p.dir+"/memory.swap.max")
}

func (h *host) hugePages() Check {
	const file = "/sys/kernel/mm/transparent_hugepage/enabled"
	if strings.Contains(h.read(file), "[always]") {
		return warn("huge pages", "echo madvise > "+file, "transparent huge pages are always on: measured memory varies by megabytes")
	}
	return ok("huge pages", "not forced on programs")
}

func (h *host) smt() Check {
	if h.read("/sys/devices/system/cpu/smt/active") == "1" {
		return warn("smt", "echo off > /sys/devices/system/cpu/smt/control, or use no more slots than half the processors",
			"processors share cores: measured times depend on the neighbour")
	}
	return ok("smt", "off")
}

func (h *host) governor() Check {
	const file = "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor"
	switch g := h.read(file); g {
	case "", "performance":
		return ok("cpu frequency", "not scaled")
	default:
		return warn("cpu frequency", "cpupower frequency-set -g performance", "governor %s: measured times depend on what ran before", g)
	}
}

// corePattern is for information: a handler would run as root of the host on a
// submission's memory, so boxes make the kernel skip it (RLIMIT_CORE=1).
func (h *host) corePattern() Check {
	if handler, piped := strings.CutPrefix(h.read("/proc/sys/kernel/core_pattern"), "|"); piped {
		name, _, _ := strings.Cut(strings.TrimSpace(handler), " ")
		return ok("core dumps", "go to %s; programs in boxes make none", name)
	}
	return ok("core dumps", "no handler; programs in boxes make none")
}
