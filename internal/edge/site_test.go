package edge_test

import (
	"fmt"
	"net/url"
	"os/exec"
	"strings"
	"testing"

	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/internal/testkit"
)

// pattern returns the SQL of docs/reference/sql.md that hands every row of a
// site's table in.
func pattern(t *testing.T) string {
	t.Helper()
	blocks := sqlOf(t, "../../docs/reference/sql.md")
	return blocks.next("create table site_submissions") + blocks.next("create function site_submit") + blocks.next("when (new.gavel_id is null) execute")
}

// site is a login with the role gavel_site and a schema of its own.
func (s *stand) site() string {
	s.t.Helper()
	const name = "gavel_test_site"
	s.exec("do $$ begin create role " + name + " login in role gavel_site; exception when duplicate_object then null; end $$")
	s.exec("create schema " + name + " authorization " + name)
	u, err := url.Parse(s.url)
	if err != nil {
		s.t.Fatal(err)
	}
	u.User = url.User(name)
	if q := u.Query(); q.Has("user") {
		q.Set("user", name)
		u.RawQuery = q.Encode()
	}
	return u.String()
}

func psql(t *testing.T, dsn, script string) (string, error) {
	t.Helper()
	program, err := exec.LookPath("psql")
	if err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	cmd := exec.CommandContext(t.Context(), program, "-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-d", dsn)
	cmd.Stdin = strings.NewReader(script)
	out, err := cmd.CombinedOutput()
	return strings.TrimSpace(string(out)), err
}

const insert = "insert into site_submissions (user_name, problem, language, code) values ('alice', 'p', 'c', 'int main(){}');\n"

func TestASitesOwnTransactionFromPsql(t *testing.T) {
	s := newStand(t)
	dsn := s.site()
	if out, err := psql(t, dsn, pattern(t)); err != nil {
		t.Fatalf("the documented pattern: %v\n%s", err, out)
	}
	counts := func(step string, want int) {
		t.Helper()
		for _, table := range []string{"gavel_test_site.site_submissions", "submissions", "submission_sources", "judgings", "jobs"} {
			if n := s.number("select count(*) from " + table); n != want {
				t.Errorf("%s: %d rows in %s, want %d", step, n, table, want)
			}
		}
	}
	if out, err := psql(t, dsn, "begin;\n"+insert+"select state from site_results;\nrollback;\n"); err != nil || out != "pending" {
		t.Errorf("inside the transaction: %q, %v", out, err)
	}
	counts("rolled back", 0)
	if out, err := psql(t, dsn, "begin;\n"+insert+"insert into site_submissions (user_name, problem, language, code) values ('alice', 'none', 'c', 'x');\ncommit;\n"); err == nil || !strings.Contains(out, "unknown problem") {
		t.Errorf("an unknown problem: %q, %v", out, err)
	}
	counts("refused", 0)
	if out, err := psql(t, dsn, "begin;\n"+insert+"commit;\n"); err != nil {
		t.Fatalf("%q, %v", out, err)
	}
	counts("committed", 1)
	a := s.agent("home", made{})
	l := a.claim()
	if out, _ := psql(t, dsn, "select state, verdict from site_results"); out != "judging|" {
		t.Errorf("while it is judged the site shows %q", out)
	}
	a.report(l.LeaseToken, verdictReport("WA"))
	if out, _ := psql(t, dsn, "select user_name, state, verdict, cpu_us from site_results"); out != "alice|done|WA|1" {
		t.Errorf("the site shows %q", out)
	}
	for sql, want := range map[string]string{
		"select gavel.submit('p', 'rust', 'x')": "does not take this language", "select gavel.submit('p', 'c', '')": "empty",
		"select gavel.submit('p', 'c', repeat('x', 1025))": "1025 bytes", `select gavel.submit('p', 'c', '\x00'::bytea)`: "NUL",
		"select gavel.submit('p', 'c', 'x', submitter => repeat('x', 129))": "128",
		"select * from submission_sources":                                  "permission denied", "select * from public.jobs": "permission denied", "select * from public.tokens": "permission denied",
		"update gavel.verdicts set verdict = 'AC'": "cannot update view", "select edge_reclaim('{}')": "permission denied",
	} {
		if out, err := psql(t, dsn, sql); err == nil || !strings.Contains(out, want) {
			t.Errorf("%s: %q, want %q", sql, out, want)
		}
	}
}

