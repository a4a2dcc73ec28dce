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

// pipes are those for the outputs of a slot's runs. Those of the next run are
// made, and those of the last are closed, while a program runs and the host
// would only wait for it.
type pipes struct {
	owner int      // host id of the box's user
	next  [][2]int // read end, write end
	last  []int
}

// outputs is how many a run needs.
const outputs = 2

// make returns a new pipe. It belongs to the box's user, so that a program can
// open /dev/stdout.
func (p *pipes) make() (ends [2]int, err error) {
	if err := unix.Pipe2(ends[:], unix.O_CLOEXEC); err != nil {
		return ends, err
	}
	_, err = unix.FcntlInt(uintptr(ends[0]), unix.F_SETFL, unix.O_NONBLOCK)
	if err := errors.Join(err, unix.Fchown(ends[1], p.owner, p.owner)); err != nil {
		closeFDs(ends[:])
		return ends, err
	}
	return ends, nil
}

// stock gets ready for the next run. What fails here is tried again, and
// reported, when it is needed.
func (p *pipes) stock() {
	closeFDs(p.last)
	p.last = p.last[:0]
	for len(p.next) < outputs {
		ends, err := p.make()
		if err != nil {
			return
		}
		p.next = append(p.next, ends)
	}
}

func (p *pipes) take() ([2]int, error) {
	n := len(p.next)
	if n == 0 {
		return p.make()
	}
	ends := p.next[n-1]
	p.next = p.next[:n-1]
	return ends, nil
}

func (p *pipes) close() {
	closeFDs(p.last)
	for _, ends := range p.next {
		closeFDs(ends[:])
	}
	p.last, p.next = nil, nil
}

// collect takes an output of the next program. The write end stays open here
// as well: who reads would otherwise be woken when the program ends, and once
// more by its result.
func (s *slot) collect(to io.Writer, limit int64, over func()) (*collector, error) {
	ends, err := s.pipes.take()
	if err != nil {
		return nil, err
	}
	return &collector{read: ends[0], write: ends[1], to: to, limit: limit, over: over}, nil
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
