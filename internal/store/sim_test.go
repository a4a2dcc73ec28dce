package store_test

import (
	"cmp"
	"encoding/binary"
	"encoding/json"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/sim"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

var (
	histories = flag.Int("sim.histories", 200, "histories of the simulation to run against PostgreSQL")
	callsEach = flag.Int("sim.calls", 60, "statements of each of them")
	simSeed   = flag.Uint64("sim.seed", 0, "run this history only")
)

// The model of the tables that the simulation runs on must be the tables: the
// statements of simulated histories are run against PostgreSQL, at the times of
// the simulation, and must return the same rows and leave the same tables.
func TestTheSimulatedTablesAreThoseOfPostgres(t *testing.T) {
	m := newMirror(t)
	calls := 0
	fresh := rand.Uint64() >> 16
	for n := range uint64(*histories) {
		seed := n + 1
		if n%2 == 1 {
			seed = fresh + n
		}
		if *simSeed != 0 {
			seed = *simSeed
		}
		cfg := sim.NewConfig(seed)
		cfg.SubmitEvery, cfg.JudgeTime = min(cfg.SubmitEvery, 2*time.Second), min(cfg.JudgeTime, 10*time.Second)
		n, diff := m.play(seed, recorded(cfg), 0)
		calls += n
		if diff != "" {
			t.Fatalf("%s\ngo test ./internal/store -run TestTheSimulatedTables -sim.seed=%d -sim.calls=%d", diff, seed, *callsEach)
		}
		if *simSeed != 0 {
			return
		}
	}
	t.Logf("%d histories, %d statements", *histories, calls)
}

// A model with a fault in it is told from the tables.
func TestADifferenceFromPostgresShows(t *testing.T) {
	m := newMirror(t)
	for _, bug := range []sim.Bugs{sim.WorkerClock, sim.NoGrace, sim.ChargeUndelivered} {
		found := false
		for seed := uint64(1); seed <= 10 && !found; seed++ {
			_, diff := m.play(seed, recorded(sim.NewConfig(seed)), bug)
			found = diff != ""
		}
		if !found {
			t.Errorf("10 histories with %v agree with the tables", bug)
		}
	}
}

// recorded makes a history and leaves out most of its idle polling.
func recorded(cfg sim.Config) []sim.Call {
	_, all, _ := sim.Record(cfg, 3000)
	var calls []sim.Call
	fresh := map[string]bool{} // reads since the last write
	renewals := 0
	for _, c := range all {
		switch c.Do.(type) {
		case sim.PendingJobs, sim.LeasedJobs, sim.FailedAttemptsOfOpenJobs, sim.ReadLeadership:
			name := fmt.Sprintf("%T", c.Do)
			if fresh[name] {
				continue
			}
			fresh[name] = true
		case sim.RenewLeadership:
			if renewals++; renewals%8 != 0 {
				continue
			}
		default:
			clear(fresh)
		}
		calls = append(calls, c)
	}
	return calls[:min(len(calls), *callsEach)]
}

// mirror runs the statements of a history against PostgreSQL.
type mirror struct {
	t        *testing.T
	db       *store.DB
	conn     *pgxpool.Conn
	problems [3]int64
	digests  [3]string
	workers  []int64
	token    int64
	limits   json.RawMessage

	history uint64
	epoch   int // of the play: its ids are its own
	model   *sim.DB
	jobs    []int64 // of the model's job id at id-1
	subs    []int64
}

// The clock of these sessions is a setting: the statements say now(), and find
// this function before the server's.
const simClock = `create schema simclock;
create function simclock.now() returns timestamptz stable language sql as $$ select current_setting('sim.now')::timestamptz $$;
grant usage on schema simclock to public`

var epoch = time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)

