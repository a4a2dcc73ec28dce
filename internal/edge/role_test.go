package edge_test

import (
	"context"
	"errors"
	"net/http"
	"net/url"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/store"
)

func (s *stand) query(sql string, args ...any) (list []string) {
	s.t.Helper()
	rows, err := s.db.Pool.Query(s.t.Context(), sql, args...)
	if err == nil {
		list, err = pgx.CollectRows(rows, pgx.RowTo[string])
	}
	if err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return list
}

// The grants are compared with what the code uses: every function that a query
// of queries/edge.sql calls, and no other function, table, column or sequence.
// A migration that forgets one, or gives one too many, fails here.
func TestTheEdgeRoleHasTheRightsThatTheCodeUsesAndNoOther(t *testing.T) {
	s := newStand(t)
	sql, err := os.ReadFile("../store/queries/edge.sql")
	if err != nil {
		t.Fatal(err)
	}
	var used []string
	for _, m := range regexp.MustCompile(`\b(edge_\w+)\(`).FindAllStringSubmatch(string(sql), -1) {
		used = append(used, m[1])
	}
	slices.Sort(used)
	used = slices.Compact(used)
	if len(used) < 6 {
		t.Fatalf("the queries use %v only", used)
	}
	granted := s.query(`select p.proname from pg_proc p join pg_namespace n on n.oid = p.pronamespace
	  where n.nspname !~ '^(pg_|information_schema)' and has_function_privilege('gavel_edge', p.oid, 'execute') and has_schema_privilege('gavel_edge', n.oid, 'usage') order by 1`)
	if diff := cmp.Diff(used, granted); diff != "" {
		t.Errorf("functions (-used +granted):\n%s", diff)
	}
	beyond := s.query(`select format('%s on %s', verb, c.oid::regclass) from pg_class c join pg_namespace n on n.oid = c.relnamespace,
	    unnest(array['select', 'insert', 'update', 'delete', 'truncate', 'references', 'trigger']) verb
	  where n.nspname !~ '^(pg_|information_schema)' and c.relkind in ('r', 'v', 'm', 'p') and has_table_privilege('gavel_edge', c.oid, verb)
	  union all
	  select format('%s of a column of %s', verb, c.oid::regclass) from pg_class c join pg_namespace n on n.oid = c.relnamespace,
	    unnest(array['select', 'insert', 'update', 'references']) verb
	  where n.nspname !~ '^(pg_|information_schema)' and c.relkind in ('r', 'v', 'm', 'p') and has_any_column_privilege('gavel_edge', c.oid, verb)
	  union all
	  select format('%s on sequence %s', verb, c.oid::regclass) from pg_class c join pg_namespace n on n.oid = c.relnamespace,
	    unnest(array['usage', 'select', 'update']) verb
	  where n.nspname !~ '^(pg_|information_schema)' and c.relkind = 'S' and has_sequence_privilege('gavel_edge', c.oid, verb)
	  union all
	  select 'create in schema ' || n.nspname from pg_namespace n where n.nspname !~ '^(pg_|information_schema)' and has_schema_privilege('gavel_edge', n.oid, 'create')`)
	if len(beyond) > 0 {
		t.Errorf("rights that the code does not use: %v", beyond)
	}
	// What everybody may call, an edge login may: that must be nothing of ours.
	open := s.query(`select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
	  where n.nspname !~ '^(pg_|information_schema)' and (p.proname like 'edge%' or n.nspname = 'gavel' or p.proname = 'submit')
	    and exists (select from aclexplode(coalesce(p.proacl, acldefault('f', p.proowner))) a where a.grantee = 0)`)
	if len(open) > 0 {
		t.Errorf("functions open to everybody: %v", open)
	}
	// The functions have an arbiter's rights and not those of who migrated, and
	// look nothing up in a place that a caller could choose.
	loose := s.query(`select p.oid::regprocedure::text from pg_proc p join pg_namespace n on n.oid = p.pronamespace
	  where n.nspname !~ '^(pg_|information_schema)' and p.prosecdef
	    and (pg_get_userbyid(p.proowner) <> 'gavel_arbiter' or not exists (select from unnest(p.proconfig) c where c ~ '^search_path=.*, pg_temp$'))`)
	if len(loose) > 0 {
		t.Errorf("functions with an owner or search path of their own: %v", loose)
	}
}

