package linuxbox

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

// firstPID is the process id that every program gets, run after run.
const firstPID = 100

// endGrace is how long killed processes may take to disappear before the slot
// is given up as broken.
const endGrace = 20 * time.Second

// initRun is one run inside the init.
type initRun struct {
	*boxInit
	req *runReq

	job     forkJob
	poll    *poller // instead of the meter, when setup.Polled
	status  unix.WaitStatus
	exited  bool
	left    bool // other processes may be there after the program
	ended   time.Duration
	credit  time.Duration // wall time beyond the limit, see grantWall
	tooBusy bool          // the machine, for this run
	touched []*scratch    // file systems that the run left marks in
	out     outcome
}

// do runs the program and sends the outcome.
func (r *initRun) do(fds []int) error {
	mounts, std, err := r.takeFDs(fds)
	if err == nil {
		if err = r.prepare(mounts); err == nil {
			err = r.run(std)
		} else {
			closeFDs(std)
		}
	}
	var files []int
	if err == nil {
		files = r.copyOut()
	} else {
		r.out = *failure(err)
	}
	err = sendPacket(r.rx.sock, r.out.pack(), files...)
	closeFDs(files)
	closeFDs([]int{r.job.pidfd})
	return err
}

func failure(err error) *outcome {
	out := &outcome{fault: "supervise", faultErr: err.Error()}
	if se, ok := errors.AsType[*stepError](err); ok {
		out.fault, out.faultErr = se.op, se.err.Error()
	}
	if errno, ok := errors.AsType[unix.Errno](err); ok {
		out.errno = int(errno)
	}
	return out
}

// run starts the program and sees it through to its end.
func (r *initRun) run(std []int) error {
	err := r.fork(std)
	// At once: a peer at the other end of a pipe waits for its end of file,
	// and that must depend on the program alone.
	closeFDs(std)
	if err != nil {
		return err
	}
	if err := r.watch(); err != nil {
		return err
	}
	return r.finish()
}

// takeFDs deals out the descriptors that came with the request.
func (r *initRun) takeFDs(fds []int) (mounts, std []int, err error) {
	r.job.cgroupDir, r.job.pidfd = -1, -1
	need := 3 + len(r.req.mountPoints) - len(r.req.mountPaths)
	if r.req.newMeter {
		need += 2 + r.req.joins
		if r.req.intoV2 {
			need++
		}
	}
	if len(fds) != need {
		closeFDs(fds)
		return nil, nil, fmt.Errorf("run message with %d descriptors, want %d", len(fds), need)
	}
	std, fds = fds[:3], fds[3:]
	if r.req.newMeter {
		r.meter.close()
		r.noted = false
		if r.meter, err = keepMeter(fds[0], fds[1], r.req.joins > 0); err != nil {
			closeFDs(fds[2:])
			closeFDs(std)
			return nil, nil, fmt.Errorf("keep counters: %w", err)
		}
		r.job.joins, fds = fds[2:2+r.req.joins], fds[2+r.req.joins:]
		if r.req.intoV2 {
			if r.job.cgroupDir, err = keep(fds[0]); err != nil {
				closeFDs(fds[1:])
				closeFDs(std)
				return nil, nil, fmt.Errorf("keep cgroup: %w", err)
			}
			fds = fds[1:]
		}
	}
	return fds, std, nil
}

func (r *initRun) prepare(mounts []int) error {
	if len(r.req.mountPaths) > 0 {
		var err error
		if mounts, err = r.host.open(r.req.mountPaths); err != nil {
			return err
		}
	}
	if r.wantsChange() {
		if err := r.onJanitor(func() error { return r.arrange(mounts) }); err != nil {
			return err
		}
	}
	if !r.idReady {
		r.nextID()
	}
	r.idReady = false
	return nil
}

// nextID sees to it that the next process gets firstPID. Best effort: a thread
// of ours may just have that number.
func (b *boxInit) nextID() {
	if b.lastID >= 0 {
		_, _ = unix.Pwrite(b.lastID, []byte(strconv.Itoa(firstPID-1)), 0)
	}
}

