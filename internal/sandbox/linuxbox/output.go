package linuxbox

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// collector takes one output of a program through a pipe. A pipe and not a
// file: what is written to a file in memory counts as memory of the program.
type collector struct {
	read  int // non-blocking; -1 when it has ended
	to    io.Writer
	limit int64
	over  func() // called once, when the limit is passed

	seen int64
	err  error // of the writer, or of reading
}

// newCollector makes the pipe and returns its write end, for the program. It
// belongs to the box's user, so that a program can open /dev/stdout.
func newCollector(to io.Writer, limit int64, hostUID int, over func()) (c *collector, write int, err error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC|unix.O_NONBLOCK); err != nil {
		return nil, -1, err
	}
	if err := errors.Join(unix.SetNonblock(p[1], false), unix.Fchown(p[1], hostUID, hostUID)); err != nil {
		closeFDs(p[:])
		return nil, -1, err
	}
	return &collector{read: p[0], to: to, limit: limit, over: over}, p[1], nil
}

// drain takes what is in the pipe now. It always reads on, so that no program
// hangs on us, and counts what it drops.
func (c *collector) drain(buf []byte) {
	for c.read >= 0 {
		n, err := unix.Read(c.read, buf)
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case errors.Is(err, unix.EAGAIN):
			return
		case err != nil:
			c.err = errors.Join(c.err, err)
			c.close()
			return
		case n == 0: // no process holds the other end
			c.close()
			return
		}
		room := max(c.limit-c.seen, 0)
		c.seen += int64(n)
		if kept := min(int64(n), room); kept > 0 && c.to != nil && c.err == nil {
			_, c.err = c.to.Write(buf[:kept])
		}
		if c.seen > c.limit && c.over != nil {
			c.over()
			c.over = nil
		}
		if n < len(buf) {
			return // most likely empty now; the next poll tells
		}
	}
}

func (c *collector) close() {
	if c.read >= 0 {
		_ = unix.Close(c.read)
		c.read = -1
	}
}
