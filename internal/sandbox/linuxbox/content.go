package linuxbox

import (
	"fmt"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// smallContentBytes is up to where a copied-out file is kept in memory.
const smallContentBytes = 1 << 20

// takeContent copies a file of the box into one of our own, positioned at its
// start. The live inode is never handed out: it is gone with the run's file
// system, and only our copy has a size that cannot change.
func takeContent(from *os.File, size int64, tempDir string) (*os.File, error) {
	to, err := ownFile(size, tempDir)
	if err != nil {
		return nil, err
	}
	n, err := io.Copy(to, io.LimitReader(from, size))
	if err == nil && n != size {
		err = fmt.Errorf("read %d of %d bytes", n, size)
	}
	if err == nil {
		_, err = to.Seek(0, io.SeekStart)
	}
	if err != nil {
		to.Close()
		return nil, err
	}
	return to, nil
}

// ownFile makes a file without a name.
func ownFile(size int64, tempDir string) (*os.File, error) {
	if size <= smallContentBytes {
		fd, err := unix.MemfdCreate("copy-out", unix.MFD_CLOEXEC)
		if err != nil {
			return nil, fmt.Errorf("memfd: %w", err)
		}
		return os.NewFile(uintptr(fd), "copy-out"), nil
	}
	f, err := os.CreateTemp(tempDir, "gavel-copy-out-*")
	if err != nil {
		return nil, err
	}
	if err := os.Remove(f.Name()); err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}
