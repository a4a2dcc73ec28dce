package linuxbox

import (
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

func roomyLimits() sandbox.Limits {
	return sandbox.Limits{
		CPU: 5 * time.Second, Wall: 10 * time.Second, MemoryBytes: 256 << 20,
		StdoutBytes: 1 << 20, StderrBytes: 1 << 16, FileBytes: 16 << 20,
		DiskBytes: 32 << 20, DiskInodes: 256, Processes: 16, OpenFiles: 64,
	}
}

func TestTrueRunsAndExitsWithZero(t *testing.T) {
	p, err := Open(Config{})
	if err != nil {
		t.Fatal(err)
	}
	b, err := p.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		res, err := b.Run(t.Context(), &sandbox.Spec{Argv: []string{"/bin/true"}, Limits: roomyLimits(), Profile: sandbox.ProfileRun})
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%+v", res)
	}
	if err := p.Close(); err != nil {
		t.Fatal(err)
	}
}
