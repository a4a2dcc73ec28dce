package langtest_test

import (
	"bytes"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/sandbox/boxtest"
)

// canary is what hostile programs would hurt first, were they able to: files
// that everybody may write, a process of nobody, sockets, and the counts of
// what the worker itself holds.
type canary struct {
	files   map[string]string
	sleeper *exec.Cmd
	accepts []net.Listener
	before  map[string]int
	mounts  []string
}

func newCanary(t *testing.T) *canary {
	t.Helper()
	c := &canary{files: map[string]string{}}
	dir := t.TempDir()
	shm, err := os.MkdirTemp("/dev/shm", "canary") // what all of the machine share
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(shm) })
	for _, d := range []string{dir, shm, machine.scratch} {
		if err := os.Chmod(d, 0o777); err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(d, "canary")
		if err := os.WriteFile(path, []byte("sings"), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(path, 0o666); err != nil {
			t.Fatal(err)
		}
		c.files[path] = "sings"
	}
	for _, path := range []string{"/etc/passwd", "/etc/hosts", "/proc/sys/kernel/core_pattern", "/proc/sys/kernel/hostname"} {
		c.files[path] = read(t, path)
	}
	c.sleeper = exec.Command("sleep", "10000")
	c.sleeper.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	if err := c.sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.sleeper.Process.Kill(); _ = c.sleeper.Wait() })
	for _, at := range [][2]string{{"tcp", "127.0.0.1:0"}, {"unix", "@mark"}, {"unix", filepath.Join(dir, "socket")}} {
		l, err := net.Listen(at[0], at[1])
		if errors.Is(err, unix.EADDRINUSE) {
			continue // another run of this test has it
		}
		if err != nil {
			t.Fatal(err)
		}
		c.accepts = append(c.accepts, l)
		t.Cleanup(func() { _ = l.Close() })
	}
	c.before, c.mounts = holdings(t), mounts(t)
	return c
}

func read(t *testing.T, path string) string {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func (c *canary) check(t *testing.T) {
	t.Helper()
	for path, want := range c.files {
		if got := read(t, path); got != want {
			t.Errorf("%s holds %q, and held %q", path, got, want)
		}
		if entries, _ := os.ReadDir(filepath.Dir(path)); strings.Contains(path, "canary") && filepath.Dir(path) != machine.scratch && len(entries) > 2 {
			t.Errorf("%s holds more than its canary: %v", filepath.Dir(path), entries)
		}
	}
	if err := unix.Kill(c.sleeper.Process.Pid, 0); err != nil || strings.Contains(read(t, fmt.Sprintf("/proc/%d/status", c.sleeper.Process.Pid)), "State:\tT") {
		t.Errorf("a process of the host was killed or stopped: %v", err)
	}
	for _, l := range c.accepts {
		var err error
		switch l := l.(type) {
		case *net.TCPListener:
			err = l.SetDeadline(time.Unix(1, 0))
		case *net.UnixListener:
			err = l.SetDeadline(time.Unix(1, 0))
		}
		if err != nil {
			t.Fatal(err)
		}
		if conn, err := l.Accept(); err == nil {
			_ = conn.Close()
			t.Errorf("somebody connected to %v", l.Addr())
		}
	}
	if diff := cmp.Diff(c.before, holdings(t)); diff != "" {
		t.Errorf("what the worker holds, before and after (-before +after)\n%s", diff)
	}
	// Other tests of this machine mount things as well, but not for long.
	for patience := time.After(5 * time.Minute); ; {
		left := slices.DeleteFunc(mounts(t), func(m string) bool { return slices.Contains(c.mounts, m) })
		if len(left) == 0 {
			break
		}
		select {
		case <-time.After(100 * time.Millisecond):
			continue
		case <-patience:
			t.Errorf("mounts that were not there before: %q", left)
		}
		break
	}
	for _, sub := range []string{"tasks", "checkers"} {
		if left, _ := os.ReadDir(filepath.Join(machine.scratch, "judge", sub)); len(left) > 0 {
			t.Errorf("left in %s: %v", sub, left)
		}
	}
}

// mounts are those that the worker sees, each with its number and its place.
func mounts(t *testing.T) (all []string) {
	t.Helper()
	for line := range strings.Lines(read(t, "/proc/self/mountinfo")) {
		fields := strings.Fields(line)
		all = append(all, fields[0]+" "+fields[4])
	}
	return all
}

// holdings counts what must not grow: processes below this one that are no
// init of a box.
func holdings(t *testing.T) map[string]int {
	t.Helper()
	have := map[string]int{}
	parents := map[int]int{}
	stats, err := filepath.Glob("/proc/[0-9]*/stat")
	if err != nil {
		t.Fatal(err)
	}
	for _, path := range stats {
		b, err := os.ReadFile(path)
		if err != nil {
			continue // ended meanwhile
		}
		pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(path)))
		fields := strings.Fields(string(b[bytes.LastIndexByte(b, ')')+1:]))
		parents[pid], _ = strconv.Atoi(fields[1])
	}
	for pid, parent := range parents {
		// An init is a child of ours; what it started is a grandchild.
		for depth := 0; parent > 0 && depth < 1000; depth++ {
			if parent == os.Getpid() && depth > 0 {
				t.Logf("process %d is left", pid)
				have["programs"]++
			}
			parent = parents[parent]
		}
	}
	return have
}

// neighbour is a box in which somebody else's program is measured.
type neighbour struct {
	box      chan sandbox.Box // one
	programs string
}

func newNeighbour(t *testing.T) *neighbour {
	t.Helper()
	b, err := machine.provider.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = b.Close() })
	n := &neighbour{box: make(chan sandbox.Box, 1), programs: boxtest.Programs(t)}
	n.box <- b
	return n
}

// run starts the neighbour; the returned function waits for it and looks at
// what was measured. The program uses 20 ms by its own clock.
func (n *neighbour) run(t *testing.T) (wait func()) {
	t.Helper()
	const own = 20 * time.Millisecond
	done := make(chan error, 1)
	go func() {
		b := <-n.box
		defer func() { n.box <- b }()
		var out strings.Builder
		res, err := b.Run(t.Context(), &sandbox.Spec{
			Argv: []string{"/box/hostile", "burn", "0.02"}, Mounts: []sandbox.Mount{{Host: n.programs, Box: sandbox.ProgramDir}},
			Stdout: &out, Profile: sandbox.ProfileRun,
			Limits: sandbox.Limits{
				CPU: time.Minute, Wall: 10 * time.Minute, MemoryBytes: 8 << 20, StdoutBytes: 1 << 10, StderrBytes: 1 << 10,
				FileBytes: 1 << 10, DiskBytes: 1 << 20, DiskInodes: 8, Processes: 1, OpenFiles: 8,
			},
		})
		if err == nil && (res.ExitCode != 0 || res.Signal != 0 || res.Fired != "" || res.CPU < own-10*time.Millisecond || res.CPU > own+disturbed() || res.MemoryBytes > 4<<20) {
			err = fmt.Errorf("%+v", res)
		}
		done <- err
	}()
	return func() {
		if err := <-done; err != nil {
			t.Errorf("a neighbour noticed: %v", err)
		}
	}
}
