package cmdline

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
)

// ErrNoFile says that a name is of something that cannot simply be read.
var ErrNoFile = errors.New("it is not a regular file")

// OpenFile opens a regular file that somebody named, to read it; anything else
// is an error. It never waits: opening a FIFO would until somebody writes, and
// no signal to stop is looked at meanwhile.
func OpenFile(name string) (*os.File, error) {
	f, err := os.OpenFile(name, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && st.IsDir() {
		err = &fs.PathError{Op: "open", Path: name, Err: syscall.EISDIR}
	}
	if err == nil && !st.Mode().IsRegular() {
		err = &fs.PathError{Op: "open", Path: name, Err: ErrNoFile}
	}
	if err != nil {
		_ = f.Close() // nothing was written
		return nil, err
	}
	return f, nil
}
