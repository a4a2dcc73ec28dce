package boxtest

import (
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// polled is what a provider says that looks at memory itself.
const polled = "memory and CPU time are polled"

// testMemory: the memory controller's kill decides, nothing else does.
func (s *suite) testMemory(t *testing.T) {
	const mib = 1 << 20
	exact := s.weaker(polled) == ""
	t.Run("memory that is touched is counted", func(t *testing.T) {
		got := s.run(t, s.spec("touch_mib", "40"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		if exact && (got.MemoryBytes < 40*mib || got.MemoryBytes > 43*mib) {
			t.Errorf("MemoryBytes = %d, want about %d", got.MemoryBytes, 40*mib)
		}
	})
	t.Run("memory that is let go of at once is counted", func(t *testing.T) {
		got := s.run(t, s.spec("spike_mib", "40"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		if exact && (got.MemoryBytes < 40*mib || got.MemoryBytes > 43*mib) {
			t.Errorf("MemoryBytes = %d, want about %d", got.MemoryBytes, 40*mib)
		}
	})
	t.Run("the next run does not inherit the peak", func(t *testing.T) {
		if got := s.run(t, s.spec("return0")); got.MemoryBytes > 4*mib {
			t.Errorf("MemoryBytes = %d for a program that does nothing", got.MemoryBytes)
		}
	})
	t.Run("too much ends by the memory limit", func(t *testing.T) {
		got := s.run(t, s.spec("touch_mib", "100"))
		got.ended(t, 0, int(syscall.SIGKILL), sandbox.LimitMemory)
		if got.OOMKills == 0 || got.MemoryBytes > 64*mib && exact || got.MemoryBytes < 60*mib {
			t.Errorf("OOMKills %d, MemoryBytes %d", got.OOMKills, got.MemoryBytes)
		}
	})
	t.Run("a run after it is innocent", func(t *testing.T) {
		got := s.run(t, s.spec("return0"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		if got.OOMKills != 0 {
			t.Errorf("OOMKills = %d", got.OOMKills)
		}
	})
	t.Run("limits of following runs go up and down", func(t *testing.T) {
		for _, limit := range []int64{16, 80, 8} {
			spec := s.spec("touch_mib", "200")
			spec.Limits.MemoryBytes = limit * mib
			got := s.run(t, spec)
			got.stopped(t, sandbox.LimitMemory)
			if got.MemoryBytes > limit*mib && exact || got.MemoryBytes < limit*mib*3/4 {
				t.Errorf("MemoryBytes = %d under a limit of %d", got.MemoryBytes, limit*mib)
			}
		}
	})
	t.Run("a child that is killed for memory counts though the parent ends well", func(t *testing.T) {
		got := s.run(t, s.spec("child_touches", "100"))
		got.stopped(t, sandbox.LimitMemory)
		if got.OOMKills == 0 {
			t.Error("no OOM kill counted")
		}
	})
	t.Run("memory in a memfd is the program's", func(t *testing.T) {
		s.skipIfWeaker(t, polled) // there are none
		spec := s.spec("memfd_hog")
		spec.Limits.FileBytes = 1 << 40
		s.run(t, spec).stopped(t, sandbox.LimitMemory)
	})
	t.Run("files in the working directory are the program's memory", func(t *testing.T) {
		spec := s.spec("fill_disk", "/w")
		spec.Limits.FileBytes, spec.Limits.DiskBytes = 1<<30, 1<<30
		s.run(t, spec).stopped(t, sandbox.LimitMemory)
	})
	t.Run("tables of pages are the program's memory", func(t *testing.T) {
		if s.tick > 0 {
			t.Skip("a user-mode kernel has too little address space for it")
		}
		s.run(t, s.spec("page_table_hog")).stopped(t, sandbox.LimitMemory)
	})
	t.Run("address space is free", func(t *testing.T) {
		s.run(t, s.spec("reserve_only")).held(t)
	})
	t.Run("page cache is not the program's fault", func(t *testing.T) {
		path := readOnlyFile(t, make([]byte, 40*mib))
		dropCache(t, path)
		spec := s.spec("read_file", "/data/big")
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: path, Box: "/data/big"})
		spec.Limits.MemoryBytes = 16 * mib
		got := s.run(t, spec)
		got.ended(t, 0, 0, sandbox.LimitNone)
		if got.stdout != "41943040\n" || got.OOMKills != 0 {
			t.Errorf("read %q, OOMKills %d", got.stdout, got.OOMKills)
		}
	})
	t.Run("the stack is as large as the memory when nothing else is said", func(t *testing.T) {
		got := s.run(t, s.spec("recurse_kib", "40000"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		if !strings.HasPrefix(got.stdout, "reached") {
			t.Errorf("stdout %q", got.stdout)
		}
	})
	t.Run("recursion beyond the stack limit is the program's own end", func(t *testing.T) {
		spec := s.spec("recurse_kib", "40000")
		spec.Limits.StackBytes = 8 * mib
		s.run(t, spec).ended(t, 0, int(syscall.SIGSEGV), sandbox.LimitNone)
	})
}

// dropCache makes the next reader of a file the one who is charged for it.
func dropCache(t *testing.T, path string) {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	_ = f.Sync()
	_ = unix.Fadvise(int(f.Fd()), 0, 0, unix.FADV_DONTNEED)
}

// testOutput: standard output is bounded, standard error only cut.
func (s *suite) testOutput(t *testing.T) {
	t.Run("output up to the limit is kept", func(t *testing.T) {
		spec := s.spec("write_kib", "256")
		spec.Limits.StdoutBytes = 256 << 10
		got := s.run(t, spec)
		got.ended(t, 0, 0, sandbox.LimitNone)
		if len(got.stdout) != 256<<10 || got.StdoutBytes != 256<<10 {
			t.Errorf("%d bytes kept, %d counted", len(got.stdout), got.StdoutBytes)
		}
	})
	t.Run("a byte more is the output limit though the program ended well", func(t *testing.T) {
		spec := s.spec("write_kib", "8")
		spec.Limits.StdoutBytes = 8<<10 - 1
		got := s.run(t, spec)
		got.stopped(t, sandbox.LimitOutput)
		if len(got.stdout) != 8<<10-1 || got.StdoutBytes != 8<<10 {
			t.Errorf("%d bytes kept, %d counted", len(got.stdout), got.StdoutBytes)
		}
	})
	t.Run("a flood ends at once", func(t *testing.T) {
		got := s.run(t, s.spec("flood_stdout"))
		got.ended(t, 0, int(syscall.SIGKILL), sandbox.LimitOutput)
		if len(got.stdout) != 1<<20 || got.StdoutBytes <= 1<<20 {
			t.Errorf("%d bytes kept, %d counted", len(got.stdout), got.StdoutBytes)
		}
	})
	t.Run("output is not the program's memory", func(t *testing.T) {
		spec := s.spec("write_kib", "12288")
		spec.Limits.StdoutBytes, spec.Limits.MemoryBytes = 64<<20, 6<<20
		got := s.run(t, spec)
		got.ended(t, 0, 0, sandbox.LimitNone)
		if got.StdoutBytes != 12<<20 {
			t.Errorf("StdoutBytes = %d", got.StdoutBytes)
		}
	})
	t.Run("standard error is cut and changes nothing", func(t *testing.T) {
		got := s.run(t, s.spec("flood_stderr"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		if got.stdout != "42\n" || len(got.stderr) != 1<<16 || got.StderrBytes != 64<<16 {
			t.Errorf("stdout %q, %d bytes of stderr kept, %d counted", got.stdout, len(got.stderr), got.StderrBytes)
		}
	})
	t.Run("a file over its limit is the output limit", func(t *testing.T) {
		s.run(t, s.spec("large_file")).ended(t, 0, int(syscall.SIGXFSZ), sandbox.LimitOutput)
	})
	t.Run("ignoring the signal does not help", func(t *testing.T) {
		s.run(t, s.spec("large_file_ignoring")).ended(t, 0, 0, sandbox.LimitOutput)
	})
}
