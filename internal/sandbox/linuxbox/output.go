package linuxbox

import (
	"errors"
	"io"

	"golang.org/x/sys/unix"
)

// collector takes one output of a program through a pipe. A pipe and not a
// file: what is written to a file in memory counts as memory of the program.
type collector struct {
	read  int // non-blocking; -1 when it is closed
	write int // the program's end, or a copy of it
	to    io.Writer
	limit int64
	over  func() // called once, when the limit is passed

	seen int64
	err  error // of the writer, or of reading
}

// newCollector makes the pipe. It belongs to the box's user, so that a program
// can open /dev/stdout. The write end stays open here as well: who reads would
// otherwise be woken when the program ends, and once more by its result.
func newCollector(to io.Writer, limit int64, hostUID int, over func()) (*collector, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	_, err := unix.FcntlInt(uintptr(p[0]), unix.F_SETFL, unix.O_NONBLOCK)
	if err := errors.Join(err, unix.Fchown(p[1], hostUID, hostUID)); err != nil {
		closeFDs(p[:])
		return nil, err
	}
	return &collector{read: p[0], write: p[1], to: to, limit: limit, over: over}, nil
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
		closeFDs([]int{c.read, c.write})
		c.read, c.write = -1, -1
	}
}
