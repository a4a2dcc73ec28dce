package linuxbox

import (
	"errors"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// crowd occupies one CPU, with sessions of their own (the scheduler may share
// by session) until the test is over.
func crowd(t *testing.T, cpu, processes int) {
	t.Helper()
	for range processes {
		c := exec.CommandContext(t.Context(), "taskset", "-c", strconv.Itoa(cpu), "sh", "-c", "while :; do :; done")
		c.SysProcAttr = &syscall.SysProcAttr{Setsid: true, Pdeathsig: syscall.SIGKILL}
		if err := c.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = c.Process.Kill(); _ = c.Wait() })
	}
}

func needSchedStat(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/proc/self/schedstat"); err != nil {
		t.Skip("this kernel keeps no account of waiting threads")
	}
}

func onOneCPU(t *testing.T) sandbox.Box {
	t.Helper()
	needBoxes(t)
	needSchedStat(t)
	p := open(t, Config{})
	t.Cleanup(func() { _ = p.Close() })
	b, err := p.OpenOn(t.Context(), 0)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// A program that works gets the CPU time of its limit, however busy the machine
// is; one that waits by itself ends at the wall limit as ever.
func TestTimeThatTheMachineTookIsNotTheProgramsWallTime(t *testing.T) {
	b := onOneCPU(t)
	crowd(t, 0, 3)
	spec := shell("while :; do :; done")
	spec.Limits.CPU, spec.Limits.Wall = time.Second, 1200*time.Millisecond
	got, err := b.Run(t.Context(), spec)
	if err != nil || got.Fired != sandbox.LimitCPU || got.Wall-got.Starved > spec.Limits.Wall {
		t.Errorf("one that works: %+v, %v", got, err)
	}
	spec = shell("exec sleep 60")
	spec.Limits.CPU, spec.Limits.Wall = time.Second, 1200*time.Millisecond
	got, err = b.Run(t.Context(), spec)
	if err != nil || got.Fired != sandbox.LimitWall || got.Wall-got.Starved <= spec.Limits.Wall || got.Starved > spec.Limits.Wall {
		t.Errorf("one that waits: %+v, %v", got, err)
	}
}

// A swarm takes its CPU from itself: that is not the machine's doing.
func TestASwarmDoesNotStarveItself(t *testing.T) {
	b := onOneCPU(t)
	spec := shell("for i in 1 2 3 4 5 6 7 8; do (while :; do :; done) & done; wait")
	spec.Limits.CPU, spec.Limits.Wall = time.Minute, 1500*time.Millisecond
	got, err := b.Run(t.Context(), spec)
	if err != nil || got.Fired != sandbox.LimitWall {
		t.Fatalf("%+v, %v", got, err)
	}
	// Other tests may run on that CPU, but not all of the time.
	if got.Wall > 3*spec.Limits.Wall {
		t.Errorf("it got %v, with a limit of %v", got.Wall, spec.Limits.Wall)
	}
}

// A step of many processes has more CPU time than wall time, so its CPU limit is
// the larger one. Its wall limit is not raised to that.
func TestAWallLimitBelowTheCPULimitHolds(t *testing.T) {
	p := open(t, Config{})
	t.Cleanup(func() { _ = p.Close() })
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	spec := shell("for i in 1 2 3 4; do (while :; do :; done) & done; wait")
	spec.Limits.CPU, spec.Limits.Wall = time.Minute, 1500*time.Millisecond
	got, err := b.Run(t.Context(), spec)
	if err != nil || got.Fired != sandbox.LimitWall || got.CPU >= spec.Limits.CPU || got.Wall-got.Starved < spec.Limits.Wall {
		t.Errorf("%+v, %v", got, err)
	}
}

// A machine on which a program comes to nothing within several times its wall
// limit is at fault, not the program.
func TestAProgramThatGetsNoCPUIsAFaultOfTheMachine(t *testing.T) {
	b := onOneCPU(t)
	crowd(t, 0, 12)
	spec := shell("while :; do :; done")
	spec.Limits.CPU, spec.Limits.Wall = time.Second, 1100*time.Millisecond
	got, err := b.Run(t.Context(), spec)
	fault, ok := errors.AsType[*sandbox.Fault](err)
	if !ok || fault.Op != "cpu" || !strings.Contains(fault.Error(), "too busy") {
		t.Errorf("%+v, %v", got, err)
	}
}

// Little wall time that was granted is looked at again soon: a program that
// waits, and was held up for a moment at its start, must not get 10 ms for it.
func TestLittleGrantedTimeIsLittle(t *testing.T) {
	for granted, want := range map[time.Duration]time.Duration{
		0:                      0,
		50 * time.Microsecond:  minWait,
		3 * time.Millisecond:   3 * time.Millisecond,
		200 * time.Millisecond: creditLook,
	} {
		r := initRun{req: &runReq{wall: time.Second}, job: forkJob{started: 5 * time.Second}, credit: granted}
		if got := r.wallLeft(6*time.Second + granted); got != want {
			t.Errorf("with %v granted and used up, the next look is in %v, want %v", granted, got, want)
		}
	}
}
