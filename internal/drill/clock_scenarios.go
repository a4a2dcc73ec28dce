package drill

import (
	"fmt"
	"time"
)

var clockScenarios = []Scenario{
	{
		Name: "a16-wrong-clocks", What: "clocks of worker and arbiter are an hour wrong, either way", script: wrongClocks,
		Fires: "the database's clock for leases; monotonic clocks for workers",
	},
}

// wrongClocks runs an arbiter and a worker whose wall clocks differ from each
// other by two hours and from the database by one.
func wrongClocks(t *T) {
	s := newStand(t)
	const away = time.Hour
	for i, sign := range []time.Duration{-1, 1} {
		a := &arbiterProcess{listen: s.freeAddress()}
		a.again = func() *process {
			return t.role(fmt.Sprintf("arbiter-%d", i+1), "arbiter", arbiterSettings{
				DatabaseURL: s.url, DataDir: t.path("arbiter"), Listen: a.listen, TokenFile: t.path("admin-token"),
				ClockAway: sign * away, TTL: shortTTL, Heartbeat: shortBeat,
			}, nil)
		}
		s.launch(a)
		s.until(20*time.Second, "it leads", func() bool { h, err := a.api.Ready(t.ctx); return err == nil && h.Status == "ok" })
		s.api = a.api
		name := fmt.Sprintf("one-%d", i)
		wrong := func(w *workerSettings) { w.ClockAway = -sign * away }
		one := s.worker(name, a.url, 1, wrong)
		long := s.submit("*: AC after 7s")
		s.awaitFinal(long, 30*time.Second)
		s.wantAttempts(long, "completed")
		t.did("arbiter %+v, worker %+v: a judging of more than two lifetimes of a lease kept it", sign*away, -sign*away)

		id := s.submit(name + ": AC after 1h\n*: AC after 1ms")
		s.awaitJudging(id, name)
		one.kill()
		due := s.number("select (extract(epoch from lease_expires_at) * 1000)::bigint from jobs where submission_id = $1", id)
		s.worker(fmt.Sprintf("two-%d", i), a.url, 1, wrong)
		sub := s.awaitFinal(id, 20*time.Second)
		s.wantAttempts(id, "expired", "completed")
		if n := len(sub.Detail.Attempts); n == 2 {
			again := time.Duration(sub.Detail.Attempts[1].GrantedAt.UnixMilli()-int64(due)) * time.Millisecond
			t.took(fmt.Sprintf("expiry to new lease, arbiter %+v", sign*away), again, time.Second)
			if again < 0 {
				t.Errorf("the lease was taken back %v early", -again)
			}
		}
		a.stop(20 * time.Second)
		for _, p := range []*process{one} {
			p.end()
		}
	}
	s.api = nil
	s.settle(5 * time.Second)
}