// A site is refused with a state of gavel's own and told what it can do, in words
// that are about nothing it cannot read.
func TestABadArgumentOfSubmitIsGV422(t *testing.T) {
	s := newStand(t)
	dsn := s.site()
	s.publish("other")
	s.exec("delete from package_languages where package_digest = $1", s.publish("before"))
	for call, want := range map[string]string{
		"'other', 'c', 'x', stop_rule => 'banana'": "there is no such stop rule\nHINT:  stop_rule is first (stop at the first test that fails) or all (run every test)",
		"'other', 'rust', 'x'":                     "this problem does not take this language\nHINT:  it takes c, python3",
		"'before', 'c', 'x'":                       "this problem does not take this language\nHINT:  it takes none yet: an arbiter of this version has to lead once",
	} {
		out, err := psql(t, dsn, "\\set VERBOSITY verbose\nselect gavel.submit("+call+")")
		if err == nil || !strings.Contains(out, "GV422: gavel: "+want) {
			t.Errorf("submit(%s): %s", call, out)
		}
	}
	s.number("select gavel.submit('other', 'c', 'x', stop_rule => null)") // the default
}

// A problem whose first version is on its way, or failed, is not unknown.
func TestSubmittingBySQLSaysWhyAProblemIsNotPublished(t *testing.T) {
	s := newStand(t)
	dsn := s.site()
	for _, c := range []struct{ problem, preparation, steps, state, want string }{
		{"new", "'preparing', '', null", "('done'), ('open'), ('waiting')", "GV409", "this problem is not published yet: it is being prepared (1 of 3 steps are done)"},
		{"bad", "'failed', 'the checker does not build', now()", "('done')", "GV409", "this problem is not published: its last version failed: the checker does not build"},
		{"none", "", "", "GV404", "unknown problem"},
	} {
		if c.preparation != "" {
			s.exec(fmt.Sprintf(`with p as (
				insert into preparations (problem, title, package_digest, verify, state, message, finished_at)
				select '%s', '', digest, 'all', %s from packages limit 1 returning id)
				insert into preparation_steps (preparation_id, n, kind, state) select p.id, row_number() over (), 'checker', v.state from p, (values %s) v (state)`,
				c.problem, c.preparation, c.steps))
		}
		sql := fmt.Sprintf("\\set VERBOSITY verbose\nselect gavel.submit('%s', 'c', 'x')", c.problem)
		if out, err := psql(t, dsn, sql); err == nil || !strings.Contains(out, c.want) || !strings.Contains(out, c.state) {
			t.Errorf("submitting to %q: %q, want %s: %q", c.problem, out, c.state, c.want)
		}
	}
}

func TestASitesOwnTransactionFromPython(t *testing.T) {
	const python = "/usr/bin/python3" // Debian's, whose packages it sees
	if out, err := exec.CommandContext(t.Context(), python, "-c", "import psycopg2").CombinedOutput(); err != nil {
		testkit.Missing(t, testkit.PG, "python3-psycopg2 is not there: %s", out)
	}
	s := newStand(t)
	dsn := s.site()
	if out, err := psql(t, dsn, pattern(t)); err != nil {
		t.Fatalf("the documented pattern: %v\n%s", err, out)
	}
	out, err := exec.CommandContext(t.Context(), python, "testdata/site.py", dsn).CombinedOutput()
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	var kept, lost, raw int64
	if _, err := fmt.Sscan(string(out), &kept, &lost, &raw); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	rows, err := s.db.Pool.Query(t.Context(), "select s.id || ' ' || coalesce(r.user_name, '-') || ' ' || encode(c.source, 'hex') from submissions s join submission_sources c on c.submission_id = s.id left join gavel_test_site.site_submissions r on r.gavel_id = s.id order by s.id")
	if err != nil {
		t.Fatal(err)
	}
	got, err := pgx.CollectRows(rows, pgx.RowTo[string])
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		fmt.Sprintf("%d bob %x", kept, "int main(){ puts(\"it's \\\\ é\"); }\n"),
		fmt.Sprintf("%d - %x", raw, "// \xb1\xe0\xd2\xeb\nint main(){}"),
	}
	if strings.Join(got, "\n") != strings.Join(want, "\n") || lost == 0 {
		t.Errorf("there are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if n := s.number("select count(*) from gavel_test_site.site_submissions"); n != 1 {
		t.Errorf("%d rows of the site", n)
	}
}
