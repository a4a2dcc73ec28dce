package edge_test

import (
	"context"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/edge"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/sandbox/linuxbox"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
	"github.com/gavel-oj/gavel/internal/store/storetest"
	"github.com/gavel-oj/gavel/internal/worker"
)

func TestMain(m *testing.M) {
	linuxbox.Init() // a box is this program again
	storetest.Main(m)
}

var _ worker.Arbiter = (*edge.Client)(nil) // the agent of gavel-worker runs on it

// stand is a database with a published problem, seen as its owner.
type stand struct {
	t      testing.TB
	url    string
	db     *store.DB
	digest string
}

func newStand(t testing.TB) *stand {
	t.Helper()
	return standOn(t, storetest.DB(t))
}

func standOn(t testing.TB, url string) *stand {
	t.Helper()
	s := standOnly(t, url)
	s.digest = s.publish("p")
	return s
}

// standOnly leaves the database as it is.
func standOnly(t testing.TB, url string) *stand {
	t.Helper()
	db, err := store.Open(t.Context(), url, store.Options{Role: "nobody's"}) // stays the owner
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(db.Close)
	return &stand{t: t, url: url, db: db}
}

// eventually repeats look until it says yes.
func eventually(t testing.TB, limit time.Duration, what string, look func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited %v in vain: %s", limit, what)
		}
	}
}

// publish makes a problem live, with limits for c and python3.
func (s *stand) publish(name string) string {
	s.t.Helper()
	m := &problem.Manifest{
		Schema: 1, Name: name, Titles: map[string]string{"en": name}, Format: "icpc-2025-09",
		Limits:  problem.Limits{CPUMS: 1000, MemoryBytes: 256 << 20, OutputBytes: 8 << 20, CodeBytes: 1 << 10, Processes: 64},
		Checker: problem.Checker{Kind: problem.CheckerTokens},
		Tests:   []problem.Test{{Name: "secret/1", Input: "data/secret/1.in", Answer: "data/secret/1.ans"}},
	}
	digest := problem.Digest(m)
	limits := json.RawMessage(`{"cpu_us":1000000,"wall_us":3000000,"memory_bytes":268435456,"output_bytes":8388608,"processes":64}`)
	err := s.db.Q.SavePackageLanguages(s.t.Context(), s.db.Pool, &storedb.SavePackageLanguagesParams{
		PackageDigest: digest, Languages: []string{"c", "python3"}, Limits: []json.RawMessage{limits, limits}, SourceBytes: []int64{1024, 1024}, Rules: "test",
	})
	if err != nil {
		s.t.Fatal(err)
	}
	_, err = s.db.Publish(s.t.Context(), storedb.InsertPackageParams{Digest: digest, Manifest: problem.Encode(m), SizeBytes: 1}, name, name, nil)
	if err != nil {
		s.t.Fatal(err)
	}
	return digest
}

// submit hands a source in as a site's own transaction does.
func (s *stand) submit(language string) int64 {
	s.t.Helper()
	return int64(s.number("select gavel.submit('p', $1, 'int main(){}', 'alice', 'a.c')", language))
}

func (s *stand) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
}

func (s *stand) number(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db.Pool.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return n
}

func (s *stand) text(sql string, args ...any) (v string) {
	s.t.Helper()
	if err := s.db.Pool.QueryRow(s.t.Context(), sql, args...).Scan(&v); err != nil {
		s.t.Fatalf("%s: %v", sql, err)
	}
	return v
}

// agent is a worker's side: the client under test, and what an agent says.
type agent struct {
	*edge.Client
	s       *stand
	session string
	// previous is the session that this one succeeds.
	previous  string
	languages []string
	features  []string
	memory    int64
	slots     int
	total     int
}

type made struct {
	pool  string
	rank  int
	slots int
	db    store.Options
	dir   string
	clock edge.Config
}

func (s *stand) agent(name string, m made) *agent {
	s.t.Helper()
	m.db.Role = store.EdgeRole
	db, err := store.Open(s.t.Context(), s.url, m.db)
	if err != nil {
		s.t.Fatal(err)
	}
	s.t.Cleanup(db.Close)
	return s.agentOn(db, name, m)
}

