package linuxbox

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strconv"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"
)

// initArg0 marks a re-exec of this executable as a slot's init.
const initArg0 = "gavel-box-init"

// controlFD is where the init finds its end of the control channel.
const controlFD = 3

// initCalled guards against a program that opens boxes without having called
// Init: its re-exec would run main again, and open boxes again, without end.
var initCalled bool

// Init turns this process into a slot's init when it was started as one, and
// then never returns. Call it first thing in main and in TestMain of every
// program that opens boxes.
func Init() {
	initCalled = true
	if len(os.Args) == 0 || os.Args[0] != initArg0 {
		return
	}
	runtime.LockOSThread()
	os.Exit(runInit(controlFD))
}

// boxInit is process 1 of a box.
type boxInit struct {
	rx      *receiver
	cfg     setup
	forker  *forker
	janitor chan *janitorJob
	root    *rootFS
	host    *hostTree  // nil unless setup.OneID
	mounts  []runMount // attached now
	meter   meter
	base    baseline // of the next run, when noted, else of this
	noted   bool
	idReady bool // the next process gets firstPID
	ncpu    int
	limits  softLimits
	lastID  int // /proc/sys/kernel/ns_last_pid, -1 when the kernel has none
}

func runInit(sock int) int {
	// The heap is a few hundred KiB; a collection in the middle of a run would
	// only disturb it. The limit keeps a bound.
	debug.SetGCPercent(-1)
	debug.SetMemoryLimit(48 << 20)
	defaultSignals()

	// With a processor to spare, the runtime lets a thread that waits in the
	// kernel keep its own for 10 ms. Without, as on a single CPU, it would take
	// it away after 20 µs and look around all the while, which costs a program
	// of half a millisecond a tenth of its time.
	runtime.GOMAXPROCS(2)

	b := &boxInit{rx: newReceiver(sock), ncpu: runtime.NumCPU(), janitor: make(chan *janitorJob)}
	kind, body, fds, err := b.rx.next()
	if err != nil || kind != msgSetup {
		fmt.Fprintln(os.Stderr, "box init: no setup message:", err)
		return 1
	}
	if err := json.Unmarshal(body, &b.cfg); err != nil {
		fmt.Fprintln(os.Stderr, "box init: setup message:", err)
		return 1
	}
	if err := b.pin(); err != nil {
		_ = sendPacket(b.rx.sock, packJSON(msgHello, helloFromError(err)))
		return 1
	}
	if b.cfg.Polled {
		debug.SetGCPercent(50) // looking at processes makes garbage, and the init's size hides a program's
	}
	answer := &hello{}
	if answer.Weaker, err = b.build(fds); err != nil {
		answer = helloFromError(err)
	}
	if err := sendPacket(b.rx.sock, packJSON(msgHello, answer)); err != nil || answer.Op != "" {
		return 1
	}
	// From here on the forker serves, and this thread is its janitor: it does
	// what the filter forbids the forker, which is to mount and unmount.
	status := make(chan int, 1)
	go b.forker.do(func() { status <- b.serve() })
	for {
		select {
		case code := <-status:
			return code
		case job := <-b.janitor:
			job.err = job.do()
			close(job.done)
		}
	}
}

// defaultSignals gives every signal its default action, but for those that tell
// of a fault of our own. Programs then begin with it whatever the worker was
// started with (nohup, or a script's background, has signals ignored, and what
// is ignored stays so at exec), and no fork has sixty handlers to reset. As
// process 1 the init itself is not touched by any signal without a handler; of
// SIGCHLD no thread of it is even woken.
func defaultSignals() {
	signal.Ignore()       // takes the runtime's handlers away, and its record of them
	var dfl [4]uint64     // struct sigaction: no handler, no flags, no mask
	own := []unix.Signal{ // the runtime's, which Ignore leaves
		unix.SIGKILL, unix.SIGSTOP, // nobody's
		unix.SIGILL, unix.SIGTRAP, unix.SIGBUS, unix.SIGFPE, unix.SIGSEGV, unix.SIGSTKFLT, unix.SIGPROF, unix.SIGSYS,
	}
	for sig := unix.Signal(1); sig <= lastSignal; sig++ {
		if !slices.Contains(own, sig) {
			// It cannot fail: the signal exists and the structure is ours.
			_, _, _ = unix.RawSyscall6(unix.SYS_RT_SIGACTION, uintptr(sig), uintptr(unsafe.Pointer(&dfl)), 0, 8, 0, 0)
		}
	}
}

