package drill

import (
	"fmt"
	"sync"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

var raceScenarios = []Scenario{
	{
		Name: "a20-same-instant", What: "50 workers finish in the same instant, 100 rounds", script: sameInstant,
		Fires: "batches of conditional rows; slots counted under one lock",
	},
	{
		Name: "a23-two-reports-at-once", What: "two reports of different generations at the same instant, 200 times", script: twoReports,
		Fires: "the token in the statement that records", Sabotage: "late reports are applied",
	},
}

func sameInstant(t *T) {
	s := newStand(t)
	s.serve(20*time.Second, time.Second)
	s.watch(calm, "", nil)
	const workers = 50
	rounds := t.rounds(100)
	callers := make([]*caller, workers)
	for i := range callers {
		callers[i] = s.caller(fmt.Sprintf("w%02d", i), "", 1)
	}
	longest := time.Duration(0)
	for range rounds {
		for range workers {
			s.submit("by hand")
		}
		tokens := make([]string, workers)
		var taking, reporting sync.WaitGroup
		for i, c := range callers {
			taking.Go(func() { tokens[i] = c.take(30 * time.Second).LeaseToken })
		}
		taking.Wait()
		if t.ctx.Err() != nil {
			return
		}
		start := make(chan struct{})
		for i, c := range callers {
			reporting.Go(func() {
				<-start
				c.wantReport(tokens[i], "AC", gavelapi.OutcomeRecorded)
			})
		}
		began := t.Clock.Now()
		close(start)
		reporting.Wait()
		longest = max(longest, t.Clock.Now().Sub(began))
	}
	t.did("%d rounds of %d results at once", rounds, workers)
	t.took("50 results at once, longest round", longest, 0)
	if n := s.number("select count(*) from pg_stat_database where datname = current_database() and deadlocks > 0"); n != 0 {
		t.Errorf("the database saw deadlocks")
	}
	s.settle(20 * time.Second)
}

func twoReports(t *T) {
	s := newStand(t)
	s.serve(shortTTL, shortBeat)
	if t.Sabotage {
		s.withoutFencing()
	}
	s.watch(calm, "", nil)
	jobs := t.rounds(200)
	old, live := s.caller("old", "", jobs), s.caller("live", "", jobs)
	for range jobs {
		s.submit("by hand")
	}
	collect := func(c *caller) map[int64]gavelapi.Lease {
		got := map[int64]gavelapi.Lease{}
		for len(got) < jobs && t.ctx.Err() == nil {
			for _, l := range c.claim(20 * time.Second) {
				got[l.JobID] = l
				s.must(c.beat(l.LeaseToken), "heartbeat")
			}
		}
		return got
	}
	dead := collect(old)
	s.until(20*time.Second, "every lease of the first worker has expired", func() bool {
		return s.number("select count(*) from attempts where outcome = 'expired'") == jobs
	})
	fresh := collect(live)
	var wg sync.WaitGroup
	for id, l := range fresh {
		start := make(chan struct{})
		token := dead[id].LeaseToken
		wg.Go(func() { <-start; old.wantReport(token, "WA", gavelapi.OutcomeDiscarded) })
		wg.Go(func() { <-start; live.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded) })
		close(start)
		if t.rand.IntN(8) == 0 { // pairs alone, and pairs among pairs
			wg.Wait()
		}
	}
	wg.Wait()
	t.did("%d pairs of reports", jobs)
	s.settle(10 * time.Second)
	if t.result.Discarded != jobs {
		t.Errorf("%d reports are kept as evidence, want %d", t.result.Discarded, jobs)
	}
}
