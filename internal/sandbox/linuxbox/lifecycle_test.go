package linuxbox

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

func shell(script string) *sandbox.Spec {
	return &sandbox.Spec{Argv: []string{"/bin/sh", "-c", script}, Limits: roomyLimits(), Profile: sandbox.ProfileRun}
}

func ownLayout(t *testing.T) layout {
	t.Helper()
	needBoxes(t)
	l, err := detectLayout()
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// cgroupsOf lists the cgroups that providers of a process made, and the leaf
// that processes are moved to. Other workers may be at work beside us.
func cgroupsOf(t *testing.T, pid int) (dirs []string) {
	t.Helper()
	for _, base := range ownLayout(t).bases() {
		for _, pattern := range []string{fmt.Sprintf("%s%d-*", ownerPrefix, pid), workerLeaf} {
			found, err := filepath.Glob(filepath.Join(base, pattern))
			if err != nil {
				t.Fatal(err)
			}
			dirs = append(dirs, found...)
		}
	}
	return dirs
}

// boxMounts lists mounts in our own namespace that look like a box's.
func boxMounts(t *testing.T) (lines []string) {
	t.Helper()
	b, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		t.Fatal(err)
	}
	for line := range strings.Lines(string(b)) {
		if strings.Contains(line, " box ") || strings.Contains(line, " scratch ") || strings.Contains(line, "hidepid") {
			lines = append(lines, line)
		}
	}
	return lines
}

func TestNothingIsLeftAfterClose(t *testing.T) {
	before := cgroupsOf(t, os.Getpid())
	mountsBefore := boxMounts(t)
	p := open(t, Config{})
	var inits []int
	for range 2 {
		b, err := p.Open(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		if _, err := b.Run(t.Context(), shell("echo x >/w/x; echo x >/tmp/x")); err != nil {
			t.Fatal(err)
		}
		inits = append(inits, b.(*box).slot.proc.Pid)
	}
	if len(cgroupsOf(t, os.Getpid())) == len(before) {
		t.Error("no cgroups while boxes are open: this test looks in the wrong place")
	}
	if err := p.Close(); err != nil {
		t.Error(err)
	}
	if diff := cmp.Diff(before, cgroupsOf(t, os.Getpid())); diff != "" {
		t.Errorf("cgroups before and after (-before +after)\n%s", diff)
	}
	if diff := cmp.Diff(mountsBefore, boxMounts(t)); diff != "" {
		t.Errorf("mounts before and after (-before +after)\n%s", diff)
	}
	for _, pid := range inits {
		if err := unix.Kill(pid, 0); !errors.Is(err, unix.ESRCH) {
			t.Errorf("init %d: %v, want no such process", pid, err)
		}
	}
	if err := p.Close(); err != nil {
		t.Errorf("closing twice: %v", err)
	}
	if _, err := p.Open(t.Context()); err == nil {
		t.Error("a closed provider opens boxes")
	}
}

func TestStaleCgroupsOfDeadOwnersAreRemovedAndThoseOfLivingKept(t *testing.T) {
	l := ownLayout(t)
	sleeper := exec.Command("sleep", "1000")
	if err := sleeper.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- sleeper.Wait() }()
	defer sleeper.Process.Kill()

	var stale, living []string
	for i, base := range l.bases() {
		dead := filepath.Join(base, ownerPrefix+"999999-1")
		run := filepath.Join(dead, "slot0-1", "run1")
		alive := filepath.Join(base, ownerPrefix+"999999-2")
		for _, dir := range []string{run, alive} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				t.Fatal(err)
			}
		}
		lock, err := lockDir(alive)
		if err != nil {
			t.Fatal(err)
		}
		defer os.Remove(alive)
		defer lock.Close()
		if i == 0 {
			if err := writeFile(filepath.Join(run, "cgroup.procs"), strconv.Itoa(sleeper.Process.Pid)); err != nil {
				t.Fatal(err)
			}
		}
		stale, living = append(stale, dead), append(living, alive)
	}
	p := open(t, Config{noProof: true})
	defer p.Close()
	for _, dir := range stale {
		if _, err := os.Stat(dir); err == nil {
			t.Errorf("%s is still there", dir)
		}
	}
	for _, dir := range living {
		if _, err := os.Stat(dir); err != nil {
			t.Errorf("the cgroup of a living owner is gone: %v", err)
		}
	}
	<-done // killed
}

