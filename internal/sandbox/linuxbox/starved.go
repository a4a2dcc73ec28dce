package linuxbox

import (
	"bytes"
	"os"
	"strconv"
	"time"
)

// The wall limit is there for programs that wait, not for those that a busy
// machine keeps waiting: what a program was ready to run and did not is added
// to it, up to a bound. Beyond that the machine is at fault (L6).
const (
	maxCredit = 4 // times the wall limit
	// creditLook is how long a program that got much wall time runs on before
	// the next look; one that got little, as long as that.
	creditLook = 10 * time.Millisecond
)

// grantWall is called when the wall limit and what was granted so far is used
// up.
func (r *initRun) grantWall(cpu, wall time.Duration) {
	r.credit = max(r.credit, starved(cpu))
	if bound := maxCredit * r.req.wall; r.credit > bound && wall > r.req.wall+bound {
		r.credit, r.tooBusy = bound, true
	}
}

// wallLeft is how much is left of the wall limit with what was granted.
func (r *initRun) wallLeft(now time.Duration) time.Duration {
	left := r.job.started + r.req.wall + r.credit - now
	if r.credit > 0 {
		left = max(left, min(r.credit, creditLook), minWait)
	}
	return left
}

// maxStarvedTasks bounds the look at a swarm: its kill must not wait for it.
const maxStarvedTasks = 256

// starved says for how long one of the box's threads, the worst off, was ready
// to run while the CPUs ran others than the box: its delay by the kernel's
// account, less what the rest of the box used, so that no swarm makes itself
// look starved. What cannot be read (a kernel without that account) is none.
func starved(used time.Duration) time.Duration {
	var most time.Duration
	left := maxStarvedTasks
	own := strconv.Itoa(os.Getpid())
	for _, pid := range namesIn("/proc") {
		if pid == own || pid[0] < '1' || pid[0] > '9' {
			continue
		}
		for _, tid := range namesIn("/proc/" + pid + "/task") {
			if left--; left < 0 {
				return most
			}
			if b, err := os.ReadFile("/proc/" + pid + "/task/" + tid + "/schedstat"); err == nil {
				ran, delay := schedStat(b)
				most = max(most, delay-max(used-ran, 0))
			}
		}
	}
	return most
}

// schedStat reads the first two numbers of such a file: how long the thread
// ran, and how long it was ready and did not.
func schedStat(text []byte) (ran, delay time.Duration) {
	fields := bytes.Fields(text)
	if len(fields) < 2 {
		return 0, 0
	}
	r, _ := strconv.ParseInt(string(fields[0]), 10, 64)
	d, _ := strconv.ParseInt(string(fields[1]), 10, 64)
	return time.Duration(r), time.Duration(d)
}

func namesIn(dir string) []string {
	f, err := os.Open(dir)
	if err != nil {
		return nil
	}
	defer f.Close()
	names, _ := f.Readdirnames(-1)
	return names
}
