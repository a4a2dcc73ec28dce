package doctor

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
)

const (
	mountsV1 = `30 25 0:26 / /sys/fs/cgroup/memory rw,relatime - cgroup none rw,memory
31 25 0:27 / /sys/fs/cgroup/pids rw,relatime - cgroup none rw,pids
32 25 0:28 / /sys/fs/cgroup/cpu rw,relatime - cgroup none rw,cpu,cpuacct
`
	mountsV2 = "30 25 0:26 / /sys/fs/cgroup rw,relatime - cgroup2 none rw\n"
	selfV1   = "3:cpu,cpuacct:/\n2:pids:/\n1:memory:/deep\n"
	selfV2   = "0::/system.slice/gavel.service\n"
	ownV2    = "/sys/fs/cgroup/system.slice/gavel.service"
)

// machine makes a healthy one with cgroups v1; a test spoils it.
func machine(t *testing.T) *host {
	t.Helper()
	h := &host{
		dir:        t.TempDir(),
		release:    func() (string, error) { return "6.1.0-27-amd64", nil },
		spawn:      func(context.Context, spawn) error { return nil },
		freeSpace:  func(string) (space, error) { return space{freeBytes: 50 << 30, freeInodes: 1 << 20}, nil },
		openLimit:  func() (uint64, error) { return 1 << 20, nil },
		lookupUser: func(name string) (int, bool) { return 101, name == "postgres" },
		cpus:       func() int { return 2 },
	}
	h.file(t, "/proc/self/mountinfo", mountsV1)
	h.file(t, "/proc/self/cgroup", selfV1)
	for _, d := range []string{"/sys/fs/cgroup/memory/deep", "/sys/fs/cgroup/pids", "/sys/fs/cgroup/cpu", "/var/lib"} {
		h.mkdir(t, d)
	}
	h.file(t, "/proc/sys/kernel/seccomp/actions_avail", "kill_process kill_thread trap errno user_notif trace log allow\n")
	h.file(t, "/proc/swaps", "Filename Type Size Used Priority\n")
	h.file(t, "/sys/kernel/mm/transparent_hugepage/enabled", "always [madvise] never\n")
	h.file(t, "/sys/devices/system/cpu/smt/active", "0\n")
	h.file(t, "/proc/sys/kernel/core_pattern", "core\n")
	for _, c := range compilerList {
		h.script(t, "/usr/bin/"+c.name, "echo "+c.name+" 12.2.0")
	}
	h.script(t, "/pg/postgres", "echo 'postgres (PostgreSQL) 15.18'")
	h.script(t, "/pg/initdb", "exit 0")
	return h
}

