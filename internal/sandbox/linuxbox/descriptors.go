package linuxbox

import (
	"fmt"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// MinOpenFiles is the least limit on open files that boxes work with: an init
// keeps its own descriptors from keptFD on, a packet carries up to maxFDs, and
// compilers may have a thousand.
const MinOpenFiles = 1024

// enoughDescriptors raises the soft limit on open files to the hard one, and
// refuses a machine on which that is too little: an init that cannot have its
// descriptors ends before it can say so.
func enoughDescriptors() error {
	var r unix.Rlimit
	err := unix.Getrlimit(unix.RLIMIT_NOFILE, &r)
	if err == nil && r.Cur < r.Max {
		// The runtime did it at start; somebody may have lowered it since.
		r.Cur = r.Max
		err = unix.Setrlimit(unix.RLIMIT_NOFILE, &r)
	}
	if err != nil {
		return &sandbox.Fault{Op: "descriptors", Err: err}
	}
	if r.Max < MinOpenFiles {
		return &sandbox.Fault{
			Op: "descriptors", Hint: "raise the limit: LimitNOFILE=65536 in the systemd unit, ulimit -Hn 65536, or --ulimit nofile=65536 for a container",
			Err: fmt.Errorf("at most %d files may be open at once, boxes need %d", r.Max, MinOpenFiles),
		}
	}
	return nil
}
