package linuxbox

import (
	"os"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
)

// TestEachProtectionIsWhatHolds runs attacks with the protection that stops
// them, and without: if both end the same way, either the protection does
// nothing or its test tries nothing.
func TestEachProtectionIsWhatHolds(t *testing.T) {
	needBoxes(t)
	programs := t.TempDir()
	if err := os.Chmod(programs, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := boxtest.Compile(t.Context(), programs); err != nil {
		t.Fatal(err)
	}
	spec := func(args ...string) *sandbox.Spec {
		l := roomyLimits()
		l.CPU, l.Wall, l.MemoryBytes = 100*time.Millisecond, 3*time.Second, 64<<20
		return &sandbox.Spec{
			Argv:   append([]string{"/box/hostile"}, args...),
			Mounts: []sandbox.Mount{{Host: programs, Box: "/box"}}, Limits: l, Profile: sandbox.ProfileRun,
		}
	}
	held := func(args ...string) func(*testing.T, sandbox.Box) bool {
		return func(t *testing.T, b sandbox.Box) bool {
			_, out := runFor(t, b, spec(args...))
			return out == "held\n"
		}
	}
	then := func(first, second string) func(*testing.T, sandbox.Box) bool {
		return func(t *testing.T, b sandbox.Box) bool {
			runFor(t, b, spec(first))
			return held(second)(t, b)
		}
	}
	fired := func(want sandbox.Limit, args ...string) func(*testing.T, sandbox.Box) bool {
		return func(t *testing.T, b sandbox.Box) bool {
			res, _ := runFor(t, b, spec(args...))
			return res.Fired == want
		}
	}
	for _, c := range []struct {
		name  string
		weak  []string
		holds func(*testing.T, sandbox.Box) bool
	}{
		{"the filter refuses attack surface", []string{weakSeccomp}, held("attack_surface")},
		{"the filter refuses keyrings", []string{weakSeccomp}, held("keyrings")},
		{"the filter refuses foreign calls", []string{weakSeccomp}, held("foreign_calls")},
		{"the filter refuses odd sockets", []string{weakSeccomp}, held("odd_families")},
		{"no namespaces may be made", []string{weakNestedNS}, held("namespaces")},
		{"no System V IPC", []string{weakIPC, weakSeccomp}, held("shared_memory")},
		{"the init is hidden", []string{weakHideProc}, held("look_around")},
		{"left-over processes are killed", []string{weakReap}, func(t *testing.T, b sandbox.Box) bool {
			// Not one that runs from the mount: that would keep the box from
			// being cleaned, and the next run would get another.
			s := shell("setsid sleep 100 </dev/null >/dev/null 2>&1 & exit 0")
			runFor(t, b, s)
			return held("look_around")(t, b)
		}},
		{"scratch is replaced", []string{weakScratch}, then("leave_marks", "find_marks")},
		{"core dumps are off", []string{weakCore}, held("core_dumps")},
		{"CPU is watched", []string{weakCPUWatch}, fired(sandbox.LimitCPU, "cpu_loop")},
		{"output is limited", []string{weakOutput}, fired(sandbox.LimitOutput, "flood_stdout")},
		{"processes are limited", []string{weakProcesses}, func(t *testing.T, b sandbox.Box) bool {
			_, out := runFor(t, b, spec("thread_bomb"))
			return out == "15\n"
		}},
		{"descriptors are closed", []string{weakCloseFDs}, func(t *testing.T, b sandbox.Box) bool {
			return held("scan_fds")(t, b)
		}},
		{"copy-out follows no links", []string{weakOpenat2}, func(t *testing.T, b sandbox.Box) bool {
			s := spec("fake_output", "symlink")
			s.CopyOut = []sandbox.CopyOut{{Path: "out", MaxBytes: 1 << 20}}
			res, _ := runFor(t, b, s)
			if f := res.Files["out"].Content; f != nil {
				f.Close()
			}
			return res.Files["out"].State == sandbox.FileNotRegular
		}},
		{"mounts are read-only", []string{weakReadOnly}, func(t *testing.T, b sandbox.Box) bool {
			dir := t.TempDir()
			if err := os.Chmod(dir, 0o777); err != nil {
				t.Fatal(err)
			}
			s := spec("write_file", "/data/new", "x")
			s.Mounts = append(s.Mounts, sandbox.Mount{Host: dir, Box: "/data"})
			runFor(t, b, s)
			entries, err := os.ReadDir(dir)
			return err == nil && len(entries) == 0
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			// Inherited by the init of each box below, unless it closes it.
			fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer unix.Close(fd)
			for _, weak := range [][]string{nil, c.weak} {
				p := open(t, Config{weak: weak, noProof: true})
				b, err := p.Open(t.Context())
				if err != nil {
					t.Fatal(err)
				}
				if got, want := c.holds(t, b), weak == nil; got != want {
					t.Errorf("without %q: holds = %t", strings.Join(weak, ", "), got)
				}
				if err := p.Close(); err != nil {
					t.Error(err)
				}
			}
		})
	}
}

func runFor(t *testing.T, b sandbox.Box, spec *sandbox.Spec) (sandbox.Result, string) {
	t.Helper()
	var out strings.Builder
	spec.Stdout = &out
	res, err := b.Run(t.Context(), spec)
	if err != nil {
		t.Fatal(err)
	}
	return res, out.String()
}
