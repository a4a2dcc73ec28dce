package linuxbox

import (
	"fmt"
	"os"
	"strings"
)

// Every slot takes two host ids, one for the box's root and one for its user.
// Nobody else should have them: a shared id would share per-user quotas
// (pipes, watches, pending signals) between boxes. The range below lies above
// those that adduser hands out as subordinate ids by default.
const (
	firstHostID = 1_700_000_000
	hostIDCount = 1 << 16
)

// hostIDBase finds room for hostIDCount ids in the ids that this process can
// use: all of them on a plain host, a part in a container with its own user
// namespace. The argument is the text of /proc/self/uid_map or gid_map.
func hostIDBase(idMap string) (int, error) {
	best := -1
	for line := range strings.Lines(idMap) {
		var inside, outside, count int64
		if _, err := fmt.Sscan(line, &inside, &outside, &count); err != nil {
			return 0, fmt.Errorf("id map line %q: %w", strings.TrimSpace(line), err)
		}
		if inside <= firstHostID && firstHostID+hostIDCount <= inside+count {
			return firstHostID, nil
		}
		if count > hostIDCount { // the top of a part: likely the least used
			best = int(inside + count - hostIDCount)
		}
	}
	if best < 0 {
		return 0, fmt.Errorf("no %d unused ids in this user namespace", hostIDCount)
	}
	return best, nil
}

func readHostIDBase() (int, error) {
	base := 0
	for _, file := range []string{"/proc/self/uid_map", "/proc/self/gid_map"} {
		text, err := os.ReadFile(file)
		if err != nil {
			return 0, err
		}
		b, err := hostIDBase(string(text))
		if err != nil {
			return 0, fmt.Errorf("%s: %w", file, err)
		}
		if base != 0 && b != base {
			return 0, fmt.Errorf("uid_map and gid_map offer different ranges: %d and %d", base, b)
		}
		base = b
	}
	return base, nil
}

// hostIDs gives the ids of a slot. Slots of one worker never share; workers
// are spread by their process id.
func hostIDs(base, pid, slot int) (root, user int) {
	n := (pid%512)*128 + (slot%64)*2
	return base + n, base + n + 1
}
