package edge_test

import (
	"archive/zip"
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/arbiter"
	"github.com/gavel-oj/gavel/internal/edge"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/serve"
)

// both is a database with an arbiter on it, that can be stopped and started.
type both struct {
	*stand
	dir string
	// leader is zero for one that is quickly replaced.
	leader arbiter.LeaderSettings
	srv    *serve.Server
	api    *client.Client
}

func newBoth(t *testing.T, settings lease.Settings) *both {
	t.Helper()
	b := &both{stand: newStand(t), dir: t.TempDir()}
	b.exec("update package_languages set rules = 'old'")
	b.up(settings)
	t.Cleanup(b.down)
	return b
}

func (b *both) up(settings lease.Settings) {
	b.t.Helper()
	if b.leader == (arbiter.LeaderSettings{}) {
		b.leader = arbiter.LeaderSettings{Valid: 3 * time.Second, Renew: 300 * time.Millisecond, Answer: 2500 * time.Millisecond, Poll: 20 * time.Millisecond}
	}
	srv, err := serve.Start(b.t.Context(), serve.Config{
		DatabaseURL: b.url, DataDir: b.dir, Listen: "127.0.0.1:0", Logger: slog.New(slog.DiscardHandler), Lease: settings, Leader: b.leader,
	})
	if err != nil {
		b.t.Fatal(err)
	}
	b.srv = srv
	file := filepath.Join(b.dir, "token")
	if _, err := srv.AdminToken(b.t.Context(), file); err != nil {
		b.t.Fatal(err)
	}
	token, err := os.ReadFile(file)
	if err != nil {
		b.t.Fatal(err)
	}
	if b.api, err = client.New(srv.URL(), strings.TrimSpace(string(token)), client.Options{}); err != nil {
		b.t.Fatal(err)
	}
	eventually(b.t, time.Minute, "an arbiter leads and has told its settings and limits", func() bool {
		return b.number(`select count(*) from leadership where expires_at > now()`) == 1 &&
			b.number("select count(*) from lease_settings where ttl = make_interval(secs => $1)", settings.TTL.Seconds()) == 1 &&
			b.number("select count(*) from package_languages where rules = 'old'") == 0
	})
}

func (b *both) down() {
	b.t.Helper()
	if b.srv == nil {
		return
	}
	b.api.Close()
	if err := b.srv.Close(context.WithoutCancel(b.t.Context())); err != nil {
		b.t.Error(err)
	}
	b.srv = nil
}

// http is a worker by way of the arbiter.
func (b *both) http(name string) (token string) {
	b.t.Helper()
	inv, err := b.api.WorkerInvite(b.t.Context(), gavelapi.NewInvitation{})
	if err != nil {
		b.t.Fatal(err)
	}
	got, err := b.api.Enrol(b.t.Context(), gavelapi.EnrolRequest{Invitation: inv.Code, Name: name})
	if err != nil {
		b.t.Fatal(err)
	}
	return got.Token
}

func (b *both) dial(token string) *client.Client {
	b.t.Helper()
	c, err := client.New(b.srv.URL(), token, client.Options{})
	if err != nil {
		b.t.Fatal(err)
	}
	b.t.Cleanup(func() { c.Close() })
	return c
}