// Every query of the code runs under the role, from its first to its last
// statement: what a lease can go through.
func TestEveryCallWorksUnderTheRole(t *testing.T) {
	s := newStand(t)
	a := s.agent("home", made{})
	s.submit("c")
	l := a.claim()
	if err := a.beat(l.LeaseToken); err != nil {
		t.Error(err)
	}
	if _, err := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken}); err != nil {
		t.Error(err)
	}
	a.report(a.claim().LeaseToken, faultReport("checker"))
	a.report(a.claim().LeaseToken, verdictReport("AC"))
	if _, _, err := a.Reclaim(t.Context()); err != nil {
		t.Error(err)
	}
}

// login makes a database login with the role, as an operator does, and a URL
// for it.
func (s *stand) login(name string) string {
	s.t.Helper()
	s.exec("do $$ begin create role " + name + " login in role gavel_edge; exception when duplicate_object then null; end $$")
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.User(name)
	q := u.Query()
	if q.Has("user") {
		q.Set("user", name)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

func pgCode(err error) string {
	if pg, ok := errors.AsType[*pgconn.PgError](err); ok {
		return pg.Code
	}
	return ""
}

func TestAStolenLoginCanDoNothingElse(t *testing.T) {
	s := newStand(t)
	id := s.submit("c")
	honest := s.agent("server", made{})
	held := honest.claim()
	s.submit("c")
	thief, err := pgx.Connect(t.Context(), s.login("gavel_test_thief"))
	if err != nil {
		t.Fatal(err)
	}
	defer thief.Close(context.WithoutCancel(t.Context()))
	owner, backend := s.text("select quote_ident(session_user)"), s.text("select min(pid)::text from pg_stat_activity where datname = current_database() and usename = session_user")
	for _, sql := range []string{
		"select * from tokens", "select * from submission_sources", "select lease_token from jobs", "select * from attempts",
		"select * from submissions", "select * from judgings", "select * from workers", "select * from edge_workers", "select * from gavel.verdicts",
		"update judgings set verdict = 'AC'", "delete from jobs", "insert into workers (name) values ('x')", "update lease_settings set ttl = '1 year'",
		"update edge_workers set login = session_user", "select edge_lease(1)", "select edge_me('{}')", "select * from edge_reclaim_leases(null)",
		"select gavel.submit('p', 'c', 'x')", "set role gavel_arbiter", "set role " + owner, "create table x (y int)",
		"create function f() returns int language sql as 'select 1'", "select pg_terminate_backend(" + backend + ")", "select * from goose_db_version",
	} {
		if _, err := thief.Exec(t.Context(), sql); pgCode(err) != "42501" {
			t.Errorf("%s: %v, want insufficient_privilege", sql, err)
		}
	}
	ask := func(function string, request string) (string, error) {
		var answer string
		err := thief.QueryRow(t.Context(), "select "+function+"($1::jsonb)::text", request).Scan(&answer)
		return answer, err
	}
	if _, err := ask("edge_hello", `{"name": "thief"}`); err != nil {
		t.Fatal(err)
	}
	mine := s.text("select worker_id::text from edge_workers where login = 'gavel_test_thief'")
	theirs := s.text("select worker_id::text from edge_workers where login <> 'gavel_test_thief'")
	if _, err := thief.Exec(t.Context(), "set idle_in_transaction_session_timeout = '5s'"); err != nil {
		t.Fatal(err)
	}
	// As another's worker, and under another's name.
	for _, f := range []string{"edge_claim", "edge_heartbeat", "edge_result", "edge_release", "edge_reclaim"} {
		_, err := ask(f, `{"worker_id": `+theirs+`, "lease_token": "`+held.LeaseToken+`", "report": {"verdict": "AC"}}`)
		if pgCode(err) != "GV403" {
			t.Errorf("%s as another's worker: %v", f, err)
		}
	}
	if _, err := ask("edge_hello", `{"name": "server"}`); pgCode(err) != "GV409" {
		t.Errorf("under another's name: %v", err)
	}
	s.exec("insert into workers (name) values ('of the arbiter')")
	if _, err := ask("edge_hello", `{"name": "of the arbiter"}`); err == nil {
		t.Error("under the name of a worker of the arbiter")
	}
	// With a lease token that it has come to know.
	for f, want := range map[string]string{"edge_heartbeat": "unknown", "edge_result": "discarded", "edge_release": "unknown"} {
		got, err := ask(f, `{"worker_id": `+mine+`, "lease_token": "`+held.LeaseToken+`", "report": {"verdict": "WA", "tests": []}}`)
		if err != nil || !strings.Contains(got, want) {
			t.Errorf("%s with another's token: %s, %v", f, got, err)
		}
	}
	// A verdict that is none, and a report that would fill the disk.
	s.exec("update jobs set created_at = created_at - interval '1 minute'")
	claim := `{"worker_id": ` + mine + `, "session": "` + uuid.NewString() + `", "request_id": "` + uuid.NewString() + `", "slots": 1, "total_slots": 1, "capabilities": {"languages": [{"id": "c"}]}}`
	got, err := ask("edge_claim", claim)
	if err != nil {
		t.Fatal(err)
	}
	own := regexp.MustCompile(`"lease_token": "([^"]+)"`).FindStringSubmatch(got)
	if own == nil {
		t.Fatalf("the thief got no work: %s", got)
	}
	got, err = ask("edge_result", `{"worker_id": `+mine+`, "lease_token": "`+own[1]+`", "report": {"verdict": "PERFECT", "tests": [{"name": "secret/1"}]}}`)
	if err != nil || !strings.Contains(got, "neither a known verdict nor a fault") {
		t.Errorf("a verdict of its own making: %s, %v", got, err)
	}
	if _, err := thief.Exec(t.Context(), "select edge_result(jsonb_build_object('worker_id', "+mine+", 'lease_token', '"+own[1]+"', 'report', jsonb_build_object('verdict', 'AC', 'tests', repeat('x', 65 << 20))))"); pgCode(err) != "GV422" {
		t.Errorf("65 MiB of tests: %v", err)
	}
	// Names without end.
	refused := 0
	for range 70 {
		if _, err := ask("edge_hello", `{"name": "w`+uuid.NewString()[:8]+`"}`); pgCode(err) == "GV429" {
			refused++
		}
	}
	if refused != 7 { // 64 with "thief"
		t.Errorf("%d of 70 names were refused", refused)
	}
	// And the honest one's judging is untouched.
	honest.report(held.LeaseToken, verdictReport("AC"))
	if v := s.text("select verdict from submission_verdicts where submission_id = $1", id); v != "AC" {
		t.Errorf("verdict %s", v)
	}
}

// A login's worker stays that login's, and a disabled one is turned away for good.
func TestADisabledWorkerIsRefused(t *testing.T) {
	s := newStand(t)
	a := s.agent("home", made{})
	a.poll()
	s.exec("update workers set disabled = true")
	if _, err := a.Claim(t.Context(), a.request(uuid.NewString(), 0)); err == nil {
		t.Error("a disabled worker claims")
	} else {
		wantStatus(t, err, http.StatusForbidden, "disabled")
	}
}

// A session whose transactions may stay open for ever could keep what it
// claimed from everybody: the functions refuse it.
func TestASessionWithoutAnIdleLimitIsRefused(t *testing.T) {
	s := newStand(t)
	s.agent("home", made{}).poll()
	for limit, want := range map[string]string{"0": "GV422", "11s": "GV422", "10s": "", "1ms": ""} {
		conn, err := pgx.Connect(t.Context(), s.url)
		if err != nil {
			t.Fatal(err)
		}
		_, err = conn.Exec(t.Context(), "set idle_in_transaction_session_timeout = '"+limit+"'; set role gavel_edge")
		if err != nil {
			t.Fatal(err)
		}
		id := s.text("select worker_id::text from edge_workers")
		_, err = conn.Exec(t.Context(), `select edge_reclaim('{"worker_id": `+id+`}')`)
		if pgCode(err) != want {
			t.Errorf("with %s: %v, want %q", limit, err, want)
		}
		_ = conn.Close(t.Context())
	}
}

// The five nights: a client falls asleep in the middle of a claim. The shipped
// code cannot hold a lock across a round trip at all; this acts out the worst
// that a client can do by hand, a claim in a transaction that stays open.
func TestAClientThatStopsHoldsUpNobody(t *testing.T) {
	s := newStand(t)
	for range 3 {
		s.submit("c")
	}
	server := s.agent("server", made{slots: 3})
	server.total = 3
	s.agent("home", made{}).poll()
	s.exec("update jobs set state = 'pending', lease_token = null, lease_expires_at = null, worker_id = null, session = null, request_id = null; delete from attempts")
	asleep, err := pgx.Connect(t.Context(), s.url)
	if err != nil {
		t.Fatal(err)
	}
	defer asleep.Close(context.WithoutCancel(t.Context()))
	home := s.text("select worker_id::text from edge_workers e join workers w on w.id = e.worker_id where name = 'home'")
	if _, err := asleep.Exec(t.Context(), "set role gavel_edge; set idle_in_transaction_session_timeout = '700ms'; begin"); err != nil {
		t.Fatal(err)
	}
	_, err = asleep.Exec(t.Context(), `select edge_claim('{"worker_id": `+home+`, "session": "`+uuid.NewString()+`", "previous_session": "`+s.text("select session::text from edge_workers where worker_id = "+home)+`",
	  "request_id": "`+uuid.NewString()+`", "slots": 1, "total_slots": 1, "capabilities": {"languages": [{"id": "c"}]}}')`)
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if n := len(server.poll()); n != 2 {
		t.Errorf("the server got %d of the two jobs that nobody holds", n)
	}
	if took := time.Since(began); took > 500*time.Millisecond {
		t.Errorf("it took the server %v", took)
	}
	deadline := time.After(20 * time.Second)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for len(server.poll()) == 0 { // the third, when the sleeper's limit ends its session
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatal("the sleeper keeps its job for ever")
		}
	}
	if n := s.number("select count(*) from jobs where state = 'leased'"); n != 3 {
		t.Errorf("%d leased", n)
	}
	if took := time.Since(began); took < 500*time.Millisecond {
		t.Errorf("the sleeper's transaction ended after %v: this shows nothing", took)
	}
}

// A grant that somebody forgets is told as what it is, is asked again, and
// spoils nothing for anybody else.
func TestAForgottenGrantIsSaidAndTriedAgain(t *testing.T) {
	s := newStand(t)
	home, server := s.pair()
	home.poll()
	server.poll()
	s.exec("revoke execute on function edge_claim(jsonb) from gavel_edge")
	_, err := home.Claim(t.Context(), home.request(uuid.NewString(), 0))
	if err == nil || !strings.Contains(err.Error(), store.EdgeRole) {
		t.Errorf("error %v does not name the role", err)
	}
	s.exec("grant execute on function edge_claim(jsonb) to gavel_edge")
	s.submit("c")
	home.claim()
}

// An open session has the rights of gavel_edge for as long as it lasts, because
// it took the role: it must not go on with them when the login has lost it.
func TestALoginThatLostTheRoleEndsWithItsSessionsOpen(t *testing.T) {
	s := newStand(t)
	s.submit("c")
	const login = "gavel_test_revoked"
	db, err := store.Open(t.Context(), s.login(login), store.Options{Role: store.EdgeRole, MaxConns: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	a := s.agentOn(db, "home", made{})
	l := a.claim()
	refused := func(why string) {
		t.Helper()
		_, claim := a.Claim(t.Context(), a.request(uuid.NewString(), 0))
		_, result := a.Result(t.Context(), gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("AC")})
		_, release := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken})
		_, _, reclaim := a.Reclaim(t.Context())
		hello := s.agentOn(db, "home", made{}).Check(t.Context()) // a client that does not know its number yet
		for call, err := range map[string]error{"hello": hello, "claim": claim, "beat": a.beat(l.LeaseToken), "result": result, "release": release, "reclaim": reclaim} {
			if client.StatusOf(err) != http.StatusForbidden || !strings.Contains(err.Error(), why) {
				t.Errorf("%s of a login that is %s: %v", call, why, err)
			}
		}
	}
	s.exec("revoke gavel_edge from " + login)
	refused("no member of gavel_edge any more")
	s.exec("grant gavel_edge to " + login)
	if err := a.beat(l.LeaseToken); err != nil {
		t.Errorf("a member again: %v", err)
	}
	s.exec("drop role " + login)
	refused("dropped")
}
