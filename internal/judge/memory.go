package judge

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"
)

// memoryBudget keeps the sum of the memory limits of all boxes that run at the
// same time within what the machine has, so that no program can be killed
// because of what runs beside it.
//
// Invariants:
//
//	M1  The sum of what is granted never exceeds total.
//	M2  Who waits is served in the order of arrival: a large request is not
//	    overtaken for ever by small ones.
//	M3  Nobody waits for memory while holding some: each run asks once and
//	    gives all back. So there is no deadlock.
type memoryBudget struct {
	total int64

	mu    sync.Mutex
	used  int64
	queue []*memoryRequest
}

type memoryRequest struct {
	bytes   int64
	granted chan struct{}
}

// acquire waits until bytes are free and returns what to call when they are no
// longer needed. What can never be granted is refused at once.
func (b *memoryBudget) acquire(ctx context.Context, bytes int64) (release func(), err error) {
	if bytes > b.total {
		return nil, tooMuchMemory(bytes, b.total)
	}
	r := &memoryRequest{bytes: bytes, granted: make(chan struct{})}
	b.mu.Lock()
	b.queue = append(b.queue, r)
	b.serve()
	b.mu.Unlock()
	select {
	case <-r.granted:
	default:
		select {
		case <-r.granted:
		case <-ctx.Done():
			b.abandon(r)
			return nil, context.Cause(ctx)
		}
	}
	return func() {
		b.mu.Lock()
		defer b.mu.Unlock()
		b.used -= bytes
		b.serve()
	}, nil
}

// serve grants from the head of the queue what fits. mu is held.
func (b *memoryBudget) serve() {
	for len(b.queue) > 0 && b.used+b.queue[0].bytes <= b.total {
		b.used += b.queue[0].bytes
		close(b.queue[0].granted)
		b.queue = b.queue[1:]
	}
}

// abandon takes back a request, granted or not.
func (b *memoryBudget) abandon(r *memoryRequest) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if i := slices.Index(b.queue, r); i >= 0 {
		b.queue = slices.Delete(b.queue, i, i+1)
	} else {
		b.used -= r.bytes
	}
	b.serve() // those behind may fit now
}

func tooMuchMemory(bytes, total int64) *Fault {
	return faultf(BlameHost, nil, "cannot give a program %d MiB of memory: all that runs here at once may have %d MiB", bytes>>20, total>>20)
}

// maxMemoryReserve is the most that DefaultMemoryBudget keeps back.
const maxMemoryReserve = 2 << 30

// DefaultMemoryBudget is the memory of this machine, or of the container that
// this is, less a reserve for everything that is not judged: a quarter, at
// most 2 GiB.
func DefaultMemoryBudget() int64 {
	var si unix.Sysinfo_t
	if unix.Sysinfo(&si) != nil {
		return 1 << 30
	}
	total := int64(si.Totalram) * int64(si.Unit)
	for _, name := range []string{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"} {
		b, err := os.ReadFile(name)
		if err != nil {
			continue
		}
		if n, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64); err == nil && n > 0 {
			total = min(total, n)
		}
	}
	return total - min(total/4, maxMemoryReserve)
}
