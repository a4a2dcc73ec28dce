package linuxbox

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"strconv"

	"golang.org/x/sys/unix"
)

// counter is a control file that is read around every run. It is a bare
// descriptor with a buffer of its own, because an os.File asks the kernel for
// its mode each time, and a buffer a read is garbage that nobody collects in
// an init.
type counter struct {
	fd   int
	text [1024]byte
}

func openCounter(path string, mode int) (*counter, error) {
	fd, err := unix.Open(path, mode|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return &counter{fd: fd}, nil
}

func (c *counter) close() {
	if c != nil {
		_ = unix.Close(c.fd)
	}
}

// read returns the whole file, until the next call. One system call is all it
// takes: these files are small.
func (c *counter) read() ([]byte, error) {
	for {
		n, err := unix.Pread(c.fd, c.text[:], 0)
		if !errors.Is(err, unix.EINTR) {
			return c.text[:max(n, 0)], err
		}
	}
}

// reset writes a zero, which some counters take as their new start.
func (c *counter) reset() error {
	_, err := unix.Pwrite(c.fd, []byte("0"), 0)
	return err
}

// int is the value of a file that is one number.
func (c *counter) int() (int64, error) {
	b, err := c.read()
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(string(bytes.TrimSpace(b)), 10, 64)
}

// field is the value of one line of a file of names and values.
func (c *counter) field(name string) (int64, error) {
	b, err := c.read()
	if err != nil {
		return 0, err
	}
	return field(b, name)
}

// field finds the value of "name value" in a file of such lines.
func field(b []byte, name string) (int64, error) {
	for line := range bytes.Lines(b) {
		key, value, ok := bytes.Cut(bytes.TrimSpace(line), []byte(" "))
		if ok && string(key) == name {
			return strconv.ParseInt(string(bytes.TrimSpace(value)), 10, 64)
		}
	}
	return 0, fmt.Errorf("no %q among the counters", name)
}
