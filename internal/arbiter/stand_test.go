package arbiter_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/blob/dirblob"
	"github.com/gavel-oj/gavel/internal/clock"
	"github.com/gavel-oj/gavel/internal/language"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/store"
	"github.com/gavel-oj/gavel/internal/store/storedb"
	"github.com/gavel-oj/gavel/internal/store/storetest"
)

func TestMain(m *testing.M) { storetest.Main(m) }

// quick settings: long enough for a busy machine to heartbeat in time, with a
// sweep that notices at once what a test did to a row.
var quick = lease.Settings{
	TTL: time.Minute, Heartbeat: 5 * time.Second, Confirm: time.Minute, AttemptCap: 3,
	Sweep: 50 * time.Millisecond, ClaimWait: 10 * time.Second,
}

// stand is an arbiter on a database of its own.
type stand struct {
	*arbiter.Arbiter
	t     *testing.T
	url   string
	db    *store.DB
	admin auth.Principal
	stop  func()
}

func newStand(t *testing.T, settings lease.Settings) *stand {
	t.Helper()
	return newStandWith(t, settings, func(*arbiter.Config) {})
}

func newStandWith(t *testing.T, settings lease.Settings, change func(*arbiter.Config)) *stand {
	t.Helper()
	return newStandOn(t, storetest.DB(t), settings, change)
}

// newStandOn is newStandWith on a database that nobody has used yet.
func newStandOn(t *testing.T, url string, settings lease.Settings, change func(*arbiter.Config)) *stand {
	t.Helper()
	s := startWith(t, url, settings, change)
	secret, err := s.AdminToken(t.Context(), "test")
	if err != nil {
		t.Fatal(err)
	}
	if s.admin, err = s.Authenticate(t.Context(), secret); err != nil {
		t.Fatal(err)
	}
	s.publish("p")
	s.awaitReady()
	return s
}

// startOn runs an arbiter on an existing database; it need not come to lead.
func startOn(t *testing.T, url string, settings lease.Settings) *stand {
	t.Helper()
	return startWith(t, url, settings, func(*arbiter.Config) {})
}

// startWith is startOn with a changed configuration.
func startWith(t *testing.T, url string, settings lease.Settings, change func(*arbiter.Config)) *stand {
	t.Helper()
	db, err := store.Open(t.Context(), url, store.Options{})
	if err != nil {
		t.Fatal(err)
	}
	blobs, err := dirblob.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	languages, err := language.Builtin()
	if err != nil {
		t.Fatal(err)
	}
	log := io.Discard
	if testing.Verbose() {
		log = t.Output()
	}
	cfg := arbiter.Config{
		DB: db, DatabaseURL: url, Blobs: blobs, Languages: languages, Lease: settings,
		Holder: t.Name(), Clock: clock.System{}, Logger: slog.New(slog.NewTextHandler(log, nil)),
		Leader: arbiter.LeaderSettings{Valid: 2 * time.Second, Renew: 200 * time.Millisecond, Answer: 1500 * time.Millisecond, Poll: 20 * time.Millisecond},
	}
	change(&cfg)
	a, err := arbiter.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		if err := a.Run(ctx); err != nil {
			t.Errorf("arbiter ended with %v", err)
		}
	}()
	var once sync.Once
	s := &stand{Arbiter: a, t: t, url: url, db: db}
	s.stop = func() { once.Do(func() { cancel(); <-done; db.Close(); _ = blobs.Close() }) }
	t.Cleanup(s.stop)
	return s
}

// until repeats look until it says yes; a test that waits for something that
// never happens fails with what it was.
func until(t *testing.T, what string, look func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for !look() {
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("waited in vain: %s", what)
		}
	}
}

func (s *stand) awaitReady() {
	s.t.Helper()
	until(s.t, "the arbiter leads", func() bool { _, ok := s.Ready(s.t.Context()); return ok })
}

func (s *stand) publish(name string) {
	s.t.Helper()
	m := &problem.Manifest{
		Schema: 1, Name: name, Titles: map[string]string{"en": name}, Format: "icpc-2025-09",
		Limits:  problem.Limits{CPUMS: 1000, MemoryBytes: 256 << 20, OutputBytes: 8 << 20, CodeBytes: 1 << 10, Processes: 64},
		Checker: problem.Checker{Kind: problem.CheckerTokens},
		Tests:   []problem.Test{{Name: "secret/1", Input: "data/secret/1.in", Answer: "data/secret/1.ans"}},
	}
	_, err := s.db.Publish(s.t.Context(), storedb.InsertPackageParams{Digest: problem.Digest(m), Manifest: problem.Encode(m), SizeBytes: 1}, name, name, nil)
	if err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) submit(language string) gavelapi.Submission {
	s.t.Helper()
	sub, _, err := s.CreateSubmission(s.t.Context(), s.admin, "", nil, gavelapi.NewSubmission{Problem: "p", Language: language, Source: "int main(){}"})
	if err != nil {
		s.t.Fatal(err)
	}
	return sub
}

func (s *stand) read(id int64) gavelapi.Submission {
	s.t.Helper()
	sub, err := s.Submission(s.t.Context(), id, 0)
	if err != nil {
		s.t.Fatal(err)
	}
	return sub
}

