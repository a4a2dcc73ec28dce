package linuxbox

import (
	"fmt"
	"runtime"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// forker is the thread that starts programs. All that a program inherits and
// that the standard library cannot set in a child (v1 cgroup, no_new_privs,
// seccomp filter, cgroup namespace, empty bounding set) is set on this one
// thread, once. The Go runtime never starts other threads from it, because
// its goroutine is locked to it.
//
// It also receives runs, watches and reaps what it started and sends the
// result: handing any of that to another thread would cost a wake-up on the
// way of every run. What it cannot do, being filtered, is mounting.
type forker struct {
	jobs chan func()
	done chan struct{}
}

// forkJob is one start.
type forkJob struct {
	argv, env []string
	files     []uintptr
	joins     []int // v1 tasks files to enter first
	cgroupDir int   // v2 leaf to start in, or -1

	pid, pidfd int
	started    time.Duration // monotonic, right before the fork
}

func startForker(tasks []int, cfg *setup, pin func() error) (*forker, error) {
	f := &forker{jobs: make(chan func()), done: make(chan struct{})}
	ready := make(chan error)
	go func() {
		runtime.LockOSThread()
		err := pin()
		if err == nil {
			err = f.lockDown(tasks, cfg)
		}
		ready <- err
		if err == nil {
			f.loop()
		}
	}()
	return f, <-ready
}

func (f *forker) lockDown(tasks []int, cfg *setup) error {
	for _, fd := range tasks {
		if err := joinTasks(fd); err != nil {
			return step("cgroup", "", fmt.Errorf("forker thread enters the slot's cgroup: %w", err))
		}
	}
	closeFDs(tasks)
	// Hides the host's cgroup paths in /proc/self/cgroup.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return step("namespaces", "the kernel needs CONFIG_CGROUPS and user.max_cgroup_namespaces above 0", fmt.Errorf("cgroup namespace: %w", err))
	}
	// With an empty bounding set nothing that is executed can gain anything,
	// whatever its file says. The thread keeps what the child needs to become
	// the box's user.
	for c := uintptr(0); c <= 63; c++ {
		if err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0); err != nil {
			break // past the last capability of this kernel
		}
	}
	if err := clearInheritable(); err != nil {
		return step("capabilities", "", err)
	}
	if err := unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0); err != nil {
		return step("no_new_privs", "", err)
	}
	if !cfg.weak(weakSeccomp) {
		return step("seccomp", "the kernel needs CONFIG_SECCOMP_FILTER", installFilter(cfg))
	}
	return nil
}

// joinTasks moves the calling thread: unlike writing a process id to
// cgroup.procs, this waits for no grace period.
func joinTasks(fd int) error {
	_, err := unix.Pwrite(fd, []byte("0"), 0)
	return err
}

func clearInheritable() error {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&hdr, &data[0]); err != nil {
		return err
	}
	data[0].Inheritable, data[1].Inheritable = 0, 0
	_ = unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0)
	return unix.Capset(&hdr, &data[0])
}

// do runs job on the forker thread.
func (f *forker) do(job func()) {
	f.jobs <- job
	<-f.done
}

func (f *forker) loop() {
	for job := range f.jobs {
		job()
		f.done <- struct{}{}
	}
}

// fork starts the program. It must run on the forker thread.
func (j *forkJob) fork() error {
	j.pidfd = -1
	attr := &syscall.ProcAttr{
		Dir:   boxWorkDir,
		Env:   j.env,
		Files: j.files,
		Sys: &syscall.SysProcAttr{
			// A session of its own, and with it a scheduler's group where the
			// kernel makes one for each: what a program does to its group's
			// niceness slows neither the forker nor the next program.
			Setsid: true,
			// The init itself has no supplementary groups.
			Credential: &syscall.Credential{Uid: boxUserUID, Gid: boxUserGID, NoSetGroups: true},
			PidFD:      &j.pidfd,
		},
	}
	if j.cgroupDir >= 0 {
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, j.cgroupDir
	}
	j.started = monotonic()
	var err error
	j.pid, err = syscall.ForkExec(j.argv[0], j.argv, attr)
	return step("exec", "", err)
}

func threadCPU() time.Duration {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_THREAD_CPUTIME_ID, &ts); err != nil {
		return 0
	}
	return time.Duration(ts.Nano())
}