func (b *both) read(id int64) *gavelapi.Submission {
	b.t.Helper()
	sub, err := b.api.SubmissionGet(b.t.Context(), id, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return sub
}

// calm settings: nothing expires unless a test says so.
var calm = lease.Settings{TTL: time.Minute, Heartbeat: 5 * time.Second, Confirm: 30 * time.Second, AttemptCap: 3, Sweep: 100 * time.Millisecond, ClaimWait: 5 * time.Second}

func TestTheArbiterSeesWhatAnEdgeWorkerHolds(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{})
	id := b.submit("c")
	l := a.claim()
	if sub := b.read(id); sub.State != gavelapi.StateJudging || sub.Worker != "home" || len(sub.Detail.Attempts) != 1 {
		t.Errorf("the arbiter shows %+v", sub)
	}
	list, err := b.api.WorkerList(t.Context())
	if err != nil || len(list.Workers) != 1 || list.Workers[0].State != "busy" || list.Workers[0].Leases != 1 {
		t.Errorf("the fleet is %+v, %v", list, err)
	}
	h := b.dial(b.http("other"))
	got, err := h.Claim(t.Context(), gavelapi.ClaimRequest{
		RequestID: uuid.NewString(), Session: uuid.NewString(), Slots: 1, TotalSlots: 1,
		Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
	})
	if err != nil || len(got.Leases) != 0 {
		t.Errorf("the arbiter granted what an edge worker holds: %+v, %v", got, err)
	}
	// A successor of the arbiter reads it as leased, and leaves it alone.
	b.down()
	b.up(calm)
	if err := a.beat(l.LeaseToken); err != nil {
		t.Errorf("after a change of leader: %v", err)
	}
	waited := make(chan *gavelapi.Submission, 1)
	go func() {
		sub, err := b.api.SubmissionGet(t.Context(), id, 20*time.Second)
		if err != nil {
			t.Error(err)
		}
		waited <- sub
	}()
	a.report(l.LeaseToken, verdictReport("AC"))
	if sub := <-waited; sub == nil || sub.Verdict != "AC" {
		t.Errorf("who waited at the arbiter got %+v", sub)
	}
}

// A leader does not see who works straight on the database, and does not claim
// that nobody is there.
func TestWhyWorkWaitsDoesNotForgetEdgeWorkers(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{})
	b.submit("c")
	l := a.claim()
	id := b.submit("c") // home has one slot
	const want = "no worker is online; not counting 1 straight on the database, who may take it"
	eventually(t, time.Minute, "the leader says and stores whom it does not see", func() bool {
		if err := a.beat(l.LeaseToken); err != nil {
			t.Fatal(err)
		}
		return b.read(id).Waiting == want && b.number("select count(*) from waiting_work where submission_id = $1 and reason = $2", id, want) == 1
	})
}

// Edge workers take no steps of a preparation, so one that waits says that they
// are not who will end it.
func TestAPreparationDoesNotWaitForEdgeWorkers(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{})
	a.poll()
	var archive bytes.Buffer
	z := zip.NewWriter(&archive)
	for name, content := range map[string]string{
		"problem.yaml":              "problem_format_version: 2025-09\nname: New\nuuid: 7c0ffee0-0000-4000-8000-000000000009\n",
		"data/secret/1.in":          "1\n",
		"data/secret/1.ans":         "1\n",
		"submissions/accepted/ok.c": "int main(void) { return 0; }\n",
	} {
		w, err := z.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := w.Write([]byte(content)); err != nil {
			t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := b.api.ProblemImport(t.Context(), client.Import{Name: "new"}, &archive); err != nil {
		t.Fatal(err)
	}
	const want = "no worker is online; the 1 straight on the database prepare no packages"
	eventually(t, time.Minute, "the leader says who will not do it", func() bool {
		if leases := a.poll(); len(leases) != 0 {
			t.Fatalf("an edge worker was given %+v", leases)
		}
		return b.number("select count(*) from waiting_reasons where reason = $1", want) == 1
	})
	stage, err := edge.ReadStage(t.Context(), b.db, edge.StageOptions{Since: time.Hour})
	if err != nil {
		t.Fatal(err)
	}
	if text := strings.Join(stage.Left, "; "); !strings.Contains(text, "1 packages wait to be prepared, which edge workers do not do") {
		t.Errorf("left to do is %q", text)
	}
}

func TestCancelAndRejudgeEndAnEdgeWorkersLease(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("home", made{})
	cancelled := b.submit("c")
	l := a.claim()
	if _, err := b.api.SubmissionCancel(t.Context(), cancelled, ""); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a.beat(l.LeaseToken), http.StatusGone, gavelapi.LeaseCancelled)
	if got := a.report(l.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseCancelled {
		t.Errorf("a cancelled one's report: %+v", got)
	}
	rejudged := b.submit("c")
	l = a.claim()
	if _, err := b.api.SubmissionRejudge(t.Context(), rejudged, "wrong data"); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a.beat(l.LeaseToken), http.StatusGone, gavelapi.LeaseSuperseded)
	if got := a.report(l.LeaseToken, verdictReport("AC")); got.Outcome != gavelapi.OutcomeDiscarded || got.Reason != gavelapi.LeaseSuperseded {
		t.Errorf("the superseded one's report: %+v", got)
	}
	if got, err := a.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken}); err != nil || got.Released || got.Reason != gavelapi.LeaseSuperseded {
		t.Errorf("handing the superseded one back: %+v, %v", got, err)
	}
	again := a.claim()
	if again.Kind != "rejudge" {
		t.Fatalf("lease %+v", again)
	}
	a.report(again.LeaseToken, verdictReport("WA"))
	if sub := b.read(rejudged); sub.Verdict != "WA" {
		t.Errorf("after the rejudge %+v", sub)
	}
	eventually(t, 30*time.Second, "the rejudge is closed", func() bool { return b.number("select count(*) from rejudges where state = 'applied'") == 1 })
}

