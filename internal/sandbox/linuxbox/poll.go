package linuxbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// Without cgroups the init looks at its processes every few milliseconds, and
// kills when it finds too much. It is weaker in ways that polledWeaker names;
// the wall limit, which needs no cgroup, bounds what is missed.

// polledMeter is what results say of figures that were polled.
const polledMeter = "rusage"

// pollEvery is how often memory is looked at.
const pollEvery = 5 * time.Millisecond

func polledWeaker(why error) []string {
	if f, ok := errors.AsType[*sandbox.Fault](why); ok {
		why = f.Err
	}
	return []string{
		fmt.Sprintf("no cgroups (%v): memory and CPU time are polled every %v, so short peaks, shared memory that is let out of sight and children that end unseen are missed", why, pollEvery),
		"no cgroups: the number of processes is limited by user, and a refusal is not reported",
	}
}

// maxPolledProcesses is how many processes and threads a box can have at all.
const maxPolledProcesses = 1024

// poller adds up what the processes of a run use.
type poller struct {
	memoryLimit int64
	request     int    // of processes
	processes   uint64 // as the kernel counts them
	ownTasks    uint64 // of the init
	root        *rootFS
	ownPeak     int64 // of the init: a child's figure begins with it

	ended      time.Duration // CPU time of those that were reaped
	last       time.Duration // never goes back, though a process may end between two readings
	peak       int64
	childPeak  int64
	overMemory bool
}

func newPoller(req *runReq, oneID bool, root *rootFS) *poller {
	p := &poller{memoryLimit: req.memoryBytes, request: req.processes, processes: uint64(req.processes), root: root}
	var own unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &own) == nil {
		p.ownPeak = own.Maxrss << 10
	}
	tasks, err := os.ReadDir("/proc/self/task")
	if err == nil {
		p.ownTasks = uint64(len(tasks))
	}
	if oneID {
		p.processes += p.ownTasks // the kernel counts them together
	}
	p.processes = min(p.processes, maxPolledProcesses)
	return p
}

// lower is called right before the fork: children of the program inherit what
// it began with, so a limit that came later would be too late. The init's own
// threads are counted at that moment.
func (p *poller) lower() error {
	limit := min(uint64(p.request)+p.ownTasks, maxPolledProcesses)
	return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: limit, Max: maxPolledProcesses})
}

func (p *poller) restore() error {
	return unix.Setrlimit(unix.RLIMIT_NPROC, &unix.Rlimit{Cur: maxPolledProcesses, Max: maxPolledProcesses})
}

func (p *poller) tighten(pid int) {
	_ = unix.Prlimit(pid, unix.RLIMIT_NPROC, &unix.Rlimit{Cur: p.processes, Max: p.processes}, nil)
}

func (p *poller) reaped(used *unix.Rusage) {
	p.ended += time.Duration(used.Utime.Nano() + used.Stime.Nano())
	p.childPeak = max(p.childPeak, used.Maxrss<<10)
}

// look reads CPU time and memory of all processes but the init. What cannot be
// read has just ended.
func (p *poller) look() time.Duration {
	cpu := p.ended
	var anon, shared int64
	dir, err := os.Open("/proc")
	if err != nil {
		return p.last
	}
	defer dir.Close()
	names, _ := dir.Readdirnames(-1)
	for _, name := range names {
		pid, err := strconv.Atoi(name)
		if err != nil || pid == os.Getpid() {
			continue
		}
		cpu += processCPU(pid) + childrenCPU(name)
		if b, err := os.ReadFile("/proc/" + name + "/status"); err == nil {
			anon += kibOf(b, "RssAnon:") + kibOf(b, "VmPTE:")
			shared += kibOf(b, "RssShmem:")
		}
	}
	var files int64
	for _, s := range p.root.scratch {
		var fs unix.Statfs_t
		if unix.Statfs(s.path, &fs) == nil {
			files += int64(fs.Blocks-fs.Bfree) * fs.Bsize
		}
	}
	now := anon + max(shared, files) // a mapped file is in both
	p.peak = max(p.peak, now)
	p.overMemory = p.overMemory || now > p.memoryLimit
	p.last = max(p.last, cpu)
	return p.last
}

// peakBytes is the largest that was seen. A process that ended between two
// looks is known by its own figure, as far as that is not the init's; with it
// come pages of files, so it says nothing of the limit.
func (p *poller) peakBytes() int64 {
	if p.childPeak > p.ownPeak {
		return max(p.peak, min(p.childPeak, p.memoryLimit))
	}
	return p.peak
}

// processCPU is the time of all threads of a process, ended ones as well.
func processCPU(pid int) time.Duration {
	const sched = 2 // which of a process's clocks
	var ts unix.Timespec
	if unix.ClockGettime(int32(^pid)<<3|sched, &ts) != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}

// childrenCPU is that of children that the process has waited for.
func childrenCPU(pid string) time.Duration {
	const tick = 10 * time.Millisecond // USER_HZ, the same on all machines
	b, err := os.ReadFile("/proc/" + pid + "/stat")
	if err != nil {
		return 0
	}
	fields := bytes.Fields(b[bytes.LastIndexByte(b, ')')+1:])
	if len(fields) < 15 {
		return 0
	}
	user, _ := strconv.ParseInt(string(fields[13]), 10, 64)
	system, _ := strconv.ParseInt(string(fields[14]), 10, 64)
	return time.Duration(user+system) * tick
}

// kibOf is the value, in bytes, of a line such as "RssAnon:  123 kB".
func kibOf(status []byte, name string) int64 {
	_, rest, ok := bytes.Cut(status, []byte("\n"+name))
	fields := bytes.Fields(rest[:min(len(rest), 40)])
	if !ok || len(fields) == 0 {
		return 0
	}
	n, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	return n << 10
}
