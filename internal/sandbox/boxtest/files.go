package boxtest

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/internal/sandbox"
)

// leakFD opens a descriptor without close-on-exec, as careless software does.
func leakFD(t *testing.T) (closeFD func()) {
	t.Helper()
	fd, err := unix.Open("/", unix.O_RDONLY|unix.O_DIRECTORY, 0)
	if err != nil {
		t.Fatal(err)
	}
	high, err := unix.FcntlInt(uintptr(fd), unix.F_DUPFD, 251)
	unix.Close(fd)
	if err != nil {
		t.Fatal(err)
	}
	return func() { unix.Close(high) }
}

// testFiles: mounts, directories, and the bounds of what can be written.
func (s *suite) testFiles(t *testing.T) {
	t.Run("mounts of files and directories, at and below the fixed places", func(t *testing.T) {
		dir := sharedDir(t)
		if err := os.WriteFile(filepath.Join(dir, "a"), []byte("in dir"), 0o644); err != nil {
			t.Fatal(err)
		}
		spec := s.spec("show", "/src/a")
		spec.Mounts = append(spec.Mounts,
			sandbox.Mount{Host: dir, Box: "/src"},
			sandbox.Mount{Host: readOnlyFile(t, []byte("deep")), Box: "/data/x/y/file"},
			sandbox.Mount{Host: dir, Box: "/data/dir"},
		)
		for path, want := range map[string]string{"/src/a": "in dir", "/data/x/y/file": "deep", "/data/dir/a": "in dir"} {
			spec.Argv[2], spec.Stdout = path, nil
			if got := s.run(t, spec); got.stdout != want {
				t.Errorf("%s shows %q, want %q", path, got.stdout, want)
			}
		}
		s.run(t, s.spec("show", "/data/x/y/file")).ended(t, 3, 0, sandbox.LimitNone)
		s.run(t, s.spec("show", "/src/a")).ended(t, 3, 0, sandbox.LimitNone)
	})
	t.Run("mounts are read-only though the host's mode allows writing", func(t *testing.T) {
		dir := sharedDir(t)
		if err := os.Chmod(dir, 0o777); err != nil {
			t.Fatal(err)
		}
		spec := s.spec("write_file", "/data/new", "x")
		spec.Mounts = append(spec.Mounts, sandbox.Mount{Host: dir, Box: "/data"})
		s.run(t, spec).ended(t, 1, 0, sandbox.LimitNone)
		if entries, _ := os.ReadDir(dir); len(entries) != 0 {
			t.Errorf("written into the host's directory: %v", entries)
		}
	})
	t.Run("directories are made before the run and belong to the program", func(t *testing.T) {
		spec := s.spec("write_file", "/w/out/deep/f", "x")
		spec.Dirs = []string{"out/deep"}
		s.run(t, spec).ended(t, 0, 0, sandbox.LimitNone)
		s.run(t, s.spec("find_marks")).held(t)
	})
	for _, dir := range []string{"/w", "/tmp", "/dev/shm"} {
		t.Run(dir+" is bounded", func(t *testing.T) {
			got := s.run(t, s.spec("fill_disk", dir))
			if got.stdout != "8388608 1\n" {
				t.Errorf("wrote %q, want all of 8 MiB and then no space", got.stdout)
			}
		})
	}
	t.Run("the number of files is bounded", func(t *testing.T) {
		if got := s.run(t, s.spec("inode_bomb")); got.stdout != "63 1\n" {
			t.Errorf("made %q files, want 63 and then no space", got.stdout)
		}
	})
	t.Run("a directory too deep for any path is no trouble", func(t *testing.T) {
		spec := s.spec("deep_directory")
		spec.Limits.DiskInodes = 5000
		s.run(t, spec).ended(t, 0, 0, sandbox.LimitNone)
		s.run(t, s.spec("find_marks")).held(t)
	})
	t.Run("awkward names and modes are no trouble", func(t *testing.T) {
		s.run(t, s.spec("awkward_names")).ended(t, 0, 0, sandbox.LimitNone)
		s.run(t, s.spec("find_marks")).held(t)
	})
}

