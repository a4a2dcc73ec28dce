package whatif

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/gavel-oj/gavel/internal/alarm"
	"github.com/gavel-oj/gavel/internal/dispatch"
)

// witness is the product's policy with somebody who watches: by his own account
// of who holds what, and with the alarm of the product.
type witness struct {
	*gavel

	waiting map[int]bool
	out     map[int]int           // job → worker that holds it
	since   map[int]time.Duration // job → since when somebody free could take it
	pair    map[string]time.Duration
	longest time.Duration // that a job faced somebody free
	apart   time.Duration // that a pair of the alarm's stayed apart
	alarms  *alarm.Watch
	raised  []alarm.Alarm
	deaf    func() bool // whether this moment is no occasion to match
}

func watched(r *run) *witness {
	w := &witness{
		gavel: newGavel(r), waiting: map[int]bool{}, out: map[int]int{}, since: map[int]time.Duration{}, pair: map[string]time.Duration{},
		alarms: alarm.New(alarm.Default, nil, instant(0)), deaf: func() bool { return false },
	}
	var tick func()
	tick = func() { r.at(r.now+time.Second, tick) } // as often as the product looks
	tick()
	return w
}

func (w *witness) arrive(r *run, job int) {
	w.waiting[job] = true
	delete(w.out, job)
	w.gavel.arrive(r, job)
}

func (w *witness) ended(r *run, job, worker int) {
	delete(w.out, job)
	w.gavel.ended(r, job, worker)
}

func (w *witness) ask(r *run) {
	for _, since := range w.since { // up to this moment nothing has changed
		w.longest = max(w.longest, r.now-since)
	}
	for _, since := range w.pair {
		w.apart = max(w.apart, r.now-since)
	}
	if !w.deaf() {
		w.gavel.ask(r)
	}
	for worker, held := range r.running {
		for job := range held {
			if w.waiting[job] {
				delete(w.waiting, job)
				w.out[job] = worker
			}
		}
	}
	w.look(r)
}

// look notes which jobs somebody free could take, and what the alarm says.
func (w *witness) look(r *run) {
	for job := range r.jobs {
		if !w.waiting[job] || !w.takeable(r, job) {
			delete(w.since, job)
		} else if _, known := w.since[job]; !known {
			w.since[job] = r.now
		}
	}
	facts := alarm.Facts{LoopedAt: instant(r.now), Board: &alarm.Board{Survey: w.board.Survey(), Known: len(r.fleet)}}
	now := map[string]time.Duration{}
	holds, _ := alarm.Conditions(facts, alarm.Default, instant(r.now))
	for _, c := range holds {
		if c.Kind == alarm.Unmatched {
			key := c.Subject + " " + c.Identity
			now[key] = r.now
			if since, known := w.pair[key]; known {
				now[key] = since
			}
		}
	}
	w.pair = now
	for _, c := range w.alarms.Look(instant(r.now), facts) {
		if c.What == alarm.Started && c.Alarm.Kind == alarm.Unmatched {
			w.raised = append(w.raised, c.Alarm)
		}
	}
}

// takeable says whether somebody who asks for work has a slot, the language and
// the memory for a job, as long as its rejudge is within its budget and nobody
// is being freed for a bigger job.
func (w *witness) takeable(r *run, job int) bool {
	slots, rejudges := 0, 0
	for i := range r.fleet {
		if _, away := r.fleet[i].awayAt(r.now); !away {
			slots += r.fleet[i].Slots
		}
	}
	for j := range w.out {
		if r.jobs[j].Lane == dispatch.Rejudge {
			rejudges++
		}
	}
	if r.jobs[job].Lane == dispatch.Rejudge && rejudges >= max(1, int(dispatch.DefaultPolicy.BatchShare*float64(slots))) {
		return false
	}
	return slices.ContainsFunc(w.free(r), func(i int) bool { return w.fits(r, i, job) == fits && !w.mayBeFreed(r, i) })
}

