package worker

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/judge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/worker/arbitertest"
)

// judgeOne runs one job of a fresh worker on the arbiter and returns it.
func judgeOne(t *testing.T, arb *arbitertest.Arbiter, digest string, state string, change func(*Config)) (arbitertest.Job, *rig) {
	t.Helper()
	r := newRig(t, arb, takes(time.Second), change).start()
	id := arb.Submit(digest, gavelapi.Lease{})
	return arb.AwaitState(t, time.Hour, id, state), r
}

func TestDownloadGoesOnWhereItBrokeOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 4, 50_000)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "package" && c.N <= 3 {
				return arbitertest.HalfWay
			}
			return arbitertest.None
		}
		_, r := judgeOne(t, arb, digest, "done", nil)
		from := arb.ServedFrom()
		if len(from) != 4 || from[0] != 0 || !slices.IsSorted(from) || from[3] < 150_000 {
			t.Errorf("asked for from offsets %v", from)
		}
		if _, err := r.stop(); err != nil {
			t.Error(err)
		}
		for _, name := range list(t, r.w.cache.dir) {
			if strings.HasPrefix(name, ".") {
				t.Errorf("leftover %s", name)
			}
		}
	})
}

func TestPackageThatArrivesDamagedIsFetchedAgain(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 2, 5000)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "package" && c.N == 1 {
				return arbitertest.Corrupt
			}
			return arbitertest.None
		}
		judgeOne(t, arb, digest, "done", nil)
		if from := arb.ServedFrom(); !slices.Equal(from, []int64{0, 0}) {
			t.Errorf("asked for from offsets %v", from)
		}
	})
}

func TestFetchFailuresAreFaultsWithTheRightBlame(t *testing.T) {
	for name, tc := range map[string]struct {
		fault  arbitertest.Fault
		forget bool
		blame  string
	}{
		"always damaged":      {arbitertest.Corrupt, false, "package"},
		"arbiter has it not":  {arbitertest.None, true, "package"},
		"refused":             {arbitertest.Forbidden, false, "host"},
		"never answered":      {arbitertest.Hang, false, "host"},
		"connection cut":      {arbitertest.Cut, false, "host"},
		"arbiter fails on it": {arbitertest.Broken, false, "host"},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				arb := arbitertest.New()
				digest := arb.AddPackage(t, "a", 1, 1000)
				if tc.forget {
					arb.Forget(digest)
				}
				arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
					if c.Op == "package" {
						return tc.fault
					}
					return arbitertest.None
				}
				began := time.Now()
				job, _ := judgeOne(t, arb, digest, "failed", nil)
				if job.Report.Fault.Blame != tc.blame || len(job.Attempts) != 1 {
					t.Errorf("fault %+v, attempts %+v", job.Report.Fault, job.Attempts)
				}
				if d := time.Since(began); d > DefaultFetchLimit+time.Minute {
					t.Errorf("it took %v", d)
				}
				if n := arb.Count("package"); n > 250 {
					t.Errorf("%d tries", n)
				}
			})
		})
	}
}

func TestSlotsShareOneDownloadAndItSurvivesTheOneThatBeganIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		digest := arb.AddPackage(t, "a", 1, 1000)
		arb.Fault = func(c arbitertest.Call) arbitertest.Fault {
			if c.Op == "package" && c.N == 1 {
				return arbitertest.Slow
			}
			return arbitertest.None
		}
		newRig(t, arb, takes(time.Second), func(c *Config) { c.Slots = 4 }).start()
		first := arb.Submit(digest, gavelapi.Lease{})
		arb.Await(t, time.Minute, "a download", func() bool { return arb.Count("package") == 1 })
		var rest []int64
		for range 3 {
			rest = append(rest, arb.Submit(digest, gavelapi.Lease{}))
		}
		sleep(t, time.Second)
		arb.Cancel(first)
		for _, id := range rest {
			arb.AwaitState(t, time.Minute, id, "done")
		}
		if n := arb.Count("package"); n != 1 {
			t.Errorf("%d downloads", n)
		}
	})
}

