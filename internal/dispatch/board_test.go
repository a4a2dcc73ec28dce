package dispatch

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var start = time.Unix(1_000_000, 0)

func at(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }

// fleet is a board with workers that wait with as many claims as they have slots.
func fleet(workers ...Worker) *Board {
	b := New(DefaultPolicy)
	for i, w := range workers {
		b.SetWorker(w, start)
		b.AddClaim(Claim{ID: int64(i) + 1, Worker: w.ID, Slots: w.Slots}, start)
	}
	return b
}

func add(b *Board, jobs ...Job) *Board {
	for _, j := range jobs {
		b.AddJob(j)
	}
	return b
}

// granted are the ids that one call of Match gives away, in their order.
func granted(b *Board, now time.Time) (ids []int64) {
	grants, _ := b.Match(now, 1000)
	for _, g := range grants {
		ids = append(ids, g.Job.ID)
	}
	return ids
}

func cpp(id int64) Job { return Job{ID: id, Lane: Judge, Language: "cpp17"} }

func by(user string, id int64) Job {
	return Job{ID: id, Lane: Judge, Language: "cpp17", Submitter: user}
}

func anna(slots int) Worker {
	return Worker{ID: 1, Name: "anna", Slots: slots, Languages: []string{"cpp17", "python3"}}
}

func berta(slots int) Worker {
	return Worker{ID: 2, Name: "berta", Slots: slots, Languages: []string{"cpp17"}}
}

