package judge_test

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/fstest"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/verdict"
)

// Four ways in which a machine fails under a running engine, with real boxes:
// none may end in a verdict, and what can heal heals by itself. The fourth, a
// full scratch disk, is TestFullScratchDiskIsTheHostsFault.

var ownMounts = flag.Bool("judge.ownmounts", false, "set by a test for the process it starts: this one has a mount namespace of its own")

// inOwnMounts runs the test again, in a process whose mounts are its own, and
// says whether this is that process.
func inOwnMounts(t *testing.T) bool {
	t.Helper()
	if *ownMounts {
		return true
	}
	realProvider(t) // skips where there is none
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe", "-test.run=^"+t.Name()+"$", "-test.v", "-judge.ownmounts")
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: unix.CLONE_NEWNS}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "--- PASS: "+t.Name()) {
		t.Fatalf("%v\n%s", err, out)
	}
	return false
}

// TestReadOnlyCgroupsUnderARunningEngineAreTheHostsFault covers all cgroup
// mounts with read-only ones between two tasks.
func TestReadOnlyCgroupsUnderARunningEngineAreTheHostsFault(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	e := newEngine(t, realProvider(t), 1)
	task := newTask(newPackage(t, "1 2", "3"), "python3", pythonSum)
	judged := func(memory int64) (*judge.Report, error) {
		task.Limits.MemoryBytes = memory // another limit has to be written
		return e.Judge(t.Context(), task, quiet)
	}
	if r, err := judged(64 << 20); err != nil || r.Verdict != verdict.AC {
		t.Fatalf("before: %+v, %v", r, err)
	}
	var covered []string
	for line := range strings.Lines(readFile(t, "/proc/self/mountinfo")) {
		if at := strings.Fields(line)[4]; strings.Contains(line, " - cgroup") {
			if err := errors.Join(
				unix.Mount(at, at, "", unix.MS_BIND, ""),
				unix.Mount("", at, "", unix.MS_REMOUNT|unix.MS_BIND|unix.MS_RDONLY, ""),
			); err != nil {
				t.Fatalf("cover %s: %v", at, err)
			}
			covered = append(covered, at)
		}
	}
	if len(covered) == 0 {
		t.Fatal("no cgroup mounts found")
	}
	for i := range int64(3) {
		r, err := judged((65 + i) << 20)
		if r != nil {
			t.Fatalf("a report: %+v", r)
		}
		if f := wantFault(t, err, judge.BlameHost); !strings.Contains(f.Error(), "read-only") {
			t.Errorf("fault %v does not say what is wrong", f)
		}
	}
	for _, at := range covered {
		if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
			t.Fatal(err)
		}
	}
	if r, err := judged(70 << 20); err != nil || r.Verdict != verdict.AC {
		t.Errorf("when it is writable again: %+v, %v", r, err)
	}
}

