package linuxbox

import (
	"fmt"
	"os"
	"runtime"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// starter is the thread that starts inits. The kernel's parent-death signal
// fires when the thread that started a child ends, not when the process does,
// so one thread is kept for it as long as the provider lives.
type starter struct {
	jobs chan func()
	done chan struct{}
}

func newStarter() *starter {
	s := &starter{jobs: make(chan func()), done: make(chan struct{})}
	go func() {
		defer close(s.done)
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		for job := range s.jobs {
			job()
		}
	}()
	return s
}

// start starts a process, pinned to cpu from its first instruction unless cpu
// is negative.
func (s *starter) start(cpu int, name string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	finished := make(chan struct{})
	s.jobs <- func() {
		defer close(finished)
		if cpu >= 0 {
			var before unix.CPUSet
			if err = pinThread(cpu, &before); err != nil {
				return
			}
			defer func() { _ = unix.SchedSetaffinity(0, &before) }() // where it was, it may be again
		}
		p, err = os.StartProcess(name, argv, attr)
	}
	<-finished
	return p, err
}

// pinThread pins the calling thread. A child inherits that, with all threads
// it ever makes.
func pinThread(cpu int, before *unix.CPUSet) error {
	var set unix.CPUSet
	set.Set(cpu)
	err := unix.SchedGetaffinity(0, before)
	if err == nil {
		err = unix.SchedSetaffinity(0, &set)
	}
	if err != nil {
		return &sandbox.Fault{Op: "pin", Hint: "the CPU must be online, and in the worker's cpuset", Err: fmt.Errorf("pin to CPU %d: %w", cpu, err)}
	}
	return nil
}

// close ends the thread; the children it started must have ended before.
func (s *starter) close() {
	close(s.jobs)
	<-s.done
}