// free are the workers that ask for work and have room for it.
func (w *witness) free(r *run) (list []int) {
	for i := range r.fleet {
		held := 0
		for _, by := range w.out {
			if by == i {
				held++
			}
		}
		if _, away := r.fleet[i].awayAt(r.now); !away && w.asking[i] != 0 && held < r.fleet[i].Slots {
			list = append(list, i)
		}
	}
	return list
}

const (
	never = iota // it cannot do the job
	fits         // it could take it now
	later        // it could if less memory were taken
)

func (w *witness) fits(r *run, i, job int) int {
	f, j := &r.fleet[i], &r.jobs[job]
	if !f.offers(j.Language) || f.Memory > 0 && j.Memory > f.Memory {
		return never
	}
	taken := j.Memory
	for o, by := range w.out {
		if by == i {
			taken += r.jobs[o].Memory
		}
	}
	if f.Memory > 0 && taken > f.Memory {
		return later
	}
	return fits
}

// mayBeFreed says whether a worker could be the one that takes nothing else
// until a waiting job fits, which is no standing apart.
func (w *witness) mayBeFreed(r *run, i int) bool {
	for job := range w.waiting {
		if w.fits(r, i, job) == later {
			return true
		}
	}
	return false
}

// someFleet and someTrace are small enough to have every trouble in a minute.
func someFleet(t *rapid.T) (fleet []Worker) {
	for i := range rapid.IntRange(1, 5).Draw(t, "workers") {
		w := Worker{
			Name: fmt.Sprintf("w%d", i+1), Rank: rapid.IntRange(0, 2).Draw(t, "rank"), Slots: rapid.IntRange(1, 3).Draw(t, "slots"),
			Languages: rapid.SampledFrom([][]string{{"c"}, {"python3"}, {"c", "python3"}}).Draw(t, "languages"),
			Memory:    rapid.SampledFrom([]int64{0, 1 << 30, 2 << 30}).Draw(t, "memory"),
			Speed:     rapid.SampledFrom([]float64{0.5, 1, 2}).Draw(t, "speed"),
			RoundTrip: time.Duration(rapid.SampledFrom([]int{0, 1, 30, 400, 700}).Draw(t, "round trip")) * time.Millisecond,
		}
		w.Pool = fmt.Sprint("pool-", w.Rank)
		from := time.Duration(0)
		for range rapid.IntRange(0, 2).Draw(t, "naps") {
			from += time.Duration(rapid.IntRange(0, 60_000).Draw(t, "awake")) * time.Millisecond
			to := from + time.Duration(rapid.IntRange(1, 60_000).Draw(t, "asleep"))*time.Millisecond
			w.Away = append(w.Away, Interval{from, to})
			from = to + time.Millisecond
		}
		fleet = append(fleet, w)
	}
	return fleet
}

func someTrace(t *rapid.T) (jobs []Job) {
	at := time.Duration(0)
	for range rapid.IntRange(1, 60).Draw(t, "jobs") {
		at += time.Duration(rapid.SampledFrom([]int{0, 0, 0, 1, 100, 600, 5000}).Draw(t, "pause")) * time.Millisecond
		jobs = append(jobs, Job{
			At: at, User: rapid.SampledFrom([]string{"", "a", "b"}).Draw(t, "user"), Class: rapid.IntRange(0, 1).Draw(t, "class"),
			Lane:     rapid.SampledFrom([]dispatch.Lane{dispatch.Run, dispatch.Judge, dispatch.Judge, dispatch.Prepare, dispatch.Rejudge}).Draw(t, "lane"),
			Language: rapid.SampledFrom([]string{"", "c", "python3", "cobol"}).Draw(t, "language"),
			Package:  rapid.SampledFrom([]string{"", "p"}).Draw(t, "package"),
			Memory:   rapid.SampledFrom([]int64{0, 256 << 20, 1 << 30, 2 << 30}).Draw(t, "needs"),
			Takes:    time.Duration(rapid.SampledFrom([]int{0, 50, 1000, 20_000}).Draw(t, "takes")) * time.Millisecond,
		})
	}
	return jobs
}

