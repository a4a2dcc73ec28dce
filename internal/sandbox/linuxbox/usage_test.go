package linuxbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/clock"
)

// On v1 the supervisor works in the program's group. What it did since the last
// tick must not come off the program's time: a program that the CPU limit ended
// would be told with less than the limit.
func TestTheSupervisorsOwnWorkIsNotTakenOffTheProgramsTime(t *testing.T) {
	needBoxes(t)
	l, err := detectLayout()
	if err != nil {
		t.Fatal(err)
	}
	if l[ctlCPU].version != 1 {
		t.Skip("the supervisor is in the program's group on cgroup v1 only")
	}
	dir := filepath.Join(l[ctlCPU].dir, "gavel-test-usage-"+strconv.Itoa(os.Getpid()))
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := removeGroup(clock.System{}, dir); err != nil {
			t.Error(err)
		}
	}()
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: nothing else runs on a thread that could not leave the group
		defer func() {
			if err := writeFile(filepath.Join(l[ctlCPU].dir, "tasks"), strconv.Itoa(unix.Gettid())); err != nil {
				t.Error(err)
			}
		}()
		if err := writeFile(filepath.Join(dir, "tasks"), strconv.Itoa(unix.Gettid())); err != nil {
			t.Error(err)
			return
		}
		usage, err := openCounter(filepath.Join(dir, "cpuacct.usage"), os.O_RDONLY)
		if err != nil {
			t.Error(err)
			return
		}
		defer usage.close()
		for range 20 {
			r := initRun{boxInit: &boxInit{meter: meter{cpu: usage, ownCPU: true}}}
			if err := r.noteCPU(); err != nil {
				t.Error(err)
			}
			c := exec.Command("sh", "-c", "i=0; while [ $i -lt 10000 ]; do i=$((i+1)); done")
			if err := c.Run(); err != nil {
				t.Error(err)
				return
			}
			u := c.ProcessState.SysUsage().(*syscall.Rusage)
			want := time.Duration(u.Utime.Nano() + u.Stime.Nano())
			for from := monotonic(); monotonic()-from < 700*time.Microsecond; { // less than a tick, and nothing that has the kernel charge it
			}
			got, err := r.usedCPU()
			if err != nil || got < want-100*time.Microsecond {
				t.Errorf("%v of %v, %v", got, want, err)
			}
		}
	}()
	<-done
}
