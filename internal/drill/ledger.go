package drill

import (
	"context"
	"errors"
	"slices"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/gavelapi"
)

func asProblem(err error) (*gavelapi.Problem, bool) { return errors.AsType[*gavelapi.Problem](err) }

// number asks the database for one number, across outages.
func (s *stand) number(sql string, args ...any) int {
	var n int
	var last error
	if !s.within(20*time.Second, func() bool {
		ctx, cancel := context.WithTimeout(s.ctx, 10*time.Second)
		defer cancel()
		last = s.db.QueryRow(ctx, sql, args...).Scan(&n)
		return last == nil || errors.Is(last, pgx.ErrNoRows)
	}) || last != nil {
		s.Fatalf("the database does not answer %q: %v", sql, last)
	}
	return n
}

func (s *stand) exec(sql string, args ...any) {
	_, err := s.db.Exec(s.ctx, sql, args...)
	s.must(err, sql)
}

// The questions of the ledger. Each counts what must not be.
const (
	// A judging that is done, but not by an attempt that completed with the
	// same generation and worker: the report of a dead lease was applied.
	askStale = `select count(*) from judgings g where g.state = 'done' and not exists (
  select 1 from attempts a where a.judging_id = g.id and a.outcome = 'completed'
     and a.lease_gen = g.lease_gen and a.worker_id = g.worker_id)`
	// More than one recorded result of a judging, or none of its rows once.
	askDoubled = `select (select count(*) from (
    select judging_id from attempts where outcome = 'completed' and judging_id is not null group by judging_id having count(*) > 1) x)
  + (select count(*) from (
    select submission_id from judgings where kind = 'judge' group by submission_id having count(*) > 1) y)
  + (select count(*) from judgings where state = 'done' and verdict <> 'CE' and jsonb_array_length(tests) not in (1, 10))`
	// I1: a lease that began before the one before it had ended, or a
	// generation that was left out or used twice.
	askOverlap = `select count(*) from (
  select granted_at, lease_gen, lag(coalesce(ended_at, 'infinity')) over w as before, lag(lease_gen) over w as gen
    from attempts window w as (partition by job_id order by lease_gen)) x
 where before > granted_at or lease_gen <> coalesce(gen, 0) + 1`
	// I6: open work that is leased past its time and not taken back.
	askStuck = `select count(*) from jobs where state = 'leased' and lease_expires_at < now() - interval '15 seconds'`
	// A state that two tables disagree about.
	askTorn = `select (select count(*) from judgings g where g.state = 'open' and not exists (select 1 from jobs j where j.judging_id = g.id))
  + (select count(*) from jobs j join judgings g on g.id = j.judging_id where g.state <> 'open')
  + (select count(*) from attempts a where a.outcome = 'running' and not exists (
       select 1 from jobs j where j.id = a.job_id and j.lease_gen = a.lease_gen and j.state = 'leased'))`
	askDiscarded = `select count(*) from attempts where late_report is not null`
)

// settle waits until everything handed in is final, stops the bystanders, and
// looks at what is in the database.
func (s *stand) settle(limit time.Duration) {
	if s.watched != nil {
		s.watched.stop()
	}
	s.within(limit, func() bool { return s.number("select count(*) from judgings where state = 'open'") == 0 })
	s.audit()
	s.checkHistories()
	if s.watched != nil {
		s.watched.measure()
	}
}

// audit fills in the numbers of the result and fails on what must not be.
func (s *stand) audit() {
	s.mu.Lock()
	expect := s.expect
	s.expect = map[int64][]string{}
	s.mu.Unlock()
	rows, err := s.db.Query(s.ctx, `select s.id, g.state, coalesce(g.verdict, case g.state when 'system_error' then 'SE' when 'cancelled' then 'cancelled' else '' end)
  from submissions s join judgings g on g.id = s.current_judging_id`)
	s.must(err, "read the verdicts")
	type final struct{ state, verdict string }
	found := map[int64]final{}
	var id int64
	var f final
	_, err = pgx.ForEachRow(rows, []any{&id, &f.state, &f.verdict}, func() error { found[id] = f; return nil })
	s.must(err, "read the verdicts")

	lost, wrong := 0, 0
	for id, want := range expect {
		got, ok := found[id]
		switch {
		case !ok || got.state == "open":
			lost++
			s.Errorf("submission %d is lost or stuck (%s)", id, got.state)
		case !slices.Contains(want, got.verdict):
			wrong++
			s.Errorf("submission %d is %s, want %v", id, got.verdict, want)
		}
	}
	stale, doubled := s.number(askStale)+wrong, s.number(askDoubled)
	for _, c := range []struct {
		n    int
		what string
	}{
		{stale, "results of dead leases, or wrong verdicts, are recorded"},
		{doubled, "results are recorded twice"},
		{s.number(askOverlap), "leases of a job overlap, or skip a generation (I1)"},
		{s.number(askStuck), "leases are long expired and not taken back (I6)"},
		{s.number(askTorn), "rows of jobs, judgings and attempts disagree"},
		{s.overfull(), "grants went to workers without a free slot (I4)"},
	} {
		if c.n != 0 {
			s.Errorf("%d %s", c.n, c.what)
		}
	}
	discarded := s.number(askDiscarded)
	s.T.mu.Lock()
	defer s.T.mu.Unlock()
	s.result.Jobs += len(expect)
	s.result.Lost += lost
	s.result.Stale += stale
	s.result.Duplicated += doubled
	s.result.Discarded = discarded
}

// overfull counts grants that made a worker hold more leases than its slots (I4).
func (s *stand) overfull() int {
	rows, err := s.db.Query(s.ctx, `select w.name, a.granted_at, coalesce(a.ended_at, 'infinity'::timestamptz) <= x.at as ended, x.at, x.up
  from attempts a join workers w on w.id = a.worker_id
 cross join lateral (values (a.granted_at, 1), (a.ended_at, -1)) x (at, up)
 where x.at is not null order by x.at, x.up`)
	s.must(err, "read the attempts")
	var name string
	var at, granted time.Time
	var ended bool
	var up int
	holds, over := map[string]int{}, 0
	_, err = pgx.ForEachRow(rows, []any{&name, &granted, &ended, &at, &up}, func() error {
		holds[name] += up
		s.mu.Lock()
		slots, known := s.slots[name]
		s.mu.Unlock()
		if up > 0 && known && holds[name] > slots {
			over++
		}
		return nil
	})
	s.must(err, "read the attempts")
	return over
}