func TestOrderOfOneWorker(t *testing.T) {
	for _, c := range []struct {
		name string
		jobs []Job
		want []int64
	}{
		{"the oldest goes first across languages", []Job{cpp(1), {ID: 2, Lane: Judge, Language: "python3"}, cpp(3)}, []int64{1, 2, 3}},
		{"contest goes before practice, and what was bumped before both", []Job{
			{ID: 1, Lane: Judge, Class: ClassPractice}, {ID: 2, Lane: Judge, Class: ClassContest}, {ID: 3, Lane: Judge, Class: ClassBumped},
		}, []int64{3, 2, 1}},
		{"submitters take turns", []Job{by("a", 1), by("a", 2), by("a", 3), by("b", 4), by("b", 5)}, []int64{1, 4, 2, 5, 3}},
		{"what was out before does not wait for a turn again", []Job{by("a", 1), by("b", 2), {ID: 9, Lane: Judge, Language: "cpp17", Submitter: "a", Retried: true}}, []int64{9, 1, 2}},
		{"a probe goes before everything", []Job{cpp(1), {ID: 2, Lane: Run}, {ID: 3, Lane: Probe, Target: 1}}, []int64{3, 2, 1}},
		{"runs go first but leave others their half", []Job{
			cpp(1), cpp(2), cpp(3), {ID: 11, Lane: Run}, {ID: 12, Lane: Run}, {ID: 13, Lane: Run}, {ID: 14, Lane: Run},
		}, []int64{11, 12, 1, 13, 2, 14, 3}},
		{"runs take all that nobody else can use", []Job{{ID: 1, Lane: Judge, Language: "cobol"}, {ID: 2, Lane: Run}, {ID: 3, Lane: Run}, {ID: 4, Lane: Run}, {ID: 5, Lane: Run}, {ID: 6, Lane: Run}, {ID: 7, Lane: Run}}, []int64{2, 3, 4, 5, 6, 7}},
		{"what is rejudged alone goes before what is rejudged together", []Job{
			{ID: 1, Lane: Rejudge, Class: ClassBatch, Submitter: "a"}, {ID: 2, Lane: Rejudge, Class: ClassBatch, Submitter: "b"}, {ID: 3, Lane: Rejudge, Class: ClassPractice, Submitter: "b"},
		}, []int64{3, 1, 2}},
		{"the other lanes take weighted turns", []Job{
			cpp(1), cpp(2), cpp(3), cpp(4), cpp(5), cpp(6), cpp(7), cpp(8), {ID: 11, Lane: Prepare}, {ID: 12, Lane: Prepare}, {ID: 21, Lane: Rejudge}, {ID: 22, Lane: Rejudge},
		}, []int64{1, 11, 21, 2, 3, 4, 5, 6, 7, 12, 22, 8}},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := fleet(anna(20))
			if diff := cmp.Diff(c.want, granted(add(b, c.jobs...), start)); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestALaneThatHadNothingKeepsItsTurnButSavesUpNoMore(t *testing.T) {
	b := fleet(anna(100))
	for id := range int64(30) {
		b.AddJob(cpp(id + 1))
	}
	granted(b, start)
	add(b, cpp(101), cpp(102), cpp(103), Job{ID: 201, Lane: Rejudge}, Job{ID: 202, Lane: Rejudge})
	if got := granted(b, start); !cmp.Equal(got, []int64{201, 101, 102, 103, 202}) {
		t.Errorf("after thirty judgings the order is %v; the rejudge has one turn, not thirty", got)
	}
}

// However many are rejudged and have gone, somebody who hands in is next.
func TestLiveWorkIsTheVeryNextBesideARejudge(t *testing.T) {
	for _, gone := range []int{0, 1, 2, 7, 500, 999} {
		b := New(DefaultPolicy)
		for id := range int64(1000) {
			b.AddJob(Job{ID: id + 1, Lane: Rejudge, Class: ClassBatch, Submitter: fmt.Sprint(id % 7)})
		}
		if got := series(b, gone); len(got) != gone {
			t.Fatalf("%d of %d went", len(got), gone)
		}
		b.AddJob(Job{ID: 2000, Lane: Judge, Class: ClassPractice})
		if next := series(b, 1); len(next) != 1 || next[0].ID != 2000 {
			t.Errorf("after %d of a rejudge job %d went before somebody who waits", gone, next[0].ID)
		}
	}
}

func TestRunsDoNotHoldMoreThanTheirShareOfSlots(t *testing.T) {
	b := fleet(anna(4))
	add(b, Job{ID: 1, Lane: Run}, Job{ID: 2, Lane: Run})
	granted(b, start) // both: nobody else waits
	add(b, Job{ID: 3, Lane: Run}, cpp(4), cpp(5))
	if got := granted(b, start); !cmp.Equal(got, []int64{4, 5}) {
		t.Errorf("runs hold their half of four slots, yet %v went", got)
	}
}

func TestAbility(t *testing.T) {
	needs := func(n Needs) Job { return Job{ID: 1, Lane: Judge, Language: "cpp17", Needs: n} }
	with := func(change func(*Worker)) Worker {
		w := anna(1)
		change(&w)
		return w
	}
	for _, c := range []struct {
		name   string
		worker Worker
		job    Job
		want   string // in the worker's reason; "" when it takes the job
	}{
		{"it can", anna(1), cpp(1), ""},
		{"language", anna(1), Job{ID: 1, Lane: Judge, Language: "cobol"}, "does not offer cobol"},
		{"no language is needed", anna(1), Job{ID: 1, Lane: Prepare}, ""},
		{"feature", anna(1), needs(Needs{Features: []string{"interactive"}}), "does not support interactive"},
		{"feature that it has", with(func(w *Worker) { w.Features = []string{"interactive"} }), needs(Needs{Features: []string{"interactive"}}), ""},
		{"one more language", anna(1), needs(Needs{Features: []string{AlsoLanguage + "cobol"}}), "does not offer cobol"},
		{"one more language that it offers", anna(1), needs(Needs{Features: []string{AlsoLanguage + "python3"}}), ""},
		{
			"one more language that is set aside", with(func(w *Worker) { w.AsideLanguages = map[string]string{"python3": "python3 is set aside"} }),
			needs(Needs{Features: []string{AlsoLanguage + "python3"}}), "python3 is set aside",
		},
		{"tag", anna(1), needs(Needs{Tags: []string{"exam"}}), "does not have the tag exam"},
		{"tag that it has", with(func(w *Worker) { w.Tags = []string{"exam"} }), needs(Needs{Tags: []string{"exam"}}), ""},
		{"memory", with(func(w *Worker) { w.MemoryBytes = 256 << 20 }), needs(Needs{MemoryBytes: 257 << 20}), "it has 256 MiB of memory, the job needs 257 MiB"},
		{"just enough memory", with(func(w *Worker) { w.MemoryBytes = 256 << 20 }), needs(Needs{MemoryBytes: 256 << 20}), ""},
		{"lane filter", with(func(w *Worker) { w.Lanes = []Lane{Run, Judge} }), Job{ID: 1, Lane: Rejudge}, "does not take the rejudge lane"},
		{"away", with(func(w *Worker) { w.Away = "drained by an operator" }), cpp(1), "drained by an operator"},
		{"away, but a probe", with(func(w *Worker) { w.Away = "set aside" }), Job{ID: 1, Lane: Probe, Target: 1}, ""},
		{"language set aside", with(func(w *Worker) { w.AsideLanguages = map[string]string{"cpp17": "g++ failed three times"} }), cpp(1), "g++ failed three times"},
		{"another language set aside", with(func(w *Worker) { w.AsideLanguages = map[string]string{"python3": "broken"} }), cpp(1), ""},
		{"for another worker", anna(1), Job{ID: 1, Lane: Probe, Target: 7}, "for another worker"},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := add(fleet(c.worker), c.job)
			e, ok := b.Explain(1, start)
			if !ok || len(e.Workers) != 1 {
				t.Fatalf("Explain = %+v, %v", e, ok)
			}
			if reason := e.Workers[0].Reason; (reason == "") != (c.want == "") || !strings.Contains(reason, c.want) {
				t.Errorf("the reason is %q, want %q", reason, c.want)
			}
			if got := len(granted(b, start)) == 1; got != (c.want == "") {
				t.Errorf("granted: %v, but the reason was %q", got, e.Workers[0].Reason)
			}
		})
	}
}

