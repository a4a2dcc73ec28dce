package linuxbox

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// request prepares the host's part of a run: cgroup, mounts, pipes. The
// descriptors are for the init, in the order of runReq: stdio, then files.
func (r *hostRun) request() (req *runReq, stdio []int, files []*os.File, err error) {
	defer func() {
		if err != nil {
			closeAll(files)
		}
	}()
	l := &r.spec.Limits
	req = &runReq{
		argv: r.spec.Argv, env: r.spec.Env, dirs: r.spec.Dirs,
		cpu: l.CPU, wall: l.Wall,
		stackBytes: l.StackBytes, fileBytes: l.FileBytes,
		diskBytes: l.DiskBytes, diskInodes: l.DiskInodes,
		openFiles: l.OpenFiles,
	}
	if req.stackBytes == 0 {
		req.stackBytes = l.MemoryBytes
	}
	for _, c := range r.spec.CopyOut {
		req.copyOut = append(req.copyOut, copyReq{c.Path, c.MaxBytes})
	}
	if stdio, err = r.openStdio(); err != nil {
		return nil, stdio, nil, &sandbox.Fault{Op: "stdio", Err: err}
	}
	processes := l.Processes
	if r.slot.p.setup.weak(weakProcesses) {
		processes = 4000
	}
	req.memoryBytes, req.processes = l.MemoryBytes, processes
	if files, err = r.prepareGroup(req); err != nil {
		return nil, stdio, files, err
	}
	if req.keepMounts = r.slot.runs > 1 && slices.Equal(r.mounts, r.slot.mounts); req.keepMounts {
		return req, stdio, files, nil
	}
	var mounts []*os.File
	if !r.slot.p.setup.OneID {
		if mounts, err = openMounts(r.spec.Mounts, !r.slot.p.setup.weak(weakReadOnly)); err != nil {
			return nil, stdio, files, err
		}
	}
	for _, m := range r.spec.Mounts {
		req.mountPoints = append(req.mountPoints, m.Box)
		if r.slot.p.setup.OneID {
			req.mountPaths = append(req.mountPaths, m.Host) // only the init may clone mounts
		}
	}
	// If the run fails before they are attached, the slot is replaced.
	r.slot.mounts = r.mounts
	return req, stdio, append(files, mounts...), nil
}

// prepareGroup makes the run's cgroup ready. What the init needs of a fresh one
// comes back.
func (r *hostRun) prepareGroup(req *runReq) (files []*os.File, err error) {
	if r.slot.group == nil {
		return nil, nil
	}
	group, fresh, err := r.slot.group.prepare(req.memoryBytes, req.processes)
	if err != nil {
		return nil, err
	}
	r.group = group
	if fresh {
		if files, req.joins, req.intoV2, err = group.openMeter(); err != nil {
			return nil, err
		}
		req.newMeter = true
	}
	return files, nil
}

// openStdio returns descriptors 0, 1 and 2 of the program. They are copies
// (the caller's files stay the caller's), or the collectors' own.
func (r *hostRun) openStdio() (fds []int, err error) {
	in := r.slot.p.null
	if r.spec.Stdin != nil {
		if in, err = r.copyFD(r.spec.Stdin); err != nil {
			return nil, fmt.Errorf("stdin: %w", err)
		}
	}
	fds = append(fds, in)

	if r.spec.StdoutFD != nil {
		out, err := r.copyFD(r.spec.StdoutFD)
		if err != nil {
			return nil, fmt.Errorf("stdout: %w", err)
		}
		fds = append(fds, out)
	} else {
		over := func() { r.askKill(causeOutput) }
		if r.slot.p.setup.weak(weakOutput) {
			over = nil
		}
		if r.stdout, err = r.slot.collect(r.spec.Stdout, r.spec.Limits.StdoutBytes, over); err != nil {
			return nil, fmt.Errorf("stdout: %w", err)
		}
		fds = append(fds, r.stdout.write)
	}
	if r.stderr, err = r.slot.collect(r.spec.Stderr, r.spec.Limits.StderrBytes, nil); err != nil {
		return nil, fmt.Errorf("stderr: %w", err)
	}
	return append(fds, r.stderr.write), nil
}

// copyFD is duplicate, noted so that the copy is closed when the init has its
// own. A pipe is given to the box's user.
func (r *hostRun) copyFD(f *os.File) (int, error) {
	fd, err := duplicate(f)
	if err != nil {
		return -1, err
	}
	r.copies = append(r.copies, fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return -1, err
	}
	if st.Mode&unix.S_IFMT == unix.S_IFIFO {
		return fd, unix.Fchown(fd, r.slot.pipes.owner, r.slot.pipes.owner)
	}
	return fd, nil
}

func (r *hostRun) closeCopies() {
	closeFDs(r.copies)
	r.copies = nil
}

// duplicate copies a descriptor for a program. Programs expect blocking
// descriptors; those of Go's pipes are not.
func duplicate(f *os.File) (dup int, err error) {
	raw, err := f.SyscallConn()
	if err != nil {
		return -1, err
	}
	var opErr error
	err = raw.Control(func(fd uintptr) {
		if dup, opErr = unix.FcntlInt(fd, unix.F_DUPFD_CLOEXEC, 3); opErr == nil {
			if opErr = unix.SetNonblock(dup, false); opErr != nil {
				unix.Close(dup)
			}
		}
	})
	return dup, errors.Join(err, opErr)
}