// testWorkerArg makes the test binary a worker that only runs one program.
const testWorkerArg = "gavel-box-test-worker"

func testWorker() int {
	p, err := Open(Config{noProof: true})
	if err != nil {
		fmt.Println(err)
		return 1
	}
	b, err := p.Open(backgroundForWorker())
	if err != nil {
		fmt.Println(err)
		return 1
	}
	spec := shell("echo started; while :; do sleep 1 & wait; done")
	spec.Stdout = os.Stdout
	spec.Limits.Wall = 10 * time.Minute
	_, err = b.Run(backgroundForWorker(), spec)
	fmt.Println(err)
	return 1
}

func TestKilledWorkerTakesItsProgramsWithIt(t *testing.T) {
	needBoxes(t)
	worker := exec.Command("/proc/self/exe", testWorkerArg)
	out, err := worker.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := worker.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil || line != "started\n" {
		t.Fatalf("worker said %q, %v", line, err)
	}
	// The init and the program, by the cgroups they are in.
	var pidfds []unix.PollFd
	for _, dir := range cgroupsOf(t, worker.Process.Pid) {
		if filepath.Base(dir) == workerLeaf {
			continue
		}
		for _, pid := range processesBelow(dir) {
			fd, err := unix.PidfdOpen(pid, 0)
			if err == nil {
				defer unix.Close(fd)
				pidfds = append(pidfds, unix.PollFd{Fd: int32(fd), Events: unix.POLLIN})
			}
		}
	}
	if len(pidfds) < 2 {
		t.Fatalf("%d processes found in the worker's boxes, want the init and the program at least", len(pidfds))
	}
	if err := worker.Process.Signal(syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	_ = worker.Wait()
	for i := range pidfds {
		if n, err := unix.Poll(pidfds[i:i+1], 20_000); err != nil || n != 1 {
			t.Errorf("a process of the box outlives its worker (%d, %v)", n, err)
		}
	}
	p := open(t, Config{noProof: true})
	defer p.Close()
	for _, dir := range cgroupsOf(t, worker.Process.Pid) {
		if filepath.Base(dir) != workerLeaf { // ours as well
			t.Errorf("%s is still there", dir)
		}
	}
}

func processesBelow(dir string) (pids []int) {
	_ = filepath.WalkDir(dir, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.IsDir() {
			b, _ := os.ReadFile(filepath.Join(path, "cgroup.procs"))
			for s := range strings.FieldsSeq(string(b)) {
				pid, _ := strconv.Atoi(s)
				pids = append(pids, pid)
			}
		}
		return nil
	})
	return pids
}