func newMirror(t *testing.T) *mirror {
	t.Helper()
	ctx, url := t.Context(), storetest.DB(t)
	owner, err := pgx.Connect(ctx, url)
	if err != nil {
		t.Fatal(err)
	}
	_, err = owner.Exec(ctx, simClock)
	_ = owner.Close(ctx)
	if err != nil {
		t.Fatal(err)
	}
	m := &mirror{t: t, limits: json.RawMessage("{}"), workers: make([]int64, 8)}
	if m.db, err = store.Open(ctx, url+"&search_path=simclock,public,pg_catalog", store.Options{MaxConns: 2}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.db.Close)
	if m.conn, err = m.db.Pool.Acquire(ctx); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(m.conn.Release)
	m.at(0)
	for i := range m.workers {
		m.scan(&m.workers[i], "insert into workers (name) values ($1) returning id", fmt.Sprint("w", i))
	}
	m.scan(&m.token, "insert into tokens (kind, hash) values ('admin', decode(repeat('00', 32), 'hex')) returning id")
	for i := range m.problems {
		m.digests[i] = fmt.Sprintf("sha256:%064d", i)
		m.exec("insert into packages (digest, manifest, size_bytes) values ($1, '{}', 1)", m.digests[i])
		m.scan(&m.problems[i], "insert into problems (name, title, version, package_digest) values ($1, '', 1, $2) returning id", fmt.Sprint("p", i), m.digests[i])
	}
	return m
}

func (m *mirror) exec(sql string, args ...any) {
	m.t.Helper()
	if _, err := m.conn.Exec(m.t.Context(), sql, args...); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mirror) scan(into any, sql string, args ...any) {
	m.t.Helper()
	if err := m.conn.QueryRow(m.t.Context(), sql, args...).Scan(into); err != nil {
		m.t.Fatal(err)
	}
}

func (m *mirror) at(i sim.Instant) {
	m.exec("select set_config('sim.now', $1, false)", epoch.Add(i).Format("2006-01-02 15:04:05.999999+00"))
}

// play runs a history and returns the number of statements, and what was
// different, if anything.
func (m *mirror) play(seed uint64, calls []sim.Call, bugs sim.Bugs) (n int, diff string) {
	m.t.Helper()
	m.history, m.model, m.jobs, m.subs = seed, sim.NewDB(bugs), nil, nil
	m.epoch++
	m.exec("delete from jobs")
	m.exec("update leadership set term = 0, holder = '', expires_at = $1", epoch.Add(-time.Second))
	for i, c := range calls {
		m.at(c.At)
		m.model.Now = c.At
		want := c.Do.Do(m.model)
		got := m.do(c.Do)
		diff := gocmp.Diff(m.plain(c.Do, want), m.plain(c.Do, got))
		if diff == "" && (i%25 == 24 || i == len(calls)-1) {
			diff = gocmp.Diff(m.modelTables(), m.tables())
		}
		if diff != "" {
			return i, fmt.Sprintf("history %d, statement %d at %v: %T %+v (-model +tables):\n%s", seed, i, c.At, c.Do, c.Do, diff)
		}
	}
	return len(calls), ""
}

// plain puts rows into an order and a form that both sides share.
func (m *mirror) plain(s sim.Statement, out any) any {
	switch v := out.(type) {
	case []sim.Row:
		rows := make([]string, len(v))
		for i, r := range v {
			r.Package, r.ExpiresAt = 0, max(r.ExpiresAt, m.model.Now) // the statement tells how much is left, if anything
			if _, pending := s.(sim.PendingJobs); pending {
				r.Token, r.ExpiresAt, r.Worker, r.Session, r.Request = 0, 0, 0, 0, 0
			}
			rows[i] = fmt.Sprintf("%+v", r)
		}
		return rows
	case []sim.Failure:
		slices.SortFunc(v, func(a, b sim.Failure) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Worker, b.Worker)) })
		return v
	case []sim.Granted:
		slices.SortFunc(v, func(a, b sim.Granted) int { return cmp.Compare(a.Job, b.Job) })
		return v
	case []sim.Holder:
		slices.SortFunc(v, func(a, b sim.Holder) int { return cmp.Compare(a.Job, b.Job) })
		return v
	case sim.Reclaimed:
		slices.SortFunc(v.Requeued, func(a, b sim.Requeued) int { return cmp.Compare(a.Job, b.Job) })
		slices.Sort(v.Ended)
		return v
	case sim.Attempt: // the statement reads no more
		return sim.Attempt{Job: v.Job, Gen: v.Gen, Worker: v.Worker, Outcome: v.Outcome}
	}
	return out
}

// Ids: the kind keeps tokens, sessions and requests apart, the history keeps
// those of different histories apart.
func (m *mirror) uuid(kind byte, n int64) uuid.UUID {
	var u uuid.UUID
	binary.BigEndian.PutUint64(u[:8], uint64(m.epoch))
	u[0] = kind
	binary.BigEndian.PutUint64(u[8:], uint64(n))
	return u
}