// testCache is a cache whose packages come straight from an arbiter's store.
func testCache(t *testing.T, arb *arbitertest.Arbiter, dir string, quota int64) *cache {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	c, err := openCache(ctx, dir, quota, time.Minute, func(_ context.Context, digest string, offset int64) (*client.PackageStream, error) {
		b, ok := arb.Package(digest)
		if !ok {
			return nil, &gavelapi.Problem{Status: 404}
		}
		return &client.PackageStream{Offset: offset, TotalBytes: int64(len(b)), Body: io.NopCloser(strings.NewReader(string(b[offset:])))}, nil
	}, clock.System{}, discard)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { cancel(); c.wg.Wait() })
	return c
}

func mustGet(t *testing.T, c *cache, digest string) (*problem.Package, func()) {
	t.Helper()
	pkg, done, err := c.get(t.Context(), digest)
	if err != nil {
		t.Fatal(err)
	}
	return pkg, done
}

// D04: the quota holds, the least recently used goes first, what is in use stays.
func TestQuotaEvictsTheLeastRecentlyUsedAndSparesWhatIsInUse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		arb := arbitertest.New()
		var d [4]string
		for i, seed := range []string{"a", "b", "c", "d"} {
			d[i] = arb.AddPackage(t, seed, 1, 1<<20)
		}
		dir := t.TempDir()
		c := testCache(t, arb, dir, 5<<19) // two and a half packages
		use := func(i int) func() {
			time.Sleep(time.Second)
			_, done := mustGet(t, c, d[i])
			return done
		}
		doneA := use(0)
		use(1)()
		use(2)() // a is the oldest, but in use: b goes
		if got := c.digests(10); !slices.Equal(got, []string{d[2], d[0]}) {
			t.Errorf("held: %v", got)
		}
		doneD := use(3) // c goes
		if got := c.digests(10); !slices.Equal(got, []string{d[3], d[0]}) {
			t.Errorf("held: %v", got)
		}
		doneA()
		doneA() // twice is once
		time.Sleep(time.Second)
		doneD()
		var onDisk []string
		for _, n := range list(t, dir) {
			onDisk = append(onDisk, "sha256:"+n)
		}
		slices.Sort(onDisk)
		want := []string{d[0], d[3]}
		slices.Sort(want)
		if !slices.Equal(onDisk, want) {
			t.Errorf("on disk: %v", onDisk)
		}
		// A smaller quota at the next start: the most recently used stays.
		again := testCache(t, arb, dir, 3<<19)
		if got := again.digests(10); !slices.Equal(got, []string{d[3]}) {
			t.Errorf("after a restart: %v", got)
		}
		if freed := again.shrink(1); freed < 1<<20 || len(again.digests(10)) != 0 {
			t.Errorf("shrink gave %d bytes", freed)
		}
	})
}

func TestDamagedPackageIsNoticedAndFetchedAgain(t *testing.T) {
	const in = "data/secret/00.in"
	change := func(t *testing.T, path string, f func([]byte) []byte) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.Remove(path); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, f(b), 0o444); err != nil {
			t.Fatal(err)
		}
	}
	flip := func(b []byte) []byte { b[3] ^= 1; return b }
	cut := func(b []byte) []byte { return b[1:] }
	for name, tc := range map[string]struct {
		damage  func(t *testing.T, dir string)
		restart bool
	}{
		"a file cut, at the next use":            {func(t *testing.T, dir string) { change(t, filepath.Join(dir, in), cut) }, false},
		"a file gone, at the next use":           {func(t *testing.T, dir string) { _ = os.Remove(filepath.Join(dir, in)) }, false},
		"a bit flipped, at the first use":        {func(t *testing.T, dir string) { change(t, filepath.Join(dir, in), flip) }, true},
		"the manifest changed, at the first use": {func(t *testing.T, dir string) { change(t, filepath.Join(dir, "manifest.json"), flip) }, true},
		"everything gone":                        {func(t *testing.T, dir string) { _ = os.RemoveAll(dir) }, false},
	} {
		t.Run(name, func(t *testing.T) {
			arb := arbitertest.New()
			digest := arb.AddPackage(t, "a", 1, 1000)
			dir := t.TempDir()
			c := testCache(t, arb, dir, 1<<30)
			pkg, done := mustGet(t, c, digest)
			if !tc.restart {
				defer done() // somebody is still using the damaged copy
			} else {
				done()
				c = testCache(t, arb, dir, 1<<30)
			}
			tc.damage(t, pkg.Dir)
			fresh, done2 := mustGet(t, c, digest)
			defer done2()
			if err := fresh.Verify(t.Context()); err != nil {
				t.Error(err)
			}
			if !tc.restart && fresh.Dir == pkg.Dir && name != "everything gone" {
				t.Error("the copy in use was replaced under its user")
			}
		})
	}
}

