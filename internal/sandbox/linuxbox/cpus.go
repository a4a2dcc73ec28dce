package linuxbox

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// sysCPU is where the kernel describes CPUs.
const sysCPU = "/sys/devices/system/cpu"

// CPUs lists the CPUs that this process may use: one of each physical core
// first, then the others of the same cores. Two programs on one core slow each
// other down, and their CPU times with them.
func CPUs() ([]sandbox.CPU, error) {
	var set unix.CPUSet
	if err := unix.SchedGetaffinity(0, &set); err != nil {
		return nil, fmt.Errorf("find out which CPUs may be used: %w", err)
	}
	var allowed []int
	for id := range len(set) * 64 {
		if set.IsSet(id) {
			allowed = append(allowed, id)
		}
	}
	return describeCPUs(sysCPU, allowed), nil
}

// describeCPUs orders CPUs by what dir says of them. Machines that say nothing
// (containers without /sys) have no siblings and isolate nothing.
func describeCPUs(dir string, allowed []int) []sandbox.CPU {
	isolated := readCPUList(filepath.Join(dir, "isolated"))
	var first, siblings []sandbox.CPU
	var seen []int
	for _, id := range allowed {
		cpu := sandbox.CPU{ID: id, Sibling: slices.Contains(seen, id), Isolated: slices.Contains(isolated, id)}
		if cpu.Sibling {
			siblings = append(siblings, cpu)
			continue
		}
		first = append(first, cpu)
		seen = append(seen, readCPUList(filepath.Join(dir, fmt.Sprintf("cpu%d", id), "topology", "thread_siblings_list"))...)
	}
	return append(first, siblings...)
}

// readCPUList reads a list such as "0-3,8". What cannot be read is empty.
func readCPUList(name string) (ids []int) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil
	}
	for part := range strings.SplitSeq(strings.TrimSpace(string(text)), ",") {
		from, to, isRange := strings.Cut(part, "-")
		a, err := strconv.Atoi(from)
		if err != nil {
			return nil
		}
		b := a
		if isRange {
			if b, err = strconv.Atoi(to); err != nil {
				return nil
			}
		}
		for id := a; id <= b; id++ {
			ids = append(ids, id)
		}
	}
	return ids
}
