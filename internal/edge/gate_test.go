package edge_test

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// byHand is a login that makes the calls by hand, as no program of ours would.
type byHand struct {
	s      *stand
	conn   *pgx.Conn
	worker string
	id     string // its session's
}

func (s *stand) byHand(login, name string) *byHand {
	s.t.Helper()
	conn, err := pgx.Connect(s.t.Context(), s.login(login))
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(func() { _ = conn.Close(context.WithoutCancel(s.t.Context())) })
	c := &byHand{s: s, conn: conn, id: uuid.NewString()}
	if _, err := conn.Exec(s.t.Context(), "set idle_in_transaction_session_timeout = '5s'"); err != nil {
		s.t.Fatal(err)
	}
	if _, err := c.ask("edge_hello", `{"name": "`+name+`"}`); err != nil {
		s.t.Fatal(err)
	}
	c.worker = s.text("select id::text from workers where name = $1", name)
	return c
}

func (c *byHand) ask(function, request string) (answer string, err error) {
	c.s.t.Helper()
	err = c.conn.QueryRow(c.s.t.Context(), "select "+function+"($1::jsonb)::text", request).Scan(&answer)
	return answer, err
}

func (c *byHand) claim(slots int, capabilities string) (string, error) {
	c.s.t.Helper()
	return c.ask("edge_claim", fmt.Sprintf(`{"worker_id": %s, "session": %q, "request_id": %q, "slots": %d, "total_slots": %d, "kinds": ["judge", "prepare", "rejudge"], "capabilities": %s}`,
		c.worker, c.id, uuid.NewString(), slots, slots, capabilities))
}

// lease claims one job and gives its token.
func (c *byHand) lease() string {
	c.s.t.Helper()
	if _, err := c.claim(1, `{"languages": [{"id": "c"}]}`); err != nil {
		c.s.t.Fatal(err)
	}
	return c.s.text("select lease_token::text from jobs where state = 'leased' and worker_id = $1::bigint", c.worker)
}

func (c *byHand) result(token, report string) (string, error) {
	c.s.t.Helper()
	return c.ask("edge_result", fmt.Sprintf(`{"worker_id": %s, "lease_token": %q, "report": %s}`, c.worker, token, report))
}

// What a login sends is refused when it has not the shape that it must have,
// before anything of it is stored.
func TestWhatALoginSendsHasTheShapesOfTheAPI(t *testing.T) {
	b := newBoth(t, calm)
	c := b.byHand("gavel_test_shapes", "hand-made")
	id := b.submit("c")
	for _, capabilities := range []string{
		`{"languages": [{"id": "c"}], "features": [1, {"a": 2}]}`, `[]`, `"x"`, `5`, `{"languages": {"id": "c"}}`, `{"languages": ["c"]}`,
		`{"languages": [{"id": "c"}], "memory_bytes": "12"}`, `{"memory_bytes": 1e30}`, `{"weaker": 5}`,
	} {
		if _, err := c.claim(1, capabilities); pgCode(err) != "GV422" || !strings.Contains(err.Error(), "request.capabilities") {
			t.Errorf("capabilities %s: %v", capabilities, err)
		}
	}
	for function, request := range map[string]string{
		"edge_hello":     `{"name": 5}`,
		"edge_reclaim":   `{"worker_id": "1"}`,
		"edge_claim":     `{"worker_id": ` + c.worker + `, "session": "x"}`,
		"edge_heartbeat": `{"worker_id": ` + c.worker + `, "lease_token": "x"}`,
		"edge_release":   `[1]`,
	} {
		if _, err := c.ask(function, request); pgCode(err) != "GV422" {
			t.Errorf("%s of %s: %v", function, request, err)
		}
	}
	if _, err := b.api.WorkerList(t.Context()); err != nil {
		t.Error(err)
	}
	token := c.lease()
	const head = `{"verdict": "AC", "tests": [{"name": "secret/1", "verdict": "AC"}], `
	for _, report := range []string{
		`5`, `null`, `{}`, `{"verdict": 5}`, head + `"compile": 5}`, head + `"provenance": "x"}`, head + `"cpu_us": "7"}`, head + `"cpu_us": 1.5}`,
		head + `"fault": {}}`, `{"verdict": "AC", "tests": {"a": 1}}`, `{"verdict": "AC", "tests": [{"name": "secret/1", "verdict": "AC", "cpu_us": "7"}]}`,
		`{"verdict": "AC", "tests": [{"name": "secret/1", "verdict": "AC", "message": {"a": 1}}]}`,
		`{"run": {"compiled": true, "results": [{"ended": "exit", "stdout_base64": "!"}]}}`,
	} {
		if _, err := c.result(token, report); pgCode(err) != "GV422" {
			t.Errorf("report %s: %v", report, err)
		}
	}
	if _, err := c.result(token, head+`"compile": {"log": "`+strings.Repeat("x", 17<<20)+`"}}`); pgCode(err) != "GV422" {
		t.Errorf("a log of 17 MiB: %v", err)
	}
	if got := b.read(id); got.State != gavelapi.StateJudging {
		t.Errorf("after all that it is %s", got.State)
	}
	// What nobody knows is dropped, what is too long is cut, and the rest counts.
	if got, err := c.result(token, head+`"compile": {"log": "`+strings.Repeat("x", 70<<10)+`", "secret": 1}, "provenance": null}`); err != nil || !strings.Contains(got, "recorded") {
		t.Fatal(got, err)
	}
	got := b.read(id)
	if got.Verdict != "AC" || len(got.Detail.Compile.Log) != 64<<10 || !got.Detail.Compile.LogCut || got.Detail.Unreadable != "" {
		t.Errorf("it is read as %s with %d bytes of log, cut: %v, %s", got.Verdict, len(got.Detail.Compile.Log), got.Detail.Compile.LogCut, got.Detail.Unreadable)
	}
	if n := b.number("select count(*) from judgings where compile ? 'secret'"); n != 0 {
		t.Error("a field that nobody knows was stored")
	}
}

