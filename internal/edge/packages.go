package edge

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"os"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// Packages is where packages come from. The agent verifies what it gets.
type Packages interface {
	FetchPackage(ctx context.Context, digest string, offset int64) (*client.PackageStream, error)
	// Lacks says that the package is known not to be there, so that a job that
	// needs it is better left to others.
	Lacks(digest string) bool
}

// Directory has packages as files: the arbiter's own directory, on the same
// machine or mounted, or a copy of it.
type Directory struct{ root *os.Root }

// OpenDirectory opens the directory of packages, which must be there.
func OpenDirectory(dir string) (*Directory, error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, apperr.Wrap(err, apperr.Invalid, "give the directory blobs/packages in the arbiter's data directory, or a copy of it",
			"the directory of packages cannot be opened")
	}
	return &Directory{root: root}, nil
}

// Close gives the directory back. Streams that are open go on.
func (d *Directory) Close() error { return d.root.Close() }

// Lacks implements Packages.
func (d *Directory) Lacks(digest string) bool {
	name, ok := problem.ArchiveName(digest)
	if !ok {
		return false // said by FetchPackage, which gives a reason
	}
	_, err := d.root.Stat(name)
	return errors.Is(err, fs.ErrNotExist)
}

// FetchPackage implements Packages.
func (d *Directory) FetchPackage(_ context.Context, digest string, offset int64) (*client.PackageStream, error) {
	name, ok := problem.ArchiveName(digest)
	if !ok {
		return nil, &gavelapi.Problem{Status: http.StatusUnprocessableEntity, Title: "not a package digest"}
	}
	f, err := d.root.Open(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, &gavelapi.Problem{Status: http.StatusNotFound, Title: http.StatusText(http.StatusNotFound), Detail: "the package is not in the directory of packages"}
	}
	if err != nil {
		return nil, &client.Unreachable{Op: "fetch package", URL: "the directory of packages", Err: err}
	}
	info, err := f.Stat()
	if err == nil && offset > info.Size() {
		err = fmt.Errorf("it has %d bytes, %d were wanted from on", info.Size(), offset)
	}
	if err == nil {
		_, err = f.Seek(offset, io.SeekStart)
	}
	if err != nil {
		return nil, &client.Unreachable{Op: "fetch package", URL: "the directory of packages", Err: errors.Join(err, f.Close())}
	}
	return &client.PackageStream{Offset: offset, TotalBytes: info.Size(), Body: f}, nil
}

// Remote gets packages from an arbiter, as any worker does: it hands out those
// of jobs that the worker of the token holds, however it came to hold them.
type Remote struct{ *client.Client }

// Lacks implements Packages: only asking would tell.
func (Remote) Lacks(string) bool { return false }

// FetchPackage makes Client a worker.Arbiter.
func (c *Client) FetchPackage(ctx context.Context, digest string, offset int64) (*client.PackageStream, error) {
	return c.cfg.Packages.FetchPackage(ctx, digest, offset)
}