func TestTheMemoryOfAWorkerIsSharedByWhatItHolds(t *testing.T) {
	w := anna(4)
	w.MemoryBytes = 600 << 20
	b := fleet(w)
	for id := range int64(3) {
		b.AddJob(Job{ID: id + 1, Lane: Judge, Language: "cpp17", Needs: Needs{MemoryBytes: 256 << 20}})
	}
	if got := granted(b, start); !cmp.Equal(got, []int64{1, 2}) {
		t.Fatalf("600 MiB hold %v of three jobs with 256 MiB", got)
	}
	if e, _ := b.Explain(3, start); e.Workers[0].Reason != "its memory is taken by other jobs" {
		t.Errorf("the third waits because %q", e.Workers[0].Reason)
	}
	b.Release(1, 0, at(1))
	if got := granted(b, at(1)); !cmp.Equal(got, []int64{3}) {
		t.Errorf("after one has ended, %v goes", got)
	}
}

func TestSmallJobsDoNotPassABigOneForEver(t *testing.T) {
	w := anna(4)
	w.MemoryBytes = 1000
	b := fleet(w)
	b.AddJob(Job{ID: 1, Lane: Judge, Submitter: "small", Needs: Needs{MemoryBytes: 300}})
	granted(b, start)
	b.AddJob(Job{ID: 2, Lane: Judge, Submitter: "big", Needs: Needs{MemoryBytes: 1000}})
	out := []int64{1} // oldest first; a small one ends, the next begins
	for id := int64(3); ; id++ {
		if id > 100 {
			t.Fatal("a hundred small jobs passed the big one")
		}
		b.AddJob(Job{ID: id, Lane: Judge, Submitter: "small", Needs: Needs{MemoryBytes: 300}})
		b.AddClaim(Claim{ID: id, Worker: 1, Slots: 1}, start)
		got := granted(b, start)
		if slices.Contains(got, 2) {
			break
		}
		out = append(out, got...)
		if len(got) == 0 {
			if e, _ := b.Explain(id, start); e.Workers[0].Reason != "it is being freed for a job that needs more memory" {
				t.Fatalf("job %d waits because %q", id, e.Workers[0].Reason)
			}
		}
		if len(out) > 0 {
			b.Release(out[0], 0, start)
			out = out[1:]
		}
	}
}

