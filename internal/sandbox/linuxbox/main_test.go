package linuxbox

import (
	"context"
	"flag"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/internal/sandbox"
	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestMain(m *testing.M) {
	Init()
	if len(os.Args) == 2 {
		switch os.Args[1] {
		case testWorkerArg:
			os.Exit(testWorker())
		case testOpenArg:
			_, err := Open(Config{})
			fmt.Println(err)
			os.Exit(0)
		}
	}
	flag.Parse()
	if *coverCgroup {
		if err := coverCgroups(); err != nil {
			fmt.Println("cover cgroups:", err)
			os.Exit(1)
		}
	}
	if os.Geteuid() == 0 {
		// A worker may have been started with some: no program must have them.
		if err := syscall.Setgroups([]int{4, 20}); err != nil {
			fmt.Println("set supplementary groups:", err)
			os.Exit(1)
		}
	}
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		fmt.Println("goroutines left:", err)
		code = 1
	}
	os.Exit(code)
}

func backgroundForWorker() context.Context { return context.Background() }

// needBoxes skips on a machine that cannot have boxes: no root, or no cgroup
// controllers in sight. Whatever else goes wrong is a failure.
func needBoxes(t testing.TB) {
	t.Helper()
	if *degraded {
		return
	}
	if os.Geteuid() != 0 {
		testkit.Missing(t, testkit.Cgroup, "%v", errNoRoot)
	}
	if _, err := detectLayout(); err != nil {
		testkit.Missing(t, testkit.Cgroup, "%v", err)
	}
}

// open is Open for a test.
func open(t testing.TB, cfg Config) *Provider {
	t.Helper()
	needBoxes(t)
	cfg.Degraded = *degraded
	p, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func roomyLimits() sandbox.Limits {
	return sandbox.Limits{
		CPU: 5 * time.Second, Wall: 10 * time.Second, MemoryBytes: 256 << 20,
		StdoutBytes: 1 << 20, StderrBytes: 1 << 16, FileBytes: 16 << 20,
		DiskBytes: 32 << 20, DiskInodes: 256, Processes: 16, OpenFiles: 64,
	}
}
