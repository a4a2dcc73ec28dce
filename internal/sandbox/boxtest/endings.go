package boxtest

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// testEndings: what the program did is reported as the kernel saw it, and
// nothing that it does looks like a limit or a fault.
func (s *suite) testEndings(t *testing.T) {
	for _, code := range []int{0, 1, 2, 42, 77, 126, 127, 128, 137, 253, 255} {
		t.Run(fmt.Sprintf("exit code %d is exact", code), func(t *testing.T) {
			s.run(t, s.spec("exit_with", strconv.Itoa(code))).ended(t, code, 0, sandbox.LimitNone)
		})
	}
	for sig := syscall.Signal(1); sig <= 31; sig++ {
		switch sig {
		case syscall.SIGCHLD, syscall.SIGCONT, syscall.SIGURG, syscall.SIGWINCH: // do nothing
			continue
		case syscall.SIGSTOP, syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU: // stop
			continue
		case syscall.SIGXFSZ: // taken for the file size limit
			continue
		}
		t.Run(fmt.Sprintf("signal %d is exact and no limit", sig), func(t *testing.T) {
			s.run(t, s.spec("raise", strconv.Itoa(int(sig)))).ended(t, 0, int(sig), sandbox.LimitNone)
		})
	}
	t.Run("a program that kills itself and says so is not out of time or memory", func(t *testing.T) {
		got := s.run(t, s.spec("fake_kill"))
		got.ended(t, 0, int(syscall.SIGKILL), sandbox.LimitNone)
		if got.OOMKills != 0 {
			t.Errorf("OOMKills = %d", got.OOMKills)
		}
	})
	t.Run("a raised SIGXCPU is no CPU limit", func(t *testing.T) {
		s.run(t, s.spec("fake_xcpu")).ended(t, 0, int(syscall.SIGXCPU), sandbox.LimitNone)
	})
	t.Run("arguments, environment, directory and names are as asked", func(t *testing.T) {
		spec := s.spec()
		spec.Argv = []string{"/bin/sh", "-c", `echo "$0" "$1"; pwd; id -un; uname -n; umask; env | grep -v ^PWD=`, "zero", "a b*"}
		spec.Env = []string{"ONLY=this one"}
		got := s.run(t, spec)
		got.ended(t, 0, 0, sandbox.LimitNone)
		want := "zero a b*\n/w\nbox\nbox\n0022\nONLY=this one\n"
		if rest := strings.ReplaceAll(got.stdout, "OLDPWD=\n", ""); rest != want {
			t.Errorf("stdout %q, want %q", rest, want)
		}
	})
	t.Run("standard input is read to its end", func(t *testing.T) {
		spec := s.spec("cat")
		content := strings.Repeat("0123456789abcdef", 5000)
		f, err := os.Open(readOnlyFile(t, []byte(content)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		spec.Stdin = f
		if got := s.run(t, spec); got.stdout != content {
			t.Errorf("%d bytes came back, want %d", len(got.stdout), len(content))
		}
	})
	t.Run("no standard input is an empty one", func(t *testing.T) {
		got := s.run(t, s.spec("cat"))
		got.ended(t, 0, 0, sandbox.LimitNone)
	})
}

// testTime: CPU time of all threads and children, and wall time.
func (s *suite) testTime(t *testing.T) {
	limited := func(cpu, wall time.Duration, args ...string) *sandbox.Spec {
		spec := s.spec(args...)
		spec.Limits.CPU, spec.Limits.Wall = cpu, s.pace*wall
		return spec
	}
	const cpu = 300 * time.Millisecond
	near := func(t *testing.T, what string, got, want time.Duration) {
		t.Helper()
		if got < want-s.tick || got > want+s.slack() {
			t.Errorf("%s %v, want %v to %v", what, got, want-s.tick, want+s.slack())
		}
	}
	for _, loop := range []string{"cpu_loop", "exec_loop", "ignore_signals"} {
		t.Run(loop+" ends at the CPU limit", func(t *testing.T) {
			got := s.run(t, limited(cpu, 10*time.Second, loop))
			got.ended(t, 0, int(syscall.SIGKILL), sandbox.LimitCPU)
			near(t, "CPU", got.CPU, cpu)
		})
	}
	t.Run("CPU time is what the program itself counts", func(t *testing.T) {
		got := s.run(t, s.spec("burn", "0.4"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		near(t, "CPU", got.CPU, 400*time.Millisecond)
	})
	t.Run("a few milliseconds are counted", func(t *testing.T) {
		if s.tick > 0 {
			t.Skip("this machine's meter is coarse")
		}
		got := s.run(t, s.spec("burn", "0.003"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		near(t, "CPU", got.CPU, 3*time.Millisecond)
	})
	t.Run("CPU over the limit counts though the program ended first", func(t *testing.T) {
		// Ends before the watcher can look twice.
		got := s.run(t, limited(time.Millisecond/2, 10*time.Second, "burn", "0.02"))
		got.stopped(t, sandbox.LimitCPU)
	})
	t.Run("threads are summed", func(t *testing.T) {
		got := s.run(t, limited(cpu, 10*time.Second, "two_threads", "0.25"))
		got.ended(t, 0, int(syscall.SIGKILL), sandbox.LimitCPU)
	})
	t.Run("a child that nobody waits for is counted", func(t *testing.T) {
		got := s.run(t, s.spec("unwaited_child", "0.2"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		near(t, "CPU", got.CPU, 200*time.Millisecond)
	})
	t.Run("a sleeper ends at the wall limit, its answer is kept", func(t *testing.T) {
		got := s.run(t, limited(cpu, time.Second, "answer_then_sleep"))
		got.ended(t, 0, int(syscall.SIGKILL), sandbox.LimitWall)
		near(t, "wall", got.Wall, s.pace*time.Second)
		if got.stdout != "42\n" || got.CPU > cpu/2 {
			t.Errorf("stdout %q, CPU %v", got.stdout, got.CPU)
		}
	})
	for name, program := range map[string][]string{
		"all sleep":                   {"/bin/sh", "-c", "sleep 600 & sleep 600"},
		"a read that nothing ends":    {"/bin/sh", "-c", "read -r line </proc/self/fd/2"},
		"stopped by itself":           {"/bin/sh", "-c", "kill -STOP $$"},
		"a zombie beside the sleeper": {"/bin/sh", "-c", "true & exec sleep 600"},
	} {
		t.Run("asleep: "+name, func(t *testing.T) {
			spec := limited(cpu, time.Minute)
			spec.Argv, spec.Limits.Processes, spec.Limits.Asleep = program, 16, time.Second
			got := s.run(t, spec)
			got.stopped(t, sandbox.LimitAsleep)
			if got.Asleep < time.Second {
				t.Errorf("ended after a sleep of %v", got.Asleep)
			}
		})
	}
	t.Run("who waits for a child that works is not asleep", func(t *testing.T) {
		spec := limited(s.pace*2*time.Second, time.Minute)
		spec.Argv = []string{"/bin/sh", "-c", "sleep 600 & (while :; do :; done) & wait"}
		spec.Limits.Processes, spec.Limits.Asleep = 16, time.Second
		s.run(t, spec).stopped(t, sandbox.LimitCPU)
	})
	t.Run("a program that stops itself ends at the wall limit", func(t *testing.T) {
		s.run(t, limited(time.Minute, 200*time.Millisecond, "self_stop")).ended(t, 0, int(syscall.SIGKILL), sandbox.LimitWall)
	})
	t.Run("priorities and limits cannot be raised", func(t *testing.T) {
		s.run(t, s.spec("priorities")).held(t)
	})
}