// testCopyOut: only regular files below the working directory come out.
func (s *suite) testCopyOut(t *testing.T) {
	for _, c := range []struct {
		kind string
		want sandbox.FileState
	}{
		{"regular", sandbox.FileOK},
		{"unreadable", sandbox.FileOK},
		{"nothing", sandbox.FileMissing},
		{"symlink", sandbox.FileNotRegular},
		{"local symlink", sandbox.FileNotRegular},
		{"proc link", sandbox.FileNotRegular},
		{"device link", sandbox.FileNotRegular},
		{"fifo", sandbox.FileNotRegular},
		{"directory", sandbox.FileNotRegular},
		{"sparse", sandbox.FileTooLarge},
	} {
		t.Run(c.kind+" is "+string(c.want), func(t *testing.T) {
			spec := s.spec("fake_output", c.kind)
			spec.Limits.FileBytes = 16 << 20
			spec.CopyOut = []sandbox.CopyOut{{Path: "out", MaxBytes: 1 << 20}}
			got := s.run(t, spec)
			got.ended(t, 0, 0, sandbox.LimitNone)
			f, ok := got.Files["out"]
			if !ok || f.State != c.want || (f.Content != nil) != (c.want == sandbox.FileOK) {
				t.Fatalf("file %+v, want state %q", f, c.want)
			}
			if c.want == sandbox.FileOK {
				if content := readAll(t, f); content != "content" || f.Size != 7 {
					t.Errorf("content %q, size %d", content, f.Size)
				}
			}
		})
	}
	t.Run("a missing optional file is not mentioned", func(t *testing.T) {
		spec := s.spec("return0")
		spec.CopyOut = []sandbox.CopyOut{{Path: "out", MaxBytes: 1, Optional: true}}
		if got := s.run(t, spec); len(got.Files) != 0 {
			t.Errorf("files %+v", got.Files)
		}
	})
	t.Run("a link on the way is not followed", func(t *testing.T) {
		spec := s.spec("linked_parent")
		spec.CopyOut = []sandbox.CopyOut{{Path: "sub/passwd", MaxBytes: 1 << 20}}
		if f := s.run(t, spec).Files["sub/passwd"]; f.State == sandbox.FileOK || f.Content != nil {
			t.Errorf("file %+v", f)
		}
	})
	t.Run("several files, a large one among them, outlive the box's next run", func(t *testing.T) {
		spec := s.spec()
		spec.Argv = []string{"/bin/sh", "-c", "echo small >a; mkdir d; head -c 3000000 /dev/zero | tr '\\0' x >d/b"}
		spec.CopyOut = []sandbox.CopyOut{{Path: "a", MaxBytes: 100}, {Path: "d/b", MaxBytes: 3000000}, {Path: "c", MaxBytes: 1}}
		got := s.run(t, spec)
		got.ended(t, 0, 0, sandbox.LimitNone)
		s.run(t, s.spec("return0"))
		if a := readAll(t, got.Files["a"]); a != "small\n" {
			t.Errorf("a = %q", a)
		}
		if b := readAll(t, got.Files["d/b"]); b != strings.Repeat("x", 3000000) {
			t.Errorf("d/b has %d bytes", len(b))
		}
		if c := got.Files["c"]; c.State != sandbox.FileMissing {
			t.Errorf("c = %+v", c)
		}
	})
	t.Run("what a stopped program left is copied too", func(t *testing.T) {
		spec := s.spec()
		spec.Argv = []string{"/bin/sh", "-c", "echo part >out; while :; do :; done"}
		spec.Limits.CPU = s.pace * time.Second // enough for a shell to start on a busy machine
		spec.CopyOut = []sandbox.CopyOut{{Path: "out", MaxBytes: 100}}
		got := s.run(t, spec)
		got.stopped(t, sandbox.LimitCPU)
		if out := readAll(t, got.Files["out"]); out != "part\n" {
			t.Errorf("out = %q", out)
		}
	})
}

func readAll(t *testing.T, f sandbox.File) string {
	t.Helper()
	if f.State != sandbox.FileOK {
		t.Fatalf("file %+v", f)
	}
	defer f.Content.Close()
	b, err := io.ReadAll(f.Content)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// testBetweenRuns: a run finds nothing of the one before.
func (s *suite) testBetweenRuns(t *testing.T) {
	t.Run("files are gone", func(t *testing.T) {
		s.run(t, s.spec("leave_marks")).held(t)
		s.run(t, s.spec("find_marks")).held(t)
	})
	t.Run("not even counters run on", func(t *testing.T) {
		first := s.run(t, s.spec("next_inode")).stdout
		s.run(t, s.spec("touch_and_remove"))
		if again := s.run(t, s.spec("next_inode")).stdout; again != first {
			t.Errorf("inode number %q, the run before had %q", again, first)
		}
	})
	t.Run("every program has the same process id", func(t *testing.T) {
		s.skipIfWeaker(t, "process ids")
		first := s.run(t, s.spec("print_pid")).stdout
		s.run(t, s.spec("zombie_farm"))
		if again := s.run(t, s.spec("print_pid")).stdout; again != first {
			t.Errorf("process id %q, the run before had %q", again, first)
		}
	})
	t.Run("a program's niceness is its own", func(t *testing.T) {
		shell := func(script string) outcome {
			spec := s.spec()
			spec.Argv = []string{"/bin/sh", "-c", script}
			return s.run(t, spec)
		}
		// Kernels without such groups have no such file. The group's number is another each time.
		const show = "cut -d' ' -f2- /proc/self/autogroup 2>/dev/null || echo none"
		before := shell(show).stdout
		shell("{ echo 19 >/proc/self/autogroup; } 2>/dev/null; exit 0").ended(t, 0, 0, sandbox.LimitNone)
		if after := shell(show).stdout; after != before {
			t.Errorf("%q, before another program lowered its own %q", after, before)
		}
	})
	t.Run("two boxes share nothing", func(t *testing.T) {
		a, b := s.newBox(t), s.newBox(t)
		done := make(chan outcome)
		go func() {
			spec := s.spec()
			spec.Argv = []string{"/bin/sh", "-c", "echo secret >/tmp/mark; echo secret >/w/mark; echo secret >/dev/shm/mark; while :; do :; done"}
			spec.Limits.CPU = s.pace * 300 * time.Millisecond
			got, err := try(t.Context(), a, spec)
			if err != nil {
				t.Error(err)
			}
			done <- got
		}()
		for range 5 {
			s.runIn(t, b, s.spec("find_marks")).held(t)
			s.runIn(t, b, s.spec("look_around")).held(t)
		}
		(<-done).stopped(t, sandbox.LimitCPU)
	})
}
