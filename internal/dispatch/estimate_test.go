package dispatch

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// end is that of a job that is out.
type end struct {
	at          time.Time
	job, worker int64
}

// What is estimated of each job when all have come is compared with what then
// happens, for fleets and queues of several kinds. Jobs last from half to one and
// a half times the pace.
func TestTheEstimateIsWhatThenHappens(t *testing.T) {
	const pace = time.Second
	worker := func(id int64, slots int, languages ...string) Worker {
		return Worker{ID: id, Name: fmt.Sprint(id), Slots: slots, Languages: languages}
	}
	mix := func(jobs int, languages ...string) (list []Job) {
		for i := range jobs {
			list = append(list, Job{ID: int64(i) + 1, Lane: Judge, Language: languages[i%len(languages)]})
		}
		return list
	}
	for _, c := range []struct {
		name  string
		fleet []Worker
		jobs  []Job
	}{
		{"one worker", []Worker{worker(1, 1, "c")}, mix(60, "c")},
		{"several with slots", []Worker{worker(1, 4, "c"), worker(2, 2, "c")}, mix(200, "c")},
		{"everybody takes all", []Worker{worker(1, 2, "c", "java"), worker(2, 2, "c", "java")}, mix(200, "c", "java", "c")},
		{"one language waits for one of two workers", []Worker{worker(1, 2, "c", "java"), worker(2, 2, "c")}, mix(200, "java", "java", "java", "c")},
		{"two fleets that share nothing", []Worker{worker(1, 1, "c"), worker(2, 4, "java")}, mix(200, "c", "java", "java", "java", "java")},
		{"one that sleeps does not count", []Worker{worker(1, 2, "c"), worker(9, 8, "c")}, mix(100, "c")},
	} {
		t.Run(c.name, func(t *testing.T) {
			random, b, now := rand.New(rand.NewPCG(1, 2)), New(DefaultPolicy), start.Add(time.Hour)
			claims, claimant := int64(0), map[int64]int64{}
			ask := func(w Worker) {
				for claim, by := range claimant {
					if by == w.ID {
						b.RemoveClaim(claim, now)
						delete(claimant, claim)
					}
				}
				claims++
				claimant[claims] = w.ID
				b.AddClaim(Claim{ID: claims, Worker: w.ID, Slots: w.Slots - b.Held(w.ID)}, now)
			}
			byID := map[int64]Worker{}
			for _, w := range c.fleet {
				byID[w.ID] = w
				if b.SetWorker(w, start); w.ID != 9 {
					ask(w)
				}
			}
			add(b, c.jobs...)
			said := map[int64]time.Duration{}
			for _, j := range c.jobs {
				said[j.ID] = b.Outlook(j.ID, now).Estimate(pace)
			}
			for _, language := range []string{"c", "java"} {
				next := b.OutlookOfNext(Judge, language, now)
				last := Outlook{}
				for _, j := range c.jobs { // one more than its last: the queue and the explanation say the same
					if j.Language == language {
						last = b.Outlook(j.ID, now)
					}
				}
				if d := next.Place - last.Place; next.Slots != last.Slots || last.Slots > 0 && (d < 1 || d > len(c.fleet)*4) {
					t.Errorf("the next of %s has %+v, the last of those that wait %+v", language, next, last)
				}
			}
			var out []end
			from, far := now, 0
			for waiting := len(c.jobs); waiting > 0; {
				grants, _ := b.Match(now, 1000)
				for _, g := range grants {
					waiting--
					out = append(out, end{now.Add(time.Duration((0.5 + random.Float64()) * float64(pace))), g.Job.ID, claimant[g.Claim]})
					// A job that goes at once was promised its share of one job's time.
					waited := now.Sub(from)
					if d := waited - said[g.Job.ID]; d > pace+waited/4 || -d > pace+waited/4 {
						far++
						t.Logf("job %d in %s waited %v, said was %v", g.Job.ID, g.Job.Language, waited, said[g.Job.ID])
					}
				}
				if len(out) == 0 {
					t.Fatal("nobody takes what waits")
				}
				first := 0
				for i := range out {
					if out[i].at.Before(out[first].at) {
						first = i
					}
				}
				done := out[first]
				out = slices.Delete(out, first, first+1)
				now = done.at
				b.Release(done.job, 0, now)
				ask(byID[done.worker])
			}
			if far > len(c.jobs)/10 {
				t.Errorf("%d of %d estimates are off by more than a job and a quarter", far, len(c.jobs))
			}
		})
	}
}
