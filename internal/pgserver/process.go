package pgserver

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/internal/clock"
)

const pollEvery = 10 * time.Millisecond

// A postmaster is one run of the server.
type postmaster struct {
	pid     int
	process *os.Process
	exited  chan struct{} // closed when the process has been reaped
	err     error         // how it ended; read after exited
	log     *logPipe
}

// launch starts cmd on a thread that lives as long as the process does: the
// kernel sends the parent-death signal when the *thread* that forked ends, and
// Go ends threads as it likes unless a goroutine is locked to it.
func launch(cmd *exec.Cmd, log *logPipe) (*postmaster, error) {
	p := &postmaster{exited: make(chan struct{}), log: log}
	started := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		started <- err
		if err != nil {
			return
		}
		p.err = cmd.Wait()
		close(p.exited)
	}()
	if err := <-started; err != nil {
		return nil, err
	}
	p.process, p.pid = cmd.Process, cmd.Process.Pid
	return p, nil
}

func (p *postmaster) alive() bool {
	select {
	case <-p.exited:
		return false
	default:
		return true
	}
}

// signal never hits a stranger with a recycled pid: os.Process knows whether
// the process has been reaped.
func (p *postmaster) signal(sig syscall.Signal) {
	_ = p.process.Signal(sig) // it has just gone, which is what we want
}

// runTool runs a program of the server to its end as the server's user, and
// returns what it printed. The whole process group dies with the context and
// with us.
func runTool(ctx context.Context, a account, stdin, path string, args ...string) (string, error) {
	var out bytes.Buffer
	cmd := exec.CommandContext(context.WithoutCancel(ctx), path, args...) // the group is killed below, not one process
	cmd.Dir = "/"                                                         // ours may be closed to the server's user
	cmd.Env = childEnv()
	cmd.Stdin = strings.NewReader(stdin)
	cmd.Stdout, cmd.Stderr = &out, &out
	cmd.SysProcAttr = a.sysProcAttr(syscall.SIGKILL)
	cmd.WaitDelay = 5 * time.Second
	p, err := launch(cmd, nil)
	if err != nil {
		return "", fmt.Errorf("run %s as user %s: %w", path, a.name, err)
	}
	select {
	case <-p.exited:
	case <-ctx.Done():
		_ = syscall.Kill(-p.pid, syscall.SIGKILL) // the group: initdb has a server as child
		<-p.exited
		return "", fmt.Errorf("run %s: %w", filepath.Base(path), context.Cause(ctx))
	}
	if p.err != nil {
		return out.String(), fmt.Errorf("%s: %w: %s", filepath.Base(path), p.err, tail(out.String(), 5))
	}
	return out.String(), nil
}

// tail returns the last n non-empty lines of s in one line.
func tail(s string, n int) string {
	var lines []string
	for line := range strings.Lines(s) {
		if line = strings.TrimSpace(line); line != "" {
			lines = append(lines, line)
		}
	}
	if len(lines) > n {
		lines = lines[len(lines)-n:]
	}
	return strings.Join(lines, " | ")
}

// serverProcesses finds the PostgreSQL processes whose working directory is
// dir: the postmaster and every backend stay in their data directory. This
// also finds backends that outlive their postmaster, which postmaster.pid
// knows nothing of.
func serverProcesses(dir string) []int {
	real, err := filepath.EvalSymlinks(dir)
	if err != nil {
		return nil
	}
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, e := range entries {
		pid, err := strconv.Atoi(e.Name())
		if err != nil || pid == os.Getpid() {
			continue
		}
		cwd, err := os.Readlink("/proc/" + e.Name() + "/cwd")
		if err != nil || strings.TrimSuffix(cwd, " (deleted)") != real || !isServer(pid) {
			continue
		}
		pids = append(pids, pid)
	}
	return pids
}

// isServer reports whether the process runs the PostgreSQL server program,
// also when a package upgrade has replaced the file meanwhile.
func isServer(pid int) bool {
	exe, err := os.Readlink("/proc/" + strconv.Itoa(pid) + "/exe")
	return err == nil && filepath.Base(strings.TrimSuffix(exe, " (deleted)")) == "postgres"
}

// isOurPostmaster reports whether the process was started by this package:
// its command line carries our cluster name. Backends do not count, they
// rewrite theirs.
func isOurPostmaster(pid int) bool {
	line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
	return err == nil && bytes.Contains(line, []byte("\x00"+clusterNameArg+"\x00"))
}

// waitGone polls until none of the processes of dir is left, or d has passed.
func waitGone(ctx context.Context, clk clock.Clock, dir string, d time.Duration) bool {
	timeout := clk.After(d)
	tick := clk.NewTicker(pollEvery)
	defer tick.Stop()
	for len(serverProcesses(dir)) > 0 {
		select {
		case <-tick.C:
		case <-timeout:
			return false
		case <-ctx.Done():
			return false
		}
	}
	return true
}