// lastSignal is the kernel's _NSIG.
const lastSignal = 64

// janitorJob is work for the main thread.
type janitorJob struct {
	do   func() error
	err  error
	done chan struct{}
}

// onJanitor runs do on the main thread.
func (b *boxInit) onJanitor(do func() error) error {
	job := &janitorJob{do: do, done: make(chan struct{})}
	b.janitor <- job
	<-job.done
	return job.err
}

// build makes the box: descriptors, limits, file tree, forker, inert corners.
func (b *boxInit) build(tasks []int) (weaker []string, err error) {
	if !b.cfg.weak(weakCloseFDs) {
		if err := closeStrays(tasks); err != nil {
			return nil, step("descriptors", "Linux 5.11 or newer is needed", err)
		}
	}
	if err := b.moveControl(); err != nil {
		return nil, step("descriptors", "", err)
	}
	if err := unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0); err != nil {
		return nil, step("prctl", "", err)
	}
	unix.Umask(0o022)
	if err := setInitLimits(!b.cfg.weak(weakCore), b.cfg.Polled); err != nil {
		return nil, err
	}
	if b.cfg.OneID {
		if b.host, err = keepHostTree(); err != nil {
			return nil, err
		}
	}
	if b.root, err = buildRoot(&b.cfg); err != nil {
		return nil, err
	}
	// The forker enters the slot's cgroups and makes its cgroup namespace
	// before nested namespaces are forbidden.
	if b.forker, err = startForker(tasks, &b.cfg, b.pin); err != nil {
		return nil, err
	}
	return b.makeInert()
}

// keptFD is from where descriptors are numbered that the init keeps. Low
// numbers stay free, because a program's limit on open files is already in
// force when it is forked, and the fork needs a few.
const keptFD = 200

// keep renumbers a descriptor that outlives a run.
func keep(fd int) (int, error) {
	kept, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD_CLOEXEC, keptFD)
	if err != nil {
		return fd, err // still the one to tell the host with
	}
	_ = unix.Close(fd)
	return kept, nil
}

// closeStrays closes what the worker, or the shell that started it, left open
// without close-on-exec: it must not reach a program.
func closeStrays(wanted []int) error {
	if err := unix.CloseRange(controlFD+1, ^uint(0), unix.CLOSE_RANGE_CLOEXEC); err != nil {
		return err
	}
	// Marked is enough for safety, but they also take up low numbers. The
	// runtime's own (epoll and its wake-up) have to stay.
	links, err := filepath.Glob("/proc/self/fd/*")
	for _, link := range links {
		fd, convErr := strconv.Atoi(filepath.Base(link))
		target, linkErr := os.Readlink(link)
		runtimes := strings.HasPrefix(target, "anon_inode:")
		if convErr == nil && linkErr == nil && fd > controlFD && !runtimes && !slices.Contains(wanted, fd) {
			_ = unix.Close(fd)
		}
	}
	return err
}

func (b *boxInit) moveControl() (err error) {
	b.rx.sock, err = keep(b.rx.sock)
	return err
}