func TestWhoGetsAJob(t *testing.T) {
	home, cloud := anna(1), berta(1)
	cloud.Rank = 10
	holder := berta(1)
	holder.Cached = []string{"sha256:x"}
	for _, c := range []struct {
		name    string
		workers []Worker
		job     Job
		want    int64
	}{
		{"the more preferred pool, though it came later", []Worker{cloud, home}, cpp(1), 1},
		{"the less preferred one when the other cannot", []Worker{cloud, {ID: 1, Slots: 1, Languages: []string{"java"}}}, cpp(1), 2},
		{"who holds the package", []Worker{anna(1), holder}, Job{ID: 1, Lane: Judge, Language: "cpp17", Package: "sha256:x"}, 2},
		{"a preferred pool comes before the package", []Worker{home, func() Worker { w := holder; w.Rank = 10; return w }()}, Job{ID: 1, Lane: Judge, Language: "cpp17", Package: "sha256:x"}, 1},
		{"somebody who has not failed it", []Worker{anna(1), berta(1)}, Job{ID: 1, Lane: Judge, Language: "cpp17", FailedBy: []int64{1}}, 2},
		{"who failed it, when all have", []Worker{anna(1)}, Job{ID: 1, Lane: Judge, Language: "cpp17", FailedBy: []int64{1, 2}}, 1},
		{"a fast one for a tight limit", []Worker{func() Worker { w := anna(1); w.Slow = "it is slow"; return w }(), berta(1)}, Job{ID: 1, Lane: Judge, Language: "cpp17", Needs: Needs{Tight: true}}, 2},
		{"a slow one for a tight limit when there is no other", []Worker{func() Worker { w := anna(1); w.Slow = "it is slow"; return w }()}, Job{ID: 1, Lane: Judge, Language: "cpp17", Needs: Needs{Tight: true}}, 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			b := add(fleet(c.workers...), c.job)
			grants, _ := b.Match(start, 10)
			if len(grants) != 1 {
				t.Fatalf("%d grants", len(grants))
			}
			if got := c.workers[grants[0].Claim-1].ID; got != c.want {
				t.Errorf("worker %d got it, want %d", got, c.want)
			}
		})
	}
}

func TestAJobIsWithheldFromWhoFailedItWhileABusyWorkerCouldTakeIt(t *testing.T) {
	b := fleet(anna(1))
	b.SetWorker(berta(1), start) // online, without a claim
	b.AddJob(Job{ID: 1, Lane: Judge, Language: "cpp17", FailedBy: []int64{1}})
	if got := granted(b, start); got != nil {
		t.Errorf("%v went to who failed it", got)
	}
	b.RemoveWorker(2)
	if got := granted(b, start); len(got) != 1 {
		t.Error("nobody else is online, yet the job was withheld")
	}
}

func TestTheLongestIdleWorkerGoesFirstAndWorkIsSpread(t *testing.T) {
	b := fleet(anna(8), berta(8))
	add(b, cpp(1), cpp(2))
	grants, _ := b.Match(start, 10)
	if len(grants) != 2 || grants[0].Claim == grants[1].Claim {
		t.Fatalf("two jobs, two idle workers, and the grants are %+v", grants)
	}
	b.Release(2, 0, at(1)) // berta has been idle since 1 ms, anna is busy
	b.Release(1, 0, at(2))
	b.AddJob(cpp(3))
	if grants, _ = b.Match(at(3), 10); len(grants) != 1 || grants[0].Claim != 2 {
		t.Errorf("berta was idle longer, and the grants are %+v", grants)
	}
}

func TestEqualWorkersGetEqualShares(t *testing.T) {
	b := New(DefaultPolicy)
	for id := int64(1); id <= 3; id++ {
		b.SetWorker(Worker{ID: id, Slots: 1, Languages: []string{"cpp17"}}, start)
	}
	share := map[int64]int{}
	const jobs = 300
	for n := int64(1); n <= jobs; n++ { // one after another: every worker is idle each time
		for id := int64(1); id <= 3; id++ {
			b.AddClaim(Claim{ID: 10*n + id, Worker: id, Slots: 1}, at(int(n)))
		}
		b.AddJob(cpp(n))
		grants, _ := b.Match(at(int(n)), 10)
		if len(grants) != 1 {
			t.Fatalf("job %d: %d grants", n, len(grants))
		}
		share[grants[0].Claim%10]++
		b.Release(n, 0, at(int(n)))
		for id := int64(1); id <= 3; id++ {
			b.RemoveClaim(10*n+id, at(int(n)))
		}
	}
	for id, n := range share {
		if n > jobs*2/5 {
			t.Errorf("worker %d of three equal ones got %d of %d jobs", id, n, jobs)
		}
	}
}

func TestAWorkerNeverHoldsMoreThanItsSlotsOverAllClaims(t *testing.T) {
	b := fleet(anna(2))
	b.AddClaim(Claim{ID: 50, Worker: 1, Slots: 2}, start)
	add(b, cpp(1), cpp(2), cpp(3))
	if got := granted(b, start); !cmp.Equal(got, []int64{1, 2}) {
		t.Errorf("two slots hold %v", got)
	}
}

