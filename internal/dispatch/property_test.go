package dispatch

import (
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// world drives a board with random events and checks every grant against what
// the test itself knows.
type world struct {
	t       *rapid.T
	b       *Board
	now     time.Time
	jobs    map[int64]Job   // waiting
	out     map[int64]int64 // job → worker
	details map[int64]Job
	workers map[int64]Worker
	claims  map[int64]int64 // claim → worker
	room    map[int64]int   // claim → what it may still get
	nextID  int64

	lastClaim int64
}

var someLanguages = []string{"c", "cpp17", "python3"}

func (w *world) addJob() {
	w.nextID++
	j := Job{
		ID: w.nextID, Lane: rapid.SampledFrom([]Lane{Probe, Run, Judge, Judge, Prepare, Rejudge}).Draw(w.t, "lane"),
		Class:     rapid.IntRange(-1, 1).Draw(w.t, "class"),
		Submitter: rapid.SampledFrom([]string{"", "a", "b", "c"}).Draw(w.t, "submitter"),
		Language:  rapid.SampledFrom(someLanguages).Draw(w.t, "language"),
		Problem:   rapid.Int64Range(0, 3).Draw(w.t, "problem"),
		Package:   rapid.SampledFrom([]string{"", "p", "q"}).Draw(w.t, "package"),
		FailedBy:  rapid.SliceOfNDistinct(rapid.Int64Range(1, 5), 0, 2, rapid.ID[int64]).Draw(w.t, "failed"),
		Needs:     Needs{MemoryBytes: rapid.Int64Range(0, 6).Draw(w.t, "memory"), Tight: rapid.Bool().Draw(w.t, "tight")},
	}
	if rapid.IntRange(0, 5).Draw(w.t, "for anybody") == 0 {
		j.Target = rapid.Int64Range(1, 5).Draw(w.t, "target")
	}
	if j.Lane == Rejudge {
		j.Batch, j.Budget = rapid.Int64Range(1, 2).Draw(w.t, "batch"), 1
	}
	w.b.AddJob(j)
	w.jobs[j.ID], w.details[j.ID] = j, j
}

func (w *world) setWorker() {
	id := rapid.Int64Range(1, 5).Draw(w.t, "worker")
	v := Worker{
		ID: id, Slots: rapid.IntRange(1, 3).Draw(w.t, "slots"), Rank: rapid.IntRange(0, 2).Draw(w.t, "rank"),
		Languages:   rapid.SliceOfDistinct(rapid.SampledFrom(someLanguages), rapid.ID[string]).Draw(w.t, "offers"),
		MemoryBytes: rapid.Int64Range(0, 8).Draw(w.t, "budget"),
		Away:        rapid.SampledFrom([]string{"", "", "", "drained"}).Draw(w.t, "away"),
		Slow:        rapid.SampledFrom([]string{"", "slow"}).Draw(w.t, "slow"),
	}
	if aside := rapid.SampledFrom([]string{"", "", "c"}).Draw(w.t, "aside"); aside != "" {
		v.AsideLanguages = map[string]string{aside: "set aside"}
	}
	w.b.SetWorker(v, w.now)
	w.workers[id] = v
	if rapid.IntRange(0, 3).Draw(w.t, "asks") > 0 {
		w.addClaim(id)
	}
}

func (w *world) addClaim(worker int64) {
	w.lastClaim++
	w.claims[w.lastClaim], w.room[w.lastClaim] = worker, rapid.IntRange(1, 3).Draw(w.t, "asked")
	w.b.AddClaim(Claim{ID: w.lastClaim, Worker: worker, Slots: w.room[w.lastClaim]}, w.now)
}

func (w *world) check(grants []Grant) {
	for _, g := range grants {
		j, waits := w.jobs[g.Job.ID]
		if !waits {
			w.t.Fatalf("job %d was granted, but does not wait", g.Job.ID)
		}
		id := w.claims[g.Claim]
		v, online := w.workers[id]
		if !online || w.room[g.Claim] == 0 {
			w.t.Fatalf("claim %d of worker %d got more than it asked for", g.Claim, id)
		}
		w.room[g.Claim]--
		delete(w.jobs, j.ID)
		w.out[j.ID] = id
		held, memory, batch := 0, int64(0), 0
		for job, by := range w.out {
			if by == id {
				held++
				memory += w.details[job].Needs.MemoryBytes
			}
			if j.Batch != 0 && w.details[job].Batch == j.Batch {
				batch++
			}
		}
		switch {
		case v.Away != "" && j.Lane != Probe:
			w.t.Fatalf("a worker that is away got job %d of the %s lane", j.ID, j.Lane)
		case v.AsideLanguages[j.Language] != "" && j.Lane != Probe:
			w.t.Fatalf("a worker with %s set aside got job %d of the %s lane", j.Language, j.ID, j.Lane)
		case !slices.Contains(v.Languages, j.Language):
			w.t.Fatalf("worker %d got a %s job", id, j.Language)
		case j.Target != 0 && id != j.Target:
			w.t.Fatalf("worker %d got a job for %d", id, j.Target)
		case slices.Contains(j.FailedBy, id) && w.anotherCould(j):
			w.t.Fatalf("worker %d, which failed job %d before, got it again though another could take it", id, j.ID)
		case held > v.Slots:
			w.t.Fatalf("worker %d holds %d jobs in %d slots", id, held, v.Slots)
		case v.MemoryBytes > 0 && memory > v.MemoryBytes:
			w.t.Fatalf("worker %d runs %d bytes in a budget of %d", id, memory, v.MemoryBytes)
		case batch > j.Budget:
			w.t.Fatalf("%d jobs of batch %d are out", batch, j.Batch)
		}
	}
}

// anotherCould says whether somebody online could take a job who has not failed it.
func (w *world) anotherCould(j Job) bool {
	for id, v := range w.workers {
		works := j.Lane == Probe || v.Away == "" && v.AsideLanguages[j.Language] == ""
		if works && slices.Contains(v.Languages, j.Language) && !slices.Contains(j.FailedBy, id) && (j.Target == 0 || j.Target == id) &&
			(v.MemoryBytes == 0 || j.Needs.MemoryBytes <= v.MemoryBytes) {
			return true
		}
	}
	return false
}

// said is what Explain says of everything that waits.
func (w *world) said() map[int64]Explanation {
	all := map[int64]Explanation{}
	for id := range w.jobs {
		all[id], _ = w.b.Explain(id, w.now)
	}
	return all
}

// agree checks that what was said before is what happened: nothing was given
// away that was held, over its budget or beyond everybody's means, and nothing
// to whom it was withheld from.
func (w *world) agree(before map[int64]Explanation, grants []Grant) {
	for _, g := range grants {
		e, to := before[g.Job.ID], w.claims[g.Claim]
		if e.Cause != Queued {
			w.t.Fatalf("job %d was given away, and was explained by %s: %q", g.Job.ID, e.Cause, e.Reason)
		}
		for _, v := range e.Workers {
			if v.ID == to && v.Reason != "" && v.Reason != beingFreed { // which ends when the big job goes
				w.t.Fatalf("job %d was given to worker %d, of whom was said: %q", g.Job.ID, to, v.Reason)
			}
		}
	}
}

// idleAble says whether some claim could take a waiting job.
func (w *world) idleAble() (int64, bool) {
	for id := range w.jobs {
		e, ok := w.b.Explain(id, w.now)
		if !ok {
			w.t.Fatalf("job %d waits and is not explained", id)
		}
		if e.Cause == OverBudget || e.Cause == Held {
			continue
		}
		for _, v := range e.Workers {
			if v.Reason == "" {
				return id, true
			}
		}
	}
	return 0, false
}

// survey checks what Survey says against what Explain says of the first job of
// each group, and its sums against the test's own.
func (w *world) survey() {
	s, jobs := w.b.Survey(), 0
	for _, g := range s.Groups {
		jobs += g.Jobs
		e, ok := w.b.Explain(g.First, w.now)
		if !ok {
			w.t.Fatalf("group %+v goes by a job that does not wait", g)
		}
		free := map[int64]bool{}
		for _, v := range e.Workers {
			if v.Reason == "" {
				free[v.ID] = true
			}
		}
		held := e.Cause == OverBudget || e.Cause == Held
		switch {
		case g.Able != (e.Able > 0) || g.Able == (g.Refusal != ""):
			w.t.Fatalf("group %+v, but %d workers are able", g, e.Able)
		case !g.Held && (g.Free != 0) != (len(free) > 0), g.Free != 0 && !free[g.Free], g.Held && g.Free != 0:
			w.t.Fatalf("group %+v, but these are free: %v", g, free)
		case g.Able && !g.Held && held, g.Held && len(free) > 0 && !held:
			w.t.Fatalf("group %+v, but it is explained with %q", g, e.Reason)
		}
	}
	waiting, out := 0, 0 // but for probes
	for _, j := range w.jobs {
		if j.Lane != Probe {
			waiting++
		}
	}
	for id := range w.out {
		if w.details[id].Lane != Probe {
			out++
		}
	}
	if jobs != waiting || s.Out != out || s.Online != len(w.workers) {
		w.t.Fatalf("the survey counts %d waiting, %d out, %d online, want %d, %d, %d", jobs, s.Out, s.Online, waiting, out, len(w.workers))
	}
}

// reasons checks that what is said of a shape is what Explain says of each of
// its jobs, and that every job is spoken of.
func (w *world) reasons() {
	shapes, jobs := map[string]Reason{}, 0
	for _, r := range w.b.Reasons(w.now) {
		shapes[shapeKey(&r.Like, r.Like.Problem)] = r
		jobs += r.Jobs
		if !slices.Contains(Causes(), r.Cause) || r.Text == "" {
			w.t.Fatalf("reason %+v", r)
		}
	}
	if jobs != len(w.jobs) {
		w.t.Fatalf("%d jobs wait, reasons are given for %d", len(w.jobs), jobs)
	}
	for id := range w.jobs {
		r, said := shapes[w.b.jobs[id].shape.key]
		e, _ := w.b.Explain(id, w.now)
		same := r.Text == e.Reason
		if e.Cause == Queued {
			same = strings.HasSuffix(e.Reason, "; "+r.Text) || e.Reason == keptForAMoment
		}
		if !said || r.Cause != e.Cause || !same {
			w.t.Fatalf("job %d is explained by %s: %q; its shape by %s: %q", id, e.Cause, e.Reason, r.Cause, r.Text)
		}
		e.Workers = nil
		if why, ok := w.b.Why(id, w.now); !ok || !reflect.DeepEqual(why, e) {
			w.t.Fatalf("job %d is explained by %+v, and in short by %+v", id, e, why)
		}
	}
}

// For any history: no job is lost or granted twice, no worker gets what it
// cannot do or has no room for, and after Match nothing waits that somebody
// free could take (by the words of Explain), but for what is kept for a
// preferred worker for half a second.
func TestAnyHistoryIsSoundAndNothingWaitsForAFreeWorker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := &world{
			t: t, b: New(DefaultPolicy), now: start, jobs: map[int64]Job{}, out: map[int64]int64{}, details: map[int64]Job{},
			workers: map[int64]Worker{}, claims: map[int64]int64{}, room: map[int64]int{},
		}
		t.Repeat(map[string]func(*rapid.T){
			"job": func(*rapid.T) { w.addJob() },
			"jobs": func(*rapid.T) {
				for range rapid.IntRange(1, 8).Draw(t, "jobs") {
					w.addJob()
				}
			},
			"worker": func(*rapid.T) { w.setWorker() },
			"claim": func(*rapid.T) {
				id := rapid.Int64Range(1, 5).Draw(t, "claimant")
				if _, online := w.workers[id]; !online {
					return
				}
				w.addClaim(id)
			},
			"claim ends": func(*rapid.T) {
				if w.lastClaim == 0 {
					return
				}
				id := rapid.Int64Range(1, w.lastClaim).Draw(t, "ended")
				w.b.RemoveClaim(id, w.now)
				delete(w.claims, id)
			},
			"worker leaves": func(*rapid.T) {
				id := rapid.Int64Range(1, 5).Draw(t, "leaves")
				w.b.RemoveWorker(id)
				delete(w.workers, id)
				for c, by := range w.claims {
					if by == id {
						delete(w.claims, c)
					}
				}
			},
			"cancel": func(*rapid.T) {
				if w.nextID == 0 {
					return
				}
				id := rapid.Int64Range(1, w.nextID).Draw(t, "cancelled")
				_, waits := w.jobs[id]
				if w.b.RemoveJob(id) != waits {
					t.Fatalf("job %d: the board and the test do not agree whether it waits", id)
				}
				delete(w.jobs, id)
			},
			"finish": func(*rapid.T) {
				if w.nextID == 0 {
					return
				}
				id := rapid.Int64Range(1, w.nextID).Draw(t, "finished")
				_, out := w.out[id]
				if w.b.Release(id, 0, w.now) != out {
					t.Fatalf("job %d: the board and the test do not agree whether it is out", id)
				}
				delete(w.out, id)
			},
			"a while": func(*rapid.T) { w.now = w.now.Add(asksAgain) },
			"brake": func(*rapid.T) {
				b := Brakes{Problems: map[int64]string{}}
				if p := rapid.Int64Range(0, 3).Draw(t, "held problem"); p != 0 {
					b.Problems[p] = "held"
				}
				w.b.SetBrakes(b)
			},
			"match": func(*rapid.T) {
				before := w.said()
				grants, wake := w.b.Match(w.now, rapid.SampledFrom([]int{1, 2, 1000}).Draw(t, "at once"))
				w.agree(before, grants)
				w.check(grants)
				if len(grants) > 0 && wake.IsZero() { // there may be more, as the loop assumes
					before = w.said()
					grants, wake = w.b.Match(w.now, 1000)
					w.agree(before, grants)
					w.check(grants)
				}
				if !wake.IsZero() {
					if !wake.After(w.now) || wake.Sub(w.now) > w.b.policy.Hold {
						t.Fatalf("to be looked at again after %v", wake.Sub(w.now))
					}
					for n := 0; !wake.IsZero(); n++ { // and after half a second in all nothing is kept
						if n > 5 {
							t.Fatal("a job is kept again and again")
						}
						w.now = wake
						before = w.said()
						grants, wake = w.b.Match(w.now, 1000)
						w.agree(before, grants)
						w.check(grants)
					}
				}
				if id, idle := w.idleAble(); idle {
					e, _ := w.b.Explain(id, w.now)
					t.Fatalf("job %d waits while somebody could take it: %+v", id, e)
				}
				for _, g := range w.b.Survey().Groups {
					if g.Free != 0 {
						t.Fatalf("worker %d is free and job %d of %+v waits", g.Free, g.First, g)
					}
				}
			},
			"": func(t *rapid.T) {
				w.survey()
				w.reasons()
				if w.b.Waiting() != len(w.jobs) || len(w.b.out) != len(w.out) {
					t.Fatalf("%d wait and %d are out, want %d and %d", w.b.Waiting(), len(w.b.out), len(w.jobs), len(w.out))
				}
				idle := 0
				for _, p := range w.b.profiles {
					idle += len(p.idle)
					if !slices.IsSortedFunc(p.idle, longestIdleFirst) {
						t.Fatal("the idle are not in order")
					}
				}
				if idle != w.b.idle {
					t.Fatalf("%d workers are idle, %d counted", idle, w.b.idle)
				}
				slots := 0
				for _, v := range w.workers {
					if v.Away == "" {
						slots += v.Slots
					}
				}
				if slots != w.b.slots {
					t.Fatalf("%d slots are counted, want %d", w.b.slots, slots)
				}
			},
		})
	})
}

