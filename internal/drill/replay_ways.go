package drill

import (
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/health"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/timeline"
)

// setUpOld prepares the claim path of the incidents.
func (a *act) setUpOld() {
	a.exec(oldSchema)
	path := a.story.old[a.way.Name]
	start := func(name, login string) (*process, *relay) {
		line, url := a.databaseLine(login)
		return a.role(name, "old-worker", oldWorkerSettings{Name: name, Role: name, DatabaseURL: url, Factor: a.scale, Path: path}, nil), line
	}
	a.server, a.ownLine = start("server", "oj")
	a.home, a.homeLine = start("home", "oj_judge")
	a.homesLine(a.homeLine)
	a.claimText = "savepoint sp_5"
	a.handIn = func() { a.exec("insert into submissions default values") }
	a.collect = func() []timeline.Submission {
		return a.read(`select s.id, s.created_at, s.status = 'done', 'AC', coalesce(s.finished_at, s.created_at), c.at, c.worker_id, c.outcome
  from submissions s left join seen_claims c on c.submission_id = s.id order by s.id, c.at`)
	}
	a.alive = func() (seen time.Time) {
		a.must(a.db.QueryRow(a.ctx, "select seen_at from judge_workers where role = 'server'").Scan(&seen), "read the heartbeat")
		return seen
	}
	a.breakIt = func() {
		a.exec("drop table run_jobs; create table run_jobs (like submissions including all); grant all on run_jobs to oj")
		a.broken = "claims fail, permission denied for table run_jobs; its heartbeat goes on"
		if path.Savepoints {
			a.broken = "cannot look at the new table, permission denied; its heartbeat goes on"
		}
	}
	a.mendIt = func() { a.exec("grant all on run_jobs to oj_judge") }
	a.signs[timeline.Unhealthy] = func() (string, bool) {
		return "home is unhealthy after three failed rounds", a.number("select count(*) from judge_workers where role = 'home' and not healthy") > 0
	}
	a.until(time.Minute, "both workers are there", func() bool { return a.number("select count(*) from judge_workers") == 2 })
}

// scaled is what an arbiter is told of leases.
func (a *act) scaled() lease.Settings {
	d := lease.DefaultSettings
	// The agent takes a shorter wait for an arbiter that does not hold claims.
	claimWait := max(a.scale.of(d.ClaimWait), 1500*time.Millisecond)
	return lease.Settings{
		TTL: a.scale.of(d.TTL), Heartbeat: a.scale.of(d.Heartbeat), Confirm: a.scale.of(d.Confirm), Sweep: a.scale.of(d.Sweep),
		AttemptCap: d.AttemptCap, ClaimWait: claimWait,
	}
}

// arbiter starts one with the times of the replay.
func (a *act) arbiter() *arbiterProcess {
	h := health.Default
	h.Backoff, h.BackoffMax, h.Gate = a.scale.of(h.Backoff), a.scale.of(h.BackoffMax), a.scale.of(h.Gate)
	p := &arbiterProcess{listen: a.freeAddress()}
	p.again = func() *process {
		return a.role("arbiter-1", "arbiter", arbiterSettings{
			DatabaseURL: a.url, DataDir: a.path("arbiter"), Listen: p.listen, TokenFile: a.path("admin-token"), Lease: a.scaled(), Health: h,
		}, nil)
	}
	a.lead(p)
	return p
}

// gavels is what edge pull and the arbiter have in common.
func (a *act) gavels() {
	script := fmt.Sprintf("*: AC after %v", a.scale.of(oldTakes))
	a.handIn = func() { a.exec("select gavel.submit('p', $1, $2)", language, script) }
	a.collect = func() []timeline.Submission {
		return a.read(`select s.id, s.created_at, g.state = 'done', coalesce(g.verdict, ''), coalesce(g.finished_at, s.created_at), t.granted_at, w.name, t.outcome
  from submissions s join judgings g on g.id = s.current_judging_id
  left join attempts t on t.submission_id = s.id left join workers w on w.id = t.worker_id order by s.id, t.lease_gen`)
	}
	a.alive = func() time.Time { return a.ownLine.lastAnswer() }
}

