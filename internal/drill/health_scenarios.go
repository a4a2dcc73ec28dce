package drill

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

var healthScenarios = []Scenario{
	{
		Name: "a12-broken-worker", What: "a preferred worker looks idle, claims, and fails everything it takes; nine submissions; then it is mended", script: brokenWorker,
		Program: true, limit: 10 * time.Minute,
		Fires: "set aside after three faults, with an alarm; a job goes to somebody who has not failed it; known-answer probes bring it back", Sabotage: "nobody is set aside",
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
	s := programStand(t, 20*time.Second, "--set-aside-after", after, "--set-aside-for", "2s")
	s.program("good", 0)
	s.worker("broken", "", 1, sound)
	s.prefer("broken")
	if !t.Sabotage { // else nobody is probed
		s.until(time.Minute, "it has joined", func() bool {
			h, err := s.api.WorkerHealth(t.ctx, "broken")
			return err == nil && h.Away == "" && h.ProbesDue == 0 && len(h.Probes) > 0
		})
	}
	s.open("broken-broken") // from now on each job is a fault of its host
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
		t.Fatalf("it is not set aside with evidence: %+v", h)
	}
	alarmed := func(open bool) bool {
		list, err := s.api.AlarmList(t.ctx, open, "worker_set_aside", "", 10)
		return err == nil && slices.ContainsFunc(list.Alarms, func(a gavelapi.Alarm) bool {
			return strings.HasPrefix(a.Subject, "broken") && (a.EndedAt == nil) == open
		})
	}
	s.until(20*time.Second, "there is an alarm about it", func() bool { return alarmed(true) })
	s.must(os.Remove(t.path("gates", "broken-broken")), "mend it")
	begun = t.Clock.Now()
	s.until(2*time.Minute, "it is back", func() bool {
		h, err := s.api.WorkerHealth(t.ctx, "broken")
		return err == nil && h.Away == "" && len(h.SetAside) == 0
	})
	t.took("mended to back after its probes", t.Clock.Now().Sub(begun), 0)
	s.until(20*time.Second, "the alarm has ended", func() bool { return alarmed(false) && !alarmed(true) })
	t.did("mended it: known-answer probes brought it back, and the alarm ended")
	s.settle(5 * time.Second)
}
