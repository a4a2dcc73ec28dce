package transcript

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/sim/history"
)

// answers are what an arbiter says, call by call.
type answers struct {
	Calls

	claim  *gavelapi.ClaimResponse
	result *gavelapi.ResultResponse
	err    error
}

func (a *answers) Claim(context.Context, gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error) {
	return a.claim, a.err
}

func (a *answers) Heartbeat(context.Context, gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error) {
	return &gavelapi.HeartbeatResponse{TTLMS: 1}, a.err
}

func (a *answers) Result(context.Context, gavelapi.ResultRequest) (*gavelapi.ResultResponse, error) {
	return a.result, a.err
}

func (a *answers) Release(context.Context, gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error) {
	return &gavelapi.ReleaseResponse{Released: true}, a.err
}

func start(t *testing.T, dir, who string) *Log {
	t.Helper()
	l, err := Create(dir, who)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = l.Close() })
	return l
}

func leaseOf(job int64, token string, gen int64, attempt int) gavelapi.Lease {
	return gavelapi.Lease{JobID: job, SubmissionID: job + 100, LeaseToken: token, LeaseGen: gen, Attempt: attempt}
}

// told are the calls about a job, without their times, in the order in which they began.
func told(t *testing.T, dir string, job int64) []string {
	t.Helper()
	ops, err := Histories(dir, Now())
	if err != nil {
		t.Fatal(err)
	}
	var out []string
	for _, c := range history.Examine(append(ops, impossible(job)), 3, func() time.Duration { return time.Minute }).Wrong {
		if c.Job != job {
			continue
		}
		for _, o := range c.Calls {
			out = append(out, o.String())
		}
	}
	return slices.DeleteFunc(out, func(s string) bool { return strings.HasPrefix(s, "impossible") })
}

// impossible is a call that fits no history, so that all of it is told.
func impossible(job int64) history.Op {
	return At(history.Op{Who: "impossible", Job: job, Kind: history.Release, Token: "never granted", Answer: history.OK}, 0, 1)
}

var (
	away = &client.Unreachable{Op: "call", Err: errors.New("away")}
	gone = &gavelapi.Problem{Status: http.StatusGone, Reason: gavelapi.LeaseExpired}
)