// One slot, everything competes: what goes, in order.
func series(b *Board, n int) (order []Job) {
	b.SetWorker(Worker{ID: 1, Slots: 1}, start)
	now := start
	for i := range n {
		b.AddClaim(Claim{ID: int64(i) + 1, Worker: 1, Slots: 1}, now)
		grants, _ := b.Match(now, 1)
		b.RemoveClaim(int64(i)+1, now)
		if len(grants) == 0 {
			return order
		}
		order = append(order, grants[0].Job)
		b.Release(grants[0].Job.ID, grants[0].Job.Gen, now)
		now = now.Add(time.Second)
	}
	return order
}

// However many jobs one person has, another's first job of the same class goes
// after at most one of them.
func TestOnePersonsManyDelayAnothersFirstByAtMostOne(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(DefaultPolicy)
		many := rapid.Int64Range(1, 1000).Draw(t, "many")
		for id := range many {
			b.AddJob(Job{ID: id + 1, Lane: Judge, Submitter: "a"})
		}
		gone := series(b, rapid.IntRange(0, int(many)).Draw(t, "gone"))
		b.AddJob(Job{ID: 5000, Lane: Judge, Submitter: "b"})
		order := series(b, 3)
		for i, j := range order {
			if j.Submitter == "b" {
				if i > 1 {
					t.Fatalf("after %d of a's jobs, b's came only after %d more", len(gone), i)
				}
				return
			}
		}
		t.Fatal("b's job did not go")
	})
}

