package up

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/clock"
)

// workerName of the worker that `gavel up` runs.
const workerName = "local"

// workerProcess keeps a gavel-worker running as a child: one that dies is
// started again with a growing pause, as systemd would.
type workerProcess struct {
	clock clock.Clock
	log   *slog.Logger
	// logFile is what the process writes, its last words included.
	logFile string

	done chan struct{}
	quit chan struct{} // closed by stop

	mu    sync.Mutex
	cmd   *exec.Cmd
	ended error // why it is not started again
}

const (
	firstRestart   = 200 * time.Millisecond
	longestRestart = 10 * time.Second
	// steadyAfter is the uptime after which a death counts as the first again.
	steadyAfter = 30 * time.Second
)

func startWorker(ctx context.Context, cfg Config, url string, api *client.Client) (*workerProcess, error) {
	if _, err := os.Stat(cfg.Worker); err != nil {
		return nil, apperr.Wrap(err, apperr.NotFound, "build it with make build; it is looked for beside gavel and on PATH",
			"the program gavel-worker is not there: %s", cfg.Worker)
	}
	dir := filepath.Join(cfg.DataDir, "worker")
	args := []string{"run", "--url", url, "--state-dir", dir}
	if cfg.Slots > 0 {
		args = append(args, "--slots", strconv.Itoa(cfg.Slots))
	}
	env := cfg.Environ
	if _, err := os.Stat(filepath.Join(dir, "token")); errors.Is(err, os.ErrNotExist) {
		inv, err := api.WorkerInvite(ctx, gavelapi.NewInvitation{})
		if err != nil {
			return nil, fmt.Errorf("invite the worker: %w", err)
		}
		// In the environment, not in argv, where every user of the machine could read it.
		env = append(env, "GAVEL_WORKER_INVITATION="+inv.Code, "GAVEL_WORKER_NAME="+workerName)
	}
	logName := filepath.Join(cfg.DataDir, "worker.log")
	logFile, err := os.OpenFile(logName, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, apperr.Wrap(err, apperr.Forbidden, "make the data directory writable", "the worker's log cannot be written")
	}
	w := &workerProcess{clock: cfg.Clock, log: cfg.Logger, logFile: logName, done: make(chan struct{}), quit: make(chan struct{})}
	go func() {
		defer close(w.done)
		defer logFile.Close()
		w.keep(func() *exec.Cmd {
			cmd := exec.Command(cfg.Worker, args...)
			cmd.Env, cmd.Stdout, cmd.Stderr = env, logFile, logFile
			// A group of its own: Ctrl-C reaches us alone, and we stop in order.
			// Should we be killed, it hands its work back and ends.
			cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGTERM}
			return cmd
		})
	}()
	return w, nil
}

// keep runs the worker until stop. The parent-death signal is bound to the
// thread that forks, so this goroutine keeps its thread.
func (w *workerProcess) keep(command func() *exec.Cmd) {
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	pause := firstRestart
	for {
		cmd := command()
		w.mu.Lock()
		select {
		case <-w.quit:
			w.mu.Unlock()
			return
		default:
		}
		said := sizeOf(w.logFile)
		err := cmd.Start()
		w.cmd = cmd
		w.mu.Unlock()
		started := w.clock.Now()
		if err == nil {
			w.log.Info("worker started", "pid", cmd.Process.Pid)
			err = cmd.Wait()
		}
		select {
		case <-w.quit:
			return
		default:
		}
		uptime := w.clock.Now().Sub(started)
		if code := cmd.ProcessState.ExitCode(); final(code) && uptime < steadyAfter {
			w.mu.Lock()
			w.ended = refusal(w.logFile, said, code)
			w.mu.Unlock()
			w.log.Error("worker refused to start", "exit_code", code)
			return
		}
		// Its predecessor, orphaned by a kill of ours, still holds the state
		// directory: that is over in seconds, and work waits for it.
		waits := cmd.ProcessState.ExitCode() == exitConflict
		if uptime > steadyAfter || waits {
			pause = firstRestart
		}
		w.log.Warn("worker ended; starting it again", "error", err, "pause", pause)
		select {
		case <-w.clock.After(pause):
		case <-w.quit:
			return
		}
		pause = min(2*pause, longestRestart)
	}
}

// exitConflict of gavel-worker: another process has its state directory.
const exitConflict = 5

func sizeOf(name string) int64 {
	st, err := os.Stat(name)
	if err != nil {
		return 0
	}
	return st.Size()
}

// refusal is what a worker said from an offset of its log on before it ended:
// its own words are the best there are about what is missing and the cure.
func refusal(logFile string, from int64, code int) error {
	message, hint := fmt.Sprintf("gavel-worker ended with exit code %d", code), ""
	if f, err := os.Open(logFile); err == nil {
		defer f.Close()
		const most = 64 << 10
		raw, _ := io.ReadAll(io.NewSectionReader(f, max(from, sizeOf(logFile)-most), most)) // what can be read is shown
		for line := range strings.Lines(string(raw)) {
			if words, ok := strings.CutPrefix(strings.TrimSpace(line), "gavel-worker: "); ok {
				message, hint = words, ""
			} else if words, ok := strings.CutPrefix(strings.TrimSpace(line), "hint: "); ok {
				hint = words
			}
		}
	}
	if hint == "" {
		hint = "gavel doctor --for worker looks for what is missing"
	}
	return apperr.New(apperr.Internal, hint+"; all it said is in "+logFile, "the worker cannot start: %s", message)
}

// final exit codes say that another try would end the same way: usage, not
// allowed, and a failed start-up check.
func final(code int) bool { return code == 1 || code == 2 || code == 6 }

// stop hands the worker's work back and ends it; past ctx it is killed.
func (w *workerProcess) stop(ctx context.Context) error {
	w.mu.Lock()
	close(w.quit)
	cmd := w.cmd
	w.mu.Unlock()
	if cmd == nil || cmd.Process == nil {
		<-w.done
		return nil
	}
	_ = cmd.Process.Signal(syscall.SIGTERM) // it may have ended already
	select {
	case <-w.done:
		return nil
	case <-ctx.Done():
		_ = cmd.Process.Kill()
		<-w.done
		return errors.New("it did not stop in time and was killed; its work comes back when its leases expire")
	}
}

// online waits until the worker claims, which it does after its self-test.
func (w *workerProcess) online(ctx context.Context, api *client.Client) error {
	for {
		list, err := api.WorkerList(ctx)
		if err == nil {
			for _, info := range list.Workers {
				if info.Name == workerName && (info.State == "idle" || info.State == "busy") {
					return nil
				}
			}
		}
		select {
		case <-w.done:
			w.mu.Lock()
			defer w.mu.Unlock()
			return w.ended
		case <-w.clock.After(50 * time.Millisecond):
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
