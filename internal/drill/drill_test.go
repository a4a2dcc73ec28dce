package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gavel-oj/gavel/internal/pgserver/pgbin"
	"github.com/gavel-oj/gavel/internal/testkit"
)

// cluster makes a database once for all tests, which copy it.
var cluster = sync.OnceValues(func() (string, error) {
	bin, err := testkit.Programs()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(bin, "cluster")
	return dir, PrepareCluster(context.Background(), dir)
})

func TestMain(m *testing.M) {
	// The processes of a drill are this program again.
	if code, handled := Role(context.Background(), os.Args[1:], os.Stdin, os.Stderr); handled {
		os.Exit(code)
	}
	code := m.Run()
	testkit.RemovePrograms()
	os.Exit(code)
}

// seed makes the random parts of a test the same each time, unless
// GAVEL_DRILL_SEED gives another one.
func seed(t *testing.T) uint64 {
	n, err := strconv.ParseUint(os.Getenv("GAVEL_DRILL_SEED"), 10, 64)
	if err != nil {
		n = 20
	}
	t.Logf("seed %d (GAVEL_DRILL_SEED)", n)
	return n
}

func options(t *testing.T) Options {
	t.Helper()
	if _, err := pgbin.Find(t.Context(), pgbin.Options{}); err != nil {
		testkit.Missing(t, testkit.PG, "%v", err)
	}
	bin, err := testkit.Programs()
	if err != nil {
		t.Fatal(err)
	}
	prepared, err := cluster()
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Cluster: prepared, Gavel: filepath.Join(bin, "gavel"), Worker: filepath.Join(bin, "gavel-worker"), Self: os.Args[0],
		Dir: tempDir(t), Seed: seed(t), Rounds: 6, Note: func(s string) { t.Log(s) },
	}
}

// tempDir is one that the database's user can walk through.
func tempDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "gavel-drill-test-")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Chmod(dir, 0o711); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

// run runs one scenario and checks that nothing of it is left.
func run(t *testing.T, name string, o Options) Result {
	t.Helper()
	found := Find(name)
	if len(found) != 1 {
		t.Fatalf("%d scenarios are called %s", len(found), name)
	}
	r := Run(t.Context(), found[0], o)
	if r.Verdict == Skipped {
		testkit.Missing(t, testkit.Cgroup, "%s", strings.Join(r.Why, "; "))
	}
	if r.Verdict == Failed && !o.Sabotage {
		logs, _ := filepath.Glob(filepath.Join(r.Dir, "*.log"))
		for _, f := range logs {
			raw, _ := os.ReadFile(f)
			lines := strings.Split(strings.TrimRight(string(raw), "\n"), "\n")
			t.Logf("%s:\n%s", filepath.Base(f), strings.Join(lines[max(0, len(lines)-40):], "\n"))
		}
		_ = os.RemoveAll(r.Dir)
	}
	if left := leftovers(o.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	return r
}

// leftovers are processes, mounts and files with a directory in their names.
func leftovers(dir string) (left []string) {
	lines, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, f := range lines {
		raw, err := os.ReadFile(f)
		if err == nil && bytes.Contains(raw, []byte(dir)) && filepath.Base(filepath.Dir(f)) != strconv.Itoa(os.Getpid()) {
			left = append(left, strings.ReplaceAll(string(raw), "\x00", " "))
		}
	}
	if mounts, err := os.ReadFile("/proc/self/mounts"); err == nil && bytes.Contains(mounts, []byte(dir)) {
		left = append(left, "a mount below "+dir)
	}
	files, _ := filepath.Glob(dir + "/*")
	return append(left, files...)
}

// The short selection of `gavel-drill run --all`: one of each kind of harm. The
// limits of times are for a machine that does nothing else; here they are tenfold.
func TestNothingIsLost(t *testing.T) {
	for _, name := range []string{
		"a1-worker-killed", "a5-result-answer-lost", "a7-leader-killed", "a7-leader-frozen",
		"a8-postgres-read-only", "a11-frozen-worker", "a24-planned-sleep",
	} {
		t.Run(name, func(t *testing.T) {
			r := run(t, name, options(t))
			for _, f := range r.Figures {
				t.Logf("%s: %.4g %s (at most %.4g)", f.Name, f.Value, f.Unit, f.Limit)
			}
			slow := r.Verdict == Failed && !slices.ContainsFunc(r.Why, func(why string) bool { return !strings.Contains(why, "are allowed") }) &&
				!slices.ContainsFunc(r.Figures, func(f Figure) bool { return f.Limit > 0 && f.Value > 10*f.Limit })
			if r.Verdict != OK && !slow || r.Lost+r.Duplicated+r.Stale+r.Unordered+r.Undecided != 0 || r.Jobs == 0 || r.Histories == 0 || r.Calls < 3*r.Histories {
				raw, _ := json.MarshalIndent(r, "", " ")
				t.Errorf("%s", raw)
			}
		})
	}
}

// Counter-tests: without its protection a scenario fails. The whole of them is
// `gavel-drill run --all --sabotage`.
func TestADrillWithoutItsProtectionFails(t *testing.T) {
	for _, name := range []string{
		"a2-cut-off-worker", "a7-leader-killed", "a8-postgres-killed", "a8-sessions-terminated", "a9-died-before-reporting",
		"a11-frozen-worker", "a16-clock-behind", "a20-same-instant", "a22-bad-lines-and-clients", "staged-switch",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel() // they wait for most of their time, and nothing is measured
			o := options(t)
			o.Sabotage = true
			if r := run(t, name, o); r.Verdict != Failed {
				t.Errorf("it was %s", r.Verdict)
			} else {
				t.Logf("noticed: %s", r.Why[0])
			}
		})
	}
}

