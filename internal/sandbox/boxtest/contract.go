package boxtest

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// testContract: what callers rely on besides verdicts.
func (s *suite) testContract(t *testing.T) {
	t.Run("a cancelled context ends the run with its cause", func(t *testing.T) {
		ctx, cancel := context.WithCancelCause(t.Context())
		cause := errors.New("not wanted any more")
		spec := s.spec("answer_then_sleep")
		spec.Stdout = writerFunc(func(b []byte) (int, error) { cancel(cause); return len(b), nil })
		start := time.Now()
		if _, err := s.box.Run(ctx, spec); !errors.Is(err, cause) {
			t.Errorf("error %v, want %v", err, cause)
		}
		if d := time.Since(start); d > s.pace*5*time.Second {
			t.Errorf("took %v", d)
		}
		s.alone(t)
	})
	t.Run("a context that has ended starts nothing", func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		if _, err := s.box.Run(ctx, s.spec("return0")); !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("closing a box ends its run with an error", func(t *testing.T) {
		b := s.newBox(t)
		spec := s.spec("answer_then_sleep")
		closed := make(chan error, 1)
		spec.Stdout = writerFunc(func(p []byte) (int, error) {
			go func() { closed <- b.Close() }()
			return len(p), nil
		})
		if _, err := b.Run(t.Context(), spec); err == nil {
			t.Error("the run has a result")
		}
		if err := <-closed; err != nil {
			t.Errorf("close: %v", err)
		}
		if _, err := b.Run(t.Context(), s.spec("return0")); err == nil {
			t.Error("a closed box runs programs")
		}
	})
	t.Run("a missing program is a fault, not a result", func(t *testing.T) {
		spec := s.spec()
		spec.Argv = []string{"/box/nothing"}
		_, err := s.box.Run(t.Context(), spec)
		fault, ok := errors.AsType[*sandbox.Fault](err)
		if !ok || !errors.Is(err, os.ErrNotExist) {
			t.Fatalf("error %v, want a fault that says the file does not exist", err)
		}
		t.Log(fault)
		s.run(t, s.spec("return0")).ended(t, 0, 0, sandbox.LimitNone)
	})
	t.Run("a writer that fails is a fault, not a result", func(t *testing.T) {
		spec := s.spec("write_kib", "1")
		full := errors.New("disk full")
		spec.Stdout = writerFunc(func([]byte) (int, error) { return 0, full })
		_, err := s.box.Run(t.Context(), spec)
		if _, ok := errors.AsType[*sandbox.Fault](err); !ok || !errors.Is(err, full) {
			t.Errorf("error %v", err)
		}
	})
	t.Run("standard output can be a descriptor", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		spec := s.spec("answer_then_sleep")
		spec.StdoutFD = w
		spec.Limits.Wall = s.pace * 2 * time.Second // time to write, on a machine that is busy
		got := s.run(t, spec)
		got.stopped(t, sandbox.LimitWall)
		w.Close()
		if b, err := io.ReadAll(r); err != nil || string(b) != "42\n" {
			t.Errorf("read %q, %v", b, err)
		}
	})
	t.Run("a pipe ends for its reader when the program closes it", func(t *testing.T) {
		r, w, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer r.Close()
		spec := s.spec()
		spec.Argv = []string{"/bin/sh", "-c", "echo 42; exec >&-; while :; do :; done"}
		spec.StdoutFD, spec.Started = w, func() { w.Close() }
		spec.Limits.CPU = s.pace * 30 * time.Second
		spec.Limits.Wall = s.pace * 30 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() {
			_, err := s.box.Run(ctx, spec)
			done <- err
		}()
		if all, err := io.ReadAll(r); err != nil || string(all) != "42\n" {
			t.Errorf("read %q, %v", all, err)
		}
		cancel()
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v: the pipe ended only with the run", err)
		}
	})
	t.Run("pipes can be opened by name", func(t *testing.T) {
		in, theirs, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		ours, out, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		defer ours.Close()
		if _, err := theirs.WriteString("word\n"); err != nil {
			t.Fatal(err)
		}
		theirs.Close()
		spec := s.spec()
		spec.Argv = []string{"/bin/sh", "-c", "read -r word </dev/stdin && echo $word >/dev/stdout"}
		spec.Stdin, spec.StdoutFD, spec.Started = in, out, func() { out.Close() }
		s.run(t, spec).ended(t, 0, 0, sandbox.LimitNone)
		if all, err := io.ReadAll(ours); err != nil || string(all) != "word\n" {
			t.Errorf("read %q, %v", all, err)
		}
	})
	t.Run("a limit of the caller's ends the run", func(t *testing.T) {
		enforce := make(chan sandbox.Limit, 1)
		spec := s.spec()
		spec.Argv = []string{"/bin/sh", "-c", "while :; do :; done"}
		spec.Started, spec.Enforce = func() { enforce <- sandbox.LimitOutput }, enforce
		spec.Limits.CPU, spec.Limits.Wall = s.pace*30*time.Second, s.pace*30*time.Second
		s.run(t, spec).stopped(t, sandbox.LimitOutput)
		// One that nobody wanted is no business of the next run.
		spec = s.spec("return0")
		spec.Enforce = enforce
		s.run(t, spec).ended(t, 0, 0, sandbox.LimitNone)
		enforce <- sandbox.LimitWall
		s.run(t, s.spec("return0")).ended(t, 0, 0, sandbox.LimitNone)
	})
}