// A report that contradicts itself is no verdict on this way either.
func TestAReportThatContradictsItselfIsNoVerdict(t *testing.T) {
	b := newBoth(t, calm)
	c := b.byHand("gavel_test_liar", "liar")
	id := b.submit("c")
	for range 3 {
		got, err := c.result(c.lease(), `{"verdict": "AC", "tests": [{"name": "secret/1", "verdict": "WA"}]}`)
		if err != nil || !strings.Contains(got, "it is AC but not all of its tests are") {
			t.Errorf("the answer is %s, %v", got, err)
		}
	}
	if got := b.read(id); got.Verdict != "SE" || got.Fault == nil || got.Fault.Blame != gavelapi.BlameHost {
		t.Errorf("it is %s, %+v", got.Verdict, got.Fault)
	}
}

// Rows that were stored by a version that did not look are shown as what they
// are, and hide no other.
func TestAStoredRowThatCannotBeReadIsShownAsSuch(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{})
	id := b.submit("c")
	a.report(a.claim().LeaseToken, verdictReport("AC"))
	b.exec(`update judgings set compile = '5', tests = '[{"cpu_us": "7"}]', provenance = '"x"'`)
	b.exec(`update workers set capabilities = '{"memory_bytes": "12", "features": [1]}'`)
	b.exec(`insert into workers (name) values ('other')`)
	got := b.read(id)
	for _, part := range []string{"judging 1 ", "its compile", "its tests", "its provenance", "gavel rejudge"} {
		if !strings.Contains(got.Detail.Unreadable, part) {
			t.Errorf("%q does not say %q", got.Detail.Unreadable, part)
		}
	}
	if got.Verdict != "AC" || got.Detail.Tests == nil || len(got.Detail.Tests) != 0 {
		t.Errorf("the rest is %s %+v", got.Verdict, got.Detail.Tests)
	}
	list, err := b.api.WorkerList(t.Context())
	if err != nil || len(list.Workers) != 2 {
		t.Fatalf("%+v, %v", list, err)
	}
	for _, w := range list.Workers {
		if bad := strings.Contains(w.Unreadable, "capabilities"); bad != (w.Name == "home") {
			t.Errorf("worker %s: %q", w.Name, w.Unreadable)
		}
	}
	b.exec(`update judgings set state = 'system_error', verdict = null, fault = '"x"'`)
	all, err := b.api.SubmissionList(t.Context(), client.SubmissionFilter{}, "", 10)
	if err != nil || len(all.Submissions) != 1 || !strings.Contains(all.Submissions[0].Fault.Message, "cannot be read") {
		t.Errorf("%+v, %v", all, err)
	}
}
