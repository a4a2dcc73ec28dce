package linuxbox

import (
	"bytes"
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

// monotonic is the init's only clock, counted from the start of the process:
// the runtime reads it without a system call.
func monotonic() time.Duration { return (clock.System{}).Now().Sub(started) }

var started = clock.System{}.Now()

// Bounds of the wait between two looks at a running program.
const (
	minWait = time.Millisecond
	// maxWait bounds how long an orphan's zombie counts as a process, and how
	// late an out-of-memory kill of a child ends the run.
	maxWait = 50 * time.Millisecond
	// lateWake is how late the watcher may get the CPU after a long sleep: the
	// scheduler lets a program that runs finish its time slice, or go on to the
	// next tick. After sleeps of a millisecond that is rare.
	lateWake = 4 * time.Millisecond
)

// nextLook says how long the watcher may sleep: a program that runs on all
// cpus cannot use up cpuLeft sooner than cpuLeft/cpus. The last stretch is
// walked in steps of minWait, so the overshoot stays near that.
func nextLook(cpuLeft, wallLeft time.Duration, cpus int) time.Duration {
	d := max((cpuLeft-lateWake)/time.Duration(max(cpus, 1)), minWait)
	return min(d, maxWait, max(wallLeft, 0))
}

// meter reads the two counters that the watcher needs, through descriptors
// that the host opened: they may be files of cgroup v1 or v2, told apart by
// their content.
type meter struct {
	cpu, oom *counter
	ownCPU   bool // the forker's own time is in the figure (v1)
}

func keepMeter(cpu, oom int, ownCPU bool) (m meter, err error) {
	m = meter{cpu: new(counter), oom: new(counter), ownCPU: ownCPU}
	m.cpu.fd, err = keep(cpu)
	var oomErr error
	m.oom.fd, oomErr = keep(oom)
	return m, errors.Join(err, oomErr)
}

func (m *meter) close() {
	m.cpu.close()
	m.oom.close()
	*m = meter{}
}

func (m *meter) readCPU() (time.Duration, error) {
	b, err := m.cpu.read()
	if err != nil {
		return 0, fmt.Errorf("read cpu counter: %w", err)
	}
	return parseCPU(b)
}

func (m *meter) readOOM() (int, error) {
	kills, err := m.oom.field("oom_kill")
	if err != nil {
		return 0, fmt.Errorf("read oom counter: %w", err)
	}
	return int(kills), nil
}

// parseCPU understands cpuacct.usage (nanoseconds) and cpu.stat (usage_usec).
func parseCPU(b []byte) (time.Duration, error) {
	if v, err := strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64); err == nil {
		return time.Duration(v), nil
	}
	us, err := field(b, "usage_usec")
	return time.Duration(us) * time.Microsecond, err
}