// getReady does for the next run what need not wait for it, while the host is
// busy with the result of this one.
func (b *boxInit) getReady() error {
	if err := b.limits.restore(); err != nil {
		return err
	}
	b.nextID()
	b.idReady = true
	// A group of version 2 is for one run, and without groups there is nothing
	// to note.
	if b.meter.ownCPU {
		b.noted = b.noteCounters() == nil // else the run itself tries, and reports
	}
	return nil
}

func (r *initRun) makeDirs() error {
	for _, dir := range r.req.dirs {
		if err := makeDirsBelow(boxWorkDir, dir); err != nil {
			return step("directory", "", fmt.Errorf("make %s: %w", dir, err))
		}
	}
	return nil
}

func (r *initRun) fork(std []int) error {
	defer func() {
		closeFDs(r.job.joins)
		closeFDs([]int{r.job.cgroupDir})
	}()
	for _, fd := range r.job.joins {
		if err := joinTasks(fd); err != nil {
			return step("cgroup", "", fmt.Errorf("enter the run's cgroup: %w", err))
		}
	}
	r.job.argv, r.job.env = r.req.argv, r.req.env
	r.job.files = []uintptr{uintptr(std[0]), uintptr(std[1]), uintptr(std[2])}
	if err := r.limits.lower(r.req); err != nil {
		return step("rlimit", "", err)
	}
	if err := r.zero(); err != nil {
		return step("cgroup", "", err)
	}
	if r.poll != nil {
		if err := r.poll.lower(); err != nil {
			return step("rlimit", "", err)
		}
	}
	err := r.job.fork()
	if r.poll != nil {
		err = errors.Join(err, step("rlimit", "", r.poll.restore()))
	}
	return err
}

// tighten sets the program's hard limits, for as long as they may still move.
func (r *initRun) tighten() error {
	all := func() error {
		tighten(r.job.pid, r.req)
		if r.poll != nil {
			r.poll.tighten(r.job.pid)
		}
		return nil
	}
	if r.cfg.OneID {
		return r.onJanitor(all) // the filter of this thread forbids it, as to the program
	}
	return all()
}

// watch waits for the end of the program and enforces CPU and wall limits, and
// those that the host asks for. It does not look at once, because the program
// has to get on the CPU first: many have ended before the first look is due.
func (r *initRun) watch() error {
	if err := r.tighten(); err != nil {
		return err
	}
	var deadline time.Duration // for processes to be gone, once killed
	poll := []unix.PollFd{
		{Fd: int32(r.job.pidfd), Events: unix.POLLIN},
		{Fd: int32(r.rx.sock), Events: unix.POLLIN},
	}
	for wait := minWait; ; {
		ts := unix.NsecToTimespec(int64(wait))
		if _, err := unix.Ppoll(poll, &ts, nil); err != nil && !errors.Is(err, unix.EINTR) {
			return fmt.Errorf("poll: %w", err)
		}
		if poll[1].Revents != 0 {
			if err := r.hostSays(); err != nil {
				return err
			}
		}
		if r.left = r.reap(unix.WNOHANG); r.exited {
			return nil
		}
		now := monotonic()
		if now-r.job.started < settleTime {
			if err := r.tighten(); err != nil {
				return err
			}
		}
		wait = maxWait
		if r.out.fired == causeNone {
			used, err := r.usedCPU()
			if err != nil {
				return err
			}
			if r.cfg.weak(weakCPUWatch) {
				used = 0
			}
			wait = nextLook(r.req.cpu-used, r.wallLeft(now), r.ncpu)
			if r.poll != nil {
				wait = min(wait, pollEvery)
			}
			if err := r.enforce(used, now-r.job.started); err != nil {
				return err
			}
		}
		if r.out.fired != causeNone {
			switch {
			case deadline == 0:
				deadline = now + endGrace
			case now > deadline:
				return step("kill", "", fmt.Errorf("processes still there %s after SIGKILL", endGrace))
			}
			killAll()
		}
	}
}

