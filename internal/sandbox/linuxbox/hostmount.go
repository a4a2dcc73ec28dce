package linuxbox

import (
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// mountID identifies what is mounted where. As long as it is mounted its inode
// lives, so no other file can have the same numbers.
type mountID struct {
	box      string
	dev, ino uint64
}

// openMounts prepares the run's mounts as detached, read-only copies. The
// paths are resolved here, by the host in the host's tree; the init only
// attaches what it is given.
func openMounts(mounts []sandbox.Mount, readOnly bool) (files []*os.File, err error) {
	for _, m := range mounts {
		f, err := openMount(m.Host, readOnly)
		if err != nil {
			closeAll(files)
			return nil, &sandbox.Fault{Op: "mount", Err: fmt.Errorf("%s: %w", m.Host, err)}
		}
		files = append(files, f)
	}
	return files, nil
}

func openMount(host string, readOnly bool) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, host, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("open_tree: %w", err)
	}
	f := os.NewFile(uintptr(fd), host)
	// Private: what is mounted later on either side stays there.
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV, Propagation: unix.MS_PRIVATE}
	if readOnly {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &attr); err != nil {
		f.Close()
		return nil, fmt.Errorf("mount_setattr: %w", err)
	}
	return f, nil
}
