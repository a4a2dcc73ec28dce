package linuxbox

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// initTime bounds each answer of an init outside a run: it takes milliseconds,
// and on a machine that is busy beyond reason some seconds.
const initTime = time.Minute

// slot is one living init with its cgroups, seen from the host.
type slot struct {
	p      *Provider
	group  *slotGroup
	proc   *os.Process
	sock   *os.File
	rx     *receiver
	diag   *os.File // what the init printed, for faults
	pipes  pipes
	runs   int
	mounts []mountID // attached in the box
	clean  bool      // msgReady was received after the last run

	endOnce sync.Once
	endErr  error
	state   *os.ProcessState
}

// startSlot makes namespaces, file tree and cgroups, up to the point where the
// box only waits for a run.
func (p *Provider) startSlot(ctx context.Context, index, cpu int) (*slot, error) {
	rootID, userID := hostIDs(p.idBase, os.Getpid(), index)
	if p.setup.OneID {
		rootID, userID = os.Geteuid(), os.Geteuid()
	}
	s := &slot{p: p, pipes: pipes{owner: userID}}
	var err error
	if s.group, err = p.cgroups.newSlot(fmt.Sprintf("slot%d-%d", index, p.serial.Add(1)), rootID); err != nil {
		return nil, err
	}
	setup := p.setup
	if cpu >= 0 {
		setup.CPU = &cpu
	}
	if err := s.start(ctx, rootID, userID, &setup); err != nil {
		_ = s.end()
		return nil, err
	}
	return s, nil
}

func (s *slot) start(ctx context.Context, rootID, userID int, setup *setup) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return &sandbox.Fault{Op: "start", Err: err}
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "box control"), os.NewFile(uintptr(pair[1]), "box control")
	defer theirs.Close() // again, unless it went early
	s.sock, s.rx = ours, newReceiver(pair[0])

	fd, err := unix.MemfdCreate("box-init-stderr", unix.MFD_CLOEXEC)
	if err != nil {
		return &sandbox.Fault{Op: "start", Err: err}
	}
	s.diag = os.NewFile(uintptr(fd), "box init stderr")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return &sandbox.Fault{Op: "start", Err: err}
	}
	defer null.Close()

	attr := &os.ProcAttr{
		Dir:   "/",
		Env:   []string{},
		Files: []*os.File{null, null, s.diag, theirs},
		Sys: &syscall.SysProcAttr{
			Cloneflags: unix.CLONE_NEWUSER | unix.CLONE_NEWPID | unix.CLONE_NEWNS | unix.CLONE_NEWNET |
				unix.CLONE_NEWIPC | unix.CLONE_NEWUTS,
			Setsid:    true,
			Pdeathsig: unix.SIGKILL,
		},
	}
	if s.p.setup.OneID {
		oneIDAttr(attr.Sys)
	} else {
		attr.Sys.UidMappings, attr.Sys.GidMappings = idMap(rootID, userID), idMap(rootID, userID)
		attr.Sys.GidMappingsEnableSetgroups = true // to be able to drop them
		// Without it the child would have no id in its own namespace.
		attr.Sys.Credential = &syscall.Credential{Uid: boxRootUID, Gid: boxRootUID}
	}
	if dir := s.group.v2Dir(); dir != "" {
		d, err := os.Open(dir)
		if err != nil {
			return cgroupFault(dir, err)
		}
		defer d.Close()
		attr.Sys.UseCgroupFD, attr.Sys.CgroupFD = true, int(d.Fd())
	}
	s.proc, err = s.p.starter.start("/proc/self/exe", []string{initArg0}, attr)
	// From here on the init alone has its end of the channel, so that its death
	// is the end of what can be received.
	_ = theirs.Close()
	if err != nil {
		return startFault(err)
	}
	// Whatever the init waits for, it does not outlive who wanted it.
	stop := context.AfterFunc(ctx, s.kill)
	defer stop()
	if err := s.outfit(setup); err != nil {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		return err
	}
	return nil
}

// outfit makes a started init ready for runs.
func (s *slot) outfit(setup *setup) error {
	// When the whole machine runs out of memory, programs go before the worker.
	// Written with CAP_SYS_RESOURCE, it is a bound that nobody inside can lower.
	if err := writeFile(fmt.Sprintf("/proc/%d/oom_score_adj", s.proc.Pid), "600"); err != nil {
		if !s.p.setup.OneID {
			return &sandbox.Fault{Op: "start", Err: err}
		}
		s.p.noteWeaker([]string{"programs keep the worker's out-of-memory rank"})
	} else if !hasCapability(unix.CAP_SYS_RESOURCE) {
		s.p.noteWeaker([]string{"programs can lower their out-of-memory rank: the worker has no CAP_SYS_RESOURCE"})
	}
	return s.greet(setup)
}

func idMap(rootID, userID int) []syscall.SysProcIDMap {
	return []syscall.SysProcIDMap{
		{ContainerID: boxRootUID, HostID: rootID, Size: 1},
		{ContainerID: boxUserUID, HostID: userID, Size: 1},
	}
}

