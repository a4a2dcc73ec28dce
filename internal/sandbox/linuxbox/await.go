package linuxbox

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"
)

var outputBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// stockAfter is when the next run's cgroup is made: the kernel makes one under
// the lock that the init needs to start this run's program in its own.
const stockAfter = 500 * time.Microsecond

// await reads the program's output until the outcome arrives. It is one loop on
// one thread: a program costs the host no goroutine and no wake-up that is not
// due to an event.
func (r *hostRun) await(atMost time.Duration) (*outcome, []*os.File, error) {
	r.slot.pipes.stock()
	buf, _ := outputBuffers.Get().(*[]byte) // New above makes nothing else
	defer outputBuffers.Put(buf)
	deadline := monotonic() + atMost
	polls := []unix.PollFd{{Fd: int32(r.slot.rx.sock), Events: unix.POLLIN}}
	collectors := r.collectors()
	for _, c := range collectors {
		polls = append(polls, unix.PollFd{Fd: int32(c.read), Events: unix.POLLIN})
	}
	for {
		left := deadline - monotonic()
		if left <= 0 {
			return nil, nil, fmt.Errorf("no answer within %s", atMost)
		}
		if r.slot.group.wantsStock() {
			left = min(left, stockAfter)
		}
		ts := unix.NsecToTimespec(int64(left))
		n, err := unix.Ppoll(polls, &ts, nil)
		if err != nil && !errors.Is(err, unix.EINTR) {
			return nil, nil, fmt.Errorf("poll: %w", err)
		}
		if n == 0 {
			r.slot.group.stock()
		}
		for i, c := range collectors {
			if polls[i+1].Revents != 0 {
				c.drain(*buf)
				polls[i+1].Fd = int32(c.read) // negative ones are skipped
			}
		}
		if polls[0].Revents == 0 {
			continue
		}
		out, files, err := r.receive()
		if err != nil {
			return nil, files, err
		}
		// Every process is gone, so what is in the pipes is all there will be.
		// The kernel looked at them after the packet: one that was not ready is
		// empty.
		for i, c := range collectors {
			for c.read >= 0 && polls[i+1].Revents != 0 {
				before := c.seen
				if c.drain(*buf); c.seen == before {
					break
				}
			}
		}
		return out, files, nil
	}
}

func (r *hostRun) receive() (*outcome, []*os.File, error) {
	kind, body, fds, err := r.slot.rx.next()
	files := make([]*os.File, len(fds))
	for i, fd := range fds {
		files[i] = os.NewFile(uintptr(fd), "box file")
	}
	if err != nil {
		return nil, files, err
	}
	if kind != msgResult {
		return nil, files, fmt.Errorf("message %d from the box's init, want a result", kind)
	}
	out, err := unpackOutcome(body)
	return out, files, err
}
