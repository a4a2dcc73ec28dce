// Package boxtest is the conformance suite for sandbox.Box: what the contract
// in package sandbox promises, tried with real programs, most of them hostile.
// Every implementation passes it, on every kind of machine:
//
//	func TestConformance(t *testing.T) {
//		boxtest.Run(t, func(t *testing.T) sandbox.Provider { … })
//	}
//
// The programs are in programs/, in C, one binary for all. They need gcc, or
// the flag -boxtest.programs with a directory that holds the binary already
// (which is how a virtual machine without a compiler runs the suite).
package boxtest

import (
	"bytes"
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// hostile is the path of the programs' binary inside the box.
const hostile = sandbox.ProgramDir + "/hostile"

// suite is what the tests share: one provider, one warm box, the binary.
type suite struct {
	provider sandbox.Provider
	box      sandbox.Box
	programs string // host directory with the binary
	// tick is the step of the CPU meter: 0 when it is fine-grained, 10 ms on
	// kernels that account by timer tick.
	tick time.Duration
	// pace stretches time limits on slow machines; 1 on usual ones.
	pace time.Duration
}

// Run tries everything on providers made by open. The suite closes them and
// fails if closing does.
func Run(t *testing.T, open func(t *testing.T) sandbox.Provider) {
	s := &suite{programs: Programs(t), pace: 1}
	s.provider = open(t)
	t.Cleanup(func() {
		if err := s.provider.Close(); err != nil {
			t.Errorf("closing the provider: %v", err)
		}
	})
	s.box = s.newBox(t)
	s.calibrate(t)
	t.Run("verdicts", s.testEndings)
	t.Run("time", s.testTime)
	t.Run("memory", s.testMemory)
	t.Run("output", s.testOutput)
	t.Run("processes", s.testProcesses)
	t.Run("attacks", s.testAttacks)
	t.Run("files", s.testFiles)
	t.Run("copy out", s.testCopyOut)
	t.Run("between runs", s.testBetweenRuns)
	t.Run("contract", s.testContract)
	t.Run("refused specs", s.testRefusedSpecs)
}

// calibrate finds how finely this machine counts and how slow it is.
func (s *suite) calibrate(t *testing.T) {
	t.Helper()
	coarse := true
	var wall time.Duration
	for range 3 {
		got := s.run(t, s.spec("burn", "0.03"))
		coarse = coarse && got.CPU%(10*time.Millisecond) == 0
		wall += got.Wall
	}
	if coarse {
		s.tick = 10 * time.Millisecond
	}
	if wall > 600*time.Millisecond {
		s.pace = 4
	}
	t.Logf("box: %+v; meter tick %v, pace %d", s.provider.Info(), s.tick, s.pace)
}

// slack is how far a CPU figure or an enforced limit may be off. It is for a
// machine that does other work as well; benchmarks watch the exact figure. A
// meter that counts by tick is one of a virtual machine, which also counts the
// time that the host gives to others.
func (s *suite) slack() time.Duration {
	d := s.pace*60*time.Millisecond + 3*s.tick
	if s.tick > 0 {
		d += 600 * time.Millisecond
	}
	return d
}

func (s *suite) newBox(t *testing.T) sandbox.Box {
	t.Helper()
	b, err := s.provider.Open(t.Context())
	if err != nil {
		t.Fatalf("open a box: %v", err)
	}
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Errorf("closing the box: %v", err)
		}
	})
	return b
}

// spec is a run of one of the hostile programs under roomy limits.
func (s *suite) spec(args ...string) *sandbox.Spec {
	return &sandbox.Spec{
		Argv:    append([]string{hostile}, args...),
		Env:     []string{"PATH=/usr/bin:/bin"},
		Mounts:  []sandbox.Mount{{Host: s.programs, Box: sandbox.ProgramDir}},
		Profile: sandbox.ProfileRun,
		Limits: sandbox.Limits{
			// Generous: virtual machines count the time they are not run.
			CPU: s.pace * 30 * time.Second, Wall: s.pace * 60 * time.Second, MemoryBytes: 64 << 20,
			StdoutBytes: 1 << 20, StderrBytes: 1 << 16, FileBytes: 4 << 20,
			DiskBytes: 8 << 20, DiskInodes: 64, Processes: 16, OpenFiles: 32,
		},
	}
}

// outcome is a Result with the output beside it.
type outcome struct {
	sandbox.Result
	stdout, stderr string
}

func (s *suite) run(t *testing.T, spec *sandbox.Spec) outcome {
	t.Helper()
	return s.runIn(t, s.box, spec)
}

func (s *suite) runIn(t *testing.T, b sandbox.Box, spec *sandbox.Spec) outcome {
	t.Helper()
	got, err := try(t.Context(), b, spec)
	if err != nil {
		t.Fatalf("%v: %v", spec.Argv, err)
	}
	return got
}

func try(ctx context.Context, b sandbox.Box, spec *sandbox.Spec) (outcome, error) {
	var stdout, stderr bytes.Buffer
	if spec.Stdout == nil && spec.StdoutFD == nil {
		spec.Stdout = &stdout
	}
	if spec.Stderr == nil {
		spec.Stderr = &stderr
	}
	res, err := b.Run(ctx, spec)
	return outcome{res, stdout.String(), stderr.String()}, err
}

// ended checks how a run ended.
func (o outcome) ended(t *testing.T, exit, signal int, fired sandbox.Limit) {
	t.Helper()
	if o.ExitCode != exit || o.Signal != signal || o.Fired != fired {
		t.Errorf("ended with exit %d, signal %d, limit %q; want %d, %d, %q\n%s", o.ExitCode, o.Signal, o.Fired, exit, signal, fired, o)
	}
}

// stopped checks that the supervisor ended the run for this reason.
func (o outcome) stopped(t *testing.T, fired sandbox.Limit) {
	t.Helper()
	if o.Fired != fired {
		t.Errorf("limit %q, want %q\n%s", o.Fired, fired, o)
	}
}

func (o outcome) held(t *testing.T) {
	t.Helper()
	if o.stdout != "held\n" || o.ExitCode != 0 || o.Signal != 0 {
		t.Errorf("the box did not hold\n%s", o)
	}
}

func (o outcome) String() string {
	cut := func(s string) string { return s[:min(len(s), 2000)] }
	return fmt.Sprintf("cpu %v, wall %v, memory %d, oom kills %d, process limit %t\nstdout: %s\nstderr: %s",
		o.CPU, o.Wall, o.MemoryBytes, o.OOMKills, o.ProcessLimitHit, cut(o.stdout), cut(o.stderr))
}
