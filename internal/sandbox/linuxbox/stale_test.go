package linuxbox

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/testkit"
)

func TestStaleCgroupsUnderAnotherParentAreRemovedToo(t *testing.T) {
	l := ownLayout(t)
	for _, base := range l.bases() {
		top := base
		for isGroup(filepath.Dir(top)) {
			top = filepath.Dir(top)
		}
		other := filepath.Join(top, fmt.Sprintf("gavel-test-%d", os.Getpid()))
		deep := filepath.Join(other, "session")
		dead, alive := filepath.Join(deep, ownerPrefix+"999999-1"), filepath.Join(deep, ownerPrefix+"999999-2")
		for _, dir := range []string{filepath.Join(dead, "slot0-1", "run1"), alive} {
			if err := os.MkdirAll(dir, 0o755); err != nil {
				testkit.Missing(t, testkit.Cgroup, "%v", err)
			}
		}
		defer func() { // deepest first; what is gone is gone
			for _, dir := range []string{filepath.Join(dead, "slot0-1", "run1"), filepath.Join(dead, "slot0-1"), dead, alive, deep, other} {
				_ = os.Remove(dir)
			}
		}()
		lock, err := lockDir(alive)
		if err != nil {
			t.Fatal(err)
		}
		removeStale(clock.System{}, base, slog.New(slog.DiscardHandler))
		if _, err := os.Stat(dead); err == nil {
			t.Errorf("%s is still there", dead)
		}
		if _, err := os.Stat(alive); err != nil {
			t.Errorf("the cgroup of a living owner is gone: %v", err)
		}
		lock.Close()
	}
}

func TestTheLookingForStaleCgroupsIsBounded(t *testing.T) {
	base := t.TempDir() // no cgroup: the looking stays in it
	for i := range 20 {
		if err := os.MkdirAll(filepath.Join(base, fmt.Sprintf("g%02d", i), ownerPrefix+"1-1"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if got := len(ownersIn(base, 11)); got != 10 {
		t.Errorf("%d found by reading 11 groups, want 10", got)
	}
	if got := len(ownersIn(base, mostGroups)); got != 20 {
		t.Errorf("%d found, want 20", got)
	}
}