func TestAJobIsKeptForAPreferredWorkerForHalfASecondAtMost(t *testing.T) {
	home, cloud := anna(1), berta(1)
	cloud.Rank = 10
	stand := func() *Board { // home's claim ended at 0 ms; the cloud waits
		b := fleet(home, cloud)
		b.RemoveClaim(1, start)
		return b
	}
	t.Run("home is back in time", func(t *testing.T) {
		b := add(stand(), cpp(1))
		grants, wake := b.Match(at(100), 10)
		if len(grants) != 0 || !wake.Equal(at(500)) {
			t.Fatalf("granted %v, look again at %v", grants, wake)
		}
		if e, _ := b.Explain(1, at(100)); !strings.Contains(e.Reason, "kept for a moment") {
			t.Errorf("it waits because %q", e.Reason)
		}
		b.AddClaim(Claim{ID: 9, Worker: home.ID, Slots: 1}, at(200))
		if grants, _ = b.Match(at(200), 10); len(grants) != 1 || grants[0].Claim != 9 {
			t.Errorf("home is back, and the grants are %+v", grants)
		}
	})
	t.Run("home does not come back", func(t *testing.T) {
		b := add(stand(), cpp(1))
		b.Match(at(100), 10)
		if grants, _ := b.Match(at(500), 10); len(grants) != 1 || grants[0].Claim != 2 {
			t.Errorf("after half a second the grants are %+v", grants)
		}
	})
	t.Run("only as many as home has room for are kept", func(t *testing.T) {
		b := add(stand(), cpp(1), cpp(2))
		if got := granted(b, at(100)); !cmp.Equal(got, []int64{2}) {
			t.Errorf("granted %v, want the second", got)
		}
	})
	t.Run("home keeps coming and going", func(t *testing.T) {
		b := add(stand(), cpp(1))
		b.Match(at(400), 10)
		b.AddClaim(Claim{ID: 9, Worker: home.ID, Slots: 1}, at(410))
		b.RemoveClaim(9, at(420)) // without having been given the job
		if _, wake := b.Match(at(430), 10); !wake.Equal(at(900)) {
			t.Errorf("looked at again at %v, want half a second after it was kept first", wake)
		}
		if grants, _ := b.Match(at(900), 10); len(grants) != 1 {
			t.Error("it is kept for longer than half a second in all")
		}
	})
	for name, away := range map[string]func(*Worker){
		"set aside":               func(w *Worker) { w.Away = "set aside" },
		"without the language":    func(w *Worker) { w.Languages = []string{"java"} },
		"without enough memory":   func(w *Worker) { w.MemoryBytes = 1 },
		"with the language aside": func(w *Worker) { w.AsideLanguages = map[string]string{"cpp17": "broken"} },
	} {
		t.Run("a preferred worker "+name+" is not waited for", func(t *testing.T) {
			b := stand()
			w := home
			away(&w)
			b.SetWorker(w, at(50))
			b.AddJob(Job{ID: 1, Lane: Judge, Language: "cpp17", Needs: Needs{MemoryBytes: 1 << 20}})
			if got := granted(b, at(100)); len(got) != 1 {
				t.Error("the job was kept")
			}
		})
	}
}

func TestABatchHasNoMoreJobsOutThanItsBudget(t *testing.T) {
	b := fleet(anna(10))
	for id := range int64(6) {
		b.AddJob(Job{ID: id + 1, Lane: Rejudge, Batch: 7, Budget: 2})
	}
	b.AddJob(Job{ID: 20, Lane: Rejudge, Batch: 8})
	if got := granted(b, start); !cmp.Equal(got, []int64{1, 2, 20}) {
		t.Errorf("granted %v", got)
	}
	if e, _ := b.Explain(3, start); !strings.Contains(e.Reason, "2 jobs at work") {
		t.Errorf("the third waits because %q", e.Reason)
	}
	b.Release(1, 0, at(1))
	if got := granted(b, at(1)); !cmp.Equal(got, []int64{3}) {
		t.Errorf("after one has ended, %v goes", got)
	}
}