func TestCallsAreWrittenDownWithTheirAnswers(t *testing.T) {
	dir := t.TempDir()
	l := start(t, dir, "one")
	arbiter := &answers{claim: &gavelapi.ClaimResponse{Leases: []gavelapi.Lease{leaseOf(7, "aaaa", 1, 1), {JobID: 8, LeaseToken: "a probe's"}}}}
	calls := l.Of(arbiter)
	ctx := t.Context()
	calls.Claim(ctx, gavelapi.ClaimRequest{RequestID: "r1", Session: "s1"})
	calls.Heartbeat(ctx, gavelapi.HeartbeatRequest{LeaseToken: "aaaa"})
	calls.Heartbeat(ctx, gavelapi.HeartbeatRequest{LeaseToken: "a probe's"})
	arbiter.err = away
	calls.Result(ctx, gavelapi.ResultRequest{LeaseToken: "aaaa", Report: gavelapi.Report{Verdict: "AC"}})
	arbiter.err, arbiter.result = nil, &gavelapi.ResultResponse{Outcome: gavelapi.OutcomeAlreadyRecorded}
	calls.Result(ctx, gavelapi.ResultRequest{LeaseToken: "aaaa", Report: gavelapi.Report{Verdict: "AC"}})
	arbiter.result = &gavelapi.ResultResponse{Outcome: gavelapi.OutcomeDiscarded, Reason: gavelapi.LeaseExpired}
	calls.Result(ctx, gavelapi.ResultRequest{LeaseToken: "aaaa", Report: gavelapi.Report{Fault: &gavelapi.Fault{}}})
	arbiter.result = &gavelapi.ResultResponse{Outcome: gavelapi.OutcomeRecorded, Reason: "not believed"}
	calls.Result(ctx, gavelapi.ResultRequest{LeaseToken: "aaaa", Report: gavelapi.Report{Verdict: "WA"}})
	arbiter.err = gone
	calls.Heartbeat(ctx, gavelapi.HeartbeatRequest{LeaseToken: "aaaa"})
	arbiter.err = nil
	calls.Release(ctx, gavelapi.ReleaseRequest{LeaseToken: "aaaa"})
	operator := start(t, dir, "operator")
	operator.Cancel(7, false, func() error { return &gavelapi.Problem{Status: http.StatusConflict} })
	operator.Cancel(7, true, func() error { return nil })

	want := []string{
		"one: grant aaaa gen 1 attempt 1 → ok", "one: heartbeat aaaa → ok", "one: result aaaa AC → unknown", "one: result aaaa AC → already",
		"one: fault aaaa → dead expired", "one: fault aaaa WA → ok", "one: heartbeat aaaa → dead expired", "one: release aaaa → ok",
		"operator: cancel → refused", "operator: supersede → ok",
	}
	if diff := cmp.Diff(want, told(t, dir, 7)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if got := told(t, dir, 8); len(got) != 0 {
		t.Errorf("a probe has a history: %q", got)
	}
}

// A claim that is repeated may have been granted the first time, by whichever
// way it went; and a process that is followed by another loses its leases.
func TestRepeatedClaimsAndSuccessionsAreKnown(t *testing.T) {
	dir := t.TempDir()
	arbiter := &answers{err: away}
	cut := start(t, dir, "one").Of(arbiter)
	direct := start(t, dir, "one").Of(arbiter)
	cut.Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r1", Session: "s1"})
	between := Now()
	arbiter.claim, arbiter.err = &gavelapi.ClaimResponse{Leases: []gavelapi.Lease{leaseOf(7, "aaaa", 1, 1)}}, nil
	direct.Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r1", Session: "s1"})
	arbiter.claim = &gavelapi.ClaimResponse{}
	direct.Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r2", Session: "s1"}) // the same process
	start(t, dir, "two").Of(arbiter).Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r3", Session: "s2"})
	if diff := cmp.Diff([]string{"one: grant aaaa gen 1 attempt 1 → ok"}, told(t, dir, 7)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	start(t, dir, "one").Of(arbiter).Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r4", Session: "s3"})
	if diff := cmp.Diff([]string{"one: grant aaaa gen 1 attempt 1 → ok", "one: succeed aaaa → unknown"}, told(t, dir, 7)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	// The repeated claim lasts from its first try: a cancel in between fits.
	ops, err := Histories(dir, Now())
	if err != nil {
		t.Fatal(err)
	}
	ops = append(ops, At(history.Op{Job: 7, Kind: history.Cancel, Answer: history.OK}, between, between+1))
	if err := history.Check(ops, 3, time.Minute); err != nil {
		t.Error(err)
	}
}

// What a killed process leaves is read as far as it is whole, and what was
// written down after the time that is asked for is not.
func TestATranscriptThatEndsAnywhereIsRead(t *testing.T) {
	dir := t.TempDir()
	arbiter := &answers{claim: &gavelapi.ClaimResponse{Leases: []gavelapi.Lease{leaseOf(7, "aaaa", 1, 1)}}}
	calls := start(t, dir, "one").Of(arbiter)
	calls.Claim(t.Context(), gavelapi.ClaimRequest{RequestID: "r1", Session: "s1"})
	before := Now()
	calls.Heartbeat(t.Context(), gavelapi.HeartbeatRequest{LeaseToken: "aaaa"})
	if ops, err := Histories(dir, before); err != nil || len(ops) != 1 {
		t.Errorf("%d calls until then, %v", len(ops), err)
	}
	file, err := filepath.Glob(filepath.Join(dir, "*"))
	if err != nil || len(file) != 1 {
		t.Fatal(file, err)
	}
	raw, err := os.ReadFile(file[0])
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file[0], raw[:len(raw)-5], 0o600); err != nil {
		t.Fatal(err)
	}
	want := []string{"one: grant aaaa gen 1 attempt 1 → ok", "one: heartbeat aaaa → unknown"}
	if diff := cmp.Diff(want, told(t, dir, 7)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
	if err := os.WriteFile(file[0], append([]byte("nonsense\n"), raw...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Histories(dir, Now()); err == nil {
		t.Error("nonsense was read")
	}
}

// A call that cannot be written down must not be made: its effects would be
// taken for somebody else's.
func TestWhatCannotBeWrittenDownIsNotAsked(t *testing.T) {
	l := start(t, t.TempDir(), "one")
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	asked := false
	if err := l.Cancel(1, false, func() error { asked = true; return nil }); err == nil || asked {
		t.Errorf("asked: %v, %v", asked, err)
	}
}

func TestAProxyWritesDownWhatPasses(t *testing.T) {
	dir := t.TempDir()
	arbiter := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		var body struct {
			RequestID  string `json:"request_id"`
			LeaseToken string `json:"lease_token"`
		}
		_ = json.NewDecoder(r.Body).Decode(&body) // a download has none
		answer := func(status int, v any) {
			w.WriteHeader(status)
			_ = json.NewEncoder(w).Encode(v)
		}
		switch {
		case r.Header.Get("Authorization") != "Bearer secret":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/v1/worker/claim" && body.RequestID == "empty":
			w.WriteHeader(http.StatusNoContent)
		case r.URL.Path == "/v1/worker/claim":
			answer(200, gavelapi.ClaimResponse{Leases: []gavelapi.Lease{leaseOf(7, "aaaa", 1, 1)}})
		case r.URL.Path == "/v1/worker/heartbeat":
			answer(200, gavelapi.HeartbeatResponse{TTLMS: 5})
		case r.URL.Path == "/v1/worker/result":
			panic(http.ErrAbortHandler) // the answer is lost
		case r.URL.Path == "/v1/worker/release":
			answer(503, gavelapi.Problem{Status: 503})
		default:
			_, _ = w.Write([]byte("a package"))
		}
	}))
	defer arbiter.Close()
	to, err := url.Parse(arbiter.URL)
	if err != nil {
		t.Fatal(err)
	}
	proxy := httptest.NewServer(start(t, dir, "one").Proxy(to))
	defer proxy.Close()
	c, err := client.New(proxy.URL, "secret", client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	if got, err := c.Claim(ctx, gavelapi.ClaimRequest{RequestID: "empty"}); err != nil || len(got.Leases) != 0 {
		t.Errorf("an empty claim: %v, %v", got, err)
	}
	if got, err := c.Claim(ctx, gavelapi.ClaimRequest{RequestID: "r1"}); err != nil || len(got.Leases) != 1 {
		t.Errorf("a claim: %v, %v", got, err)
	}
	if got, err := c.Heartbeat(ctx, gavelapi.HeartbeatRequest{LeaseToken: "aaaa"}); err != nil || got.TTLMS != 5 {
		t.Errorf("a heartbeat: %v, %v", got, err)
	}
	if _, err := c.Result(ctx, gavelapi.ResultRequest{LeaseToken: "aaaa", Report: gavelapi.Report{Verdict: "AC"}}); client.StatusOf(err) != 0 || err == nil {
		t.Errorf("a result whose answer was lost: %v", err)
	}
	if _, err := c.Release(ctx, gavelapi.ReleaseRequest{LeaseToken: "aaaa"}); err == nil {
		t.Errorf("a release: %v", err)
	}
	if p, err := c.FetchPackage(ctx, "sha256:0", 0); err != nil {
		t.Errorf("a package: %v", err)
	} else {
		p.Body.Close()
	}
	want := []string{"one: grant aaaa gen 1 attempt 1 → ok", "one: heartbeat aaaa → ok", "one: result aaaa AC → unknown", "one: release aaaa → unknown"}
	if diff := cmp.Diff(want, told(t, dir, 7)); diff != "" {
		t.Errorf("(-want +got)\n%s", diff)
	}
}