// The ledger is what says "nothing lost": each of its questions finds what it
// asks for.
func TestTheLedgerFindsWhatIsWrong(t *testing.T) {
	const done = "insert into attempts (job_id, lease_gen, lease_token, judging_id, submission_id, worker_id, session, request_id, term, granted_at, ended_at, outcome) " +
		"select %s, %s, gen_random_uuid(), judging_id, submission_id, worker_id, session, request_id, term, %s, %s, '%s' from attempts limit 1"
	cases := []struct{ name, harm, want string }{
		{"a result of another generation", "update judgings set lease_gen = lease_gen + 1", "dead leases"},
		{"a verdict that was changed", "update judgings set verdict = 'WA'", "want [AC]"},
		{"a second result", fmt.Sprintf(done, "job_id", "lease_gen + 1", "now()", "now()", "completed"), "recorded twice"},
		{"rows of tests twice", "update judgings set tests = tests || tests", "recorded twice"},
		{"two leases at once", fmt.Sprintf(done, "job_id", "lease_gen + 1", "granted_at", "now()", "expired"), "overlap"},
		{"a generation left out", fmt.Sprintf(done, "job_id", "lease_gen + 2", "now()", "now()", "expired"), "overlap"},
		{"more leases than slots", fmt.Sprintf(done, "job_id + 1000", "1", "granted_at", "ended_at", "expired"), "free slot"},
		{"a submission that is stuck", "update judgings set state = 'open', verdict = null, finished_at = null", "lost or stuck"},
		{"an attempt that nobody ends", fmt.Sprintf(done, "job_id", "lease_gen + 1", "now()", "null", "running"), "disagree"},
	}
	// One stand: each harm is done to a copy of a database in which nothing is wrong.
	o := options(t)
	why := make([][]string, len(cases)+1)
	r := Run(t.Context(), Scenario{Name: "test-ledger", script: func(d *T) {
		s := newStand(d)
		s.serve(20*time.Second, time.Second)
		hand := s.caller("hand", "", 1)
		id := s.submit("by hand")
		hand.wantReport(hand.take(20*time.Second).LeaseToken, "AC", "recorded")
		s.arbiters[0].stop(20 * time.Second)
		s.db.Close()
		for i := range why {
			s.connect(s.pg.DatabaseURL("postgres"))
			s.exec(fmt.Sprintf("create database harmed_%d template gavel", i))
			s.db.Close()
			s.connect(s.pg.DatabaseURL(fmt.Sprintf("harmed_%d", i)))
			if i < len(cases) {
				s.exec(cases[i].harm)
			}
			s.owe(id, nil)
			s.audit()
			s.db.Close()
			d.mu.Lock()
			why[i], d.result.Why = d.result.Why, nil
			d.mu.Unlock()
		}
	}}, o)
	_ = os.RemoveAll(r.Dir)
	if len(r.Why) != 0 || len(why[len(cases)]) != 0 {
		t.Fatalf("found in a sound database: %q %q", r.Why, why[len(cases)])
	}
	for i, c := range cases {
		if !slices.ContainsFunc(why[i], func(w string) bool { return strings.Contains(w, c.want) }) {
			t.Errorf("%s: found %q, want something with %q", c.name, why[i], c.want)
		}
	}
}