// Whoever grants, a lease that is past its time is taken back: an edge worker's
// by anybody, an arbiter's by the arbiter, unless none has led for a lease's
// whole time.
func TestWhoReclaimsWhat(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("edge", made{slots: 5})
	id := b.submit("c")
	l := a.claim()
	_ = a.beat(l.LeaseToken)
	b.expire(l.LeaseToken)
	eventually(t, 30*time.Second, "the arbiter reclaims it", func() bool {
		return b.number("select count(*) from attempts where lease_token = $1 and outcome = 'expired'", l.LeaseToken) == 1
	})
	h := b.dial(b.http("http"))
	got, err := h.Claim(t.Context(), gavelapi.ClaimRequest{
		RequestID: uuid.NewString(), Session: uuid.NewString(), Slots: 1, TotalSlots: 1, WaitMS: 10_000,
		Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
	})
	if err != nil || len(got.Leases) != 1 {
		t.Fatalf("%+v, %v; the jobs are %v, and wait because %q", got, err, b.query("select j::text from jobs j"), b.read(id).Waiting)
	}
	token := got.Leases[0].LeaseToken
	if _, err := h.Heartbeat(t.Context(), gavelapi.HeartbeatRequest{LeaseToken: token}); err != nil {
		t.Fatal(err)
	}
	b.down() // the arbiter is away; its worker judges on and cannot say so
	b.expire(token)
	if n, _, err := a.Reclaim(t.Context()); err != nil || n != 0 {
		t.Errorf("an edge worker took back %d leases of an arbiter that is away for a moment (%v)", n, err)
	}
	b.exec("update leadership set expires_at = now() - interval '61 seconds'")
	if n, _, err := a.Reclaim(t.Context()); err != nil || n != 1 {
		t.Errorf("an edge worker took back %d leases of an arbiter that is gone (%v)", n, err)
	}
	second := a.claim()
	a.report(second.LeaseToken, verdictReport("AC"))
	if n := b.number("select count(*) from attempts where outcome = 'completed'"); n != 1 {
		t.Errorf("%d completed", n)
	}
}