// enforce decides whether a limit is passed. An out-of-memory kill that came
// before the limit is looked for here, so that the first one is the cause (L1).
func (r *initRun) enforce(cpu, wall time.Duration) error {
	kills, err := r.memoryKills()
	if err != nil {
		return err
	}
	switch {
	case kills > r.base.oomKills:
		r.fire(causeMemory)
	case cpu > r.req.cpu:
		r.fire(causeCPU)
	case wall > r.req.wall+r.credit:
		if r.grantWall(cpu, wall); wall > r.req.wall+r.credit {
			r.fire(causeWall)
		}
	}
	return nil
}

func (r *initRun) fire(c cause) {
	if r.out.fired == causeNone {
		r.out.fired = c
	}
}

func (r *initRun) hostSays() error {
	kind, body, fds, err := r.rx.next()
	closeFDs(fds)
	switch {
	case errors.Is(err, io.EOF):
		os.Exit(0) // the worker is gone; everything in here goes with process 1
	case err != nil:
		return fmt.Errorf("control channel: %w", err)
	case kind != msgKill || len(body) != 1:
		return fmt.Errorf("message %d during a run", kind)
	}
	kills, err := r.memoryKills()
	if err != nil {
		return err
	}
	if kills > r.base.oomKills && cause(body[0]) != causeCancel {
		r.fire(causeMemory)
	}
	r.fire(cause(body[0]))
	return nil
}

// killAll ends every process of the box but this one. The kernel walks the
// process list under its lock, and a process with a pending kill cannot finish
// a fork, so one call is enough for a fork bomb.
func killAll() { _ = unix.Kill(-1, unix.SIGKILL) }

// reap collects dead children; the program's own status is kept. It reports
// whether any child is left. Without one there is no process in the box: each
// has process 1 among its ancestors.
func (r *initRun) reap(options int) (left bool) {
	for {
		var ws unix.WaitStatus
		var used unix.Rusage
		pid, err := unix.Wait4(-1, &ws, options|unix.WALL, &used)
		if r.poll != nil && err == nil && pid > 0 {
			r.poll.reaped(&used)
		}
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case err != nil: // ECHILD
			return false
		case pid == 0:
			return true
		case pid == r.job.pid:
			r.status, r.exited, r.ended = ws, true, monotonic()
		}
	}
}

// finish ends what the program left behind and takes the final readings.
func (r *initRun) finish() error {
	// To signal everybody, the kernel walks all processes of the machine.
	if r.left && !r.cfg.weak(weakReap) {
		start := monotonic()
		for killAll(); r.reap(unix.WNOHANG); killAll() {
			if monotonic()-start > endGrace {
				return step("kill", "", fmt.Errorf("processes still there %s after SIGKILL", endGrace))
			}
			r.waitForChild()
		}
		r.out.slow = monotonic()-start > time.Second
	}
	used, err := r.usedCPU()
	if err != nil {
		return err
	}
	if r.tooBusy {
		return step("cpu", "fewer slots, or less other work on this machine", fmt.Errorf(
			"the machine is too busy: the program was ready to run for %v of %v and got no CPU", r.credit.Round(time.Millisecond), (r.ended-r.job.started).Round(time.Millisecond)))
	}
	r.out.cpu, r.out.wall = used, r.ended-r.job.started
	if r.credit > 0 {
		r.out.starved = r.credit
		if r.out.fired == causeNone { // it ended by itself since the last look
			r.out.starved = max(r.credit, r.out.wall-r.req.wall)
		}
	}
	if r.poll != nil {
		r.out.peakBytes = r.poll.peakBytes()
	}
	if r.status.Signaled() {
		r.out.signal = int(r.status.Signal()) & 0x7f
	} else {
		r.out.exitCode = r.status.ExitStatus()
	}
	if r.touched, err = r.root.touched(); err != nil {
		return step("clean", "", err)
	}
	if r.out.clean = len(r.touched) == 0; r.out.clean && len(r.req.copyOut) == 0 {
		return nil
	}
	if err := r.limits.restore(); err != nil { // what follows opens files
		return step("rlimit", "", err)
	}
	r.out.fileLimit = r.hitFileLimit()
	return nil
}

// waitForChild blocks until some child has died, without collecting it.
func (r *initRun) waitForChild() {
	_ = unix.Waitid(unix.P_ALL, 0, nil, unix.WEXITED|unix.WNOWAIT|unix.WALL, nil)
}