func readFile(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestKilledBoxUnderARunningEngineIsTheHostsFault kills the init of each box,
// while the compiler works and while the program does.
func TestKilledBoxUnderARunningEngineIsTheHostsFault(t *testing.T) {
	p, err := linuxbox.Open(linuxbox.Config{})
	if err != nil {
		realProvider(t) // says why, or skips
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	before := initsOf(t)
	e := newEngine(t, p, 1)
	if r, err := e.Judge(t.Context(), newTask(newPackage(t, "1 2", "3"), "c", cSum), quiet); err != nil || r.Verdict != verdict.AC {
		t.Fatalf("before: %+v, %v", r, err)
	}
	for _, phase := range []judge.Phase{judge.PhaseCompiling, judge.PhaseRunning} {
		source := fmt.Sprintf("int main(void) { for (;;); } // %s", phase) // for the compile cache another one
		if phase == judge.PhaseCompiling {
			source = "#include \"/dev/zero\"\n"
		}
		task := newTask(newPackage(t, "1 2", "3"), "c", source)
		task.Limits.CPU, task.Limits.Wall = task.Limits.Wall, task.Limits.Wall*2
		var killed atomic.Int64
		r, err := e.Judge(t.Context(), task, func(now judge.Progress) {
			if now.Phase != phase {
				return
			}
			// The run begins right after this returns: kill until it has.
			go func() {
				for killed.Load() == 0 && t.Context().Err() == nil {
					for pid := range initsOf(t) {
						if !before[pid] && hasChild(pid) && unix.Kill(pid, unix.SIGKILL) == nil {
							killed.Add(1)
						}
					}
				}
			}()
		})
		if r != nil {
			t.Fatalf("%s: a report: %+v", phase, r)
		}
		wantFault(t, err, judge.BlameHost)
		t.Logf("%s: %v", phase, err)
		task = newTask(newPackage(t, "1 2", "3"), "c", cSum+"// "+string(phase))
		if r, err := e.Judge(t.Context(), task, quiet); err != nil || r.Verdict != verdict.AC {
			t.Errorf("%s: afterwards: %+v, %v", phase, r, err)
		}
	}
}

// initsOf are the children of this process that are inits of boxes.
func initsOf(t *testing.T) map[int]bool {
	t.Helper()
	found := map[int]bool{}
	lists, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Error(err)
	}
	for _, list := range lists {
		b, _ := os.ReadFile(list) // a thread that ended has none
		for word := range strings.FieldsSeq(string(b)) {
			pid, _ := strconv.Atoi(word)
			name, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if bytes.HasPrefix(name, []byte("gavel-box-init")) {
				found[pid] = true
			}
		}
	}
	return found
}

// hasChild reports whether a box's program is there.
func hasChild(pid int) bool {
	lists, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/children", pid))
	for _, list := range lists {
		if b, _ := os.ReadFile(list); len(bytes.TrimSpace(b)) > 0 {
			return true
		}
	}
	return false
}

// TestRemovedCompilerIsTheToolchainsFault takes the compiler away from under a
// running engine, and gives it back. It calls our own, from a small file system
// that covers a directory of the system.
func TestRemovedCompilerIsTheToolchainsFault(t *testing.T) {
	if !inOwnMounts(t) {
		return
	}
	const dir = "/usr/share/doc" // boxes show all below /usr
	if err := unix.Mount("compiler", dir, "tmpfs", 0, "mode=0755"); err != nil {
		t.Fatal(err)
	}
	compiler := filepath.Join(dir, "cc")
	install := func() {
		if err := os.WriteFile(compiler, []byte("#!/bin/sh\nexec /usr/bin/gcc \"$@\"\n"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	install()
	c := strings.ReplaceAll(readFile(t, "../language/data/c.yaml"), "/usr/bin/gcc", compiler)
	languages, err := language.Load(fstest.MapFS{"c.yaml": {Data: []byte(c)}})
	if err != nil {
		t.Fatal(err)
	}
	e := newEngineWith(t, judge.Config{Provider: realProvider(t), Slots: 1, Languages: languages})
	judged := func(mark string) (*judge.Report, error) {
		return e.Judge(t.Context(), newTask(newPackage(t, "1 2", "3"), "c", cSum+"// "+mark), quiet)
	}
	if r, err := judged("before"); err != nil || r.Verdict != verdict.AC {
		t.Fatalf("before: %+v, %v", r, err)
	}
	if err := os.Remove(compiler); err != nil {
		t.Fatal(err)
	}
	for _, mark := range []string{"without", "still without"} {
		r, err := judged(mark)
		if r != nil {
			t.Fatalf("a report: %+v", r)
		}
		if f := wantFault(t, err, judge.BlameToolchain); !strings.Contains(f.Error(), compiler) {
			t.Errorf("fault %v does not name the compiler", f)
		}
	}
	install()
	if r, err := judged("again"); err != nil || r.Verdict != verdict.AC {
		t.Errorf("when it is back: %+v, %v", r, err)
	}
}