// Whatever fleet and whatever comes: no job that somebody free may take waits
// longer than a job is kept for a preferred worker, by the witness's own
// account as by the facts of the alarm, and the alarm never starts.
func TestNothingWaitsBesideAFreeWorkerForLongerThanHalfASecond(t *testing.T) {
	var longest time.Duration
	rapid.Check(t, func(t *rapid.T) {
		r := newRun(someTrace(t), someFleet(t))
		w := watched(r)
		r.replay(w, 3*time.Minute)
		if w.longest > dispatch.DefaultPolicy.Hold || w.apart > dispatch.DefaultPolicy.Hold || len(w.raised) > 0 {
			t.Fatalf("a job faced somebody free for %v, a pair of the alarm's for %v; raised: %+v", w.longest, w.apart, w.raised)
		}
		longest = max(longest, w.longest)
	})
	if longest == 0 {
		t.Error("no job was ever kept for a preferred worker: the half second was not tried")
	}
}

// The traces and fleets that come with the program hold to it as well.
func TestTheKnownTracesLeaveNothingBesideAFreeWorker(t *testing.T) {
	for _, trace := range Traces() {
		for _, fleet := range Fleets() {
			jobs, _ := Trace(trace, 1)
			workers, _ := Fleet(fleet)
			r := newRun(jobs[:400], workers)
			w := watched(r)
			r.replay(w, time.Hour)
			if w.longest > dispatch.DefaultPolicy.Hold || w.apart > dispatch.DefaultPolicy.Hold || len(w.raised) > 0 {
				t.Errorf("%s on %s: a job faced somebody free for %v, a pair of the alarm's for %v; raised: %+v", trace, fleet, w.longest, w.apart, w.raised)
			}
		}
	}
}

// A matching that is broken on purpose is seen by both, and raises the alarm.
func TestABrokenMatchingIsSeenInTheSimulator(t *testing.T) {
	one := func() *run {
		return newRun(
			[]Job{{At: time.Second, Lane: dispatch.Judge, Language: "c", Takes: time.Second}, {At: 2 * time.Minute, Lane: dispatch.Judge, Language: "c", Takes: time.Second}},
			[]Worker{{Name: "a", Slots: 2, Languages: []string{"c"}, Speed: 1}},
		)
	}
	for _, c := range []struct {
		name   string
		run    *run
		breaks func(r *run, w *witness)
	}{
		{"work that comes wakes nobody", one(), func(_ *run, w *witness) { w.deaf = func() bool { return len(w.out) == 0 } }},
		{"a worker that asks is passed over", one(), func(r *run, w *witness) {
			w.match = func(now time.Time, limit int) ([]dispatch.Grant, time.Time) {
				id := w.asking[0]
				w.board.RemoveClaim(id, now)
				grants, wake := w.board.Match(now, limit)
				w.board.AddClaim(dispatch.Claim{ID: id, Worker: 1, Slots: 2}, now)
				return grants, wake
			}
		}},
		{"a job is kept for a preferred worker for as long as it takes", newRun(
			[]Job{{At: 0, Lane: dispatch.Judge, Language: "c"}, {At: time.Second, Lane: dispatch.Judge, Language: "c", Takes: time.Second}},
			[]Worker{
				{Name: "a", Slots: 2, Languages: []string{"c"}, Speed: 1, RoundTrip: time.Minute},
				{Name: "b", Rank: 1, Slots: 1, Languages: []string{"c"}, Speed: 1},
			},
		), func(_ *run, w *witness) {
			policy := dispatch.DefaultPolicy
			policy.Hold = time.Hour
			w.board.SetPolicy(policy)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := watched(c.run)
			c.breaks(c.run, w)
			c.run.replay(w, 3*time.Minute)
			if w.longest < alarm.Default.Unmatched || w.apart < alarm.Default.Unmatched || len(w.raised) == 0 {
				t.Errorf("a job faced somebody free for %v, a pair of the alarm's for %v; raised: %+v", w.longest, w.apart, w.raised)
			}
		})
	}
}
