package linuxbox

import (
	"fmt"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// runGroup is the cgroup that programs run in: on v1 it serves many runs (the
// forker thread lives in it, counters are read by difference), on v2 one.
type runGroup struct {
	slot *slotGroup
	name string
	dirs [numControllers]string
	all  []string // distinct directories
	used bool     // the init knows it

	peak, oom, pids *counter // kept open: they are read after every run

	memoryBytes int64
	processes   int // as the kernel counts them
	wanted      int // as they were asked for
	// The counters at the end of the last run, because they are cumulative.
	// Between runs nothing in the group can move them.
	oomBase, forkFailBase int64
}

// manyOld is how many directories of earlier runs may wait for their removal.
const manyOld = 32

// prepare gives the group for the next run, with its limits set and its
// counters noted. fresh means that the init has to be told of it.
func (s *slotGroup) prepare(memoryBytes int64, processes int) (g *runGroup, fresh bool, err error) {
	s.stocked = false
	if len(s.old) >= manyOld { // programs so short that nobody stocked
		s.removeOld()
	}
	if s.cur != nil && !s.c.memory.reset(s.cur) {
		s.retire(s.cur)
		s.cur, s.next = s.next, nil
	}
	if s.cur == nil {
		if s.cur, err = s.newRun(); err != nil {
			return nil, false, err
		}
	}
	g = s.cur
	if err := g.limit(memoryBytes, processes); err != nil {
		return nil, false, err
	}
	if fresh, g.used = !g.used, true; fresh {
		err = g.note()
	}
	return g, fresh, err
}

// wantsStock says whether stock has something to do.
func (s *slotGroup) wantsStock() bool {
	return s != nil && !s.stocked && (len(s.old) > 0 || s.next == nil && s.cur != nil && !s.c.memory.resets())
}

// stock is called once a run, while its program runs and the host would only
// wait for it: it removes the groups of earlier runs and, where each run needs
// one of its own, makes the next, with the limits that most likely are wanted
// again. What fails here is tried again, and reported, when it is needed.
func (s *slotGroup) stock() {
	if !s.wantsStock() {
		return
	}
	s.stocked = true
	s.removeOld()
	if s.next != nil || s.c.memory.resets() {
		return
	}
	next, err := s.newRun()
	if err != nil {
		return
	}
	if err := next.limit(s.cur.memoryBytes, s.cur.wanted); err != nil {
		s.retire(next)
		return
	}
	s.next = next
}

func (s *slotGroup) retire(g *runGroup) {
	if g != nil {
		g.closeCounters()
		s.old = append(s.old, g.all...)
	}
}

// removeOld removes directories of earlier runs as far as the kernel lets go
// of them; on v1 the forker leaves one only when it enters the next.
func (s *slotGroup) removeOld() {
	keep := s.old[:0]
	for _, dir := range s.old {
		if err := unix.Rmdir(dir); err == unix.EBUSY {
			keep = append(keep, dir)
		}
	}
	s.old = keep
}

func (s *slotGroup) newRun() (*runGroup, error) {
	s.runs++
	g := &runGroup{slot: s, name: fmt.Sprintf("run%d", s.runs)}
	for _, t := range s.c.trees {
		dir := filepath.Join(t.dir, s.name, g.name)
		if err := os.Mkdir(dir, 0o755); err != nil {
			return nil, cgroupFault(t.base, err)
		}
		g.all = append(g.all, dir)
		for _, ctl := range t.controllers {
			g.dirs[ctl] = dir
		}
		if t.version == 2 {
			if err := os.Chown(filepath.Join(dir, "cgroup.procs"), s.uid, s.uid); err != nil {
				return nil, cgroupFault(t.base, err)
			}
		}
	}
	if err := s.c.memory.prepare(g.dirs[ctlMemory]); err != nil {
		return nil, cgroupFault(g.dirs[ctlMemory], err)
	}
	if err := g.openCounters(); err != nil {
		g.closeCounters()
		return nil, cgroupFault(g.dirs[ctlMemory], err)
	}
	return g, nil
}

func (g *runGroup) openCounters() (err error) {
	memory := g.slot.c.memory
	if g.peak, err = openCounter(filepath.Join(g.dirs[ctlMemory], memory.peakFile()), memory.peakMode()); err != nil {
		return err
	}
	if g.oom, err = openCounter(filepath.Join(g.dirs[ctlMemory], memory.oomFile()), os.O_RDONLY); err != nil {
		return err
	}
	g.pids, err = openCounter(filepath.Join(g.dirs[ctlPids], "pids.events"), os.O_RDONLY)
	return err
}

func (g *runGroup) closeCounters() {
	for _, c := range []*counter{g.peak, g.oom, g.pids} {
		c.close()
	}
}

// limit writes what differs from the last run.
func (g *runGroup) limit(memoryBytes int64, processes int) error {
	memoryBytes -= memoryBytes % int64(os.Getpagesize())
	if memoryBytes != g.memoryBytes {
		if err := g.slot.c.memory.setLimit(g.dirs[ctlMemory], memoryBytes); err != nil {
			return cgroupFault(g.dirs[ctlMemory], fmt.Errorf("memory limit: %w", err))
		}
		g.memoryBytes = memoryBytes
	}
	g.wanted = processes
	if g.slot.c.layout[ctlPids].version == 1 {
		processes++ // the forker thread is in it too
	}
	if processes != g.processes {
		if err := writeFile(filepath.Join(g.dirs[ctlPids], "pids.max"), fmt.Sprint(processes)); err != nil {
			return cgroupFault(g.dirs[ctlPids], fmt.Errorf("process limit: %w", err))
		}
		g.processes = processes
	}
	return nil
}

func (g *runGroup) note() (err error) {
	if g.oomBase, err = g.oomKills(); err == nil {
		g.forkFailBase, err = g.forkFails()
	}
	if err != nil {
		return cgroupFault(g.dirs[ctlMemory], err)
	}
	return nil
}

func (g *runGroup) oomKills() (int64, error) { return g.oom.field("oom_kill") }

func (g *runGroup) forkFails() (int64, error) { return g.pids.field("max") }

// openMeter opens what the init needs of a fresh group, in the order of
// runReq: CPU counter, OOM counter, v1 tasks files, v2 directory.
func (g *runGroup) openMeter() (files []*os.File, joins int, intoV2 bool, err error) {
	cpu := "cpu.stat"
	if g.slot.c.layout[ctlCPU].version == 1 {
		cpu = "cpuacct.usage"
	}
	for _, path := range []string{
		filepath.Join(g.dirs[ctlCPU], cpu),
		filepath.Join(g.dirs[ctlMemory], g.slot.c.memory.oomFile()),
	} {
		f, err := os.Open(path)
		if err != nil {
			closeAll(files)
			return nil, 0, false, cgroupFault(path, err)
		}
		files = append(files, f)
	}
	tasks, err := g.slot.openTasks(func(t *tree) string { return filepath.Join(t.dir, g.slot.name, g.name) })
	if err != nil {
		closeAll(files)
		return nil, 0, false, err
	}
	files = append(files, tasks...)
	if dir := g.slot.v2Dir(); dir != "" {
		f, err := os.Open(filepath.Join(dir, g.name))
		if err != nil {
			closeAll(files)
			return nil, 0, false, cgroupFault(dir, err)
		}
		files, intoV2 = append(files, f), true
	}
	return files, len(tasks), intoV2, nil
}

// readings is what a run used, by this group.
type readings struct {
	peakBytes int64
	oomKills  int
	forkFails int
}

// atLimit tells an OOM kill by the group's own limit from one because the
// machine, or a cgroup above, ran out: the latter finds the peak well below.
// (The failure counters of v1 would say it directly, but stay 0 on new kernels.)
func (g *runGroup) atLimit(peakBytes int64) bool {
	return peakBytes >= g.memoryBytes-max(g.memoryBytes/8, 4<<20)
}

func (g *runGroup) read() (r readings, err error) {
	if r.peakBytes, err = g.peak.int(); err != nil {
		return r, cgroupFault(g.dirs[ctlMemory], fmt.Errorf("memory peak: %w", err))
	}
	kills, err := g.oomKills()
	if err != nil {
		return r, cgroupFault(g.dirs[ctlMemory], err)
	}
	fails, err := g.forkFails()
	if err != nil {
		return r, cgroupFault(g.dirs[ctlPids], err)
	}
	r.oomKills, r.forkFails = int(kills-g.oomBase), int(fails-g.forkFailBase)
	g.oomBase, g.forkFailBase = kills, fails
	return r, nil
}