func TestBrakesHoldWhatWaitsUntilTheyAreTakenOff(t *testing.T) {
	for name, brakes := range map[string]Brakes{
		"lane":     {Lanes: map[Lane]string{Judge: "the database is being moved"}},
		"language": {Languages: map[string]string{"cpp17": "the database is being moved"}},
		"problem":  {Problems: map[int64]string{5: "the database is being moved"}},
	} {
		t.Run(name, func(t *testing.T) {
			b := fleet(anna(9))
			held := Job{ID: 1, Lane: Judge, Language: "cpp17", Problem: 5}
			free := Job{ID: 2, Lane: Rejudge, Language: "python3", Problem: 6}
			add(b, held, free)
			b.SetBrakes(brakes)
			later := held
			later.ID = 3
			b.AddJob(later)
			if got := granted(b, start); !cmp.Equal(got, []int64{2}) {
				t.Fatalf("granted %v", got)
			}
			if e, _ := b.Explain(1, start); e.Reason != "held by an operator: the database is being moved" {
				t.Errorf("the reason is %q", e.Reason)
			}
			b.SetBrakes(Brakes{})
			if got := granted(b, start); !cmp.Equal(got, []int64{1, 3}) {
				t.Errorf("without the brake, %v went", got)
			}
		})
	}
}

func TestEveryBrakeThatHoldsAJobIsNamed(t *testing.T) {
	b := fleet(anna(9))
	add(b, Job{ID: 1, Lane: Judge, Language: "cpp17", Problem: 5})
	b.SetBrakes(Brakes{
		Lanes: map[Lane]string{Judge: "the final"}, Languages: map[string]string{"cpp17": "a new compiler"}, Problems: map[int64]string{5: "the final"},
	})
	if e, _ := b.Explain(1, start); e.Reason != "held by an operator: the final; a new compiler" {
		t.Errorf("the reason is %q", e.Reason)
	}
}

func TestAddingIsIdempotentAndTheLaterGenerationCounts(t *testing.T) {
	job := func(gen int64) Job { j := cpp(1); j.Gen = gen; return j }
	b := add(fleet(anna(5)), job(2), job(1), job(2))
	grants, _ := b.Match(start, 10)
	if len(grants) != 1 || grants[0].Job.Gen != 2 {
		t.Fatalf("grants %+v, want one of generation 2", grants)
	}
	if b.AddJob(job(2)); b.Waiting() != 0 {
		t.Error("a job that is out waits again")
	}
	if b.AddJob(job(3)); b.Waiting() != 1 || b.Held(1) != 0 {
		t.Errorf("its lease has ended: %d wait, %d are held", b.Waiting(), b.Held(1))
	}
}

func TestABumpedJobGoesFirst(t *testing.T) {
	b := add(fleet(anna(5)), cpp(1), cpp(2))
	bumped := cpp(2)
	bumped.Class = ClassBumped
	b.AddJob(bumped)
	if got := granted(b, start); !cmp.Equal(got, []int64{2, 1}) {
		t.Errorf("the order is %v", got)
	}
}

func TestWhatALostGrantHeldIsFreeAgain(t *testing.T) {
	b := add(fleet(anna(1)), cpp(1))
	grants, _ := b.Match(start, 10)
	b.RemoveClaim(1, start)
	b.RemoveWorker(1)
	if b.Held(1) != 1 {
		t.Fatal("a worker that is offline holds nothing any more")
	}
	if !b.Release(1, 0, start) || b.Release(1, 0, start) {
		t.Error("a job is released once")
	}
	b.AddJob(grants[0].Job)
	if !b.HasJob(1) || len(b.workers) != 0 {
		t.Errorf("it waits: %v; %d workers are remembered", b.HasJob(1), len(b.workers))
	}
}

// The end of an old lease may be told after the job was granted again.
func TestReleasingAnOldGrantLeavesTheNextOne(t *testing.T) {
	b := fleet(anna(2))
	again := cpp(1)
	again.Gen = 1
	b.Hold(again, 1, start)
	if b.Release(1, 0, start) || b.Held(1) != 1 {
		t.Error("the grant of generation 1 went with that of generation 0")
	}
	if !b.Release(1, 1, start) || b.Held(1) != 0 {
		t.Error("its own generation does not release it")
	}
}

