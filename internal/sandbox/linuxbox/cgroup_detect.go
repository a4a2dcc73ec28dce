package linuxbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// controller is one of the three things that boxes need of cgroups.
type controller int

const (
	ctlMemory controller = iota
	ctlPids
	ctlCPU // accounting only
	numControllers
)

func (c controller) String() string { return [...]string{"memory", "pids", "cpu"}[c] }

// v1Name is the controller's name among the options of a v1 mount.
func (c controller) v1Name() string { return [...]string{"memory", "pids", "cpuacct"}[c] }

// place is where a controller is found: the directory of our own cgroup in the
// hierarchy that has it.
type place struct {
	version int // 1 or 2
	dir     string
}

// layout is the machine's arrangement, decided per controller: real machines
// mix (v1 mounts with the memory controller only on v2).
type layout [numControllers]place

func (l layout) name() string {
	switch {
	case l[ctlMemory].version == 1 && l[ctlPids].version == 1 && l[ctlCPU].version == 1:
		return "v1"
	case l[ctlMemory].version == 2 && l[ctlPids].version == 2 && l[ctlCPU].version == 2:
		return "v2"
	}
	return "hybrid"
}

// workerLeaf is the v2 cgroup that the worker's own processes are moved to,
// because a cgroup that limits its children may not hold processes itself.
const workerLeaf = "gavel-worker"

// detectLayout reads the layout of the running system.
func detectLayout() (layout, error) {
	mountinfo, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return layout{}, &sandbox.Fault{Op: "cgroup", Err: err}
	}
	self, err := os.ReadFile("/proc/self/cgroup")
	if err != nil {
		return layout{}, &sandbox.Fault{Op: "cgroup", Hint: "the kernel needs CONFIG_CGROUPS", Err: err}
	}
	return parseLayout(string(mountinfo), string(self), func(dir string) string {
		b, _ := os.ReadFile(filepath.Join(dir, "cgroup.controllers")) // absent means none
		return string(b)
	})
}

// parseLayout decides from the texts of mountinfo and cgroup in /proc/self;
// v2Controllers reads cgroup.controllers of a directory.
func parseLayout(mountinfo, self string, v2Controllers func(dir string) string) (layout, error) {
	own := ownCgroups(self)
	var l layout
	v2Dir := ""
	for line := range strings.Lines(mountinfo) {
		m, ok := parseMount(line)
		switch {
		case !ok:
		case m.fsType == "cgroup2" && v2Dir == "":
			v2Dir = m.dirOf(own[""])
			// The worker's own leaf cannot have children with limits; boxes go beside it.
			if filepath.Base(v2Dir) == workerLeaf {
				v2Dir = filepath.Dir(v2Dir)
			}
		case m.fsType == "cgroup":
			for c := range numControllers {
				if l[c].version == 0 && slices.Contains(m.options, c.v1Name()) {
					l[c] = place{1, m.dirOf(own[c.v1Name()])}
				}
			}
		}
	}
	var offered []string
	if v2Dir != "" {
		offered = append(strings.Fields(v2Controllers(v2Dir)), "cpu") // cpu.stat is always there
	}
	var missing []string
	for c := range numControllers {
		switch {
		case l[c].version != 0:
		case slices.Contains(offered, c.String()):
			l[c] = place{2, v2Dir}
		default:
			missing = append(missing, c.String())
		}
	}
	if len(missing) == 0 {
		return l, nil
	}
	hint := "mount cgroups (systemd does), or start the container with writable cgroups"
	if v2Dir != "" {
		hint = "the controllers must be listed in " + v2Dir + "/cgroup.controllers: enable them in the parent's cgroup.subtree_control, under systemd by Delegate=yes"
	}
	return l, &sandbox.Fault{Op: "cgroup", Hint: hint, Err: fmt.Errorf("no cgroup controller for %s", strings.Join(missing, ", "))}
}

// ownCgroups maps a v1 controller's name, or "" for v2, to our cgroup's path.
func ownCgroups(self string) map[string]string {
	own := map[string]string{}
	for line := range strings.Lines(self) {
		parts := strings.SplitN(strings.TrimSuffix(line, "\n"), ":", 3)
		if len(parts) != 3 {
			continue
		}
		for name := range strings.SplitSeq(parts[1], ",") {
			own[name] = parts[2]
		}
	}
	return own
}

// mountLine is what we need of one line of mountinfo.
type mountLine struct {
	root, point, fsType string
	options             []string // of the super block
}

func parseMount(line string) (mountLine, bool) {
	before, after, ok := strings.Cut(strings.TrimSpace(line), " - ")
	f, g := strings.Fields(before), strings.Fields(after)
	if !ok || len(f) < 6 || len(g) < 3 {
		return mountLine{}, false
	}
	return mountLine{unescape(f[3]), unescape(f[4]), g[0], strings.Split(g[2], ",")}, true
}

// dirOf finds a cgroup's directory below a mount that may show only a part of
// the hierarchy, as in a container.
func (m mountLine) dirOf(cgroup string) string {
	rel, err := filepath.Rel(m.root, cgroup)
	if err != nil || cgroup == "" || !filepath.IsLocal(rel) {
		return m.point // our path lies outside what we see: the mount's top is ours
	}
	return filepath.Join(m.point, rel)
}

// unescape undoes mountinfo's octal escapes.
func unescape(s string) string {
	for i := 0; i+3 < len(s); i++ {
		if s[i] == '\\' {
			if v, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				s = s[:i] + string(rune(v)) + s[i+4:]
			}
		}
	}
	return s
}

var errNoRoot = errors.New("the worker does not run as root")