// setInitLimits sets the resource limits that every program inherits unchanged.
func setInitLimits(noCore, polled bool) error {
	limits := []struct {
		what  int
		value uint64
	}{
		{unix.RLIMIT_MEMLOCK, 0},
		{unix.RLIMIT_MSGQUEUE, 0},
		{unix.RLIMIT_RTPRIO, 0},
		{unix.RLIMIT_NICE, 0},
	}
	if polled {
		// What a program could reach at most that raises its own limit in the
		// moment before it is tightened.
		limits = append(limits, struct {
			what  int
			value uint64
		}{unix.RLIMIT_NPROC, maxPolledProcesses})
	}
	if noCore {
		// One byte, not none: at 0 the kernel still starts a piped
		// core_pattern handler, as root of the host, on the program's memory.
		// The value 1 is its own mark for "never pipe", and too small a file.
		limits = append(limits, struct {
			what  int
			value uint64
		}{unix.RLIMIT_CORE, 1})
	}
	for _, l := range limits {
		if err := unix.Setrlimit(l.what, &unix.Rlimit{Cur: l.value, Max: l.value}); err != nil {
			return step("rlimit", "", fmt.Errorf("limit %d: %w", l.what, err))
		}
	}
	return nil
}

// makeInert closes what namespaces leave open between two runs of one slot.
// Each write needs the new /proc and the rights of the box's root.
func (b *boxInit) makeInert() (weaker []string, err error) {
	if !b.cfg.weak(weakNestedNS) {
		for _, ns := range []string{"user", "pid", "mnt", "net", "ipc", "uts", "cgroup"} {
			if ns == "mnt" && b.cfg.OneID {
				continue // a detached mount counts as one; without a user namespace nobody else can make them
			}
			file := "/proc/sys/user/max_" + ns + "_namespaces"
			if err := os.WriteFile(file, []byte("0"), 0); err != nil {
				return nil, step("namespaces", "", err)
			}
		}
	}
	if !b.cfg.weak(weakIPC) {
		// The filter refuses these calls as well; kernels before 5.19 do not
		// let the box's root write here, so failures are no fault.
		for file, value := range map[string]string{
			"/proc/sys/kernel/shmmni":        "0",
			"/proc/sys/kernel/msgmni":        "0",
			"/proc/sys/kernel/sem":           "0 0 0 0",
			"/proc/sys/fs/mqueue/queues_max": "0",
		} {
			_ = os.WriteFile(file, []byte(value), 0)
		}
	}
	fd, err := unix.Open("/proc/sys/kernel/ns_last_pid", unix.O_WRONLY|unix.O_CLOEXEC, 0)
	if err == nil {
		b.lastID, err = keep(fd)
	}
	if err != nil {
		b.lastID = -1
		weaker = append(weaker, "process ids run on between runs: kernel without CONFIG_CHECKPOINT_RESTORE")
	}
	return weaker, nil
}

// serve answers runs until the worker goes away. It runs on the forker thread:
// most runs need no other.
func (b *boxInit) serve() int {
	for {
		kind, body, fds, err := b.rx.next()
		switch {
		case errors.Is(err, io.EOF):
			return 0
		case err != nil:
			fmt.Fprintln(os.Stderr, "box init: control channel:", err)
			return 1
		}
		switch kind {
		case msgKill: // the run it was meant for has ended
		case msgGo:
			if err := sendPacket(b.rx.sock, packReady("")); err != nil {
				return 1
			}
		case msgRun:
			if err := b.handleRun(body, fds); err != nil {
				fmt.Fprintln(os.Stderr, "box init:", err)
				return 1
			}
		default:
			fmt.Fprintln(os.Stderr, "box init: unknown message", kind)
			return 1
		}
	}
}

func packReady(fault string) []byte { return append([]byte{msgReady}, fault...) }

// handleRun does one run: result first, then cleaning, then msgReady, so that
// cleaning is off the path of the caller. After a program that touched nothing
// the result itself says that the box is clean.
func (b *boxInit) handleRun(body []byte, fds []int) error {
	req, err := unpackRun(body)
	if err != nil {
		return fmt.Errorf("run message: %w", err)
	}
	run := &initRun{boxInit: b, req: req}
	if err := run.do(fds); err != nil {
		return fmt.Errorf("send result: %w", err)
	}
	if !run.out.clean {
		fault := ""
		if err := run.clean(); err != nil {
			fault = err.Error()
		}
		if err := sendPacket(b.rx.sock, packReady(fault)); err != nil {
			return fmt.Errorf("send msgReady: %w", err)
		}
	}
	return b.getReady()
}
