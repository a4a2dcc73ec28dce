package edge_test

import (
	"context"
	"errors"
	"net/url"
	"os"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/pgserver"
	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// docSQL are the SQL blocks of a page, in its order.
type docSQL struct {
	t      *testing.T
	page   string
	blocks []string
}

func sqlOf(t *testing.T, page string) *docSQL {
	t.Helper()
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	d := &docSQL{t: t, page: page}
	for _, m := range regexp.MustCompile("(?s)```sql\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		d.blocks = append(d.blocks, strings.ReplaceAll(m[1], "'…'", "'a password'"))
	}
	return d
}

// next takes the first block that holds part, and forgets it.
func (d *docSQL) next(part string) string {
	d.t.Helper()
	for i, b := range d.blocks {
		if strings.Contains(b, part) {
			d.blocks = append(d.blocks[:i:i], d.blocks[i+1:]...)
			return b
		}
	}
	d.t.Fatalf("%s has no block of SQL with %q", d.page, part)
	return ""
}

// as is dsn with another login.
func as(t *testing.T, dsn, login string) string {
	t.Helper()
	u, err := url.Parse(dsn)
	if err != nil {
		t.Fatal(err)
	}
	u.User = url.User(login)
	return u.String()
}

// siteServer is a PostgreSQL of its own, because the guide's roles are the
// whole server's, with the database site and the logins of a site that judges
// from its tables. It returns the superuser's URL.
func siteServer(t *testing.T) string {
	t.Helper()
	ctx := t.Context()
	if _, err := pgbin.Find(ctx, pgbin.Options{}); err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	dir, err := os.MkdirTemp("", "gavel-guide-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil { // the server's user must get through
		t.Fatal(err)
	}
	server, err := pgserver.Start(ctx, pgserver.Config{DataDir: dir, FsyncOff: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), time.Minute)
		defer cancel()
		if err := server.Stop(ctx); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(dir)
	})
	psqlOK(t, server.DatabaseURL("postgres"), "create role siteapp login; create role oj_judge login; create database site owner siteapp")
	return server.DatabaseURL("site")
}

func psqlOK(t *testing.T, dsn, script string) string {
	t.Helper()
	out, err := psql(t, dsn, script)
	if err != nil {
		t.Fatalf("%v: %s\n%s", err, script, out)
	}
	return out
}

