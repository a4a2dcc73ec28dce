package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// place is where a controller is found: the directory of our own cgroup.
type place struct {
	v2  bool
	dir string
}

// mount is a line of mountinfo.
type mount struct {
	root, point, fsType string
	options             []string
}

// cgroups checks each controller that the box needs, because machines mix the
// versions: all on v1, all on v2, or some here and some there.
func (h *host) cgroups() []Check {
	checks := []Check{h.cgroupLayout()}
	for _, c := range []struct{ name, v1 string }{{"memory", "memory"}, {"pids", "pids"}, {"cpu", "cpuacct"}} {
		checks = append(checks, h.cgroup("cgroup "+c.name, c.name, c.v1))
	}
	return checks
}

func (h *host) cgroupLayout() Check {
	var v1, v2 bool
	for _, m := range h.cgroupMounts() {
		v1 = v1 || m.fsType == "cgroup" && !slices.Contains(m.options, "name=systemd")
		v2 = v2 || m.fsType == "cgroup2"
	}
	switch {
	case v1 && v2:
		return ok("cgroups", "hybrid: version 1, with version 2 beside it")
	case v1:
		return ok("cgroups", "version 1")
	case v2:
		return ok("cgroups", "version 2")
	}
	fix := "mount them (systemd does): mount -t cgroup2 none /sys/fs/cgroup"
	if h.inContainer() {
		fix = containerFix
	}
	return fail("cgroups", fix, "not mounted")
}

func (h *host) cgroup(title, name, v1Name string) Check {
	p, err := h.controller(name, v1Name)
	if err != nil {
		return fail(title, h.controllerFix(name, p), "%v", err)
	}
	if v, release, err := h.kernelVersion(); err == nil && p.v2 && name == "memory" && v.before(minKernelV2) {
		return fail(title, "upgrade the kernel, or boot with systemd.unified_cgroup_hierarchy=0",
			"on version 2, which tells the peak of memory only since Linux %s; this is %s", minKernelV2, release)
	}
	if err := h.proveWritable(p); err != nil {
		return fail(title, h.writableFix(p), "%s is not writable for us: %v", p.dir, err)
	}
	n := 1
	if p.v2 {
		n = 2
	}
	return ok(title, "version %d, %s", n, p.dir)
}

// proveWritable makes a cgroup and removes it.
func (h *host) proveWritable(p place) error {
	dir := h.path(filepath.Join(p.dir, "gavel-doctor-"+strconv.Itoa(os.Getpid())))
	if err := os.Mkdir(dir, 0o755); err != nil {
		return bare(err)
	}
	if err := os.Remove(dir); err != nil {
		return bare(err)
	}
	if !p.v2 {
		return nil
	}
	// Processes are moved and controllers handed on through these two.
	for _, name := range []string{"cgroup.procs", "cgroup.subtree_control"} {
		f, err := os.OpenFile(h.path(filepath.Join(p.dir, name)), os.O_WRONLY, 0)
		if err != nil {
			return fmt.Errorf("%s: %w", name, bare(err))
		}
		if err := f.Close(); err != nil {
			return bare(err)
		}
	}
	return nil
}

func (h *host) writableFix(p place) string {
	switch {
	case h.euid != 0:
		return "run as root"
	case h.inContainer():
		return containerFix
	case p.v2:
		return "under systemd put Delegate=yes into the unit; otherwise remount it: mount -o remount,rw " + p.dir
	}
	return "remount the hierarchy: mount -o remount,rw " + p.dir
}

func (h *host) controllerFix(name string, p place) string {
	switch {
	case h.inContainer():
		return containerFix
	case name == "memory" && strings.Contains(h.read("/proc/cmdline"), "cgroup_disable=memory"):
		return "remove cgroup_disable=memory from the kernel's command line"
	case name == "memory" && strings.Contains(h.read("/sys/firmware/devicetree/base/model"), "Raspberry Pi"):
		return "add cgroup_enable=memory to the kernel's command line (cmdline.txt) and reboot"
	case p.dir != "":
		return fmt.Sprintf("under systemd put Delegate=yes into the unit; otherwise: echo +%s > %s/cgroup.subtree_control", name, filepath.Dir(p.dir))
	}
	return "use a kernel with the cgroup controller " + name + ", and mount it"
}

// controller finds a controller: a v1 mount that has it, else our own v2
// cgroup when the controller reaches it. CPU time needs no controller on v2.
func (h *host) controller(name, v1Name string) (place, error) {
	own := ownCgroups(h.read("/proc/self/cgroup"))
	var v2 place
	for _, m := range h.cgroupMounts() {
		switch {
		case m.fsType == "cgroup" && slices.Contains(m.options, v1Name):
			return place{dir: m.dirOf(own[v1Name])}, nil
		case m.fsType == "cgroup2" && v2.dir == "":
			v2 = place{v2: true, dir: m.dirOf(own[""])}
		}
	}
	if v2.dir == "" {
		return place{}, fmt.Errorf("there is no controller %s", name)
	}
	if name != "cpu" && !slices.Contains(strings.Fields(h.read(v2.dir+"/cgroup.controllers")), name) {
		return v2, fmt.Errorf("the controller %s does not reach %s", name, v2.dir)
	}
	return v2, nil
}

func (h *host) cgroupMounts() []mount {
	var mounts []mount
	for line := range strings.Lines(h.read("/proc/self/mountinfo")) {
		before, after, found := strings.Cut(strings.TrimSpace(line), " - ")
		b, a := strings.Fields(before), strings.Fields(after)
		if found && len(b) >= 5 && len(a) >= 3 && strings.HasPrefix(a[0], "cgroup") {
			mounts = append(mounts, mount{root: b[3], point: b[4], fsType: a[0], options: strings.Split(a[2], ",")})
		}
	}
	return mounts
}

// dirOf is a cgroup's directory below a mount, which in a container may show
// only a part of the hierarchy; a path outside of that part is its top.
func (m mount) dirOf(cgroup string) string {
	rel, err := filepath.Rel(m.root, cgroup)
	if cgroup == "" || err != nil || !filepath.IsLocal(rel) {
		return m.point
	}
	return filepath.Join(m.point, rel)
}

// ownCgroups maps a v1 controller, or "" for v2, to our cgroup's path.
func ownCgroups(text string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(text) {
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	return own
}
