package testkit

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// diskBytes of a disk of PowerCut.
const diskBytes = 16 << 20

// PowerCut gives a directory on a file system of its own, and a function that
// shows what a power cut at that moment would leave there: what the file system
// has sent to its disk until then, after the recovery that a start makes.
// What was written but not synced is not there.
func PowerCut(t testing.TB) (dir string, cut func() string) {
	t.Helper()
	base := t.TempDir()
	disk := filepath.Join(base, "disk")
	if err := os.WriteFile(disk, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(disk, diskBytes); err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("mkfs.ext4", "-q", disk).CombinedOutput(); err != nil {
		Missing(t, Cgroup, "no file system for a power cut can be made: %v %s", err, out)
	}
	mount := func(disk, name string) string {
		at := filepath.Join(base, name)
		if err := os.Mkdir(at, 0o755); err != nil {
			t.Fatal(err)
		}
		// A long commit interval: only what is asked for reaches the disk.
		if out, err := exec.Command("mount", "-o", "loop,commit=3600", disk, at).CombinedOutput(); err != nil {
			Missing(t, Cgroup, "no file system for a power cut can be mounted: %v %s", err, out)
		}
		t.Cleanup(func() {
			if err := unix.Unmount(at, unix.MNT_DETACH); err != nil {
				t.Errorf("unmount %s: %v", name, err)
			}
		})
		return at
	}
	cuts := 0
	return mount(disk, "running"), func() string {
		t.Helper()
		cuts++
		name := "after-" + string(rune('a'+cuts-1))
		copied := filepath.Join(base, name+".disk")
		from, err := os.Open(disk)
		if err != nil {
			t.Fatal(err)
		}
		defer from.Close()
		to, err := os.Create(copied)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.Copy(to, from); err != nil {
			t.Fatal(err)
		}
		if err := to.Close(); err != nil {
			t.Fatal(err)
		}
		return mount(copied, name)
	}
}