// result makes the contract's words of what init, kernel and readers saw. It
// takes the files.
func (r *hostRun) result(ctx context.Context, out *outcome, files []*os.File) (res sandbox.Result, err error) {
	defer closeAll(files)
	if out.fault != "" {
		r.broken = out.fault
		if ctx.Err() != nil {
			return res, context.Cause(ctx)
		}
		return res, &sandbox.Fault{Op: out.fault, Err: withErrno(out.faultErr, out.errno)}
	}
	if out.slow {
		r.broken = "slow end"
	}
	r.slot.clean = out.clean
	seen, err := r.readings(out)
	if err != nil {
		r.broken = "counters"
		return res, err
	}
	if ctx.Err() != nil && out.fired == causeCancel {
		return res, context.Cause(ctx)
	}
	res = sandbox.Result{
		ExitCode: out.exitCode, Signal: out.signal,
		CPU: out.cpu, Wall: out.wall, Starved: out.starved, Asleep: r.asleep,
		MemoryBytes: seen.peakBytes, MemoryMeter: r.slot.p.info.MemoryMeter,
		OOMKills: seen.oomKills, ProcessLimitHit: seen.forkFails > 0,
	}
	if r.stdout != nil {
		res.StdoutBytes = r.stdout.seen
	}
	res.StderrBytes = r.stderr.seen
	res.Fired = r.fired(out, seen, &res)
	if seen.oomKills > 0 && r.group != nil && !r.group.atLimit(seen.peakBytes) {
		return sandbox.Result{}, &sandbox.Fault{
			Op: "memory", Hint: "fewer slots, or more memory",
			Err: errors.New("the machine ran out of memory, the program was within its limit"),
		}
	}
	if err := r.outputError(); err != nil {
		return sandbox.Result{}, &sandbox.Fault{Op: "output", Err: err}
	}
	if res.Files, err = r.takeFiles(out, files); err != nil {
		return sandbox.Result{}, &sandbox.Fault{Op: "copy out", Err: err}
	}
	return res, nil
}

// readings are the group's or, without one, what the init saw.
func (r *hostRun) readings(out *outcome) (readings, error) {
	if r.group != nil {
		return r.group.read()
	}
	seen := readings{peakBytes: out.peakBytes}
	if out.fired == causeMemory {
		seen.oomKills = 1 // the init's own kill
	}
	return seen, nil
}

// fired says which limit ended the run or, when the program ended by itself,
// which one it had passed all the same.
func (r *hostRun) fired(out *outcome, seen readings, res *sandbox.Result) sandbox.Limit {
	switch out.fired {
	case causeCPU:
		return sandbox.LimitCPU
	case causeWall:
		return sandbox.LimitWall
	case causeMemory:
		return sandbox.LimitMemory
	case causeOutput:
		return sandbox.LimitOutput
	case causeAsleep:
		return sandbox.LimitAsleep
	}
	l := &r.spec.Limits
	switch {
	case seen.oomKills > 0:
		return sandbox.LimitMemory
	case r.stdout != nil && res.StdoutBytes > l.StdoutBytes && !r.slot.p.setup.weak(weakOutput):
		return sandbox.LimitOutput
	case out.signal == int(unix.SIGXFSZ) || out.fileLimit:
		return sandbox.LimitOutput
	case res.CPU > l.CPU && !r.slot.p.setup.weak(weakCPUWatch):
		return sandbox.LimitCPU
	}
	return sandbox.LimitNone
}

func (r *hostRun) outputError() error {
	for _, c := range r.collectors() {
		if c.err != nil {
			return c.err
		}
	}
	return nil
}

func (r *hostRun) takeFiles(out *outcome, files []*os.File) (map[string]sandbox.File, error) {
	if len(r.spec.CopyOut) == 0 {
		return nil, nil
	}
	if len(out.files) != len(r.spec.CopyOut) {
		return nil, fmt.Errorf("%d files reported, %d asked for", len(out.files), len(r.spec.CopyOut))
	}
	got := map[string]sandbox.File{}
	fail := func(err error) (map[string]sandbox.File, error) {
		for _, f := range got {
			if f.Content != nil {
				f.Content.Close()
			}
		}
		return nil, err
	}
	for i, f := range out.files {
		want := r.spec.CopyOut[i]
		file := sandbox.File{Size: f.size}
		switch f.state {
		case fileOK:
			if len(files) == 0 {
				return fail(io.ErrUnexpectedEOF)
			}
			content, err := takeContent(files[0], f.size, r.slot.p.cfg.TempDir)
			if err != nil {
				return fail(fmt.Errorf("%s: %w", want.Path, err))
			}
			files = files[1:]
			file.State, file.Content = sandbox.FileOK, content
		case fileMissing:
			if want.Optional {
				continue
			}
			file.State = sandbox.FileMissing
		case fileTooLarge:
			file.State = sandbox.FileTooLarge
		default:
			file.State = sandbox.FileNotRegular
		}
		got[want.Path] = file
	}
	return got, nil
}
