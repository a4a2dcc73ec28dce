package linuxbox

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// monotonic is the init's only clock.
func monotonic() time.Duration {
	var ts unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts) // cannot fail for this clock
	return time.Duration(ts.Nano())
}

// Bounds of the wait between two looks at a running program.
const (
	minWait = time.Millisecond
	// maxWait bounds how long an orphan's zombie counts as a process, and how
	// late an out-of-memory kill of a child ends the run.
	maxWait = 50 * time.Millisecond
)

// nextLook says how long the watcher may sleep: a program that runs on all
// cpus cannot use up cpuLeft sooner than cpuLeft/cpus. The closer the limit,
// the shorter the sleep, so the overshoot stays near minWait.
func nextLook(cpuLeft, wallLeft time.Duration, cpus int) time.Duration {
	d := max(cpuLeft/time.Duration(max(cpus, 1)), minWait)
	return min(d, maxWait, max(wallLeft, 0))
}

// meter reads the two counters that the watcher needs, through descriptors
// that the host opened: they may be files of cgroup v1 or v2, told apart by
// their content.
type meter struct {
	cpu, oom int
	have     bool
	ownCPU   bool // the forker's own time is in the figure (v1)
}

func keepMeter(cpu, oom int, ownCPU bool) (m meter, err error) {
	m = meter{have: true, ownCPU: ownCPU}
	m.cpu, err = keep(cpu)
	var oomErr error
	m.oom, oomErr = keep(oom)
	return m, errors.Join(err, oomErr)
}

func (m *meter) close() {
	if m.have {
		closeFDs([]int{m.cpu, m.oom})
	}
	m.have = false
}

func (m *meter) readCPU() (time.Duration, error) {
	var buf [1024]byte
	n, err := preadAll(m.cpu, buf[:])
	if err != nil {
		return 0, fmt.Errorf("read cpu counter: %w", err)
	}
	return parseCPU(buf[:n])
}

func (m *meter) readOOM() (int, error) {
	var buf [1024]byte
	n, err := preadAll(m.oom, buf[:])
	if err != nil {
		return 0, fmt.Errorf("read oom counter: %w", err)
	}
	kills, err := field(buf[:n], "oom_kill")
	return int(kills), err
}

func preadAll(fd int, buf []byte) (int, error) {
	for {
		n, err := unix.Pread(fd, buf, 0)
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}

// parseCPU understands cpuacct.usage (nanoseconds) and cpu.stat (usage_usec).
func parseCPU(b []byte) (time.Duration, error) {
	if v, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil {
		return time.Duration(v), nil
	}
	us, err := field(b, "usage_usec")
	return time.Duration(us) * time.Microsecond, err
}

// field finds the value of "name value" in a file of such lines.
func field(b []byte, name string) (int64, error) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(key) == name {
			return strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %q among the counters", name)
}