// Whoever comes while others flood the lane: at most as many of each other
// person's later jobs go before a job as its own person has waiting before it,
// and one. So nobody's turn can be put off for ever.
func TestNobodyIsOvertakenForEver(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		b := New(DefaultPolicy)
		b.SetWorker(Worker{ID: 1, Slots: 1}, start)
		type waits struct {
			who       string
			own       int            // waiting when it came
			overtaken map[string]int // by jobs that came later
		}
		waiting := map[int64]*waits{}
		claims := int64(0)
		for id := range rapid.Int64Range(1, 150).Draw(t, "events") {
			who := rapid.SampledFrom([]string{"a", "a", "a", "b", "c", "d"}).Draw(t, "who")
			for n := range rapid.Int64Range(0, 4).Draw(t, "come") {
				job := &waits{who: who, overtaken: map[string]int{}}
				for _, o := range waiting {
					if o.who == who {
						job.own++
					}
				}
				waiting[10*id+n+1] = job
				b.AddJob(Job{ID: 10*id + n + 1, Lane: Judge, Submitter: who})
			}
			for range rapid.IntRange(0, 2).Draw(t, "go") {
				claims++
				b.AddClaim(Claim{ID: claims, Worker: 1, Slots: 1}, start)
				grants, _ := b.Match(start, 1)
				b.RemoveClaim(claims, start)
				if len(grants) == 0 {
					continue
				}
				gone := grants[0].Job
				b.Release(gone.ID, gone.Gen, start)
				delete(waiting, gone.ID)
				for other, o := range waiting {
					if other > gone.ID || o.who == gone.Submitter {
						continue
					}
					if o.overtaken[gone.Submitter]++; o.overtaken[gone.Submitter] > o.own+1 {
						t.Fatalf("job %d of %s came behind %d of its own, and %d later jobs of %s went before it", other, o.who, o.own, o.overtaken[gone.Submitter], gone.Submitter)
					}
				}
			}
		}
	})
}

