package linuxbox

import (
	"os"
	"runtime"
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

// start starts a process.
func (s *starter) start(name string, argv []string, attr *os.ProcAttr) (p *os.Process, err error) {
	finished := make(chan struct{})
	s.jobs <- func() {
		defer close(finished)
		p, err = os.StartProcess(name, argv, attr)
	}
	<-finished
	return p, err
}

// close ends the thread; the children it started must have ended before.
func (s *starter) close() {
	close(s.jobs)
	<-s.done
}
