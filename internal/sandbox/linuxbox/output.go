package linuxbox

import (
	"errors"
	"io"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// collector reads one output of a program through a pipe. A pipe and not a
// file: what is written to a file in memory counts as memory of the program.
type collector struct {
	read, write *os.File
	to          io.Writer
	limit       int64
	over        func() // called once, when the limit is passed

	seen int64
	err  error // of the writer
}

var copyBuffers = sync.Pool{New: func() any { b := make([]byte, 64<<10); return &b }}

// newCollector makes the pipe. The write end belongs to the box's user, so
// that a program can open /dev/stdout.
func newCollector(to io.Writer, limit int64, hostUID int, over func()) (*collector, error) {
	var p [2]int
	if err := unix.Pipe2(p[:], unix.O_CLOEXEC); err != nil {
		return nil, err
	}
	if err := errors.Join(unix.SetNonblock(p[0], true), unix.Fchown(p[1], hostUID, hostUID)); err != nil {
		closeFDs(p[:])
		return nil, err
	}
	return &collector{
		read: os.NewFile(uintptr(p[0]), "box output"), write: os.NewFile(uintptr(p[1]), "box output"),
		to: to, limit: limit, over: over,
	}, nil
}

// run reads until no process holds the other end. It always reads on, so that
// no program hangs on us, and counts what it drops.
func (c *collector) run() {
	buf := copyBuffers.Get().(*[]byte)
	defer copyBuffers.Put(buf)
	defer c.read.Close()
	for {
		n, err := c.read.Read(*buf)
		room := max(c.limit-c.seen, 0)
		c.seen += int64(n)
		if keep := min(int64(n), room); keep > 0 && c.to != nil && c.err == nil {
			_, c.err = c.to.Write((*buf)[:keep])
		}
		if c.seen > c.limit && c.over != nil {
			c.over()
			c.over = nil
		}
		if err != nil {
			if !errors.Is(err, io.EOF) && c.err == nil {
				c.err = err
			}
			return
		}
	}
}

func (c *collector) closeWrite() { _ = c.write.Close() }

func (c *collector) abandon() {
	_ = c.read.Close()
	_ = c.write.Close()
}
