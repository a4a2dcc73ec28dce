package drill

import (
	"fmt"
	"time"
)

var healthScenarios = []Scenario{
	{
		Name: "a12-broken-worker", What: "a preferred worker looks idle, claims, and fails everything it takes; nine submissions", script: brokenWorker,
		Program: true, limit: 10 * time.Minute,
		Fires: "set aside after three faults; a job goes to somebody who has not failed it", Sabotage: "nobody is set aside",
	},
}

// asideAfter is how many faults in a row set a worker aside.
const asideAfter = 3

// brokenWorker is the seventeenth of September: a machine that is preferred,
// answers and has room, but whose every job fails. The one that judges is a
// real gavel-worker, because it must also pass known-answer probes.
func brokenWorker(t *T) {
	after := fmt.Sprint(asideAfter)
	if t.Sabotage {
		after = "0"
	}
	s := programStand(t, 20*time.Second, "--set-aside-after", after, "--set-aside-for", "30m")
	s.program("good", 0)
	s.worker("broken", "", 1) // what it is given is no script, so each job is a fault of its host
	s.prefer("broken")
	begun := t.Clock.Now()
	var ids []int64
	for range 9 {
		ids = append(ids, s.submitProgram(burns(0.05)))
	}
	for _, id := range ids {
		s.awaitFinal(id, 2*time.Minute)
	}
	t.took("nine submissions beside a broken preferred worker", t.Clock.Now().Sub(begun), time.Minute)
	faults := s.number("select count(*) from attempts a join workers w on w.id = a.worker_id where w.name = 'broken' and a.submission_id is not null and a.outcome = 'failed'")
	t.did("the broken worker failed %d jobs; all nine were judged", faults)
	if faults > asideAfter {
		t.Errorf("the broken worker was given work after %d faults: %d in all", asideAfter, faults)
	}
	h, err := s.api.WorkerHealth(s.ctx, "broken")
	s.must(err, "read the health of the broken worker")
	if len(h.SetAside) == 0 || len(h.SetAside[0].Evidence) == 0 {
		t.Errorf("it is not set aside with evidence: %+v", h)
	}
	s.settle(5 * time.Second)
}
