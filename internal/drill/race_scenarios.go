package drill

import (
	"fmt"
	"net/http"
	"sync"
	"sync/atomic"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

var raceScenarios = []Scenario{
	{
		Name: "a20-same-instant", What: "50 workers finish in the same instant, 100 rounds; then all of it is rejudged at once, beside new work", script: sameInstant, limit: 20 * time.Minute,
		Fires: "batches of conditional rows; slots counted under one lock", Sabotage: "what is leased can be granted again",
	},
	{
		Name: "a20-worker-processes", What: "25 worker processes with two slots each finish in the same instant, 20 rounds; then all of it is rejudged at once, beside new work", script: processesAtOnce, limit: 15 * time.Minute,
		Fires: "batches of conditional rows; slots counted under one lock", Sabotage: "what is leased can be granted again",
	},
	{
		Name: "a23-two-reports-at-once", What: "two reports of different generations at the same instant, 200 times", script: twoReports, limit: 10 * time.Minute,
		Fires: "the token in the statement that records", Sabotage: lateReportsCount,
	},
}

func sameInstant(t *T) {
	s := newStand(t)
	s.serve(20*time.Second, time.Second)
	s.watch(calm, "", nil)
	patience := 30 * time.Second
	if t.Sabotage {
		s.withoutConditions()
		patience /= 3 // in vain
	}
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
			taking.Go(func() { tokens[i] = c.take(patience).LeaseToken })
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
	s.rejudgeAll(callers, rounds*workers)
	t.took("50 results at once, longest round", longest, 0)
	if n := s.number("select count(*) from pg_stat_database where datname = current_database() and deadlocks > 0"); n != 0 {
		t.Errorf("the database saw deadlocks")
	}
	s.settle(20 * time.Second)
}

// processesAtOnce is sameInstant with workers that are processes of their own:
// a gate that is opened ends all their runs.
func processesAtOnce(t *T) {
	s := newStand(t)
	const ttl = 20 * time.Second
	s.serve(ttl, time.Second)
	const processes, slots = 25, 2
	patience := 2 * time.Minute
	for i := range processes {
		s.worker(fmt.Sprintf("p%02d", i), "", slots)
	}
	// The bystander shares the machine with all of them; what must not happen is
	// that it waits for somebody's lease.
	s.watch(ttl/2, "", nil)
	if t.Sabotage {
		s.withoutConditions()
		patience = 10 * time.Second // in vain
	}
	rounds, longest := t.rounds(20), time.Duration(0)
	for i := range rounds {
		gate := fmt.Sprintf("round-%d", i)
		for range processes * slots {
			s.submit("*: AC when " + gate)
		}
		s.until(patience, "every slot of every worker has begun", func() bool {
			return s.number("select count(*) from jobs where language = $1 and state = 'leased' and confirmed", language) == processes*slots
		})
		began := t.Clock.Now()
		s.open(gate)
		s.until(patience, "all of it is judged", func() bool {
			return s.number("select count(*) from jobs where language = $1", language) == 0
		})
		longest = max(longest, t.Clock.Now().Sub(began))
	}
	t.did("%d rounds of %d processes that finish %d runs at once", rounds, processes, processes*slots)
	total := rounds * processes * slots
	batch := s.startRejudge(total)
	for range processes * slots {
		s.submit("*: AC after 1ms")
	}
	s.finishRejudge(batch, total, patience)
	t.took("50 runs end at once to the last result, longest round", longest, 0)
	s.settle(20 * time.Second)
}

// startRejudge rejudges everything of one language in one call.
func (s *stand) startRejudge(total int) (batch gavelapi.Rejudge) {
	began := s.Clock.Now()
	s.call(http.MethodPost, "/v1/rejudges", gavelapi.NewRejudge{
		Filter: gavelapi.RejudgeFilter{Language: language}, Reason: "drill", Apply: "at_once",
	}, &batch)
	s.took(fmt.Sprintf("rejudge of %d asked for to its id", total), s.Clock.Now().Sub(began), 0)
	if batch.Total != total {
		s.Errorf("the rejudge has %d submissions, want %d", batch.Total, total)
	}
	return batch
}

// rejudgeAll rejudges everything while new work arrives.
func (s *stand) rejudgeAll(callers []*caller, total int) {
	batch := s.startRejudge(total)
	for range callers {
		s.submit("by hand")
	}
	var left atomic.Int64
	left.Store(int64(total + len(callers)))
	var wg sync.WaitGroup
	for _, c := range callers {
		wg.Go(func() {
			for left.Load() > 0 && s.ctx.Err() == nil {
				leases, err := c.ask(uuid.NewString(), 200*time.Millisecond)
				if err != nil {
					s.Errorf("%s claims: %v", c.name, err)
					return
				}
				for _, l := range leases {
					c.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
					left.Add(-1)
				}
			}
		})
	}
	wg.Wait()
	s.finishRejudge(batch, total, 20*time.Second)
	s.did("rejudged %d submissions beside %d new ones", total, len(callers))
}

// finishRejudge waits until a rejudge is applied and looks at what has become of it.
func (s *stand) finishRejudge(batch gavelapi.Rejudge, total int, patience time.Duration) {
	s.until(patience, "the rejudge is complete", func() bool {
		s.call(http.MethodGet, fmt.Sprintf("/v1/rejudges/%d", batch.ID), nil, &batch)
		return batch.State == gavelapi.RejudgeApplied
	})
	if batch.Done != total || batch.Failed != 0 {
		s.Errorf("the rejudge has done %d of %d, %d failed", batch.Done, total, batch.Failed)
	}
	if n := s.number("select count(*) from submissions s join judgings g on g.id = s.current_judging_id where g.rejudge_id = $1 and g.state = 'done'", batch.ID); n != total {
		s.Errorf("%d of %d new verdicts are current", n, total)
	}
}

func twoReports(t *T) {
	s := newStand(t)
	// All reports of live leases are sent within one TTL, on a busy machine, too.
	const ttl = 10 * time.Second
	s.serve(ttl, shortBeat)
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
	s.until(3*ttl, "every lease of the first worker has expired", func() bool {
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
	s.settle(2 * ttl)
	if t.result.Discarded != jobs {
		t.Errorf("%d reports are kept as evidence, want %d", t.result.Discarded, jobs)
	}
}