func TestExplainNamesTheRuleThatKeepsAJobWaiting(t *testing.T) {
	jobs := []Job{{ID: 1, Lane: Judge, Language: "cpp17"}, {ID: 2, Lane: Judge, Language: "python3"}, {ID: 3, Lane: Judge, Language: "cobol"}}
	idle := fleet(anna(1))
	busy := fleet(anna(1))
	busy.Hold(cpp(99), 1, start)
	for _, c := range []struct {
		name  string
		board *Board
		job   int64
		want  string
	}{
		{"nobody is online", New(DefaultPolicy), 1, "no worker is online"},
		{"nobody offers the language", idle, 3, "no capable worker: none of the 1 online offers cobol"},
		{"it is behind another language's job", idle, 2, "position 2 in the queue"},
		{"it is first", idle, 1, "position 1 in the queue; one able worker is online and free"},
		{"all are busy", busy, 1, "position 1 in the queue; the one able worker is busy"},
		{"different reasons", fleet(berta(1), Worker{ID: 3, Name: "carla", Away: "drained"}), 2, "no capable worker: 2 online; of 1: drained; of 1: it does not offer python3"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := add(c.board, jobs...).Explain(c.job, start)
			if !ok || !strings.Contains(got.Reason, c.want) {
				t.Errorf("Explain = %q, %v; want %q in it", got.Reason, ok, c.want)
			}
		})
	}
	if _, ok := idle.Explain(99, start); ok {
		t.Error("a job that does not wait is explained")
	}
}

// Busy is who has no free slot; whoever does not ask, or asks and is kept from
// the work, is told of as that.
func TestWhyNobodyTakesWorkThatSomebodyCould(t *testing.T) {
	const heard = "1970-01-12 13:46:40 UTC"
	heardAt := func(w Worker) Worker { w.HeardAt = start; return w }
	asleep := func(workers ...Worker) *Board {
		b := fleet(workers...)
		b.RemoveClaim(1, start)
		return b
	}
	busy := asleep(anna(1), berta(1))
	busy.Hold(cpp(99), 2, start)
	busyAlone := fleet(anna(1))
	busyAlone.Hold(cpp(99), 1, start)
	answered := fleet(anna(2))
	answered.AddJob(cpp(98))
	answered.RemoveClaim(1, start)
	answered.AddClaim(Claim{ID: 2, Worker: 1, Slots: 1}, start)
	answered.Match(start, 1) // which fills the claim
	small := func(w Worker) Worker { w.MemoryBytes = 100; return w }
	full := fleet(small(anna(2)), small(berta(2)))
	for id := int64(1); id < 3; id++ {
		full.Hold(Job{ID: 97 + id, Lane: Judge, Language: "cpp17", Needs: Needs{MemoryBytes: 60}}, id, start)
	}
	for _, c := range []struct {
		name       string
		board      *Board
		after      time.Duration
		want, anna string
	}{
		{"it sleeps", asleep(heardAt(anna(1))), toldByThen, "the one able worker has asked for no work since " + heard, "it has asked for no work since " + heard + "; last heard of at " + heard + ": its machine sleeps"},
		{"its work was cancelled", asleep(heardAt(anna(1))), toldByThen - 1, "the one able worker has asked for no work since " + heard, "it has asked for no work since " + heard + "; last heard of at " + heard + ": it may still be stopping"},
		{"it is between two claims", asleep(anna(1)), asksAgain - 1, "the one able worker is busy", "it is between two claims"},
		{"its slots are taken", busyAlone, asksAgain, "the one able worker is busy", "all of its slots are busy"},
		{"its claim is filled", answered, asksAgain, "the one able worker is busy", "its claim is being answered"},
		{"one sleeps, one is busy", busy, asksAgain, "none of the 2 able workers can take it now; busy: 1; asking for no work: 1, the last since " + heard, "it has asked"},
		{"both are out of memory", full, asksAgain, "none of the 2 able workers can take it now; of 2: its memory is taken by other jobs", "its memory is taken"},
		{"one sleeps, one is free", asleep(anna(1), berta(1)), asksAgain, "2 able workers are online, 1 of them free", "it has asked"},
	} {
		t.Run(c.name, func(t *testing.T) {
			now := start.Add(c.after)
			c.board.AddJob(Job{ID: 1, Lane: Judge, Language: "cpp17", Needs: Needs{MemoryBytes: 60}})
			got, _ := c.board.Explain(1, now)
			if got.Reason != "position 1 in the queue; "+c.want || !strings.HasPrefix(got.Workers[0].Reason, c.anna) {
				t.Errorf("explained by %q, of anna %q", got.Reason, got.Workers[0].Reason)
			}
			if rs := c.board.Reasons(now); len(rs) != 1 || rs[0].Text != c.want {
				t.Errorf("the reasons: %+v", rs)
			}
		})
	}
}