func (s *stand) agentOn(db *store.DB, name string, m made) *agent {
	s.t.Helper()
	packages := edge.Packages(anywhere{})
	if m.dir != "" {
		dir, err := edge.OpenDirectory(m.dir)
		if err != nil {
			s.t.Fatal(err)
		}
		s.t.Cleanup(func() { _ = dir.Close() })
		packages = dir
	}
	log := io.Discard
	if testing.Verbose() {
		log = s.t.Output()
	}
	if m.rank == 0 {
		m.rank = 100
	}
	m.slots = max(1, m.slots)
	c, err := edge.New(edge.Config{
		DB: db, Name: name, Pool: m.pool, Rank: m.rank, Poll: m.clock.Poll, Packages: packages, Logger: slog.New(slog.NewTextHandler(log, nil)),
	})
	if err != nil {
		s.t.Fatal(err)
	}
	return &agent{Client: c, s: s, session: uuid.NewString(), languages: []string{"c"}, slots: m.slots, total: m.slots}
}

// anywhere is for tests that need no packages.
type anywhere struct{}

func (anywhere) Lacks(string) bool { return false }
func (anywhere) FetchPackage(context.Context, string, int64) (*client.PackageStream, error) {
	return nil, &gavelapi.Problem{Status: http.StatusNotFound}
}

func (a *agent) request(id string, wait time.Duration) gavelapi.ClaimRequest {
	r := gavelapi.ClaimRequest{
		RequestID: id, Session: a.session, PreviousSession: a.previous, Slots: a.slots, TotalSlots: a.total, WaitMS: wait.Milliseconds(),
		Capabilities: gavelapi.Capabilities{MemoryBytes: a.memory, Features: a.features},
	}
	for _, l := range a.languages {
		r.Capabilities.Languages = append(r.Capabilities.Languages, gavelapi.LanguageOffer{ID: l, Version: "1"})
	}
	return r
}

// poll looks once.
func (a *agent) poll() []gavelapi.Lease {
	a.s.t.Helper()
	got, err := a.Claim(a.s.t.Context(), a.request(uuid.NewString(), 0))
	if err != nil {
		a.s.t.Fatalf("claim: %v", err)
	}
	return got.Leases
}

// claim looks once and wants one lease.
func (a *agent) claim() gavelapi.Lease {
	a.s.t.Helper()
	leases := a.poll()
	if len(leases) != 1 {
		a.s.t.Fatalf("%d leases, want one", len(leases))
	}
	return leases[0]
}

func (a *agent) beat(token string) error {
	_, err := a.Heartbeat(a.s.t.Context(), gavelapi.HeartbeatRequest{LeaseToken: token})
	return err
}

func (a *agent) report(token string, r gavelapi.Report) gavelapi.ResultResponse {
	a.s.t.Helper()
	got, err := a.Result(a.s.t.Context(), gavelapi.ResultRequest{LeaseToken: token, Report: r})
	if err != nil {
		a.s.t.Fatalf("result: %v", err)
	}
	return *got
}

func verdictReport(v string) gavelapi.Report {
	return gavelapi.Report{
		Verdict: v, CPUUS: 1, WallUS: 2, MemoryBytes: 3, Compile: gavelapi.CompileInfo{Log: "warning: é\x00"},
		Tests: []gavelapi.TestResult{{Name: "secret/1", Verdict: v, CPUUS: 1}}, Provenance: gavelapi.Provenance{WorkerBuild: "test"},
	}
}

func faultReport(blame string) gavelapi.Report {
	return gavelapi.Report{Fault: &gavelapi.Fault{Blame: blame, Message: "broken"}}
}

// expire makes a lease's time run out by the database's clock.
func (s *stand) expire(token string) {
	s.t.Helper()
	s.exec("update jobs set lease_expires_at = now() - interval '1 second' where lease_token = $1", token)
}

// older makes the waiting jobs look as if they had waited for long enough that
// nobody leaves them to anybody.
func (s *stand) older() {
	s.t.Helper()
	s.exec("update jobs set created_at = created_at - interval '1 minute'")
}

func wantStatus(t *testing.T, err error, status int, reason string) {
	t.Helper()
	if client.StatusOf(err) != status || !strings.Contains(err.Error(), reason) {
		t.Errorf("error %v, want status %d and %q", err, status, reason)
	}
}

func writeFile(t *testing.T, dir, name, content string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte(content), 0o600); err != nil {
		t.Fatal(err)
	}
}