// The rows that come of a judging are the same by both ways.
func TestBothWaysWriteTheSameRows(t *testing.T) {
	b := newBoth(t, calm)
	rows := func(id int64) string {
		return b.text(`select jsonb_pretty(jsonb_build_object(
		    'judging', to_jsonb(g) - '{id,submission_id,worker_id,created_at,finished_at}'::text[] || jsonb_build_object('times', g.finished_at >= g.created_at),
		    'attempts', (select jsonb_agg(to_jsonb(a) - '{job_id,lease_token,judging_id,submission_id,worker_id,session,request_id,term,granted_at,ended_at}'::text[]
		                   || jsonb_build_object('ended', a.ended_at is not null) order by a.lease_gen) from attempts a where a.judging_id = g.id),
		    'job', (select to_jsonb(j) - '{id,judging_id,submission_id,lane,created_at}'::text[] from jobs j where j.judging_id = g.id),
		    'current', s.current_judging_id = g.id))
		  from judgings g join submissions s on s.id = g.submission_id where s.id = $1`, id)
	}
	a := b.agent("edge", made{})
	h := b.dial(b.http("http"))
	session := uuid.NewString()
	byHTTP := func() gavelapi.Lease {
		got, err := h.Claim(t.Context(), gavelapi.ClaimRequest{
			RequestID: uuid.NewString(), Session: session, Slots: 1, TotalSlots: 1, WaitMS: 10_000,
			Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
		})
		if err != nil || len(got.Leases) != 1 {
			t.Fatalf("%+v, %v", got, err)
		}
		return got.Leases[0]
	}
	for name, reports := range map[string][]gavelapi.Report{
		"verdict":  {verdictReport("WA")},
		"compiled": {{Verdict: "CE", Compile: gavelapi.CompileInfo{Log: "error", Reason: "cpu"}}},
		"nonsense": {{Verdict: "AC"}, verdictReport("AC")},
		"faults":   {faultReport("package"), faultReport("host"), faultReport("no such blame")},
	} {
		t.Run(name, func(t *testing.T) {
			one := b.submit("c")
			var first, second gavelapi.Lease
			for _, r := range reports {
				first = byHTTP()
				if _, err := h.Heartbeat(t.Context(), gavelapi.HeartbeatRequest{LeaseToken: first.LeaseToken}); err != nil {
					t.Fatal(err)
				}
				if _, err := h.Result(t.Context(), gavelapi.ResultRequest{LeaseToken: first.LeaseToken, Report: r}); err != nil {
					t.Fatal(err)
				}
			}
			// In one statement with its grant to nobody else: the arbiter's worker does not wait now.
			two := b.submit("c")
			for _, r := range reports {
				eventually(t, 30*time.Second, "the edge worker gets it", func() bool {
					// As if the other were away: what it failed it gets again only then.
					b.exec("update workers set last_seen_at = null where name = 'http'")
					leases := a.poll()
					if len(leases) == 1 {
						second = leases[0]
					}
					return len(leases) == 1
				})
				if err := a.beat(second.LeaseToken); err != nil {
					t.Fatal(err)
				}
				a.report(second.LeaseToken, r)
			}
			if diff := cmp.Diff(rows(one), rows(two)); diff != "" {
				t.Errorf("rows (-arbiter +edge):\n%s", diff)
			}
			plain := func(l gavelapi.Lease) gavelapi.Lease {
				l.JobID, l.SubmissionID, l.LeaseToken = 0, 0, ""
				return l
			}
			if diff := cmp.Diff(plain(first), plain(second)); diff != "" {
				t.Errorf("leases (-arbiter +edge):\n%s", diff)
			}
			b.exec("update edge_workers set aside_until = null, host_faults = 0")
		})
	}
}