func TestCountsAreByLaneAndLanguage(t *testing.T) {
	b := add(New(DefaultPolicy), cpp(1), cpp(2), Job{ID: 3, Lane: Rejudge, Language: "cpp17", Needs: Needs{MemoryBytes: 5}}, Job{ID: 4, Lane: Run, Language: "lua"})
	b.RemoveJob(2)
	want := []Count{{Run, "lua", 1}, {Judge, "cpp17", 1}, {Rejudge, "cpp17", 1}}
	if diff := cmp.Diff(want, b.Counts()); diff != "" {
		t.Error(diff)
	}
}

func TestManyCancelledJobsAreForgotten(t *testing.T) {
	b := New(DefaultPolicy)
	b.AddJob(cpp(1))
	for id := range int64(10_000) {
		b.AddJob(by(fmt.Sprint(id), id+2))
	}
	for id := range int64(10_000) {
		b.RemoveJob(10_001 - id)
	}
	s := b.lanes[Judge].shapes[0]
	if len(s.waiting) > 200 {
		t.Errorf("%d places are kept for one job", len(s.waiting))
	}
	if got := granted(func() *Board {
		b.SetWorker(anna(1), start)
		b.AddClaim(Claim{ID: 1, Worker: 1, Slots: 1}, start)
		return b
	}(), start); !slices.Equal(got, []int64{1}) {
		t.Errorf("granted %v", got)
	}
}

// The reason of a group is that of a worker which could do it if it were back,
// and not that of the many which never could.
func TestASurveyNamesWhoWouldHaveToComeBack(t *testing.T) {
	b := New(Policy{})
	for id := int64(1); id <= 3; id++ {
		b.SetWorker(Worker{ID: id, Name: fmt.Sprintf("java-%d", id), Slots: 1, Languages: []string{"java"}}, time.Time{})
	}
	b.SetWorker(Worker{ID: 4, Name: "small", Slots: 1, Languages: []string{"c"}, MemoryBytes: 1 << 20, Away: "an operator drains it"}, time.Time{})
	b.SetWorker(Worker{ID: 5, Name: "large", Slots: 1, Languages: []string{"c"}, MemoryBytes: 1 << 30, Away: "an operator drains it"}, time.Time{})
	b.AddJob(Job{ID: 1, Lane: Judge, Language: "c", Needs: Needs{MemoryBytes: 1 << 28}})
	g := b.Survey().Groups[0]
	want := []WorkerReason{{ID: 5, Name: "large", Reason: "an operator drains it"}}
	if g.Able || g.Refusal != "an operator drains it" || !slices.Equal(g.Back, want) {
		t.Errorf("group %+v, want %+v to come back", g, want)
	}
}

// A job that is moved waits, or counts, in its new lane only, and nothing of it
// is left in its batch.
func TestAMovedJobIsInItsNewLaneOnly(t *testing.T) {
	batched := func(id int64) Job {
		j := cpp(id)
		j.Lane, j.Class, j.Batch, j.Budget = Rejudge, ClassBatch, 7, 1
		return j
	}
	b := add(fleet(anna(3)), batched(1), batched(2), batched(3))
	if diff := cmp.Diff([]int64{1}, granted(b, at(0))); diff != "" {
		t.Fatalf("a budget of one (-want +got):\n%s", diff)
	}
	b.Move(2, Judge, ClassContest)
	if e, ok := b.Explain(2, at(1)); !ok || e.Lane != Judge || e.Class != ClassContest {
		t.Errorf("moved while it waits: %+v", e)
	}
	if b.Knows(2, 0, Rejudge, ClassContest) || !b.Knows(2, 0, Judge, ClassContest) {
		t.Error("it is known in the lane where it was")
	}
	if diff := cmp.Diff([]int64{2}, granted(b, at(2))); diff != "" {
		t.Errorf("it needs none of the budget (-want +got):\n%s", diff)
	}
	b.Move(1, Judge, ClassContest)
	if diff := cmp.Diff([]int64{3}, granted(b, at(3))); diff != "" {
		t.Errorf("one that is out and was moved takes none of the budget (-want +got):\n%s", diff)
	}
	b.Move(99, Judge, 0) // nobody knows it
	for id := range int64(3) {
		b.Release(id+1, 0, at(4))
	}
	if b.lanes[Judge].out != 0 || b.lanes[Rejudge].out != 0 || len(b.batch) != 0 {
		t.Errorf("counted as out: %d in judge, %d in rejudge, batches %v", b.lanes[Judge].out, b.lanes[Rejudge].out, b.batch)
	}
}
