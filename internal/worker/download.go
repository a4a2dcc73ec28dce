package worker

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
)

// fetchFunc opens a package at an offset, as client.FetchPackage.
type fetchFunc func(ctx context.Context, digest string, offset int64) (*client.PackageStream, error)

// How stubborn a download is. Lost connections are retried until the time for
// it is over, refusals a few times (a lease may be moments old), and a package
// that arrives complete but wrong is fetched once more from the start.
const (
	maxRefusals      = 3
	maxWrongPackages = 2
)

// flight is one download and the slots that wait for it.
type flight struct {
	done    chan struct{}
	err     error // set before done closes
	cancel  context.CancelFunc
	waiting int // guarded by cache.mu
}

// start begins a download. The caller holds mu.
func (c *cache) start(digest string) *flight {
	ctx, cancel := context.WithTimeout(c.base, c.limit)
	f := &flight{done: make(chan struct{}), cancel: cancel}
	c.flights[digest] = f
	c.wg.Go(func() {
		defer cancel()
		pkg, err := c.download(ctx, digest)
		if err == nil {
			c.add(pkg)
		}
		c.mu.Lock()
		f.err = err
		delete(c.flights, digest)
		c.mu.Unlock()
		close(f.done)
	})
	return f
}

// wait waits for the download; the last one who stops waiting stops it.
func (f *flight) wait(ctx context.Context, c *cache) error {
	defer func() {
		c.mu.Lock()
		defer c.mu.Unlock()
		if f.waiting--; f.waiting == 0 {
			f.cancel()
		}
	}()
	select {
	case <-f.done:
		return f.err
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// download gets the stream into a file, going on where a lost connection
// stopped, and unpacks it.
func (c *cache) download(ctx context.Context, digest string) (*problem.Package, error) {
	started := c.clk.Now()
	hex, _ := problem.DigestHex(digest)
	path := filepath.Join(c.dir, "."+hex+".part")
	part, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return nil, hostFault("a package cannot be stored", err)
	}
	defer func() { _ = errors.Join(part.Close(), os.Remove(path)) }()

	pause := client.NewPause(500*time.Millisecond, 10*time.Second)
	refusals, wrong, cleared, complete := 0, 0, false, false
	for {
		before, err := part.Seek(0, io.SeekEnd)
		if err != nil {
			return nil, hostFault("a package cannot be stored", err)
		}
		if !complete {
			err = c.transfer(ctx, digest, part)
		}
		if err == nil {
			complete = true
			var pkg *problem.Package
			pkg, err = c.unpack(ctx, part, hex, digest)
			if err == nil {
				c.log.Info("package fetched", "package", digest, "ms", c.clk.Now().Sub(started).Milliseconds())
				return pkg, nil
			}
			if !isDiskError(err) && ctx.Err() == nil {
				if wrong++; wrong >= maxWrongPackages {
					return nil, &judge.Fault{Blame: judge.BlamePackage, Message: "the arbiter's copy of package " + digest + " is damaged; publish the problem again", Err: err}
				}
				c.log.Warn("package arrived damaged, fetching it again from the start", "package", digest, "error", err)
				complete = false
				if err := part.Truncate(0); err != nil {
					return nil, hostFault("a package cannot be stored", err)
				}
				continue
			}
		}
		switch status := client.StatusOf(err); {
		case ctx.Err() != nil:
			return nil, hostFault(fmt.Sprintf("package %s could not be fetched within %v", digest, c.limit), err)
		case isDiskError(err):
			// Old packages make room once; what is then still missing is
			// somebody else's doing.
			if cleared || c.shrink(1<<62) == 0 {
				return nil, hostFault("no room for a package; free some on the disk of the state directory", err)
			}
			cleared = true
			continue
		case status == http.StatusRequestedRangeNotSatisfiable:
			if err := part.Truncate(0); err != nil {
				return nil, hostFault("a package cannot be stored", err)
			}
			refusals++
		case status != 0:
			refusals++
		}
		if _, temporary := client.Temporary(err); !temporary && refusals >= maxRefusals {
			if client.StatusOf(err) == http.StatusNotFound {
				return nil, &judge.Fault{Blame: judge.BlamePackage, Message: "the arbiter does not have package " + digest + "; publish the problem again", Err: err}
			}
			return nil, hostFault("the arbiter does not hand out package "+digest, err)
		}
		if now, seekErr := part.Seek(0, io.SeekEnd); seekErr == nil && now > before {
			pause.Reset() // it moves: a bad line, not a dead one
		}
		d := pause.Next(err)
		c.log.Warn("package download broke off, going on", "package", digest, "have_bytes", before, "wait_ms", d.Milliseconds(), "error", err)
		if client.Sleep(ctx, d) != nil {
			return nil, hostFault(fmt.Sprintf("package %s could not be fetched within %v", digest, c.limit), err)
		}
	}
}

// transfer appends to part what is missing. nil means that the stream is
// complete.
func (c *cache) transfer(ctx context.Context, digest string, part *os.File) error {
	have, err := part.Seek(0, io.SeekEnd)
	if err != nil {
		return err
	}
	s, err := c.fetch(ctx, digest, have)
	if err != nil {
		return err
	}
	defer func() { _ = s.Body.Close() }()
	if s.Offset != have { // the arbiter sends all of it
		if err := part.Truncate(s.Offset); err != nil {
			return err
		}
		if _, err := part.Seek(s.Offset, io.SeekStart); err != nil {
			return err
		}
	}
	n, err := io.Copy(part, s.Body)
	if err != nil {
		return err
	}
	if s.TotalBytes >= 0 && s.Offset+n != s.TotalBytes {
		return &client.Unreachable{Op: "fetch package", Err: fmt.Errorf("%d of %d bytes came", s.Offset+n, s.TotalBytes)}
	}
	return nil
}

func (c *cache) unpack(ctx context.Context, part *os.File, hex, digest string) (*problem.Package, error) {
	if _, err := part.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	c.mu.Lock()
	dir := c.place(hex)
	c.mu.Unlock()
	return problem.Unpack(ctx, part, dir, digest)
}

// isDiskError says whether an error is this machine's and not the stream's.
func isDiskError(err error) bool {
	for _, e := range []syscall.Errno{
		syscall.ENOSPC, syscall.EDQUOT, syscall.EIO, syscall.EROFS, syscall.EMFILE,
		syscall.ENFILE, syscall.ENOMEM, syscall.EACCES, syscall.EPERM, syscall.EFBIG,
	} {
		if errors.Is(err, e) {
			var u *client.Unreachable
			return !errors.As(err, &u) // a socket may be out of memory, too
		}
	}
	return false
}

func hostFault(message string, err error) error {
	return &judge.Fault{Blame: judge.BlameHost, Message: message, Err: err}
}
