package drill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// process is a child. It does not outlive this process.
type process struct {
	t    *T
	name string
	cmd  *exec.Cmd
	log  string // file with its output
	done chan struct{}
}

// netOf says in whose network namespace a child starts; 0 is ours.
type netOf int

// start starts a child with its output in NAME.log. The kernel kills it when
// the thread that forked it ends, so that thread stays until the child is gone;
// when it was moved to another namespace it ends with its goroutine.
func (t *T) start(name string, cmd *exec.Cmd, net netOf) *process {
	p := &process{t: t, name: name, cmd: cmd, log: t.path(name + ".log"), done: make(chan struct{})}
	out, err := os.OpenFile(p.log, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	t.must(err, "log of "+name)
	if cmd.Stdout == nil {
		cmd.Stdout = out
	}
	cmd.Stderr = out
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	// A group of its own: Ctrl-C reaches us alone, and we end it.
	cmd.SysProcAttr.Setpgid, cmd.SysProcAttr.Pdeathsig = !cmd.SysProcAttr.Setsid, syscall.SIGKILL
	started := make(chan error, 1)
	go func() {
		defer close(p.done)
		defer out.Close()
		runtime.LockOSThread()
		if net != 0 {
			if err := enterNet(int(net)); err != nil {
				started <- err
				return
			}
		} else {
			defer runtime.UnlockOSThread()
		}
		err := cmd.Start()
		started <- err
		if err == nil {
			_ = cmd.Wait() // how it ended is looked at where it matters
		}
	}()
	t.must(<-started, "start "+name)
	t.cleanup(p.end)
	return p
}

// role starts this program in a role, with its settings on standard input.
func (t *T) role(name, role string, settings any, attr *syscall.SysProcAttr) *process {
	raw, err := json.Marshal(settings)
	t.must(err, "settings of "+name)
	cmd := exec.Command(t.Self, RoleArgument, role)
	cmd.Stdin, cmd.SysProcAttr = bytes.NewReader(raw), attr
	return t.start(name, cmd, 0)
}

func (p *process) pid() int { return p.cmd.Process.Pid }

// signal is sent to the process, unless it has ended.
func (p *process) signal(s syscall.Signal) { _ = p.cmd.Process.Signal(s) }

func (p *process) gone() bool {
	select {
	case <-p.done:
		return true
	default:
		return false
	}
}

// kill ends it as a power cut would.
func (p *process) kill() {
	p.signal(syscall.SIGKILL)
	<-p.done
}

// end is the clean-up: whatever state it is in, it goes, with its group.
func (p *process) end() {
	_ = syscall.Kill(-p.pid(), syscall.SIGKILL) // gone already: good
	p.kill()
}

// freeze stops it and returns when it has stopped.
func (p *process) freeze() {
	p.signal(syscall.SIGSTOP)
	p.t.until(5*time.Second, p.name+" is frozen", func() bool { return p.gone() || p.state() == "T" })
}

func (p *process) thaw() { p.signal(syscall.SIGCONT) }

// stop is an orderly stop.
func (p *process) stop(limit time.Duration) {
	p.signal(syscall.SIGTERM)
	p.t.until(limit, p.name+" stops", p.gone)
}

// state is the kernel's letter for what the process does.
func (p *process) state() string {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid()) + "/stat")
	if err != nil {
		return ""
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	return fields[0]
}

// peakMemory is the most memory that it has held, in bytes.
func (p *process) peakMemory() int64 {
	raw, err := os.ReadFile("/proc/" + strconv.Itoa(p.pid()) + "/status")
	if err != nil {
		return 0
	}
	for line := range strings.Lines(string(raw)) {
		if rest, ok := strings.CutPrefix(line, "VmHWM:"); ok {
			kib, _ := strconv.ParseInt(strings.Fields(rest)[0], 10, 64) // the kernel writes a number
			return kib << 10
		}
	}
	return 0
}

// said says whether its log contains a text.
func (p *process) said(text string) bool {
	raw, err := os.ReadFile(p.log)
	return err == nil && bytes.Contains(raw, []byte(text))
}

// enterNet moves this thread into another process's network.
func enterNet(pid int) error {
	f, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", pid))
	if err != nil {
		return fmt.Errorf("open network namespace: %w", err)
	}
	defer f.Close()
	if err := unix.Setns(int(f.Fd()), unix.CLONE_NEWNET); err != nil {
		return fmt.Errorf("enter network namespace: %w", err)
	}
	return nil
}

// loopback switches the loopback device of a process's network on or off: off
// is a line that is cut, for both ends and without a word to either.
func loopback(pid int, on bool) error {
	result := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlock: the thread has moved
		result <- func() error {
			if err := enterNet(pid); err != nil {
				return err
			}
			fd, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
			if err != nil {
				return fmt.Errorf("socket: %w", err)
			}
			defer unix.Close(fd)
			ifr, err := unix.NewIfreq("lo")
			if err != nil {
				return err
			}
			if on {
				ifr.SetUint16(unix.IFF_UP)
			}
			if err := unix.IoctlIfreq(fd, unix.SIOCSIFFLAGS, ifr); err != nil {
				return fmt.Errorf("switch loopback: %w", err)
			}
			return nil
		}()
	}()
	return <-result
}
