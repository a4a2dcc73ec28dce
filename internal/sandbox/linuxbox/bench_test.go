package linuxbox

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// buildReturnZero compiles the smallest useful program, statically, so that
// the loader's work is not part of the figure.
func buildReturnZero(tb testing.TB) (dir string) {
	dir = tb.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		tb.Fatal(err)
	}
	if out, err := exec.CommandContext(tb.Context(), "gcc", "-O2", "-static", "-o", filepath.Join(dir, "p"), "testdata/return0.c").CombinedOutput(); err != nil {
		tb.Fatalf("gcc: %v\n%s", err, out)
	}
	return dir
}

// BenchmarkPosixSpawn is the yardstick: the same program without a box.
func BenchmarkPosixSpawn(b *testing.B) {
	prog := filepath.Join(buildReturnZero(b), "p")
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		b.Fatal(err)
	}
	defer null.Close()
	fd := null.Fd()
	for b.Loop() {
		pid, err := syscall.ForkExec(prog, []string{prog}, &syscall.ProcAttr{Files: []uintptr{fd, fd, fd}})
		if err != nil {
			b.Fatal(err)
		}
		var ws unix.WaitStatus
		if _, err := unix.Wait4(pid, &ws, 0, nil); err != nil || ws.ExitStatus() != 0 {
			b.Fatal(err, ws)
		}
	}
}

// BenchmarkReturnZero is one whole run in a warm box: program mounted, output
// collected, limits set, counters read.
func BenchmarkReturnZero(b *testing.B) {
	spec := &sandbox.Spec{Argv: []string{"/bin/true"}, Limits: roomyLimits(), Profile: sandbox.ProfileRun}
	spec.Argv = []string{"/box/p"}
	spec.Mounts = []sandbox.Mount{{Host: buildReturnZero(b), Box: sandbox.ProgramDir}}
	p, err := Open(Config{noProof: true})
	if err != nil {
		b.Fatal(err)
	}
	defer p.Close()
	box, err := p.Open(b.Context())
	if err != nil {
		b.Fatal(err)
	}
	var inside time.Duration
	for b.Loop() {
		res, err := box.Run(b.Context(), spec)
		if err != nil || res.ExitCode != 0 || res.Signal != 0 {
			b.Fatalf("%+v, %v", res, err)
		}
		inside += res.Wall
	}
	// From the fork to the end of the program; the rest is what the box adds.
	b.ReportMetric(float64(inside.Nanoseconds())/float64(b.N), "program-ns/op")
}