func startFault(err error) error {
	if f, ok := errors.AsType[*sandbox.Fault](err); ok {
		return f
	}
	hint := ""
	switch {
	case errors.Is(err, unix.EACCES):
		hint = "the worker's executable must be readable and executable for everybody: chmod o+rx it"
	case errors.Is(err, unix.EPERM):
		hint = "creating namespaces is not permitted: run the worker as root, in a container with CAP_SYS_ADMIN and a seccomp profile that allows clone with namespaces"
	case errors.Is(err, unix.ENOSPC), errors.Is(err, unix.EUSERS):
		hint = "raise the sysctls user.max_*_namespaces"
	case errors.Is(err, unix.EINVAL):
		hint = "the kernel needs user, pid, net, ipc and uts namespaces"
	}
	return &sandbox.Fault{Op: "namespaces", Hint: hint, Err: err}
}

// greet goes through the start of the protocol: setup, hello, go, ready.
func (s *slot) greet(setup *setup) error {
	tasks, err := s.group.v1Tasks()
	if err != nil {
		return err
	}
	err = sendPacket(s.rx.sock, packJSON(msgSetup, setup), fdsOf(tasks)...)
	closeAll(tasks)
	if err != nil {
		return &sandbox.Fault{Op: "start", Err: err}
	}
	body, err := s.expect(msgHello)
	if err != nil {
		return err
	}
	var h hello
	if err := json.Unmarshal(body, &h); err != nil {
		return &sandbox.Fault{Op: "start", Err: err}
	}
	if h.Op != "" {
		return &sandbox.Fault{Op: h.Op, Hint: h.Hint, Err: withErrno(h.Err, h.Errno)}
	}
	s.p.noteWeaker(h.Weaker)
	if err := s.group.settle(s.proc.Pid); err != nil {
		return err
	}
	if err := sendPacket(s.rx.sock, []byte{msgGo}); err != nil {
		return s.lost(err)
	}
	return s.awaitClean()
}

// awaitClean waits until the init has cleaned up after the last run.
func (s *slot) awaitClean() error {
	if s.clean {
		return nil
	}
	fault, err := s.expect(msgReady)
	if err != nil {
		return err
	}
	if len(fault) > 0 {
		return &sandbox.Fault{Op: "clean", Err: errors.New(string(fault))}
	}
	s.clean = true
	return nil
}

func (s *slot) expect(want byte) ([]byte, error) {
	if err := s.rx.await(initTime); err != nil {
		return nil, s.lost(err)
	}
	kind, body, fds, err := s.rx.next()
	closeFDs(fds)
	if err != nil {
		return nil, s.lost(err)
	}
	if kind != want {
		return nil, &sandbox.Fault{Op: "supervise", Err: fmt.Errorf("message %d from the box's init, want %d", kind, want)}
	}
	return body, nil
}

// lost explains the end of the control channel.
func (s *slot) lost(err error) error {
	said := ""
	if _, e := s.diag.Seek(0, io.SeekStart); e == nil {
		b, _ := io.ReadAll(io.LimitReader(s.diag, 4<<10))
		said = strings.TrimSpace(string(b))
	}
	_ = s.end()
	switch {
	case said != "":
		err = fmt.Errorf("the box's init ended: %s", said)
	case s.state != nil:
		err = fmt.Errorf("the box's init ended: %s", s.state)
	default:
		err = fmt.Errorf("the box's init is lost: %w", err)
	}
	return &sandbox.Fault{Op: "supervise", Err: err}
}

// kill ends the init, and with it every process of its pid namespace.
func (s *slot) kill() {
	if s.proc != nil {
		_ = s.proc.Kill()
	}
}

// end kills the slot and releases all it has. It may be called more than once.
func (s *slot) end() error {
	s.endOnce.Do(func() {
		if s.proc != nil {
			s.kill()
			s.state, _ = s.proc.Wait()
		}
		s.pipes.close()
		for _, f := range []*os.File{s.sock, s.diag} {
			if f != nil {
				_ = f.Close()
			}
		}
		s.endErr = s.group.close()
	})
	return s.endErr
}

func fdsOf(files []*os.File) []int {
	fds := make([]int, len(files))
	for i, f := range files {
		fds[i] = int(f.Fd())
	}
	return fds
}

// withErrno gives an error that came over the wire its errno back.
func withErrno(text string, errno int) error {
	if errno == 0 {
		return errors.New(text)
	}
	return &remoteError{text, unix.Errno(errno)}
}

type remoteError struct {
	text  string
	errno unix.Errno
}

func (e *remoteError) Error() string { return e.text }
func (e *remoteError) Unwrap() error { return e.errno }

func hasCapability(c uint) bool {
	hdr := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&hdr, &data[0]) == nil && data[c/32].Effective&(1<<(c%32)) != 0
}