// With every lane full all the time, in any stretch each lane has its share of
// the grants up to a rounding, and the run lane no more than its own.
func TestNoLaneStarvesAndRunsKeepToTheirShare(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		policy := DefaultPolicy
		policy.RunShare = rapid.SampledFrom([]float64{0.1, 0.25, 0.5, 0.75}).Draw(t, "share")
		weight := func() int { return rapid.IntRange(1, 10).Draw(t, "weight") }
		policy.Weights = map[Lane]int{Judge: weight(), Prepare: weight(), Rejudge: weight()}
		total := policy.Weights[Judge] + policy.Weights[Prepare] + policy.Weights[Rejudge]
		b := New(policy)
		id := int64(0)
		const n = 600
		for range n {
			for _, lane := range []Lane{Run, Judge, Prepare, Rejudge} {
				id++
				b.AddJob(Job{ID: id, Lane: lane})
			}
		}
		order := series(b, n)
		from := rapid.IntRange(0, n-1).Draw(t, "from")
		to := rapid.IntRange(from, n).Draw(t, "to")
		count := map[Lane]int{}
		for _, j := range order[from:to] {
			count[j.Lane]++
		}
		stretch := float64(to - from)
		if runs := float64(count[Run]); runs > policy.RunShare*stretch+2 || runs < policy.RunShare*stretch-2 {
			t.Errorf("%v of %v grants were runs, the share is %v", runs, stretch, policy.RunShare)
		}
		for lane, w := range policy.Weights {
			want := (1 - policy.RunShare) * stretch * float64(w) / float64(total)
			if got := float64(count[lane]); got < want-4 || got > want+4 {
				t.Errorf("%v had %v of %v grants, want about %v", lane, got, stretch, want)
			}
		}
	})
}

