package linuxbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// whenInitStarts calls do with each process that this one starts, as soon as
// it is seen, until stop is called.
func whenInitStarts(t *testing.T, do func(pid int)) (stop func()) {
	t.Helper()
	known := map[int]bool{}
	for _, pid := range childInits(t) {
		known[pid] = true
	}
	quit, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-quit:
				return
			default:
			}
			for _, pid := range childInits(t) {
				if !known[pid] {
					known[pid] = true
					do(pid)
				}
			}
		}
	}()
	return func() { close(quit); <-done }
}

// childInits lists this process's children.
func childInits(t *testing.T) (pids []int) {
	t.Helper()
	files, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Error(err)
	}
	for _, f := range files {
		b, _ := os.ReadFile(f) // the thread may be gone
		for s := range strings.FieldsSeq(string(b)) {
			pid, _ := strconv.Atoi(s)
			pids = append(pids, pid)
		}
	}
	return pids
}

// An init may be killed at any moment of its start, by the kernel for want of
// memory or by a person.
func TestAnInitThatDiesAtItsStartIsAFaultAndTheSlotIsReplaced(t *testing.T) {
	p := open(t, Config{noProof: true})
	defer p.Close()
	ctx, cancel := context.WithTimeout(t.Context(), 2*initTime)
	defer cancel()
	faults := 0
	for range 50 {
		stop := whenInitStarts(t, func(pid int) { _ = unix.Kill(pid, unix.SIGKILL) })
		b, err := p.Open(ctx)
		stop()
		if err == nil {
			_ = b.Close() // it was quicker
			continue
		}
		if _, ok := errors.AsType[*sandbox.Fault](err); !ok || ctx.Err() != nil {
			t.Fatalf("error %v, want a fault", err)
		}
		faults++
	}
	if faults == 0 {
		t.Fatal("no init was killed at its start: this test proves nothing")
	}
	b, err := p.Open(ctx)
	if err != nil {
		t.Fatal(err)
	}
	if res, err := b.Run(ctx, shell("exit 3")); err != nil || res.ExitCode != 3 {
		t.Errorf("%+v, %v", res, err)
	}
}

func TestAnInitThatNeverAnswersIsGivenUpWithItsCaller(t *testing.T) {
	p := open(t, Config{noProof: true})
	defer p.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	defer cancel(nil)
	gone := errors.New("nobody wants it any more")
	stop := whenInitStarts(t, func(pid int) {
		// Not before its exec, which os.StartProcess waits for.
		for name := ""; name != initArg0; {
			b, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			if err != nil {
				return
			}
			name, _, _ = strings.Cut(string(b), "\x00")
			runtime.Gosched()
		}
		_ = unix.Kill(pid, unix.SIGSTOP)
		cancel(gone)
	})
	b, err := p.Open(ctx)
	stop()
	if err == nil {
		_ = b.Close()
	}
	// An init that was quicker than the signal makes Open succeed.
	if err != nil && !errors.Is(err, gone) {
		t.Errorf("error %v, want the cause of the end", err)
	}
	if _, err := p.Open(t.Context()); err != nil {
		t.Error(err)
	}
}

func TestASilentChannelHasADeadline(t *testing.T) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer closeFDs(pair[:])
	if err := newReceiver(pair[0]).await(time.Millisecond); err == nil {
		t.Error("nothing was sent, and yet something has come")
	}
	if err := sendPacket(pair[1], []byte{msgHello}); err != nil {
		t.Fatal(err)
	}
	if err := newReceiver(pair[0]).await(time.Minute); err != nil {
		t.Error(err)
	}
}

// The limit is that of a process, so one of its own has to look.
func TestTooFewDescriptorsAreRefusedWithTheCure(t *testing.T) {
	needBoxes(t)
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, limit := range []string{"100", "1023"} {
		out, err := exec.Command("/bin/sh", "-c", "ulimit -n "+limit+`; exec "$0" `+testOpenArg, self).CombinedOutput()
		if err != nil || !strings.Contains(string(out), "at most "+limit+" files") || !strings.Contains(string(out), "LimitNOFILE") {
			t.Errorf("limit %s: %q, %v", limit, out, err)
		}
	}
}

// The limit may also be lowered while the worker runs.
func TestAnInitWithoutDescriptorsSaysWhy(t *testing.T) {
	p := open(t, Config{noProof: true})
	defer p.Close()
	if !hasCapability(unix.CAP_SYS_RESOURCE) {
		t.Skip("the limit cannot be raised again: the tests have no CAP_SYS_RESOURCE")
	}
	var before unix.Rlimit
	if err := unix.Prlimit(0, unix.RLIMIT_NOFILE, &unix.Rlimit{Cur: 150, Max: 150}, &before); err != nil {
		t.Fatal(err)
	}
	_, err := p.Open(t.Context())
	if e := unix.Prlimit(0, unix.RLIMIT_NOFILE, &before, nil); e != nil {
		t.Fatal(e)
	}
	if fault, ok := errors.AsType[*sandbox.Fault](err); !ok || fault.Op != "descriptors" {
		t.Errorf("error %v, want a fault of descriptors", err)
	}
	if _, err := p.Open(t.Context()); err != nil {
		t.Error(err)
	}
}
