package boxtest

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// noProcessCount is what a provider says that does not count processes itself.
const noProcessCount = "the number of processes is limited by user"

// testProcesses: however a program multiplies, all of it ends with the run.
func (s *suite) testProcesses(t *testing.T) {
	for _, bomb := range []string{"fork_bomb", "setsid_bomb"} {
		t.Run(bomb+" is bounded and ends", func(t *testing.T) {
			spec := s.spec(bomb)
			spec.Limits.CPU, spec.Limits.Processes = s.pace*400*time.Millisecond, 8
			got := s.run(t, spec)
			got.stopped(t, sandbox.LimitCPU)
			if !got.ProcessLimitHit && s.weaker(noProcessCount) == "" {
				t.Error("ProcessLimitHit is not set")
			}
			s.alone(t)
		})
	}
	t.Run("children of a parent that ended are killed, counted and no verdict", func(t *testing.T) {
		got := s.run(t, s.spec("parent_exits"))
		got.ended(t, 5, 0, sandbox.LimitNone)
		if got.stdout != "42\n" || got.CPU < 50*time.Millisecond-s.tick || got.ProcessLimitHit {
			t.Errorf("stdout %q, CPU %v, process limit %t", got.stdout, got.CPU, got.ProcessLimitHit)
		}
		s.alone(t)
	})
	for _, name := range []string{"daemon", "clone_parent"} {
		t.Run(name+" is gone after the run", func(t *testing.T) {
			s.run(t, s.spec(name)).ended(t, 0, 0, sandbox.LimitNone)
			s.alone(t)
		})
	}
	t.Run("a child that holds the output does not hold the run", func(t *testing.T) {
		got := s.run(t, s.spec("hold_stdout"))
		got.ended(t, 0, 0, sandbox.LimitNone)
		if got.stdout != "42\n" || got.Wall > s.pace*2*time.Second {
			t.Errorf("stdout %q, wall %v", got.stdout, got.Wall)
		}
	})
	t.Run("zombies count as processes", func(t *testing.T) {
		s.skipIfWeaker(t, noProcessCount)
		got := s.run(t, s.spec("zombie_farm"))
		if got.stdout != "15 1\n" || !got.ProcessLimitHit {
			t.Errorf("children and refusal: %q, want %q; process limit %t", got.stdout, "15 1\n", got.ProcessLimitHit)
		}
	})
	t.Run("orphans that ended do not", func(t *testing.T) {
		spec := s.spec("short_orphans")
		spec.Limits.Processes = 6
		if got := s.run(t, spec); got.stdout != "42\n" {
			t.Errorf("stdout %q\n%s", got.stdout, got)
		}
	})
	t.Run("threads count as processes", func(t *testing.T) {
		s.skipIfWeaker(t, noProcessCount)
		got := s.run(t, s.spec("thread_bomb"))
		if got.stdout != "15\n" || !got.ProcessLimitHit {
			t.Errorf("threads %q, want 15; process limit %t", got.stdout, got.ProcessLimitHit)
		}
	})
	t.Run("the process limit is exact for one", func(t *testing.T) {
		s.skipIfWeaker(t, noProcessCount)
		spec := s.spec("thread_bomb")
		spec.Limits.Processes = 1
		if got := s.run(t, spec); got.stdout != "0\n" {
			t.Errorf("threads %q, want 0", got.stdout)
		}
	})
	t.Run("the process limit is each run's own", func(t *testing.T) {
		s.skipIfWeaker(t, noProcessCount)
		box, crowd, up := s.newBox(t), s.spec(), make(chan struct{})
		crowd.Argv = []string{"/bin/sh", "-c", "for i in 1 2 3 4 5 6 7 8 9 10; do sleep 1000 & done; echo up; wait"}
		var once sync.Once
		crowd.Stdout = writerFunc(func(b []byte) (int, error) { once.Do(func() { close(up) }); return len(b), nil })
		crowd.Limits.Wall = s.pace * time.Minute
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan struct{})
		go func() {
			defer close(ended)
			if got, err := box.Run(ctx, crowd); !errors.Is(err, context.Canceled) {
				t.Errorf("the crowd ended: %+v, %v", got, err)
			}
		}()
		select {
		case <-up:
		case <-ended:
		}
		if got := s.run(t, s.spec("thread_bomb")); got.stdout != "15\n" {
			t.Errorf("threads %q beside ten processes of another box, want 15", got.stdout)
		}
		cancel()
		<-ended
	})
	t.Run("open files are limited", func(t *testing.T) {
		want := fmt.Sprintf("%d 1\n", 32-3)
		if got := s.run(t, s.spec("open_many")); got.stdout != want {
			t.Errorf("opened %q, want %q", got.stdout, want)
		}
	})
	t.Run("other processes cannot be hurt", func(t *testing.T) {
		s.skipIfWeaker(t, "the worker's own user") // signals reach the init's threads, which handle them
		s.run(t, s.spec("kill_others")).held(t)
		s.run(t, s.spec("kill_others")).held(t) // and the box still works
	})
	t.Run("the box is well after a program that killed itself", func(t *testing.T) {
		s.run(t, s.spec("fake_kill")).ended(t, 0, int(syscall.SIGKILL), sandbox.LimitNone)
		s.run(t, s.spec("return0")).ended(t, 0, 0, sandbox.LimitNone)
	})
}

// alone checks that a new run sees no process but its own.
func (s *suite) alone(t *testing.T) {
	t.Helper()
	s.run(t, s.spec("look_around")).held(t)
}
