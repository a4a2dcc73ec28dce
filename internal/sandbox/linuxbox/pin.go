package linuxbox

import (
	"fmt"

	"golang.org/x/sys/unix"
)

// pin pins the calling thread to the box's CPU, if it has one. The forker is
// pinned, and with it all programs; so is the janitor: their work must not take
// time from the neighbours. The rest of the runtime is free. It has next to
// nothing to do, but its monitor looks around fifty times in the first
// millisecond after a wait, and on the program's own CPU that cost a short
// program more than the whole of the supervision.
func (b *boxInit) pin() error {
	if b.cfg.CPU == nil {
		return nil
	}
	var set unix.CPUSet
	set.Set(*b.cfg.CPU)
	if err := unix.SchedSetaffinity(0, &set); err != nil {
		return step("pin", "the CPU must be online, and in the worker's cpuset", fmt.Errorf("pin to CPU %d: %w", *b.cfg.CPU, err))
	}
	b.ncpu = 1
	return nil
}