// A mixed fleet under load: both ways, an arbiter that is restarted, workers
// that vanish, hand back and report late. Nothing is lost and nothing is
// recorded twice.
func TestAMixedFleetLosesNothingAndRecordsNothingTwice(t *testing.T) {
	settings := lease.Settings{TTL: 3 * time.Second, Heartbeat: time.Second, Confirm: 2 * time.Second, AttemptCap: 50, Sweep: 200 * time.Millisecond, ClaimWait: 2 * time.Second}
	b := newBoth(t, settings)
	const jobs = 150
	for range jobs {
		b.submit("c")
	}
	var mu sync.Mutex // guards which arbiter is up
	tokens := []string{b.http("http-1"), b.http("http-2")}
	done := func() bool { return b.number("select count(*) from jobs") == 0 }
	stop := make(chan struct{})
	over := func() bool {
		select {
		case <-stop:
			return true
		default:
			return false
		}
	}
	var wg sync.WaitGroup
	work := func(dial func() caller) {
		wg.Go(func() {
			session, old := uuid.NewString(), []string{}
			for !over() {
				c := dial()
				got, err := c.Claim(t.Context(), gavelapi.ClaimRequest{
					RequestID: uuid.NewString(), Session: session, Slots: 2, TotalSlots: 2, WaitMS: 300,
					Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}},
				})
				if err != nil {
					pause(t)
					continue
				}
				for _, l := range got.Leases {
					report := gavelapi.ResultRequest{LeaseToken: l.LeaseToken, Report: verdictReport("AC")}
					_, _ = c.Heartbeat(t.Context(), gavelapi.HeartbeatRequest{LeaseToken: l.LeaseToken})
					switch rand.N(8) {
					case 0: // vanishes; its wrong result comes much later
						old = append(old, l.LeaseToken)
					case 1:
						_, _ = c.Release(t.Context(), gavelapi.ReleaseRequest{LeaseToken: l.LeaseToken, Reason: "shutdown"})
					default:
						for range 1 + rand.N(2) {
							for range 50 { // as the agent does, until there is an answer
								if _, err := dial().Result(t.Context(), report); err == nil || over() {
									break
								}
								pause(t)
							}
						}
					}
				}
			}
			for _, token := range old {
				_, _ = dial().Result(t.Context(), gavelapi.ResultRequest{LeaseToken: token, Report: verdictReport("WA")})
			}
		})
	}
	for _, token := range tokens {
		work(func() caller {
			mu.Lock()
			defer mu.Unlock()
			if b.srv == nil {
				return nobody{}
			}
			c, err := client.New(b.srv.URL(), token, client.Options{})
			if err != nil {
				t.Error(err)
				return nobody{}
			}
			t.Cleanup(func() { c.Close() })
			return c
		})
	}
	for i := range 2 {
		a := b.agent(fmt.Sprint("edge-", i), made{slots: 2, clock: edge.Config{Poll: 50 * time.Millisecond}})
		work(func() caller { return a })
		wg.Go(func() {
			for !over() {
				_, _, _ = a.Reclaim(t.Context())
				pause(t)
			}
		})
	}
	for range 2 { // the arbiter goes and comes
		before := b.number("select count(*) from jobs")
		eventually(t, 2*time.Minute, "some more are judged", func() bool { return done() || b.number("select count(*) from jobs") < before-20 })
		mu.Lock()
		b.down()
		mu.Unlock()
		before = b.number("select count(*) from jobs")
		eventually(t, 2*time.Minute, "some more are judged without an arbiter", func() bool { return done() || b.number("select count(*) from jobs") < before-10 })
		mu.Lock()
		b.up(settings)
		mu.Unlock()
	}
	eventually(t, 3*time.Minute, "all are judged", done)
	close(stop)
	wg.Wait()
	if n := b.number("select count(*) from gavel.verdicts where verdict = 'AC'"); n != jobs {
		t.Errorf("%d of %d are AC: %v", n, jobs, b.query("select distinct state || ' ' || verdict from gavel.verdicts"))
	}
	if twice := b.query("select submission_id::text from attempts where outcome = 'completed' group by 1 having count(*) <> 1"); len(twice) > 0 {
		t.Errorf("recorded more than once: %v", twice)
	}
	if n := b.number("select count(distinct submission_id) from attempts where outcome = 'completed'"); n != jobs {
		t.Errorf("%d recorded", n)
	}
	ways := b.query("select (term > 0)::text || ' ' || outcome || ' ' || count(*) from attempts group by term > 0, outcome order by 1")
	t.Logf("attempts by way (true: the arbiter's): %s", strings.Join(ways, ", "))
}

// caller is a worker's four calls.
type caller interface {
	Claim(ctx context.Context, in gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error)
	Heartbeat(ctx context.Context, in gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error)
	Result(ctx context.Context, in gavelapi.ResultRequest) (*gavelapi.ResultResponse, error)
	Release(ctx context.Context, in gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error)
}

// nobody is an arbiter that is away.
type nobody struct{}

var errAway = &client.Unreachable{Op: "call", Err: context.DeadlineExceeded}

func (nobody) Claim(context.Context, gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error) {
	return nil, errAway
}

func (nobody) Heartbeat(context.Context, gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error) {
	return nil, errAway
}

func (nobody) Result(context.Context, gavelapi.ResultRequest) (*gavelapi.ResultResponse, error) {
	return nil, errAway
}

func (nobody) Release(context.Context, gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error) {
	return nil, errAway
}

// pause is between two tries.
func pause(t *testing.T) {
	t.Helper()
	select {
	case <-time.After(50 * time.Millisecond):
	case <-t.Context().Done():
	}
}