func number(u *uuid.UUID) int64 {
	if u == nil {
		return 0
	}
	return int64(binary.BigEndian.Uint64(u[8:]))
}

func (m *mirror) job(id int64) int64               { return m.jobs[id-1] }
func (m *mirror) worker(id int64) int64            { return m.workers[id-1] }
func (m *mirror) leaseToken(t sim.Token) uuid.UUID { return m.uuid('t', int64(t)) }

func (m *mirror) modelJob(id int64) int64 { return int64(slices.Index(m.jobs, id) + 1) }

func (m *mirror) modelWorker(id *int64) int64 {
	if id == nil {
		return 0
	}
	return int64(slices.Index(m.workers, *id) + 1)
}

// tables reads what the model has of the tables.
func (m *mirror) tables() []string {
	return m.read(`select line from (
select 1 as part, id as a, 0::bigint as b, format('job %s %s gen %s attempts %s confirmed %s token %s until %s worker %s session %s request %s',
       id, state, lease_gen, attempts, confirmed, lease_token, extract(epoch from lease_expires_at - $2), worker_id, session, request_id) as line from jobs
union all
select 2, j.submission_id, 0, format('judging of %s: %s %s gen %s worker %s', j.submission_id, j.state, j.verdict, j.lease_gen, j.worker_id)
  from judgings j where j.submission_id = any($1)
union all
select 3, job_id, lease_gen, format('attempt %s %s: token %s worker %s session %s request %s term %s %s late %s', job_id, lease_gen, lease_token, worker_id, session, request_id, term, outcome, late_report)
  from attempts where submission_id = any($1)
union all
select 4, 0, 0, format('term %s by %s until %s', term, holder, extract(epoch from expires_at - $2)) from leadership) x order by part, a, b`)
}

func (m *mirror) read(sql string) []string {
	m.t.Helper()
	rows, err := m.conn.Query(m.t.Context(), sql, m.subs, epoch)
	if err != nil {
		m.t.Fatal(err)
	}
	lines, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		m.t.Fatal(err)
	}
	return lines
}

// modelTables writes the model's tables as tables reads PostgreSQL's.
func (m *mirror) modelTables() []string {
	var lines []string
	seconds := func(i sim.Instant) string { return fmt.Sprintf("%.6f", i.Seconds()) }
	id := func(kind byte, n int64) string {
		if n == 0 {
			return ""
		}
		return m.uuid(kind, n).String()
	}
	who := func(n int64) string {
		if n == 0 {
			return ""
		}
		return fmt.Sprint(m.worker(n))
	}
	for _, r := range m.model.Open {
		until := ""
		if r.State == lease.Leased {
			until = seconds(r.ExpiresAt)
		}
		lines = append(lines, fmt.Sprintf("job %d %s gen %d attempts %d confirmed %s token %s until %s worker %s session %s request %s",
			m.job(r.ID), r.State, r.Gen, r.Attempts, map[bool]string{true: "t", false: "f"}[r.Confirmed], id('t', int64(r.Token)), until, who(r.Worker), id('s', int64(r.Session)), id('r', int64(r.Request))))
	}
	for i, j := range m.model.Judgings {
		state, gen := string(j.State), ""
		if j.State == lease.Pending {
			state = "open"
		}
		if j.Gen != 0 {
			gen = fmt.Sprint(j.Gen)
		}
		lines = append(lines, fmt.Sprintf("judging of %d: %s %s gen %s worker %s", m.subs[i], state, j.Verdict, gen, who(j.Worker)))
	}
	attempts := slices.Clone(m.model.Attempts)
	slices.SortFunc(attempts, func(a, b sim.Attempt) int { return cmp.Or(cmp.Compare(a.Job, b.Job), cmp.Compare(a.Gen, b.Gen)) })
	for _, a := range attempts {
		late := ""
		if a.Late != "" {
			late = fmt.Sprintf("%q", a.Late)
		}
		lines = append(lines, fmt.Sprintf("attempt %d %d: token %s worker %d session %s request %s term %d %s late %s",
			m.job(a.Job), a.Gen, id('t', int64(a.Token)), m.worker(a.Worker), id('s', int64(a.Session)), id('r', int64(a.Request)), a.Term, a.Outcome, late))
	}
	return append(lines, fmt.Sprintf("term %d by %s until %s", m.model.Term, m.model.Holder, seconds(m.model.ValidTo)))
}