// setUpEdge prepares edge pull. The arbiter is there for publishing the problem
// and gone before anything begins.
func (a *act) setUpEdge() {
	p := a.arbiter()
	p.stop(time.Minute)
	s := a.scaled()
	// How long ago a preferred worker may have looked stays as it is: that it
	// looked is noted once a second, which nothing can make shorter.
	a.exec(`update lease_settings set ttl = $1, heartbeat = $2, confirm = $3, yield = $4`, s.TTL, s.Heartbeat, s.Confirm, a.scale.of(time.Second))
	// Home's login is a member of the role, the server's has the same rights of
	// its own: what is taken from the role is taken from home.
	a.exec("create role oj_judge login in role gavel_edge; create role oj login; grant usage on schema public to oj")
	for _, f := range []string{"hello", "claim", "heartbeat", "result", "release", "reclaim"} {
		a.exec("grant execute on function edge_" + f + "(jsonb) to oj")
	}
	if a.sabotaged(timeline.Edge) {
		a.spoilEdge()
	}
	start := func(name, login string, rank int) (*process, *relay) {
		line, url := a.databaseLine(login)
		return a.role(name, "worker", workerSettings{
			Name: name, StateDir: a.state(name), Gates: a.path("gates"), Slots: 1, Languages: []string{language},
			DatabaseURL: url, PackagesDir: a.path("arbiter", "blobs", "packages"), Pool: name, Rank: rank,
			Poll: a.scale.of(oldPoll), Sweep: a.scale.of(oldSweep),
		}, nil), line
	}
	a.server, a.ownLine = start("server", "oj", 100)
	a.home, a.homeLine = start("home", "oj_judge", 10)
	a.homesLine(a.homeLine)
	a.claimText = `"kinds"`
	a.gavels()
	a.breakIt = func() {
		a.exec("revoke execute on function edge_claim(jsonb) from gavel_edge")
		a.broken = "claims fail, permission denied for function edge_claim"
	}
	a.mendIt = func() { a.exec("grant execute on function edge_claim(jsonb) to gavel_edge") }
	a.signs[timeline.Unhealthy] = func() (string, bool) {
		return "home says so: claiming failed three times in a row", a.home.said("unhealthy: claiming failed three times in a row")
	}
	a.until(time.Minute, "both workers look for work", func() bool {
		return a.number("select count(*) from edge_workers where polled_at is not null") == 2
	})
}

// setUpArbiter prepares an arbiter with two workers that know no database.
func (a *act) setUpArbiter() {
	p := a.arbiter()
	start := func(name string, rank int) (*process, *relay) {
		line := a.relay(p.listen)
		line.watch(a.scale.of(noteFrom))
		w := a.worker(name, line.url(), 1, sound)
		_, err := a.api.WorkerLabel(a.ctx, name, gavelapi.WorkerLabels{Pool: name})
		a.must(err, "put "+name+" into a pool")
		_, err = a.api.PoolSet(a.ctx, name, gavelapi.PoolSettings{Rank: rank})
		a.must(err, "rank the pool of "+name)
		return w, line
	}
	a.server, a.ownLine = start("server", 100)
	a.home, a.homeLine = start("home", 10)
	a.homesLine(a.homeLine)
	a.claimText = "POST /v1/worker/claim"
	a.gavels()
	a.breakIt = func() {
		a.open("broken-home")
		a.broken = "fails every job it is given"
	}
	a.mendIt = func() {} // nobody has to
	a.signs[timeline.SetAside] = func() (string, bool) {
		var why string
		err := a.db.QueryRow(a.ctx, `select summary || ', with ' || jsonb_array_length(evidence -> 'faults') || ' pieces of evidence' from alarms
 where kind = $1 and evidence ->> 'worker' = 'home' and jsonb_array_length(evidence -> 'faults') > 0 order by id limit 1`, timeline.SetAside).Scan(&why)
		return why, err == nil
	}
	a.signs["page"] = func() (string, bool) { // whatever else the arbiter would call somebody for
		var what string
		err := a.db.QueryRow(a.ctx, "select kind || ', ' || summary from alarms where severity = 'page' order by id limit 1").Scan(&what)
		return what, err == nil
	}
	a.until(time.Minute, "both workers wait for work", func() bool {
		list, err := a.api.WorkerList(a.ctx)
		if err != nil {
			return false
		}
		idle := 0
		for _, w := range list.Workers {
			if w.State == "idle" {
				idle++
			}
		}
		return idle == 2
	})
	// A new worker is probed in idle moments. In a night's time that is long over.
	a.until(2*time.Minute, "both workers have shown what they can", func() bool {
		return a.number("select count(distinct (worker_id, program)) from probes where finished_at is not null") == 8
	})
}

// read reads submissions with their claims: id, handed in, judged, verdict,
// finished, and of each claim when, by whom and how it ended.
func (a *act) read(sql string) (list []timeline.Submission) {
	rows, err := a.db.Query(a.ctx, sql)
	a.must(err, "read the submissions")
	var s timeline.Submission
	var created, finished time.Time
	var granted *time.Time
	var worker, outcome *string
	_, err = pgx.ForEachRow(rows, []any{&s.ID, &created, &s.Judged, &s.Verdict, &finished, &granted, &worker, &outcome}, func() error {
		if len(list) == 0 || list[len(list)-1].ID != s.ID {
			s.At, s.Done, s.Claims = a.offset(created), a.offset(finished), nil
			list = append(list, s)
		}
		if granted != nil {
			last := &list[len(list)-1]
			last.Claims = append(last.Claims, timeline.Claim{At: a.offset(*granted), Worker: *worker, Outcome: *outcome})
		}
		return nil
	})
	a.must(err, "read the submissions")
	return list
}
