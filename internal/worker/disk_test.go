package worker

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/testkit"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// A17: the result is still delivered, nothing more is claimed, the reason is
// said, and it ends by itself.
func TestBrokenOutboxDeliversFromMemoryStopsClaimingAndRecovers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		dir := t.TempDir()
		e := takes(10 * time.Second)
		r := newRig(t, arb, e, func(c *Config) { c.StateDir = dir }).start()
		first := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a run", func() bool { return e.calls() == 1 })
		box := filepath.Join(dir, "outbox")
		if err := os.Rename(box, box+".away"); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(box, nil, 0o600); err != nil {
			t.Fatal(err)
		}
		arb.AwaitState(t, time.Minute, first, "done")
		second := arb.Submit(digest, gavelapi.Lease{})
		sleep(t, 10*time.Minute)
		if n := e.calls(); n != 1 {
			t.Errorf("%d runs: work was taken while results cannot be saved", n)
		}
		if n := r.logs.count(`not claiming" reason="results cannot be saved`); n < 9 || n > 11 {
			t.Errorf("the reason was said %d times in 10 minutes", n)
		}
		if err := os.Remove(box); err != nil {
			t.Fatal(err)
		}
		if err := os.Rename(box+".away", box); err != nil {
			t.Fatal(err)
		}
		arb.AwaitState(t, time.Minute, second, "done")
		if r.logs.count("claiming again") != 1 {
			t.Error("the recovery was not said")
		}
		synctest.Wait()
		if names := list(t, box); len(names) != 1 {
			t.Errorf("the outbox holds %v", names)
		}
	})
}

// What could not be saved is saved as soon as the disk works, so that a crash
// after that loses nothing.
func TestUnsavedResultIsSavedWhenTheDiskWorksAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" {
				return arbitertest.Busy
			}
			return arbitertest.None
		}
		dir := t.TempDir()
		e := takes(10 * time.Second)
		newRig(t, arb, e, func(c *Config) { c.StateDir, c.Slots = dir, 2 }).start()
		arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a run", func() bool { return e.calls() == 1 })
		box := filepath.Join(dir, "outbox")
		if err := os.Rename(box, box+".away"); err != nil {
			t.Fatal(err)
		}
		arb.Await(t, time.Minute, "a report", func() bool { return arb.Count("result") > 0 })
		if err := os.Rename(box+".away", box); err != nil {
			t.Fatal(err)
		}
		sleep(t, time.Minute)
		if names := list(t, box); len(names) != 2 {
			t.Errorf("the outbox holds %v", names)
		}
	})
}

func TestFullDiskStopsClaimingAfterOldPackagesAreGone(t *testing.T) {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "size=20m"); err != nil {
		testkit.Missing(t, testkit.Cgroup, "cannot mount a small disk: %v", err)
	}
	t.Cleanup(func() { _ = unix.Unmount(dir, unix.MNT_DETACH) })
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		old, digest := arb.AddPackage(t, "old", 1, 3<<20), arb.AddPackage(t, "a", 1, 1)
		e := takes(time.Second)
		r := newRig(t, arb, e, func(c *Config) { c.StateDir = dir }).start()
		arb.AwaitState(t, time.Minute, arb.Submit(old, gavelapi.Lease{}), "done")
		if n := len(r.w.cache.digests(9)); n != 1 {
			t.Fatalf("%d packages cached", n)
		}
		ballast := filepath.Join(dir, "ballast")
		// Room for all but the old package.
		if err := os.WriteFile(ballast, bytes.Repeat([]byte{1}, 10<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		// Two: the claim that is parked already, and one that sees the disk.
		arb.AwaitState(t, time.Minute, arb.Submit(digest, gavelapi.Lease{}), "done")
		arb.AwaitState(t, time.Minute, arb.Submit(digest, gavelapi.Lease{}), "done")
		if r.logs.count("old packages were removed") != 1 {
			t.Error("the old package did not make room")
		}
		sleep(t, time.Second)
		if err := os.WriteFile(ballast, bytes.Repeat([]byte{1}, 13<<20), 0o600); err != nil {
			t.Fatal(err)
		}
		arb.AwaitState(t, time.Minute, arb.Submit(digest, gavelapi.Lease{}), "done")
		waiting := arb.Submit(digest, gavelapi.Lease{})
		runs := e.calls()
		sleep(t, 2*time.Minute)
		if e.calls() != runs || r.logs.count("is full") < 2 {
			t.Errorf("%d runs more on a full disk, said %d times", e.calls()-runs, r.logs.count("is full"))
		}
		if err := os.Remove(ballast); err != nil {
			t.Fatal(err)
		}
		arb.AwaitState(t, time.Minute, waiting, "done")
	})
}

func TestUnansweredResultsStopClaimingBeforeTheyPileUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		arb.TTL = 15 * time.Second
		digest := arb.AddPackage(t, "a", 1, 1)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "result" || c.Op == "heartbeat" && c.N%2 == 0 {
				return arbitertest.Broken
			}
			return arbitertest.None
		}
		e := takes(time.Second)
		r := newRig(t, arb, e, nil).start()
		for range 20 {
			id := arb.Submit(digest, gavelapi.Lease{})
			_ = id
		}
		// Leases are taken away while their results find no answer.
		for range 20 {
			sleep(t, 30*time.Second)
			for id := range int64(20) {
				if arb.Job(id+1).State == "leased" {
					arb.Expire(id + 1)
				}
			}
		}
		if n := e.calls(); n > 5 || r.logs.count("wait for the arbiter to take them") == 0 {
			t.Errorf("%d jobs judged of which no result was taken", n)
		}
	})
}
