package language

import (
	"fmt"
	"time"

	"github.com/gavel-oj/gavel/internal/problem"
)

// Limits are the effective limits of one run of a program: a package's own
// after the language's rule.
type Limits struct {
	CPU         time.Duration
	Wall        time.Duration
	MemoryBytes int64
	OutputBytes int64
	Processes   int
}

// maxLimitMS bounds what a package or a rule may ask for: a day.
const maxLimitMS = 24 * 60 * 60 * 1000

// Effective applies lang's rule to a package's limits: CPU × factor + extra,
// memory + extra, the wall limit by Wall's default, and at least the processes
// that the runtime needs. A limit of zero or less is refused: a package
// without a limit is a mistake, never "unlimited".
func Effective(pkg problem.Limits, lang *Language) (Limits, error) {
	for _, l := range []struct {
		name  string
		value int64
	}{
		{"cpu_ms", pkg.CPUMS},
		{"memory_bytes", pkg.MemoryBytes},
		{"output_bytes", pkg.OutputBytes},
		{"processes", int64(pkg.Processes)},
	} {
		if l.value <= 0 {
			return Limits{}, fmt.Errorf("limit %s is %d: it must be above 0", l.name, l.value)
		}
	}
	if pkg.CPUMS > maxLimitMS {
		return Limits{}, fmt.Errorf("limit cpu_ms is %d: at most %d", pkg.CPUMS, maxLimitMS)
	}

	cpu := lang.Factors.CPUFactor.times(pkg.CPU()) + time.Duration(lang.Factors.CPUExtraMS)*time.Millisecond
	wall, err := Wall(cpu, 0)
	if err != nil {
		return Limits{}, err
	}
	return Limits{
		CPU:         cpu,
		Wall:        wall,
		MemoryBytes: pkg.MemoryBytes + lang.Factors.MemoryExtraBytes,
		OutputBytes: pkg.OutputBytes,
		Processes:   max(pkg.Processes, lang.Run.Processes),
	}, nil
}

// Wall is the wall limit that goes with a CPU limit: wall itself when given,
// else 2 × CPU + 1 s. A wall limit below the CPU limit is refused, because it
// would quietly replace it.
func Wall(cpu, wall time.Duration) (time.Duration, error) {
	if wall == 0 {
		return 2*cpu + time.Second, nil
	}
	if wall < cpu {
		return 0, fmt.Errorf("wall limit %v is below the CPU limit %v", wall, cpu)
	}
	return wall, nil
}

// CompileLimits are l's compile limits with what the package gives instead.
// The wall limit grows with a larger CPU limit and never shrinks.
func (l *Language) CompileLimits(pkg problem.Limits) CompileLimits {
	limits := l.Compile.Limits
	if pkg.CompileCPUMS > 0 {
		limits.CPUMS = min(pkg.CompileCPUMS, maxLimitMS)
		limits.WallMS = max(limits.WallMS, 3*limits.CPUMS)
	}
	if pkg.CompileMemoryBytes > 0 {
		limits.MemoryBytes = pkg.CompileMemoryBytes
	}
	return limits
}