func (s *stand) exec(sql string, args ...any) {
	s.t.Helper()
	if _, err := s.db.Pool.Exec(s.t.Context(), sql, args...); err != nil {
		s.t.Fatal(err)
	}
}

func (s *stand) number(sql string, args ...any) (n int) {
	s.t.Helper()
	if err := s.db.Pool.QueryRow(s.t.Context(), sql, args...).Scan(&n); err != nil {
		s.t.Fatal(err)
	}
	return n
}

// expire makes a lease's time run out by the database's clock.
func (s *stand) expire(token string) {
	s.t.Helper()
	s.exec("update jobs set lease_expires_at = now() - interval '1 second' where lease_token = $1", token)
	until(s.t, "the lease is reclaimed", func() bool {
		return s.number("select count(*) from jobs where lease_token = $1", token) == 0
	})
}

// fake is a worker's side of the protocol.
type fake struct {
	s         *stand
	token     string
	p         auth.Principal
	session   string
	previous  string
	languages []string
	features  []string
	memory    int64
	slots     int
}

func (s *stand) worker(name string, slots int, languages ...string) *fake {
	s.t.Helper()
	inv, err := s.Invite(s.t.Context(), s.admin, gavelapi.NewInvitation{})
	if err != nil {
		s.t.Fatal(err)
	}
	who, err := s.Enrol(s.t.Context(), gavelapi.EnrolRequest{Invitation: inv.Code, Name: name})
	if err != nil {
		s.t.Fatal(err)
	}
	p, err := s.Authenticate(s.t.Context(), who.Token)
	if err != nil {
		s.t.Fatal(err)
	}
	return &fake{s: s, token: who.Token, p: p, session: uuid.NewString(), languages: languages, slots: slots}
}

func (f *fake) request(id string, wait time.Duration) gavelapi.ClaimRequest {
	req := gavelapi.ClaimRequest{
		RequestID: id, Session: f.session, PreviousSession: f.previous,
		Slots: f.slots, TotalSlots: f.slots, WaitMS: wait.Milliseconds(),
	}
	req.Capabilities.Features, req.Capabilities.MemoryBytes = f.features, f.memory
	for _, l := range f.languages {
		req.Capabilities.Languages = append(req.Capabilities.Languages, gavelapi.LanguageOffer{ID: l, Version: "1"})
	}
	return req
}

func (f *fake) tryClaim(wait time.Duration) ([]gavelapi.Lease, error) {
	got, err := f.s.Claim(f.s.t.Context(), f.p, f.request(uuid.NewString(), wait))
	return got.Leases, err
}

// claim waits for exactly one lease.
func (f *fake) claim() gavelapi.Lease {
	f.s.t.Helper()
	leases, err := f.tryClaim(10 * time.Second)
	if err != nil || len(leases) != 1 {
		f.s.t.Fatalf("claim: %d leases, error %v", len(leases), err)
	}
	return leases[0]
}

// hold claims one lease and confirms it.
func (f *fake) hold() gavelapi.Lease {
	f.s.t.Helper()
	l := f.claim()
	if err := f.beat(l.LeaseToken); err != nil {
		f.s.t.Fatal(err)
	}
	return l
}

func (f *fake) beat(token string) error {
	_, err := f.s.Heartbeat(f.s.t.Context(), f.p, gavelapi.HeartbeatRequest{LeaseToken: token})
	return err
}

// waits says whether some claim waits at the arbiter.
func (f *fake) waits() bool { return f.s.claimsWaiting() > 0 }

// claimsWaiting is how many claims wait, by the arbiter's metrics.
func (s *stand) claimsWaiting() int {
	return int(s.gauges()["gavel_claims_waiting"])
}

func verdictReport(v string) gavelapi.Report {
	return gavelapi.Report{Verdict: v, CPUUS: 1, Tests: []gavelapi.TestResult{{Name: "secret/1", Verdict: v}}}
}

func faultReport(blame string) gavelapi.Report {
	return gavelapi.Report{Fault: &gavelapi.Fault{Blame: blame, Message: "broken"}}
}

func (f *fake) report(token string, r gavelapi.Report) gavelapi.ResultResponse {
	f.s.t.Helper()
	got, err := f.s.Result(f.s.t.Context(), f.p, gavelapi.ResultRequest{LeaseToken: token, Report: r})
	if err != nil {
		f.s.t.Fatal(err)
	}
	return got
}

func (f *fake) release(token string) gavelapi.ReleaseResponse {
	f.s.t.Helper()
	got, err := f.s.Release(f.s.t.Context(), f.p, gavelapi.ReleaseRequest{LeaseToken: token, Reason: "shutdown"})
	if err != nil {
		f.s.t.Fatal(err)
	}
	return got
}

func wantGone(t *testing.T, err error, reason string) {
	t.Helper()
	e, ok := errors.AsType[*apperr.Error](err)
	if !ok || e.Code != apperr.Gone || e.Field != reason {
		t.Errorf("error %v, want a dead lease with reason %q", err, reason)
	}
}

func asJSON(v any) string {
	raw, err := json.MarshalIndent(v, "", " ")
	if err != nil {
		return fmt.Sprint(err)
	}
	return string(raw)
}