type writerFunc func([]byte) (int, error)

func (f writerFunc) Write(b []byte) (int, error) { return f(b) }

// testRefusedSpecs: mistakes of the caller are errors, at once, and no faults.
func (s *suite) testRefusedSpecs(t *testing.T) {
	private := t.TempDir()
	if err := os.Chmod(private, 0o700); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		change func(*sandbox.Spec)
		want   string
	}{
		"no program":                             {func(p *sandbox.Spec) { p.Argv = nil }, "no program"},
		"relative program":                       {func(p *sandbox.Spec) { p.Argv = []string{"ls"} }, "absolute"},
		"NUL in an argument":                     {func(p *sandbox.Spec) { p.Argv = append(p.Argv, "a\x00b") }, "NUL"},
		"environment without =":                  {func(p *sandbox.Spec) { p.Env = []string{"A"} }, "without ="},
		"unknown profile":                        {func(p *sandbox.Spec) { p.Profile = "root" }, "profile"},
		"no CPU limit":                           {func(p *sandbox.Spec) { p.Limits.CPU = 0 }, "CPU"},
		"no wall limit":                          {func(p *sandbox.Spec) { p.Limits.Wall = 0 }, "Wall"},
		"no memory limit":                        {func(p *sandbox.Spec) { p.Limits.MemoryBytes = 0 }, "MemoryBytes"},
		"no stdout limit":                        {func(p *sandbox.Spec) { p.Limits.StdoutBytes = 0 }, "StdoutBytes"},
		"no stderr limit":                        {func(p *sandbox.Spec) { p.Limits.StderrBytes = 0 }, "StderrBytes"},
		"no file limit":                          {func(p *sandbox.Spec) { p.Limits.FileBytes = 0 }, "FileBytes"},
		"no disk limit":                          {func(p *sandbox.Spec) { p.Limits.DiskBytes = 0 }, "DiskBytes"},
		"no inode limit":                         {func(p *sandbox.Spec) { p.Limits.DiskInodes = 0 }, "DiskInodes"},
		"no process limit":                       {func(p *sandbox.Spec) { p.Limits.Processes = 0 }, "Processes"},
		"no open files limit":                    {func(p *sandbox.Spec) { p.Limits.OpenFiles = 0 }, "OpenFiles"},
		"negative stack":                         {func(p *sandbox.Spec) { p.Limits.StackBytes = -1 }, "StackBytes"},
		"mount outside its places":               {func(p *sandbox.Spec) { p.Mounts[0].Box = "/usr/x" }, "/usr/x"},
		"mount with dots":                        {func(p *sandbox.Spec) { p.Mounts[0].Box = "/data/../usr" }, "clean path"},
		"mount of a relative path":               {func(p *sandbox.Spec) { p.Mounts[0].Host = "x" }, "absolute"},
		"mount of nothing":                       {func(p *sandbox.Spec) { p.Mounts[0].Host = "/no/such/dir" }, "/no/such/dir"},
		"mount of a device":                      {func(p *sandbox.Spec) { p.Mounts[0].Host = "/dev/null" }, "neither a file"},
		"mount that is closed to the box's user": {func(p *sandbox.Spec) { p.Mounts[0].Host = private }, "chmod"},
		"directory outside":                      {func(p *sandbox.Spec) { p.Dirs = []string{"../x"} }, "../x"},
		"copy-out outside":                       {func(p *sandbox.Spec) { p.CopyOut = []sandbox.CopyOut{{Path: "../x", MaxBytes: 1}} }, "../x"},
		"copy-out absolute":                      {func(p *sandbox.Spec) { p.CopyOut = []sandbox.CopyOut{{Path: "/etc/passwd", MaxBytes: 1}} }, "/etc/passwd"},
		"copy-out without a limit":               {func(p *sandbox.Spec) { p.CopyOut = []sandbox.CopyOut{{Path: "x"}} }, "limit"},
	} {
		t.Run(name, func(t *testing.T) {
			spec := s.spec("return0")
			c.change(spec)
			_, err := s.box.Run(t.Context(), spec)
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Fatalf("error %v, want one that says %q", err, c.want)
			}
			if _, ok := errors.AsType[*sandbox.Fault](err); ok {
				t.Errorf("error %v is a fault: another machine would be tried for nothing", err)
			}
		})
	}
}
