// Package intake opens what a person hands over as a problem package, a
// directory or a zip, and shows it as a read-only file system that is safe to
// walk. It knows nothing of package formats.
//
// A View promises: every path is relative, clean UTF-8 without backslashes or
// control characters; no name twice; only regular files and directories
// (links inside the package appear as what they point to); no more files and
// bytes than the limits, however small the zip; junk of operating systems and
// hidden files are left out (.timelimit of problem packages aside); a single
// directory around everything is taken off. File contents are read when
// asked for, never held.
//
// Whatever is refused is refused before the first file is read where that is
// possible, with an *apperr.Error that names the entry and the cure.
package intake

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// limits are the package limits, variable for tests.
type limits struct {
	bytes     int64 // all files together
	files     int   // files and directories
	ratio     int64 // unpacked bytes per byte of zip …
	ratioFrom int64 // … looked at only above this size
}

// Test data compress well, ten to a hundred times; an archive that is large
// and grows more than that is made to do harm. Small ones cannot.
var defaultLimits = limits{
	bytes:     problem.MaxPackageBytes,
	files:     problem.MaxFiles,
	ratio:     250,
	ratioFrom: 128 << 20,
}

// OpenDir opens a directory. Nothing outside it can be reached through the
// view, even when somebody changes it at the same time. Close the view.
func OpenDir(dir string) (*View, error) {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, apperr.New(apperr.NotFound, "check the path", "%s does not exist", dir)
	case err != nil:
		return nil, apperr.New(apperr.Invalid, "check its permissions", "%s cannot be opened: %v", dir, cause(err))
	case !info.IsDir():
		return nil, apperr.New(apperr.Invalid, "give a problem directory, or a zip file by its name", "%s is not a directory", dir)
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, apperr.New(apperr.Invalid, "check its permissions", "%s cannot be opened: %v", dir, cause(err))
	}
	v, err := openFS(root.FS(), defaultLimits)
	if err != nil {
		return nil, errors.Join(err, root.Close())
	}
	v.closer = root
	if abs, err := filepath.Abs(dir); err == nil && v.top == "" {
		v.top = filepath.Base(abs)
	}
	return v, nil
}

// OpenFS opens a file system that is trusted to stay within itself, such as
// one embedded in the program.
func OpenFS(fsys fs.FS) (*View, error) { return openFS(fsys, defaultLimits) }

func openFS(fsys fs.FS, lim limits) (*View, error) {
	b := newBuilder(lim, "directory")
	err := fs.WalkDir(fsys, ".", func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return apperr.New(apperr.Invalid, "check its permissions", "cannot be read: %v", cause(err)).At(entryField(name))
		}
		if name == "." {
			return nil
		}
		if hidden(name) {
			if d.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return b.addFromFS(fsys, name, d)
	})
	if err != nil {
		return nil, err
	}
	return b.finish()
}

func (b *builder) addFromFS(fsys fs.FS, name string, d fs.DirEntry) error {
	switch d.Type() {
	case 0:
		info, err := d.Info()
		if err != nil {
			return apperr.New(apperr.Invalid, "try again when nobody changes the directory", "cannot be read: %v", cause(err)).At(entryField(name))
		}
		return b.file(name, info.Size(), info.Mode()&0o111 != 0, func() (io.ReadCloser, error) { return fsys.Open(name) })
	case fs.ModeDir:
		return b.dir(name)
	case fs.ModeSymlink:
		target, err := fs.ReadLink(fsys, name)
		if err != nil {
			return apperr.New(apperr.Invalid, "replace the link by the file", "cannot be read: %v", cause(err)).At(entryField(name))
		}
		return b.link(name, target)
	default:
		return special(name, d.Type())
	}
}

// special refuses what is neither file nor directory nor link.
func special(name string, mode fs.FileMode) error {
	what := "a special file"
	switch {
	case mode&fs.ModeNamedPipe != 0:
		what = "a named pipe"
	case mode&fs.ModeSocket != 0:
		what = "a socket"
	case mode&fs.ModeDevice != 0:
		what = "a device"
	}
	return apperr.New(apperr.Invalid, "remove it from the package", "is %s; a package holds only files and directories", what).At(entryField(name))
}

func entryField(name string) string { return fmt.Sprintf("entry %q", shorten(name)) }

func shorten(s string) string {
	if len(s) > 120 {
		return s[:100] + "…" + s[len(s)-10:]
	}
	return s
}

// cause takes the path off an error of the os package, since the message
// around it has one already.
func cause(err error) error {
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		return pe.Err
	}
	return err
}