// A board rebuilt from the rows that wait gives each person's jobs in the same
// order as the board that was lost, class by class.
func TestTheOrderSurvivesARestart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		before := New(DefaultPolicy)
		waiting := map[int64]Job{}
		for id := range rapid.Int64Range(1, 60).Draw(t, "jobs") {
			j := Job{ID: id + 1, Lane: Judge, Class: rapid.IntRange(0, 1).Draw(t, "class"), Submitter: rapid.SampledFrom([]string{"a", "b", "c"}).Draw(t, "by")}
			before.AddJob(j)
			waiting[j.ID] = j
		}
		for _, j := range series(before, rapid.IntRange(0, len(waiting)).Draw(t, "gone")) {
			delete(waiting, j.ID)
		}
		after := New(DefaultPolicy)
		for id := range int64(61) {
			if j, ok := waiting[id]; ok {
				after.AddJob(j)
			}
		}
		perPerson := func(order []Job) map[string][]int64 {
			ids := map[string][]int64{}
			for _, j := range order {
				ids[j.Submitter] = append(ids[j.Submitter], j.ID)
			}
			return ids
		}
		was, is := series(before, 100), series(after, 100)
		if len(was) != len(is) {
			t.Fatalf("%d went before, %d after", len(was), len(is))
		}
		a, b := perPerson(was), perPerson(is)
		for person, ids := range a {
			if !slices.Equal(ids, b[person]) {
				t.Errorf("%s: %v became %v", person, ids, b[person])
			}
		}
		for i := range was { // and each job moves by at most one round
			j := slices.IndexFunc(is, func(o Job) bool { return o.ID == was[i].ID })
			if d := i - j; d > 3 || d < -3 {
				t.Errorf("job %d moved from %d to %d", was[i].ID, i, j)
			}
		}
	})
}
