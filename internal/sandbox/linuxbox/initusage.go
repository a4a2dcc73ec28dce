package linuxbox

import "time"

// What a run has used so far, by its cgroup or, without one, by the poller.

// baseline is where the counters stood before the run: they are cumulative.
type baseline struct {
	cpu      time.Duration
	own      time.Duration // the forker's CPU time then
	oomKills int
}

// zero has what the run uses counted from here, or from where the counters were
// noted since the last run: what the forker did in between comes off with the
// rest of its work.
func (r *initRun) zero() error {
	if r.cfg.Polled {
		r.poll = newPoller(r.req, r.cfg.OneID, r.root)
		return nil
	}
	noted := r.noted
	r.noted = false
	if noted {
		return nil
	}
	return r.noteCounters()
}

func (b *boxInit) noteCounters() (err error) {
	if b.base.oomKills, err = b.meter.readOOM(); err != nil {
		return err
	}
	return b.noteCPU()
}

func (b *boxInit) noteCPU() (err error) {
	b.base.own = threadCPU() // before the group's, as in usedCPU
	b.base.cpu, err = b.meter.readCPU()
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
		own = threadCPU() - r.base.own
	}
	now, err := r.meter.readCPU()
	if err != nil {
		return 0, err
	}
	return max(now-r.base.cpu-own, 0), nil
}

// memoryKills counts kills of the memory controller, or 1 above the baseline when
// a look found too much.
func (r *initRun) memoryKills() (int, error) {
	if r.poll == nil {
		return r.meter.readOOM()
	}
	if r.poll.overMemory {
		return r.base.oomKills + 1, nil
	}
	return r.base.oomKills, nil
}
