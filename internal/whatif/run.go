package whatif

import (
	"container/heap"
	"time"
)

// leaseTime is how long work on a machine that fell asleep is missed: by any of
// the policies, which all have a lease or a heartbeat of a minute.
const leaseTime = time.Minute

// Outcome is how one job fared. Done is 0 when it was not judged within the run.
type Outcome struct {
	Job     *Job
	Started time.Duration // of the attempt that finished
	Done    time.Duration
	Worker  *Worker
	Tries   int
}

// Wait is how long the job waited until the attempt began that finished it.
func (o *Outcome) Wait() time.Duration { return o.Started - o.Job.At }

// policy decides. Jobs and workers are numbers into the run's lists.
type policy interface {
	arrive(r *run, job int)
	// ask is worker w's moment to take work: when something changed for a
	// policy that pushes, at its polls for one that pulls.
	ask(r *run)
	ended(r *run, job, worker int)
	slept(r *run, worker int)
	woke(r *run, worker int)
	// again is when it wants to be asked again though nothing happens, 0 for never.
	again() time.Duration
}

type run struct {
	now     time.Duration
	jobs    []Job
	fleet   []Worker
	out     []Outcome
	events  eventHeap
	running []map[int]int // worker → job → its try
	seq     int
	wake    time.Duration // when the run is to look again though nothing happens
	finish  func(job, worker, try int)
}

type event struct {
	at   time.Duration
	seq  int
	what func()
}

// eventHeap is container/heap's idea of a queue of events.
type eventHeap struct{ list []event }

func (h *eventHeap) Len() int { return len(h.list) }
func (h *eventHeap) Less(i, j int) bool {
	x, y := h.list[i], h.list[j]
	return x.at < y.at || x.at == y.at && x.seq < y.seq
}
func (h *eventHeap) Swap(i, j int) { h.list[i], h.list[j] = h.list[j], h.list[i] }

// Push implements heap.Interface; only events are pushed.
func (h *eventHeap) Push(x any) {
	if e, ok := x.(event); ok {
		h.list = append(h.list, e)
	}
}

// Pop implements heap.Interface.
func (h *eventHeap) Pop() any {
	e := h.list[len(h.list)-1]
	h.list = h.list[:len(h.list)-1]
	return e
}

// next takes the earliest event; false when there is none.
func (h *eventHeap) next() (event, bool) {
	if len(h.list) == 0 {
		return event{}, false
	}
	e, ok := heap.Pop(h).(event)
	return e, ok
}

func (r *run) at(t time.Duration, what func()) {
	r.seq++
	heap.Push(&r.events, event{max(t, r.now), r.seq, what})
}

// Run replays the trace. It ends when everything is judged, or horizon after
// the last arrival.
func Run(policyName string, jobs []Job, fleet []Worker, horizon time.Duration) ([]Outcome, bool) {
	r := newRun(jobs, fleet)
	p, ok := newPolicy(policyName, r)
	if !ok {
		return nil, false
	}
	r.replay(p, horizon)
	return r.out, true
}

func newRun(jobs []Job, fleet []Worker) *run {
	return &run{jobs: jobs, fleet: fleet, out: make([]Outcome, len(jobs)), running: make([]map[int]int, len(fleet))}
}

func (r *run) replay(p policy, horizon time.Duration) {
	jobs, fleet := r.jobs, r.fleet
	end := horizon
	left := len(jobs)
	for i := range jobs {
		r.out[i].Job = &jobs[i]
		r.at(jobs[i].At, func() { p.arrive(r, i) })
		end = max(end, jobs[i].At+horizon)
	}
	for w := range fleet {
		r.running[w] = map[int]int{}
		for _, a := range fleet[w].Away {
			r.at(a.From, func() { r.sleep(p, w) })
			r.at(a.To, func() { p.woke(r, w) })
		}
	}
	r.finish = func(job, w, try int) {
		if r.running[w][job] != try || r.out[job].Done != 0 {
			return // it fell asleep over it
		}
		delete(r.running[w], job)
		o := &r.out[job]
		o.Done, o.Worker = r.now, &fleet[w]
		left--
		p.ended(r, job, w)
	}
	for left > 0 {
		e, ok := r.events.next()
		if !ok || e.at > end {
			break
		}
		r.now = e.at
		e.what()
		p.ask(r)
		if t := p.again(); t > r.now && (r.wake <= r.now || t < r.wake) {
			r.wake = t
			r.at(t, func() {})
		}
	}
}

// start begins a job on a worker.
func (r *run) start(job, w int) {
	o := &r.out[job]
	o.Tries++
	o.Started = r.now
	try := o.Tries
	r.running[w][job] = try
	takes := time.Duration(float64(r.jobs[job].Takes) / r.fleet[w].Speed)
	r.at(r.now+takes, func() { r.finish(job, w, try) })
}

// sleep takes a worker away with all that it holds; it is missed after a while.
func (r *run) sleep(p policy, w int) {
	lost := r.running[w]
	r.running[w] = map[int]int{}
	p.slept(r, w)
	for job := range lost {
		r.at(r.now+leaseTime, func() { p.arrive(r, job) })
	}
}
