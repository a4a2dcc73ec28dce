package linuxbox

import (
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// softLimits puts a run's limits into force before its program exists: the
// init's own soft limits are lowered for the moment of the fork and inherited.
// The hard limits follow right after the fork (tighten), because an
// unprivileged init that lowered its own could never raise them again. Until
// then a program could raise a limit, but what it raised is lowered with the
// rest.
type softLimits struct {
	saved [3]syscall.Rlimit
	known bool
	low   bool
}

var forkLimits = [3]int{unix.RLIMIT_STACK, unix.RLIMIT_FSIZE, unix.RLIMIT_NOFILE}

// forkFDs is how many descriptors the init has below keptFD around a fork: the
// runtime's own, those of the run message, the fork's pipe.
const forkFDs = 24

func (s *softLimits) lower(req *runReq) error {
	if !s.known {
		for i, what := range forkLimits {
			if err := syscall.Getrlimit(what, &s.saved[i]); err != nil {
				return err
			}
		}
		s.known = true
	}
	s.low = true
	// The stack limit has to be right at exec, which lays out the address
	// space by it.
	for i, value := range [3]int64{req.stackBytes, req.fileBytes, int64(max(req.openFiles, forkFDs))} {
		l := s.saved[i]
		l.Cur = min(uint64(value), l.Max)
		// The syscall package's own function: with it the runtime stops giving
		// children the limit on open files that this process was started with.
		if err := syscall.Setrlimit(forkLimits[i], &l); err != nil {
			return err
		}
	}
	return nil
}

// restore is not urgent: all that a low limit is in the way of is opening many
// files, and receiving them with a request.
func (s *softLimits) restore() error {
	if !s.low {
		return nil
	}
	for i, what := range forkLimits {
		if err := syscall.Setrlimit(what, &s.saved[i]); err != nil {
			return err
		}
	}
	s.low = false
	return nil
}

// settleTime is for how long after the start limits are tightened again.
const settleTime = time.Second

// tighten sets the hard limits of a program that was just started. It may have
// ended already; there is nothing to limit then. The watcher calls it again:
// the kernel reports a successful exec before it writes back the stack limit
// that it found at the beginning of it, and may so undo ours.
func tighten(pid int, req *runReq) {
	for i, value := range [3]int64{req.stackBytes, req.fileBytes, int64(req.openFiles)} {
		_ = unix.Prlimit(pid, forkLimits[i], &unix.Rlimit{Cur: uint64(value), Max: uint64(value)}, nil)
	}
}
