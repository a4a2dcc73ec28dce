package judge

import (
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// relay stands between a program and its interactor: two pipes to each, and
// what one writes is handed to the other. Each way holds two pipes' worth (128
// KiB on most machines) and one buffer; then the writer waits for the reader.
//
// Invariants:
//
//	R1  Neither side meets a broken pipe: what its peer no longer reads is
//	    read here, and dropped.
//	R2  The interactor's end of file is passed on at once.
//	R3  The program's end of file is passed on only when the program has
//	    ended, so an interactor cannot take one that will crash for one that
//	    is done. By then it is noted whether the interactor was done before.
type relay struct {
	program, interactor side
	toProgram           passage
	toInteractor        passage

	interactorEnd  atomic.Bool   // it has ended
	interactorMute atomic.Bool   // it has closed its output
	programEnd     chan struct{} // closed when the program has ended
	passing        sync.WaitGroup
}

// side is one of the two: the ends of pipes that its box gets, to be closed
// here as soon as the box has copies.
type side struct{ in, out *os.File }

func (s side) close() { closeAll(s.in, s.out) }

// passage is one way.
type passage struct {
	from, to *os.File
	limit    int64 // bytes; more ends their writer
	passed   atomic.Int64
	over     chan sandbox.Limit // has room for one
}

func newRelay(programBytes, interactorBytes int64) (r *relay, err error) {
	r = &relay{programEnd: make(chan struct{})}
	r.toInteractor.limit, r.toInteractor.over = programBytes, make(chan sandbox.Limit, 1)
	r.toProgram.limit, r.toProgram.over = interactorBytes, make(chan sandbox.Limit, 1)
	for _, pipe := range []struct{ read, write **os.File }{
		{&r.toInteractor.from, &r.program.out},
		{&r.interactor.in, &r.toInteractor.to},
		{&r.toProgram.from, &r.interactor.out},
		{&r.program.in, &r.toProgram.to},
	} {
		if *pipe.read, *pipe.write, err = os.Pipe(); err != nil {
			r.close()
			return nil, err
		}
	}
	return r, nil
}

// start begins to pass on.
func (r *relay) start() {
	r.passing.Go(func() {
		r.toProgram.pass()
		r.interactorMute.Store(true) // before the program can know
		closeAll(r.toProgram.to)
	})
	r.passing.Go(func() {
		r.toInteractor.pass()
		<-r.programEnd
		closeAll(r.toInteractor.to)
	})
}

// pass hands on until the end of file.
func (p *passage) pass() {
	buf := make([]byte, 32<<10)
	deaf := false
	for {
		n, err := p.from.Read(buf)
		if n > 0 {
			if p.passed.Add(int64(n)) > p.limit {
				p.stop(sandbox.LimitOutput)
			}
			if !deaf {
				_, writeErr := p.to.Write(buf[:n])
				deaf = writeErr != nil
			}
		}
		if err != nil {
			return
		}
	}
}

// stop ends who writes; only the first call counts.
func (p *passage) stop(limit sandbox.Limit) {
	select {
	case p.over <- limit:
	default:
	}
}

// leaving is how long a process may take from the end of its output to its own
// end. The kernel closes the files of one that exits within microseconds, but
// in no certain order.
const leaving = 2 * time.Second

// endProgram notes that the program has ended, and reports whether the
// interactor was done before. A program that failed may have done so because the
// interactor left: that is looked at twice.
func (r *relay) endProgram(failed bool) (judged bool) {
	var wait time.Duration
	if failed && r.interactorMute.Load() {
		wait = leaving
	}
	judged = r.interactorEnd.Load() || hasNoReader(r.toInteractor.to, wait)
	close(r.programEnd)
	return judged
}

// hasNoReader reports whether nobody holds the other end of a pipe, now or
// after waiting for it.
func hasNoReader(write *os.File, wait time.Duration) (closed bool) {
	raw, err := write.SyscallConn()
	if err != nil {
		return false
	}
	_ = raw.Control(func(fd uintptr) {
		polls := []unix.PollFd{{Fd: int32(fd)}}
		for {
			_, err := unix.Poll(polls, int(wait.Milliseconds()))
			if !errors.Is(err, unix.EINTR) {
				break
			}
		}
		closed = polls[0].Revents&unix.POLLERR != 0
	})
	return closed
}

// close waits until all that was written is read, and counted. Both sides have
// ended by then, so nobody holds the pipes up.
func (r *relay) close() {
	r.program.close()
	r.interactor.close()
	r.passing.Wait()
	closeAll(r.toProgram.from, r.toProgram.to, r.toInteractor.from, r.toInteractor.to)
}

// closeAll closes files; those that are closed already, or were never opened,
// do not matter.
func closeAll(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}
