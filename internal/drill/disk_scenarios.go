package drill

import (
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"
)

const smallDiskBytes = 20 << 20

var diskScenarios = []Scenario{
	{
		Name: "a17-disk-full", What: "a worker's disk fills while it judges", script: diskFull,
		Fires: "delivery from memory; no claims until there is room", Sabotage: "the disk is never full",
	},
}

// inside is a path as a process sees it that has mounts of its own.
func (p *process) inside(path string) string {
	return filepath.Join("/proc", strconv.Itoa(p.pid()), "root", path)
}

// fill takes all the room of a disk but leave bytes.
func (p *process) fill(dir string, leave int64) string {
	var st unix.Statfs_t
	p.t.must(unix.Statfs(p.inside(dir), &st), "look at the disk")
	ballast := p.inside(filepath.Join(dir, "ballast"))
	f, err := os.Create(ballast)
	p.t.must(err, "ballast")
	defer f.Close()
	chunk := make([]byte, 64<<10)
	for left := int64(st.Bavail)*int64(st.Bsize) - leave; left > 0; left -= int64(len(chunk)) { //nolint:unconvert // the types differ between architectures
		if _, err := f.Write(chunk[:min(int64(len(chunk)), left)]); err != nil {
			break // full already
		}
	}
	return ballast
}

func diskFull(t *T) {
	if os.Geteuid() != 0 {
		t.Skipf("mounting a small disk needs root")
	}
	s := newStand(t)
	s.serve(20*time.Second, shortBeat)
	s.watch(calm, "", nil)
	one := s.worker("one", "", 1, func(w *workerSettings) { w.DiskBytes = smallDiskBytes })
	s.awaitFinal(s.submit("*: AC after 1ms"), 20*time.Second)
	id := s.submit("*: WA when full", "WA")
	s.awaitJudging(id, "one")
	ballast := ""
	if !t.Sabotage {
		ballast = one.fill(s.state("one"), 0)
	}
	t.did("filled the disk of the worker while it judged")
	s.open("full")
	s.awaitFinal(id, 20*time.Second)
	s.wantAttempts(id, "completed")
	t.did("the result was delivered although it could not be saved")
	waiting := s.submit("*: AC after 1ms")
	t.wait(2 * time.Second)
	if n := s.number("select count(*) from attempts where submission_id = $1", waiting); n != 0 {
		t.Errorf("the worker took work although its disk is full")
	}
	if !one.said("not claiming") {
		t.Errorf("the worker does not say why it takes nothing")
	}
	s.worker("two", "", 1)
	if sub := s.awaitFinal(waiting, 20*time.Second); sub.Worker != "two" {
		t.Errorf("judged by %s, want two", sub.Worker)
	}
	if ballast != "" {
		s.must(os.Remove(ballast), "make room")
	}
	s.until(20*time.Second, "the worker claims again", func() bool { return one.said("claiming again") })
	last := s.submit("two: AC after 1h\none: AC after 1ms")
	pair := s.submit("two: AC after 1h\none: AC after 1ms") // one of the two is with worker one
	s.until(20*time.Second, "the worker judges again", func() bool {
		return s.number("select count(*) from judgings where submission_id = any($1) and state = 'done'", []int64{last, pair}) >= 1
	})
	for _, id := range []int64{last, pair} {
		if s.cancel(id, s.jobOf(id)) == nil {
			s.owe(id, []string{"cancelled"})
		}
	}
	if n := s.number("select count(*) from judgings where state = 'system_error' or verdict in ('CE', 'RE')"); n != 0 {
		t.Errorf("%d judgings blame somebody for the full disk", n)
	}
	s.settle(20 * time.Second)
}