func (h *host) mkdir(t *testing.T, path string) {
	t.Helper()
	if err := os.MkdirAll(h.path(path), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (h *host) file(t *testing.T, path, text string) {
	t.Helper()
	h.mkdir(t, filepath.Dir(path))
	if err := os.WriteFile(h.path(path), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func (h *host) script(t *testing.T, path, body string) {
	t.Helper()
	h.file(t, path, "#!/bin/sh\n"+body+"\n")
	if err := os.Chmod(h.path(path), 0o755); err != nil {
		t.Fatal(err)
	}
}

func (h *host) remove(t *testing.T, path string) {
	t.Helper()
	if err := os.RemoveAll(h.path(path)); err != nil {
		t.Fatal(err)
	}
}

// v2 turns the machine into one with cgroups v2 only.
func (h *host) v2(t *testing.T, controllers string) {
	t.Helper()
	h.file(t, "/proc/self/mountinfo", mountsV2)
	h.file(t, "/proc/self/cgroup", selfV2)
	h.remove(t, "/sys/fs/cgroup")
	h.file(t, ownV2+"/cgroup.controllers", controllers+"\n")
	h.file(t, ownV2+"/cgroup.procs", "")
	h.file(t, ownV2+"/cgroup.subtree_control", "")
	h.file(t, ownV2+"/memory.events", "")
}

func examine(t *testing.T, h *host) map[string]Check {
	t.Helper()
	checks := Run(t.Context(), Options{
		Box: true, Database: true, DataDir: "/var/lib/gavel", host: h,
		Postgres: pgbin.Options{Dirs: []string{h.path("/pg")}},
	})
	byName := map[string]Check{}
	for _, c := range checks {
		if (c.Fix == "") != (c.Status == OK) {
			t.Errorf("a %s with fix %q: %+v", c.Status, c.Fix, c)
		}
		byName[c.Name] = c
	}
	return byName
}

func TestHealthyMachines(t *testing.T) {
	tests := map[string]func(h *host){
		"cgroups v1": func(h *host) {},
		"cgroups v2": func(h *host) { h.v2(t, "cpuset cpu io memory pids") },
		"ordinary user for the database": func(h *host) {
			h.lookupUser = func(string) (int, bool) { return 0, false }
			h.script(t, "/pg/postgres", "echo 'postgres (PostgreSQL) 17.1'")
			h.euid = 1000
		},
	}
	for name, change := range tests {
		t.Run(name, func(t *testing.T) {
			h := machine(t)
			change(h)
			for _, c := range examine(t, h) {
				if c.Status != OK && c.Status != Off && !(c.Name == "root" && h.euid != 0) {
					t.Errorf("%+v", c)
				}
			}
			if left, _ := filepath.Glob(h.path("/var/lib/.gavel-doctor*")); len(left) > 0 {
				t.Errorf("left behind: %v", left)
			}
		})
	}
}

// One fault at a time, and only its line complains.
func TestFaultIsNamedWithItsCure(t *testing.T) {
	denied := errors.New("operation not permitted")
	tests := []struct {
		name   string
		spoil  func(t *testing.T, h *host)
		check  string
		status Status
		detail string
		fix    string
	}{
		{"not root", func(t *testing.T, h *host) { h.euid = 1000 }, "root", Fail, "running as user 1000", "sudo"},
		{"old kernel", func(t *testing.T, h *host) { h.release = func() (string, error) { return "5.10.0-28", nil } }, "kernel", Fail, "5.10.0-28", "upgrade"},
		{"odd kernel version", func(t *testing.T, h *host) { h.release = func() (string, error) { return "linux", nil } }, "kernel", Warn, `"linux"`, "uname"},
		{"no controller", func(t *testing.T, h *host) {
			h.file(t, "/proc/self/mountinfo", strings.ReplaceAll(mountsV1, "pids", "blkio"))
		}, "cgroup pids", Fail, "no controller pids", "cgroup controller pids"},
		{"memory disabled at boot", func(t *testing.T, h *host) {
			h.file(t, "/proc/self/mountinfo", strings.Replace(mountsV1, "rw,memory", "rw,blkio", 1))
			h.file(t, "/proc/cmdline", "quiet cgroup_disable=memory")
		}, "cgroup memory", Fail, "no controller memory", "remove cgroup_disable=memory"},
		{
			"no access to a cgroup", func(t *testing.T, h *host) { h.remove(t, "/sys/fs/cgroup/memory/deep") },
			"cgroup memory", Fail, "/sys/fs/cgroup/memory/deep is not writable", "remount",
		},
		{
			"v2 without delegation", func(t *testing.T, h *host) { h.v2(t, "cpu memory") },
			"cgroup pids", Fail, "does not reach " + ownV2, "Delegate=yes",
		},
		{"v2 and a kernel without memory.peak", func(t *testing.T, h *host) {
			h.v2(t, "memory pids")
			h.release = func() (string, error) { return "5.15.0-91-generic", nil }
		}, "cgroup memory", Fail, "since Linux 5.19", "upgrade the kernel"},
		{"no filters", func(t *testing.T, h *host) { h.remove(t, "/proc/sys/kernel/seccomp") }, "seccomp", Fail, "no seccomp filters", "CONFIG_SECCOMP_FILTER"},
		{"no net namespace", func(t *testing.T, h *host) {
			h.spawn = func(_ context.Context, s spawn) error {
				if s.flags&unix.CLONE_NEWNET != 0 {
					return denied
				}
				return nil
			}
		}, "namespaces", Fail, "refused: net (operation not permitted)", "CONFIG_NAMESPACES"},
		{"no mounts in a container", func(t *testing.T, h *host) {
			h.file(t, "/.dockerenv", "")
			h.spawn = func(_ context.Context, s spawn) error {
				if len(s.argv) > 1 {
					return denied
				}
				return nil
			}
		}, "mounts", Fail, "operation not permitted", "--privileged"},
		{"swap without accounting", func(t *testing.T, h *host) {
			h.file(t, "/proc/swaps", "Filename Type Size Used Priority\n/dev/sda2 partition 999 0 -2\n")
		}, "swap", Warn, "slow first", "swapoff"},
		{"huge pages forced", func(t *testing.T, h *host) {
			h.file(t, "/sys/kernel/mm/transparent_hugepage/enabled", "[always] madvise never\n")
		}, "huge pages", Warn, "always on", "echo madvise"},
		{"shared cores", func(t *testing.T, h *host) { h.file(t, "/sys/devices/system/cpu/smt/active", "1\n") }, "smt", Warn, "share cores", "smt/control"},
		{"saving power", func(t *testing.T, h *host) {
			h.file(t, "/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor", "powersave\n")
		}, "cpu frequency", Warn, "powersave", "cpupower"},
		{"compiler missing", func(t *testing.T, h *host) { h.remove(t, "/usr/bin/g++") }, "g++", Fail, "/usr/bin/g++ is missing", "apt-get install g++"},
		{"compiler outside of what boxes see", func(t *testing.T, h *host) {
			h.remove(t, "/usr/bin/python3")
			h.script(t, "/opt/py/python3", "echo Python 3.12")
			h.link(t, "/opt/py/python3", "/usr/bin/python3")
		}, "python3", Fail, "a link to /opt/py/python3", "apt-get install python3"},
		{"compiler without a static library", func(t *testing.T, h *host) {
			t.Setenv("TMPDIR", t.TempDir())
			h.script(t, "/usr/bin/gcc", `[ "$1" = --version ] && echo gcc && exit; echo 'ld: cannot find -lc' >&2; exit 1`)
		}, "gcc", Fail, "cannot find -lc", "libc6-dev"},
		{"database programs missing", func(t *testing.T, h *host) { h.remove(t, "/pg") }, "postgres", Fail, "no PostgreSQL server programs", "install the server"},
		{
			"no user for the database", func(t *testing.T, h *host) { h.lookupUser = func(string) (int, bool) { return 0, false } },
			"postgres user", Fail, "refuses to run as root", "useradd",
		},
		{"data directory is a file", func(t *testing.T, h *host) { h.file(t, "/var/lib/gavel", "") }, "data directory", Fail, "/var/lib/gavel is not a directory", "--data-dir"},
		{
			"data directory below a file", func(t *testing.T, h *host) { h.remove(t, "/var/lib"); h.file(t, "/var/lib", "") },
			"data directory", Fail, "/var/lib is not a directory", "--data-dir",
		},
		{"data directory closed to the database", func(t *testing.T, h *host) {
			if os.Geteuid() != 0 {
				t.Skip("needs a directory of root")
			}
			if err := os.Chmod(h.path("/var"), 0o700); err != nil {
				t.Fatal(err)
			}
		}, "data directory", Fail, "cannot pass through /var", "chmod o+x /var"},
		{"loaded", func(t *testing.T, h *host) { h.file(t, "/proc/loadavg", "20.31 18.00 9.00 3/400 1234\n") }, "load", Warn, "20.31 on 2 CPUs", "a machine of its own"},
		{"disk full", func(t *testing.T, h *host) { h.freeSpace = free(100<<20, 1<<20) }, "free disk", Fail, "100 MiB", "free some space"},
		{"disk nearly full", func(t *testing.T, h *host) { h.freeSpace = free(1<<30, 1<<20) }, "free disk", Warn, "1024 MiB", "free some space"},
		{"no inodes", func(t *testing.T, h *host) { h.freeSpace = free(50<<30, 7) }, "free disk", Warn, "7 inodes", "small files"},
		{"few open files", func(t *testing.T, h *host) { h.openLimit = func() (uint64, error) { return 2000, nil } }, "open files", Warn, "limit 2000", "LimitNOFILE"},
		{"too few open files for boxes", func(t *testing.T, h *host) { h.openLimit = func() (uint64, error) { return 1023, nil } }, "open files", Fail, "limit 1023", "LimitNOFILE"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := machine(t)
			tt.spoil(t, h)
			checks := examine(t, h)
			got := checks[tt.check]
			if got.Status != tt.status || !strings.Contains(got.Detail, tt.detail) || !strings.Contains(got.Fix, tt.fix) {
				t.Errorf("got %+v", got)
			}
			delete(checks, tt.check)
			for _, c := range checks {
				// A cgroup that is missing on a v2-less machine takes nothing else with it.
				if c.Status != OK && c.Status != Off {
					t.Errorf("also complains: %+v", c)
				}
			}
		})
	}
}

func free(bytes, inodes uint64) func(string) (space, error) {
	return func(string) (space, error) { return space{freeBytes: bytes, freeInodes: inodes}, nil }
}

func (h *host) link(t *testing.T, target, path string) {
	t.Helper()
	if err := os.Symlink(target, h.path(path)); err != nil {
		t.Fatal(err)
	}
}

func TestNamespaceObstacleDecidesTheCure(t *testing.T) {
	tests := []struct {
		name, file, text string
		euid             int
		want             string
	}{
		{"none allowed", "/proc/sys/user/max_user_namespaces", "0\n", 0, "user.max_user_namespaces=15000"},
		{"debian's switch", "/proc/sys/kernel/unprivileged_userns_clone", "0\n", 1000, "unprivileged_userns_clone=1"},
		{"ubuntu's switch", "/proc/sys/kernel/apparmor_restrict_unprivileged_userns", "1\n", 1000, "run as root"},
		{"podman", "/run/.containerenv", "", 0, "--privileged"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := machine(t)
			h.euid = tt.euid
			h.file(t, tt.file, tt.text)
			h.spawn = func(context.Context, spawn) error { return errors.New("no") }
			got := h.namespaces(t.Context())
			if got.Status != Fail || !strings.Contains(got.Fix, tt.want) || !strings.Contains(got.Detail, "user, pid, mount") {
				t.Errorf("got %+v", got)
			}
		})
	}
}

func TestControllerIsFoundWhereItIs(t *testing.T) {
	hybrid := strings.Replace(mountsV1, "rw,memory", "rw,blkio", 1) + "40 25 0:30 / /sys/fs/cgroup/unified rw - cgroup2 none rw\n"
	container := "30 25 0:26 /docker/abc /sys/fs/cgroup/memory ro - cgroup none rw,memory\n"
	tests := []struct {
		name, mounts, self string
		v2                 map[string]string
		want               place
	}{
		{"own path below the mount", mountsV1, selfV1, nil, place{dir: "/sys/fs/cgroup/memory/deep"}},
		{"memory on v2, the rest on v1", hybrid, "0::/w\n1:pids:/\n", map[string]string{"/sys/fs/cgroup/unified/w": "memory"}, place{v2: true, dir: "/sys/fs/cgroup/unified/w"}},
		{"the mount shows a part", container, "1:memory:/docker/abc/x\n", nil, place{dir: "/sys/fs/cgroup/memory/x"}},
		{"our path is outside of the part", container, "1:memory:/else\n", nil, place{dir: "/sys/fs/cgroup/memory"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			h := machine(t)
			h.file(t, "/proc/self/mountinfo", tt.mounts)
			h.file(t, "/proc/self/cgroup", tt.self)
			for dir, controllers := range tt.v2 {
				h.file(t, dir+"/cgroup.controllers", controllers)
			}
			got, err := h.controller("memory", "memory")
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, got, cmp.AllowUnexported(place{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

func TestReportPutsTheCureBelowTheLine(t *testing.T) {
	var out strings.Builder
	checks := []Check{ok("root", "yes"), warn("swap", "swapoff -a", "on"), fail("kernel", "upgrade", "Linux 2.4")}
	if err := Print(&out, checks); err != nil {
		t.Fatal(err)
	}
	want := `ok    root    yes
warn  swap    on
              fix: swapoff -a
fail  kernel  Linux 2.4
              fix: upgrade
1 ok, 1 warnings, 1 failed
`
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for n, want := range []Status{OK, OK, Warn, Fail} {
		if got := Worst(checks[:n]); got != want {
			t.Errorf("worst of %d is %s", n, got)
		}
	}
}

func TestOnlyWhatIsAskedForIsChecked(t *testing.T) {
	h := machine(t)
	var names []string
	for _, c := range Run(t.Context(), Options{host: h}) {
		names = append(names, c.Name)
	}
	if diff := cmp.Diff([]string{"open files"}, names); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestBoxesAreTriedAndWhatIsWeakerIsSaid(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		name     string
		weaker   []string
		err      error
		degraded bool
		euid     int
		want     Status // of boxes
		detail   string
		root     Status
	}{
		{"good", nil, nil, false, 0, OK, "stopped at their limits", OK},
		{"weaker", []string{"no cgroups", "own user"}, nil, false, 1000, Warn, "no cgroups; own user", Fail},
		{"weaker and wanted", []string{"no cgroups"}, nil, true, 1000, Warn, "no cgroups", Warn},
		{"none", nil, errors.New("no namespaces"), true, 0, Fail, "no namespaces", OK},
	} {
		t.Run(tt.name, func(t *testing.T) {
			t.Parallel()
			h := machine(t)
			h.euid = tt.euid
			checks := Run(t.Context(), Options{Box: true, Degraded: tt.degraded, host: h, Boxes: func() ([]string, error) { return tt.weaker, tt.err }})
			for name, want := range map[string]Status{"boxes": tt.want, "root": tt.root} {
				i := slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })
				if i < 0 || checks[i].Status != want || name == "boxes" && !strings.Contains(checks[i].Detail, tt.detail) || (checks[i].Fix == "") != (want == OK) {
					t.Errorf("%s: %+v", name, checks)
				}
			}
		})
	}
}

// What a person is told to do must help, and harm nothing.
func TestCuresFitTheMachine(t *testing.T) {
	t.Parallel()
	weaker := func() ([]string, error) { return []string{"no CAP_SYS_RESOURCE"}, nil }
	find := func(checks []Check, name string) Check {
		return checks[slices.IndexFunc(checks, func(c Check) bool { return c.Name == name })]
	}
	h := machine(t)
	if c := find(Run(t.Context(), Options{Box: true, host: h, Boxes: weaker}), "boxes"); strings.Contains(c.Fix, "root") || strings.Contains(c.Fix, "--allow-degraded") {
		t.Errorf("root with cgroups is told: %s", c.Fix)
	}
	h = machine(t)
	h.remove(t, "/proc/self/mountinfo")
	if c := find(Run(t.Context(), Options{Box: true, host: h, Boxes: weaker}), "boxes"); strings.Contains(c.Fix, "root") || !strings.Contains(c.Fix, "cgroups") || !strings.Contains(c.Fix, "--allow-degraded") {
		t.Errorf("root without cgroups is told: %s", c.Fix)
	}
	for _, tt := range []struct {
		euid    int
		at, fix string
	}{
		{65534, "/var/lib", "make it for that user, as root: install -d -m 0700 -o 65534 /var/lib/gavel; or choose another --state-dir"},
		{65534, "/var/lib/gavel", "let user 65534 write there, if /var/lib/gavel is for gavel alone, or choose another --state-dir"},
		{0, "/var/lib", "mount it for writing, or choose another --state-dir"},
	} {
		h := &host{euid: tt.euid}
		if got := h.dirFix("/var/lib/gavel", tt.at, "--state-dir"); got != tt.fix {
			t.Errorf("user %d, %s: %s", tt.euid, tt.at, got)
		}
	}
	h = machine(t)
	h.freeSpace = free(1<<30, 1<<20)
	if c := find(Run(t.Context(), Options{DataDir: "/var/lib/gavel", DirFlag: "--state-dir", host: h}), "free disk"); !strings.Contains(c.Fix, "--state-dir") {
		t.Errorf("a worker is told: %s", c.Fix)
	}
	if got := cause("gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory\ncompilation terminated."); !strings.Contains(got, "cc1") {
		t.Errorf("gcc's cause: %s", got)
	}
	if got := cause("Traceback (most recent call last):\nModuleNotFoundError: No module named 'heapq'"); !strings.Contains(got, "heapq") {
		t.Errorf("python's cause: %s", got)
	}
}

// A compiler that says its version and cannot compile is no language.
func TestALanguageThatDoesNotCompileSaysWhy(t *testing.T) {
	h := machine(t)
	t.Setenv("TMPDIR", t.TempDir())
	h.script(t, "/usr/bin/gcc", `[ "$1" = --version ] && echo gcc 12.2.0 && exit
case "$*" in */src/main.c*/w/prog*) ;; *) echo "error: odd arguments $*"; exit 1;; esac
echo "gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory"
echo compilation terminated.; exit 1`)
	h.script(t, "/usr/bin/g++", "echo g++ 12.2.0")
	got := examine(t, h)
	c := got["language c"]
	if want := "not offered: its self-test program does not compile: gcc: fatal error: cannot execute 'cc1': execvp: No such file or directory"; c.Status != Off || c.Detail != want {
		t.Errorf("%s, %q; want %q", c.Status, c.Detail, want)
	}
	if !strings.Contains(c.Fix, "again") || !strings.Contains(c.Fix, "language test c") {
		t.Errorf("fix: %s", c.Fix)
	}
	if c := got["language cpp17"]; c.Status != OK {
		t.Errorf("%+v", c)
	}
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "gavel-doctor-*")); len(left) > 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A virtual machine made from a container's image has its marks, too.
func TestTheContainersRecipeIsForContainersOnly(t *testing.T) {
	for _, tt := range []struct {
		name, mark, pid string
		want            bool
	}{
		{"no mark", "", "pid:[4026532200]", false},
		{"docker", "/.dockerenv", "pid:[4026532200]", true},
		{"podman", "/run/.containerenv", "pid:[4026532200]", true},
		{"no namespaces to be seen", "/.dockerenv", "", true},
		{"a machine of a container's image", "/.dockerenv", firstNamespaces["pid"], false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := machine(t)
			if tt.mark != "" {
				h.file(t, tt.mark, "")
			}
			h.mkdir(t, "/proc/self/ns")
			for kind, is := range firstNamespaces {
				if kind == "pid" {
					is = tt.pid
				}
				if is == "" {
					continue
				}
				if err := os.Symlink(is, h.path("/proc/self/ns/"+kind)); err != nil {
					t.Fatal(err)
				}
			}
			h.spawn = func(context.Context, spawn) error { return errors.New("no") }
			weak := func() ([]string, error) { return []string{"no times"}, nil }
			opts := Options{Box: true, Boxes: weak}
			for _, c := range []Check{h.namespaces(t.Context()), h.mounts(t.Context()), h.boxes(opts, nil)} {
				if got := strings.Contains(c.Fix, "container"); got != tt.want {
					t.Errorf("a container is spoken of: %v: %+v", got, c)
				}
			}
		})
	}
}

// What a language lacks is named, and is no failure: nobody has them all.
func TestEachLanguageSaysWhatItHasOrLacks(t *testing.T) {
	h := machine(t)
	h.script(t, "/usr/bin/lua5.4", "echo 'Lua 5.4.4  Copyright (C) 1994-2022 Lua.org, PUC-Rio'")
	h.script(t, "/usr/bin/luac5.4", "exit 0")
	h.script(t, "/usr/bin/sh", "exit 0")
	h.script(t, "/usr/bin/fpc", "echo 3.2.2")
	h.script(t, "/usr/local/go/bin/go", "echo go version go1.26.1 linux/amd64")
	h.script(t, "/usr/bin/ruby", "echo broken; exit 3")
	h.script(t, "/home/somebody/rustc", "echo rustc 1.90.0")
	if err := os.Symlink("/home/somebody/rustc", h.path("/usr/bin/rustc")); err != nil {
		t.Fatal(err)
	}
	got := examine(t, h)
	for name, want := range map[string]Check{
		"language c":       {Status: OK, Detail: "gcc 12.2.0"},
		"language lua":     {Status: OK, Detail: "Lua 5.4.4"},
		"language go":      {Status: OK, Detail: "go 1.26.1"},
		"language java":    {Status: Off, Detail: "not offered: /usr/bin/javac is missing"},
		"language kotlin":  {Status: Off, Detail: "not offered: /usr/bin/kotlinc is missing"},
		"language pascal":  {Status: Off, Detail: "not offered: /etc/fpc.cfg is missing"},
		"language ruby":    {Status: Off, Detail: "not offered: /usr/bin/ruby does not run: broken"},
		"language rust":    {Status: Off, Detail: "not offered: /usr/bin/rustc is a link to /home/somebody/rustc, which boxes do not see"},
		"language haskell": {Status: Off, Detail: "not offered: /usr/bin/ghc is missing"},
	} {
		if c := got[name]; c.Status != want.Status || c.Detail != want.Detail {
			t.Errorf("%s: %s, %q; want %s, %q", name, c.Status, c.Detail, want.Status, want.Detail)
		}
	}
	var all []Check
	for _, c := range got {
		all = append(all, c)
	}
	if w := Worst(all); w != OK {
		t.Errorf("the machine as a whole is %s", w)
	}
}
