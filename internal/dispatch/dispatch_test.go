package dispatch

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func ids(grants []Grant) (jobs []int64) {
	for _, g := range grants {
		jobs = append(jobs, g.Job.ID)
	}
	return jobs
}

func queueOf(jobs ...Job) *Queue {
	q := &Queue{}
	for _, j := range jobs {
		q.Add(j)
	}
	return q
}

var (
	cppOnly = Worker{ID: 1, Name: "a", Languages: []string{"cpp17"}}
	both    = Worker{ID: 2, Name: "b", Languages: []string{"cpp17", "python3"}}
)

func TestOldestJobGoesFirstAcrossLanguages(t *testing.T) {
	q := queueOf(Job{ID: 3, Language: "cpp17"}, Job{ID: 1, Language: "python3"}, Job{ID: 2, Language: "cpp17"})
	got := ids(q.Match([]Waiter{{Worker: both, Free: 3}}, []Worker{both}, 100))
	if diff := cmp.Diff([]int64{1, 2, 3}, got); diff != "" {
		t.Error(diff)
	}
	if q.Len() != 0 {
		t.Errorf("%d jobs are left", q.Len())
	}
}

func TestALiveSubmissionGoesBeforeAnyNumberOfRejudges(t *testing.T) {
	q := &Queue{}
	for id := range int64(1000) {
		q.Add(Job{ID: id + 1, Language: "cpp17", Rank: RankRejudge})
	}
	q.Add(Job{ID: 5000, Language: "python3", Rank: RankLive})
	if got := ids(q.Match([]Waiter{{Worker: both, Free: 2}}, nil, 100)); !cmp.Equal(got, []int64{5000, 1}) {
		t.Errorf("the order is %v", got)
	}
	if reason, _ := q.Explain(2, []Worker{both}); !strings.Contains(reason, "position 1 ") {
		t.Errorf("after that, the second rejudge is at %q", reason)
	}
}

func TestAWorkerGetsOnlyLanguagesItOffers(t *testing.T) {
	q := queueOf(Job{ID: 1, Language: "python3"}, Job{ID: 2, Language: "cpp17"})
	got := ids(q.Match([]Waiter{{Worker: cppOnly, Free: 2}}, []Worker{cppOnly}, 100))
	if diff := cmp.Diff([]int64{2}, got); diff != "" {
		t.Error(diff)
	}
}

func TestSlotsAreFilledRoundByRound(t *testing.T) {
	q := queueOf(Job{ID: 1, Language: "cpp17"}, Job{ID: 2, Language: "cpp17"})
	grants := q.Match([]Waiter{{Worker: cppOnly, Free: 8}, {Worker: both, Free: 1}}, nil, 100)
	if len(grants) != 2 || grants[0].Waiter == grants[1].Waiter {
		t.Errorf("two jobs and two waiters, but the grants are %+v", grants)
	}
}

func TestAFailedWorkerGetsTheJobOnlyWhenNobodyElseCould(t *testing.T) {
	job := Job{ID: 1, Language: "cpp17", FailedBy: []int64{cppOnly.ID}}
	waiting := []Waiter{{Worker: cppOnly, Free: 1}}
	if got := queueOf(job).Match(waiting, []Worker{cppOnly, both}, 100); len(got) != 0 {
		t.Errorf("another worker is online, yet the one that failed got %+v", got)
	}
	if got := queueOf(job).Match(waiting, []Worker{cppOnly}, 100); len(got) != 1 {
		t.Error("nobody else is online, yet the job was withheld")
	}
}

func TestAddIsIdempotentAndKeepsTheLaterGeneration(t *testing.T) {
	q := queueOf(Job{ID: 1, Gen: 2, Language: "cpp17"}, Job{ID: 1, Gen: 1, Language: "cpp17"}, Job{ID: 1, Gen: 2, Language: "cpp17"})
	got := q.Match([]Waiter{{Worker: both, Free: 5}}, nil, 100)
	if len(got) != 1 || got[0].Job.Gen != 2 {
		t.Errorf("grants %+v, want one of generation 2", got)
	}
}

func TestExplainNamesTheRuleThatKeepsAJobWaiting(t *testing.T) {
	q := queueOf(Job{ID: 1, Language: "cpp17"}, Job{ID: 2, Language: "python3"}, Job{ID: 3, Language: "cobol"})
	for _, c := range []struct {
		name   string
		job    int64
		online []Worker
		want   string
	}{
		{"nobody is online", 1, nil, "no worker is online"},
		{"nobody offers the language", 3, []Worker{both}, "none of the 1 online offers cobol"},
		{"it is behind another language's job", 2, []Worker{both}, "position 2 in the queue"},
		{"it is first", 1, []Worker{both}, "position 1 in the queue"},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, ok := q.Explain(c.job, c.online)
			if !ok || !strings.Contains(got, c.want) {
				t.Errorf("Explain = %q, %v; want %q in it", got, ok, c.want)
			}
		})
	}
	if _, ok := q.Explain(99, nil); ok {
		t.Error("a job that does not wait is explained")
	}
}

// For any queue and any waiters: nobody gets more than it asked for or what it
// cannot do, no job is granted twice, nothing disappears, and when Match
// returns no waiter with room could have taken a job that is left.
func TestAnyMatchIsSoundAndComplete(t *testing.T) {
	languages := []string{"c", "cpp17", "python3"}
	rapid.Check(t, func(t *rapid.T) {
		q := &Queue{}
		total := map[int64]Job{}
		for _, id := range rapid.SliceOfNDistinct(rapid.Int64Range(1, 60), 0, 25, rapid.ID[int64]).Draw(t, "ids") {
			j := Job{
				ID: id, Language: rapid.SampledFrom(languages).Draw(t, "language"), Rank: rapid.IntRange(0, 1).Draw(t, "rank"),
				FailedBy: rapid.SliceOfN(rapid.Int64Range(1, 4), 0, 2).Draw(t, "failed"),
			}
			total[id] = j
			q.Add(j)
		}
		var waiters []Waiter
		var online []Worker
		for id := range rapid.Int64Range(0, 4).Draw(t, "workers") {
			w := Worker{ID: id + 1, Languages: rapid.SliceOfDistinct(rapid.SampledFrom(languages), rapid.ID[string]).Draw(t, "offers")}
			online = append(online, w)
			if free := rapid.IntRange(0, 3).Draw(t, "free"); free > 0 {
				waiters = append(waiters, Waiter{Worker: w, Free: free})
			}
		}
		grants := q.Match(waiters, online, 1000)
		taken := make([]int, len(waiters))
		for _, g := range grants {
			if _, there := total[g.Job.ID]; !there {
				t.Fatalf("job %d was granted twice or never queued", g.Job.ID)
			}
			delete(total, g.Job.ID)
			taken[g.Waiter]++
			if !slices.Contains(waiters[g.Waiter].Worker.Languages, g.Job.Language) {
				t.Fatalf("worker %d got a %s job", waiters[g.Waiter].Worker.ID, g.Job.Language)
			}
		}
		if q.Len() != len(total) {
			t.Fatalf("%d jobs are queued, %d should be", q.Len(), len(total))
		}
		for i, w := range waiters {
			if taken[i] > w.Free {
				t.Fatalf("worker %d got %d of %d", w.Worker.ID, taken[i], w.Free)
			}
			for _, j := range total {
				if taken[i] < w.Free && mayTake(&j, &w.Worker, online) {
					t.Fatalf("worker %d has room, but job %d was left", w.Worker.ID, j.ID)
				}
			}
		}
	})
}
