package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/problem/importer"
	"github.com/gavel-oj/gavel/internal/problem/intake"
)

// openPackage reads a package as the server would, and unpacks it into dir as
// the worker would. The examples are those of the manifest, in its order.
func openPackage(ctx context.Context, name, dir string) (_ *problem.Package, examples []candidate, err error) {
	st, err := os.Stat(name)
	if err != nil {
		return nil, nil, usage("check the path; it is a package's directory or zip", "cannot read %s: %s", name, reason(err))
	}
	view, err := openView(name, st)
	if err != nil {
		return nil, nil, packageError(name, err)
	}
	defer func() { err = errors.Join(err, view.Close()) }()
	m, src, err := importer.Import(ctx, view.View, importer.Options{FileName: filepath.Base(name)})
	if err != nil {
		return nil, nil, packageError(name, err)
	}
	for _, f := range m.Files {
		if err := ctx.Err(); err != nil {
			return nil, nil, err
		}
		if err := unpack(src, f, dir); err != nil {
			return nil, nil, packageError(name, fmt.Errorf("%s: %w", f.Path, err))
		}
	}
	for _, e := range m.Submissions {
		text, err := fs.ReadFile(view, e.Path)
		if err != nil {
			return nil, nil, packageError(name, err)
		}
		examples = append(examples, candidate{name: e.Path, text: text, expected: e.Expected})
	}
	return &problem.Package{Manifest: *m, Digest: problem.Digest(m), Dir: dir}, examples, nil
}

// view is a package that is open.
type view struct {
	*intake.View

	file *os.File
}

// Close closes the file as well.
func (v *view) Close() error {
	err := v.View.Close()
	if v.file != nil {
		err = errors.Join(err, v.file.Close())
	}
	return err
}

func openView(name string, st fs.FileInfo) (*view, error) {
	if st.IsDir() {
		v, err := intake.OpenDir(name)
		return &view{View: v}, err
	}
	if !st.Mode().IsRegular() {
		return nil, apperr.New(apperr.Invalid, "name a package's directory or zip", "it is neither a directory nor a file")
	}
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	v, err := intake.OpenZip(f, st.Size())
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return &view{View: v, file: f}, nil
}

// unpack copies one file with the modes that a worker gives it: boxes read
// them as another user.
func unpack(src fs.FS, f problem.File, dir string) (err error) {
	to := filepath.Join(dir, filepath.FromSlash(f.Path))
	if err := makeDirsFor(to, dir); err != nil {
		return err
	}
	in, err := src.Open(f.Path)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, in.Close()) }()
	out, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(out, in)
	mode := fs.FileMode(0o444)
	if f.Executable {
		mode = 0o555
	}
	return errors.Join(err, out.Chmod(mode), out.Close())
}

// makeDirsFor makes the directories above a file, down from dir, for others to
// read whatever the umask says.
func makeDirsFor(file, dir string) error {
	parent := filepath.Dir(file)
	if _, err := os.Stat(parent); err == nil {
		return nil
	}
	if len(parent) > len(dir) {
		if err := makeDirsFor(parent, dir); err != nil {
			return err
		}
	}
	if err := os.Mkdir(parent, 0o755); err != nil {
		return err
	}
	return os.Chmod(parent, 0o755)
}

// packageError says which package an error is about.
func packageError(name string, err error) error {
	if e, ok := errors.AsType[*apperr.Error](err); ok {
		message := e.Message
		if e.Field != "" {
			message = e.Field + ": " + message
		}
		return withCause(err, &Error{Code: codeExit(e.Code), Hint: e.Hint, Message: path.Clean(name) + ": " + message})
	}
	return withCause(err, failed("check the package", "%s: %s", path.Clean(name), reason(err)))
}