func TestDamagedCopyIsRemovedWithItsLastUser(t *testing.T) {
	arb := arbitertest.New()
	digest := arb.AddPackage(t, "a", 1, 1000)
	c := testCache(t, arb, t.TempDir(), 1<<30)
	pkg, done := mustGet(t, c, digest)
	if err := os.Remove(pkg.Path("data/secret/00.in")); err != nil {
		t.Fatal(err)
	}
	_, done2 := mustGet(t, c, digest)
	if n := len(list(t, c.dir)); n != 2 {
		t.Errorf("%d copies while both are in use", n)
	}
	done()
	if names := list(t, c.dir); len(names) != 1 || !strings.HasSuffix(names[0], ".1") {
		t.Errorf("left: %v", names)
	}
	done2()
	if c.used <= 0 || len(c.held) != 1 {
		t.Errorf("accounts: %d bytes, %d packages", c.used, len(c.held))
	}
}

func TestStartTakesOverWholePackagesAndRemovesLeftovers(t *testing.T) {
	arb := arbitertest.New()
	digest := arb.AddPackage(t, "a", 1, 1000)
	dir := t.TempDir()
	_, done := mustGet(t, testCache(t, arb, dir, 1<<30), digest)
	done()
	hex := strings.TrimPrefix(digest, "sha256:")
	for _, name := range []string{"." + hex + ".unpack-123", "." + hex + ".old", "foreign"} {
		if err := os.MkdirAll(filepath.Join(dir, name, "sub"), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "."+hex+".part"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	arb.Forget(digest)
	c := testCache(t, arb, dir, 1<<30)
	if names := list(t, dir); !slices.Equal(names, []string{hex, "foreign"}) {
		t.Errorf("left: %v", names)
	}
	_, done = mustGet(t, c, digest) // without a download
	done()
}

func TestConcurrentUsersOfOnePackage(t *testing.T) {
	arb := arbitertest.New()
	a, b := arb.AddPackage(t, "a", 3, 20_000), arb.AddPackage(t, "b", 3, 20_000)
	c := testCache(t, arb, t.TempDir(), 70_000) // one of the two
	var wg sync.WaitGroup
	for i := range 8 {
		wg.Go(func() {
			for j := range 20 {
				pkg, done, err := c.get(t.Context(), []string{a, b}[(i+j)%2])
				if err != nil {
					t.Error(err)
					return
				}
				if err := pkg.Check(); err != nil {
					t.Errorf("a package in use is incomplete: %v", err)
				}
				done()
			}
		})
	}
	wg.Wait()
	if c.used > 70_000 || len(c.held) != 1 {
		t.Errorf("%d bytes in %d packages", c.used, len(c.held))
	}
}

func TestNoRoomForAPackageIsTheHostsFault(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		n := 0
		c, err := openCache(t.Context(), t.TempDir(), 1<<30, time.Minute, func(context.Context, string, int64) (*client.PackageStream, error) {
			n++
			return nil, &os.PathError{Op: "write", Path: "p", Err: syscall.ENOSPC}
		}, clock.System{}, discard)
		if err != nil {
			t.Fatal(err)
		}
		_, _, err = c.get(t.Context(), "sha256:"+strings.Repeat("0", 64))
		f, ok := errors.AsType[*judge.Fault](err)
		if !ok || f.Blame != judge.BlameHost || !strings.Contains(f.Message, "no room") || n != 1 {
			t.Errorf("after %d tries: %v", n, err)
		}
		c.wg.Wait()
	})
}