// Every figure of the load is measured; how good they are depends on what else
// the machine does.
func TestTheLoadIsMeasured(t *testing.T) {
	o := options(t)
	r := Load(t.Context(), LoadSizes{Workers: 4, For: time.Second, Claims: 30, Pending: 300, Leased: 10}, o)
	_ = os.RemoveAll(r.Dir)
	for _, why := range r.Why {
		if !strings.Contains(why, "are allowed") {
			t.Error(why)
		}
	}
	if len(r.Figures) != 5 {
		t.Fatalf("%d figures: %v", len(r.Figures), r.Figures)
	}
	for _, rate := range r.Figures[3:] {
		if rate.Value <= 0 {
			t.Errorf("%s: %v %s", rate.Name, rate.Value, rate.Unit)
		}
	}
	if left := leftovers(o.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// Ctrl-C ends a drill at any time and leaves nothing.
func TestAnInterruptedDrillLeavesNothing(t *testing.T) {
	o := options(t)
	ctx, interrupt := context.WithCancelCause(t.Context())
	var once sync.Once
	o.Note = func(string) { once.Do(func() { interrupt(errors.New("interrupted")) }) }
	began := time.Now()
	r := Run(ctx, Find("a17-disk-full")[0], o)
	_ = os.RemoveAll(r.Dir)
	if r.Verdict != Interrupted || r.Dir != "" {
		t.Errorf("%s, kept %q: %q", r.Verdict, r.Dir, r.Why)
	}
	if took := time.Since(began); took > time.Minute {
		t.Errorf("it took %v to end", took)
	}
	if left := leftovers(o.Dir); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
}

// A drill whose bystanders never get to work ends as any other that fails.
func TestADrillEndsThoughItsBystanderNeverWorks(t *testing.T) {
	o := options(t)
	ctx, interrupt := context.WithCancel(t.Context())
	defer interrupt()
	ended := make(chan Result, 1)
	go func() {
		ended <- Run(ctx, Scenario{Name: "test-bystander", script: func(d *T) {
			s := newStand(d)
			s.serve(20*time.Second, time.Second)
			s.trigger("jobs", "before update", "return null;") // nothing is granted
			d.aside(func() {
				d.within(time.Minute, func() bool { return s.number("select count(*) from submissions") == 1 })
				interrupt()
			})
			s.watch(calm, "", nil)
		}}, o)
	}()
	select {
	case r := <-ended:
		_ = os.RemoveAll(r.Dir)
		if r.Verdict != Interrupted {
			t.Errorf("%s: %q", r.Verdict, r.Why)
		}
	case <-time.After(2 * time.Minute):
		t.Fatal("it does not end")
	}
}

func TestScenariosAreWellFormed(t *testing.T) {
	names := map[string]bool{}
	numbers := map[string]bool{}
	for _, s := range All() {
		if names[s.Name] {
			t.Errorf("two scenarios are called %s", s.Name)
		}
		names[s.Name], numbers[s.Number()] = true, true
		if s.script == nil || s.Fires == "" || s.Sabotage == "" {
			t.Errorf("%s has no script, or does not say what fires and how that is switched off", s.Name)
		}
	}
	for n := 1; n <= 24; n++ {
		if !numbers[fmt.Sprintf("A%d", n)] {
			t.Errorf("there is no scenario of situation A%d", n)
		}
	}
	if got := Find("a7"); len(got) != 3 {
		t.Errorf("A7 means %d scenarios", len(got))
	}
	if first, last := Sorted()[0], Sorted()[len(All())-1]; first.Number() != "A1" || last.Name != "staged-switch" {
		t.Errorf("sorted from %s to %s", first.Number(), last.Number())
	}
}

func TestActorsFollowTheirScript(t *testing.T) {
	for _, c := range []struct{ who, script, want string }{
		{"one", "*: AC after 1s", "AC after 1s"},
		{"one", "one: die\n*: AC after 1s", "die"},
		{"two", "one: die\n*: AC after 1s", "AC after 1s"},
		{"two", "one: die", ""},
		{"two", "by hand", ""},
	} {
		if got, err := (actor{name: c.who}).part(c.script); got != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s in %q: %q, %v", c.who, c.script, got, err)
		}
	}
}

func TestTablesShowEveryScenario(t *testing.T) {
	results := []Result{
		{Name: "a1-worker-killed", Number: "A1", Fired: "expiry", Verdict: OK, Jobs: 3, Calls: 41, Histories: 5, Bystanders: 2, HoldUpMS: 12, Figures: []Figure{{"x", 1, "ms", 2}}},
		{Name: "a3-same-worker-again", Number: "A3", Verdict: Failed, Why: []string{"because\n\tthis"}, Unordered: 2, Undecided: 1, Lost: 1, Seed: 7},
		{Name: "a12-broken-worker", Number: "A12", Verdict: Skipped, Why: []string{"not there"}},
	}
	var b strings.Builder
	if err := Table(&b, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"a1-worker-killed", "12 ms", "not there", "(seed 7)", "  because\n  \tthis\n", "A1 x", "1 ok, 1 failed, 1 skipped; 3 jobs: 1 lost",
		"41 calls about 5 jobs: the answers about 2 follow from no order of them, 1 were not decided in time",
	} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
	b.Reset()
	if err := SabotageTable(&b, results); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"NOTHING", "because", "ten minutes"} {
		if !strings.Contains(b.String(), want) {
			t.Errorf("no %q in\n%s", want, b.String())
		}
	}
}
