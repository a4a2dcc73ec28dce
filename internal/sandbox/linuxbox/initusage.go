package linuxbox

import "time"

// What a run has used so far, by its cgroup or, without one, by the poller.

// zero notes the counters, which are cumulative.
func (r *initRun) zero() (err error) {
	if r.cfg.Polled {
		r.poll = newPoller(r.req, r.cfg.OneID, r.root)
		return nil
	}
	if r.oomBase, err = r.meter.readOOM(); err != nil {
		return err
	}
	return r.zeroCPU()
}

func (r *initRun) zeroCPU() (err error) {
	r.ownBase = threadCPU() // before the group's, as in usedCPU
	r.cpuBase, err = r.meter.readCPU()
	return err
}

// usedCPU is the program's CPU time. On v1 this thread is in the same cgroup,
// so its own work is in the figure and has to come off. Its own clock is read
// first: that has the kernel charge the group with the work up to now. The other
// way round the group lacks what came since the last tick, which would be taken
// off all the same.
func (r *initRun) usedCPU() (time.Duration, error) {
	if r.poll != nil {
		return r.poll.look(), nil
	}
	var own time.Duration
	if r.meter.ownCPU {
		own = threadCPU() - r.ownBase
	}
	now, err := r.meter.readCPU()
	if err != nil {
		return 0, err
	}
	return max(now-r.cpuBase-own, 0), nil
}

// memoryKills counts kills of the memory controller, or 1 above oomBase when
// a look found too much.
func (r *initRun) memoryKills() (int, error) {
	if r.poll == nil {
		return r.meter.readOOM()
	}
	if r.poll.overMemory {
		return r.oomBase + 1, nil
	}
	return r.oomBase, nil
}
