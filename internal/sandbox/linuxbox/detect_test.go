package linuxbox

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

const (
	v1Mounts = `
31 23 0:28 / /sys/fs/cgroup rw,relatime - tmpfs tmpfs rw,mode=755
33 31 0:30 / /sys/fs/cgroup/cpu,cpuacct rw,relatime shared:3 - cgroup cgroup rw,cpu,cpuacct
35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory
39 31 0:36 / /sys/fs/cgroup/pids rw,relatime - cgroup cgroup rw,pids
`
	v1Self = "9:name=systemd:/\n8:pids:/a\n4:memory:/a/b\n2:cpu,cpuacct:/\n0::/\n"
)

func TestLayoutIsDecidedPerController(t *testing.T) {
	for _, c := range []struct {
		name, mounts, self string
		controllers        map[string]string
		want               layout
		wantName           string
	}{
		{
			"version 1, with an empty version 2 beside it",
			v1Mounts + "41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n", v1Self, nil,
			layout{{1, "/sys/fs/cgroup/memory/a/b"}, {1, "/sys/fs/cgroup/pids/a"}, {1, "/sys/fs/cgroup/cpu,cpuacct"}},
			"v1",
		},
		{
			"version 2 under systemd",
			"29 22 0:26 / /sys/fs/cgroup rw,nosuid shared:4 - cgroup2 cgroup2 rw,nsdelegate\n", "0::/system.slice/gavel.service\n",
			map[string]string{"/sys/fs/cgroup/system.slice/gavel.service": "cpu io memory pids\n"},
			layout{
				{2, "/sys/fs/cgroup/system.slice/gavel.service"},
				{2, "/sys/fs/cgroup/system.slice/gavel.service"},
				{2, "/sys/fs/cgroup/system.slice/gavel.service"},
			},
			"v2",
		},
		{
			"version 2 when already moved to the worker's leaf",
			"29 22 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n", "0::/unit/gavel-worker\n",
			map[string]string{"/sys/fs/cgroup/unit": "memory pids\n"},
			layout{{2, "/sys/fs/cgroup/unit"}, {2, "/sys/fs/cgroup/unit"}, {2, "/sys/fs/cgroup/unit"}},
			"v2",
		},
		{
			"hybrid: memory on version 2 only",
			strings.ReplaceAll(v1Mounts, "35 31 0:32 / /sys/fs/cgroup/memory rw,relatime - cgroup cgroup rw,memory\n", "") +
				"41 31 0:38 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n",
			"8:pids:/\n2:cpu,cpuacct:/x\n0::/y\n",
			map[string]string{"/sys/fs/cgroup/unified/y": "memory hugetlb\n"},
			layout{{2, "/sys/fs/cgroup/unified/y"}, {1, "/sys/fs/cgroup/pids"}, {1, "/sys/fs/cgroup/cpu,cpuacct/x"}},
			"hybrid",
		},
		{
			"container that sees a part of the hierarchy",
			"35 31 0:32 /docker/1f /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n" +
				"36 31 0:33 /docker/1f /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n" +
				"37 31 0:34 /docker/1f /sys/fs/cgroup/cpuacct rw - cgroup cgroup rw,cpuacct\n",
			"3:memory:/docker/1f/sub\n2:pids:/docker/1f\n1:cpuacct:/elsewhere\n", nil,
			layout{{1, "/sys/fs/cgroup/memory/sub"}, {1, "/sys/fs/cgroup/pids"}, {1, "/sys/fs/cgroup/cpuacct"}},
			"v1",
		},
		{
			"mount point with a space",
			"29 22 0:26 / /mnt/c\\040g rw - cgroup2 cgroup2 rw\n", "0::/\n",
			map[string]string{"/mnt/c g": "memory pids\n"},
			layout{{2, "/mnt/c g"}, {2, "/mnt/c g"}, {2, "/mnt/c g"}},
			"v2",
		},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := parseLayout(c.mounts, c.self, func(dir string) string { return c.controllers[dir] })
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(c.want, got, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("(-want +got)\n%s", diff)
			}
			if got.name() != c.wantName {
				t.Errorf("name %q, want %q", got.name(), c.wantName)
			}
		})
	}
}

func TestMissingControllersAreNamedWithACure(t *testing.T) {
	for _, c := range []struct{ name, mounts, self, controllers, wantErr, wantHint string }{
		{"no cgroups at all", "", "", "", "memory, pids, cpu", "mount cgroups"},
		{"version 2 without delegation", "29 22 0:26 / /cg rw - cgroup2 cgroup2 rw\n", "0::/u\n", "pids\n", "controller for memory", "/cg/u/cgroup.controllers"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := parseLayout(c.mounts, c.self, func(string) string { return c.controllers })
			fault, ok := errors.AsType[*sandbox.Fault](err)
			if !ok || !strings.Contains(fault.Err.Error(), c.wantErr) || !strings.Contains(fault.Hint, c.wantHint) {
				t.Errorf("error %v", err)
			}
		})
	}
}

func FuzzLayout(f *testing.F) {
	f.Add(v1Mounts, v1Self)
	f.Add("29 22 0:26 / /mnt/c\\040g rw - cgroup2 cgroup2 rw\n", "0::/../x\n")
	f.Fuzz(func(t *testing.T, mounts, self string) {
		l, err := parseLayout(mounts, self, func(string) string { return "memory pids" })
		for c, p := range l {
			if err == nil && (p.dir == "" || p.version < 1 || p.version > 2) {
				t.Errorf("controller %d at %+v without an error", c, p)
			}
		}
	})
}

func TestHostIDsAreTakenFromWhatTheProcessHas(t *testing.T) {
	for _, c := range []struct {
		name, idMap string
		want        int
	}{
		{"plain host", "         0          0 4294967295\n", firstHostID},
		{"container with a part", "0 1000000 1000000000\n", 1000000000 - hostIDCount},
		{"container with several parts", "0 100000 1000\n2000 300000 100000\n", 2000 + 100000 - hostIDCount},
	} {
		t.Run(c.name, func(t *testing.T) {
			if got, err := hostIDBase(c.idMap); err != nil || got != c.want {
				t.Errorf("%d, %v; want %d", got, err, c.want)
			}
		})
	}
	for _, bad := range []string{"", "0 100000 1000\n", "junk\n"} {
		if got, err := hostIDBase(bad); err == nil {
			t.Errorf("%q gives %d", bad, got)
		}
	}
	seen := map[int]bool{}
	for slot := range 64 {
		root, user := hostIDs(firstHostID, 4711, slot)
		if seen[root] || seen[user] || root == user || user >= firstHostID+hostIDCount {
			t.Errorf("slot %d has ids %d and %d", slot, root, user)
		}
		seen[root], seen[user] = true, true
	}
}