// Every block of SQL of the guide and of the page about submitting by SQL runs
// as it is printed, by whom the text says, and does what the text says.
func TestTheGuideAndThePatternsWorkAsPrinted(t *testing.T) {
	guide, page := sqlOf(t, "../../docs/migration.md"), sqlOf(t, "../../docs/reference/sql.md")
	super := siteServer(t)
	siteapp, judge := as(t, super, "siteapp"), as(t, super, "oj_judge")
	psqlOK(t, siteapp, "create schema siteapp; grant create, usage on schema siteapp to oj_judge")
	psqlOK(t, super, "alter role siteapp in database site set search_path = siteapp; alter role oj_judge in database site set search_path = siteapp")
	psqlOK(t, judge, "create table judge_dispatch_state (turn int)")
	want := func(dsn, sql, want string) {
		t.Helper()
		if got := strings.ReplaceAll(psqlOK(t, dsn, sql), "\n", " "); got != want {
			t.Errorf("%s\ngives %q, want %q", sql, got, want)
		}
	}
	row := func(id, user, problem string) string {
		return "insert into site_submissions (id, user_name, problem, language, code) overriding system value values (100 + " + id + ", '" + user + "', '" + problem + "', 'c', 'int main(){}') "
	}

	// 0: gavel beside what is there.
	psqlOK(t, super, guide.next("create role gavel login"))
	want(super, "select rolsuper or rolcreaterole or rolcreatedb from pg_roles where rolname = 'gavel'", "f")
	if err := store.Migrate(t.Context(), as(t, super, "gavel")); err != nil {
		t.Fatal(err)
	}
	owner := super + "&search_path=gavel_tables"
	s := standOnly(t, owner)
	s.publish("garden-rope")
	s.publish("p")
	arbiter, err := store.Open(t.Context(), as(t, super, "gavel"), store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var role string
	err = arbiter.Pool.QueryRow(t.Context(), "select current_user from gavel_tables.leadership limit 1").Scan(&role)
	arbiter.Close()
	if err != nil || role != store.ArbiterRole {
		t.Errorf("the arbiter works as %q, %v", role, err)
	}

	// 1: edge workers only.
	psqlOK(t, super, guide.next("create role home login"))
	pool, err := store.Open(t.Context(), as(t, super, "home"), store.Options{Role: store.EdgeRole})
	if err != nil {
		t.Fatal(err)
	}
	defer pool.Close()
	home := s.agentOn(pool, "home-1", made{})
	psqlOK(t, super, page.next("grant gavel_site to siteapp"))
	psqlOK(t, siteapp, page.next("create table site_submissions"))
	psqlOK(t, siteapp, "grant all on site_submissions to oj_judge")
	psqlOK(t, siteapp, page.next("create function site_submit"))
	psqlOK(t, siteapp, page.next("new.user_name = 'tester'"))
	psqlOK(t, siteapp, row("1", "alice", "p")+";"+row("2", "tester", "p")+";"+row("3", "alice", "garden-rope"))
	const rows = "select id, status, gavel_id is not null from site_submissions order by id"
	want(siteapp, rows, "101|waiting|f 102|gavel|t 103|gavel|t")
	psqlOK(t, siteapp, page.next("when (new.gavel_id is null) execute"))
	want(siteapp, row("1", "alice", "p")+"on conflict (id) do nothing", "")
	want(super, "select count(*) from gavel_tables.submissions", "2") // and nothing for the row that was not inserted
	psqlOK(t, siteapp, row("4", "alice", "p"))
	want(siteapp, "select id, state, verdict from site_results order by id", "101|waiting| 102|pending| 103|pending| 104|pending|")

	psqlOK(t, siteapp, page.next("rename to site_submissions_kept"))
	want(siteapp, "insert into site_submissions (user_name, problem, language, code) values ('bob', 'p', 'c', 'int main(){}') on conflict (id) do nothing returning user_name", "bob")
	want(siteapp, row("4", "alice", "p")+"on conflict (id) do nothing", "")
	want(siteapp, "update site_submissions set user_name = 'robert' where user_name = 'bob' returning problem", "p")
	want(siteapp, "select user_name, status, verdict, gavel_id is not null from site_submissions order by id limit 1", "robert|pending||t")
	home.report(home.claim().LeaseToken, verdictReport("WA"))
	want(siteapp, "select status, verdict from site_submissions where verdict <> ''", "done|WA")
	psqlOK(t, siteapp, page.next("drop view site_submissions"))

	// Back: what waits goes to the old program; what was judged stays.
	marked := strings.Fields(psqlOK(t, siteapp, guide.next("drop trigger site_submit")))
	if len(marked) != 3 {
		t.Fatalf("%v are handed back, of four of which one is judged", marked)
	}
	home.report(home.claim().LeaseToken, verdictReport("AC")) // before it can be cancelled
	for _, id := range marked {                               // as the arbiter does it
		n, err := strconv.ParseInt(id, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		job := s.number("select coalesce(max(id), 0) from jobs where submission_id = $1", n)
		if _, err := s.db.Q.CancelOpenJob(t.Context(), s.db.Pool, &storedb.CancelOpenJobParams{SubmissionID: n, JobID: int64(job)}); err != nil {
			t.Fatal(err)
		}
	}
	psqlOK(t, siteapp, guide.next("v.state = 'cancelled'"))
	want(siteapp, "select status, count(*), count(gavel_id) from site_submissions group by 1 order by 1", "gavel|2|2 waiting|3|0")
	want(siteapp, row("20", "alice", "p")+"returning gavel_id is null", "t")
	want(super, "select count(*) from gavel_tables.jobs", "0")

	// The old login goes, and what it owns stays.
	want(super, "set search_path = siteapp; "+guide.next("as owned"), "judge_dispatch_state")
	psqlOK(t, super, guide.next("drop role oj_judge"))
	want(siteapp, "select tableowner from pg_tables where tablename = 'judge_dispatch_state'", "siteapp")

	// 3 and 4.
	pool.Close()
	psqlOK(t, super, guide.next("drop role home"))
	psqlOK(t, super, "set search_path = siteapp;\n"+guide.next("drop role server"))
	for _, d := range []*docSQL{guide, page} {
		if len(d.blocks) > 0 {
			t.Errorf("blocks of %s that nothing runs: %q", d.page, d.blocks)
		}
	}
}

// A login that may not make roles is told what somebody else has to do, in
// words that can be pasted, and nothing is migrated by halves.
func TestALoginThatMayNotMakeRolesIsToldWhatIsMissing(t *testing.T) {
	super := siteServer(t)
	plain := as(t, super, "plain")
	psqlOK(t, super, "create role plain login; create schema plain authorization plain; create role gavel_edge")
	err := store.Migrate(t.Context(), plain)
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok || e.Code != apperr.Forbidden {
		t.Fatalf("without the roles: %v", err)
	}
	_, commands, found := strings.Cut(e.Hint, ": ")
	if !found || strings.Contains(commands, "gavel_edge") {
		t.Fatalf("the hint is %q", e.Hint)
	}
	if out := psqlOK(t, super, "select count(*) from pg_tables where schemaname = 'plain' and tablename <> 'goose_db_version'"); out != "0" {
		t.Errorf("%s tables were made", out)
	}
	psqlOK(t, super, commands)
	if err := store.Migrate(t.Context(), plain); err != nil {
		t.Fatalf("after %s: %v", commands, err)
	}
	if err := store.Migrate(t.Context(), plain); err != nil {
		t.Errorf("again: %v", err)
	}
}