func TestSlotIsReplacedAfterItsNumberOfRuns(t *testing.T) {
	p := open(t, Config{noProof: true, MaxRuns: 2})
	defer p.Close()
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	seen := map[*slot]bool{}
	for range 5 {
		s, err := b.(*box).ensure(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		seen[s] = true
		if _, err := b.Run(t.Context(), shell("exit 0")); err != nil {
			t.Fatal(err)
		}
	}
	if len(seen) != 3 {
		t.Errorf("5 runs took %d slots, want 3", len(seen))
	}
}

func TestLostInitIsAFaultAndTheNextRunWorks(t *testing.T) {
	p := open(t, Config{noProof: true})
	defer p.Close()
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := shell("echo started; while :; do :; done")
	spec.Stdout = writerFunc(func(data []byte) (int, error) {
		b.(*box).slot.kill()
		return len(data), nil
	})
	_, err = b.Run(t.Context(), spec)
	if fault, ok := errors.AsType[*sandbox.Fault](err); !ok || fault.Op != "supervise" {
		t.Errorf("error %v, want a fault of supervision", err)
	}
	if res, err := b.Run(t.Context(), shell("exit 3")); err != nil || res.ExitCode != 3 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestMachineOutOfMemoryIsAFaultAndNotTheProgramsEnd(t *testing.T) {
	p := open(t, Config{noProof: true})
	defer p.Close()
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	// All boxes together get less than this run may have.
	file := map[int]string{1: "memory.limit_in_bytes", 2: "memory.max"}[p.cgroups.layout[ctlMemory].version]
	if err := writeFile(filepath.Join(p.cgroups.treeAt(p.cgroups.layout[ctlMemory]).dir, file), strconv.Itoa(64<<20)); err != nil {
		t.Fatal(err)
	}
	spec := shell("x=xxxxxxxxxxxxxxxx; while :; do x=$x$x; done")
	spec.Limits.CPU, spec.Limits.Wall = time.Minute, 2*time.Minute
	res, err := b.Run(t.Context(), spec)
	if fault, ok := errors.AsType[*sandbox.Fault](err); !ok || fault.Op != "memory" {
		t.Errorf("error %v, want a fault of memory; result %+v", err, res)
	}
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

func TestOpenWithoutInitIsRefused(t *testing.T) {
	initCalled = false
	defer func() { initCalled = true }()
	if _, err := Open(Config{}); err == nil || !strings.Contains(err.Error(), "Init") {
		t.Errorf("error %v, want one that names Init", err)
	}
}

// testOpenArg makes the test binary only open a provider and print the error.
const testOpenArg = "gavel-box-test-open"

func TestWithoutRootTheFaultNamesTheCure(t *testing.T) {
	needBoxes(t)
	cmd := exec.Command("/proc/self/exe", testOpenArg)
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "run the worker as root") {
		t.Errorf("%q, %v", out, err)
	}
}

func TestUnwritableCgroupIsAFaultWithAHint(t *testing.T) {
	needBoxes(t)
	const base = "/sys/kernel" // nobody makes directories there
	_, err := openCgroups(layout{{1, base}, {1, base}, {1, base}}, nil)
	fault, ok := errors.AsType[*sandbox.Fault](err)
	if !ok || fault.Op != "cgroup" || !strings.Contains(fault.Hint, base) {
		t.Errorf("error %v", err)
	}
}

// A worker may be started with any signals ignored: by nohup, by a script's
// background, or by a parent that ignores the C library's own. None of it
// reaches a program.
func TestSignalsThatTheWorkerIgnoresAreNotIgnoredInTheBox(t *testing.T) {
	needBoxes(t)
	for _, sig := range []uintptr{uintptr(unix.SIGHUP), 32, 33, 40} {
		ignore := [4]uint64{1} // SIG_IGN
		var before [4]uint64
		if _, _, errno := unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&ignore)), uintptr(unsafe.Pointer(&before)), 8, 0, 0); errno != 0 {
			t.Fatal(errno)
		}
		defer func() {
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, sig, uintptr(unsafe.Pointer(&before)), 0, 8, 0, 0)
		}()
	}
	p := open(t, Config{})
	defer p.Close()
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	var out strings.Builder
	spec := shell("grep -E 'Sig(Ign|Blk)' /proc/self/status")
	spec.Stdout = &out
	if _, err := b.Run(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	if got := strings.Fields(out.String()); len(got) != 4 || strings.Trim(got[1]+got[3], "0") != "" {
		t.Errorf("in the box: %q", out.String())
	}
}

// The host may take its time with what it copies out; the box is clean and
// usable all the same.
func TestABoxIsReusableWhileTheHostReadsWhatItCopiedOut(t *testing.T) {
	needBoxes(t)
	p := open(t, Config{})
	defer p.Close()
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	init := b.(*box)
	var pids []int
	for range 30 {
		spec := shell("head -c 15000000 /dev/zero >/w/big; ls /w | wc -l")
		spec.CopyOut = []sandbox.CopyOut{{Path: "big", MaxBytes: 32 << 20}}
		var out strings.Builder
		spec.Stdout = &out
		got, err := b.Run(t.Context(), spec)
		if err != nil {
			t.Fatal(err)
		}
		if f := got.Files["big"]; f.State != sandbox.FileOK || f.Size != 15_000_000 {
			t.Fatalf("copied out: %+v", f)
		} else if err := f.Content.Close(); err != nil {
			t.Fatal(err)
		}
		if strings.TrimSpace(out.String()) != "1" {
			t.Fatalf("the working directory held %s files", out.String())
		}
		pids = append(pids, init.slot.proc.Pid)
	}
	if pids[0] != pids[len(pids)-1] {
		t.Error("the slot was given up on the way: cleaning failed")
	}
}
