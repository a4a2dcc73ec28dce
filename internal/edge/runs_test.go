package edge_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
)

// run hands a run in at the arbiter.
func (b *both) run(inputs ...string) int64 {
	b.t.Helper()
	n := gavelapi.NewRun{Language: "c", Source: "int main(){}", SourceName: "a.c"}
	for _, in := range inputs {
		n.Inputs = append(n.Inputs, gavelapi.RunInput{Content: in})
	}
	got, err := b.api.RunCreate(b.t.Context(), n, "")
	if err != nil {
		b.t.Fatal(err)
	}
	return got.ID
}

func (b *both) readRun(id int64) *gavelapi.Run {
	b.t.Helper()
	got, err := b.api.RunGet(b.t.Context(), id, 0)
	if err != nil {
		b.t.Fatal(err)
	}
	return got
}

// runReport is what a program wrote: text, and bytes that are none.
func runReport() gavelapi.Report {
	return gavelapi.Report{
		Compile: gavelapi.CompileInfo{Log: "warning: é\x00", CPUUS: 5},
		Run: &gavelapi.RunReport{Compiled: true, Results: []gavelapi.RunResult{
			{Ended: gavelapi.EndedExit, CPUUS: 1, WallUS: 2, MemoryBytes: 3, Stdout: "é\n", StderrBase64: []byte{0, 255}, StderrCut: true},
			{Ended: gavelapi.EndedCPU, Stdout: "a\x00b", Message: "m"},
		}},
	}
}

// A run goes the same way by an edge worker as by way of the arbiter: what it
// carries, what is stored of it, and what its user reads.
func TestARunIsTheSameByBothWays(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("edge", made{})
	a.features = []string{gavelapi.FeatureRun}
	h := b.dial(b.http("http"))
	session := uuid.NewString()
	rows := func(id int64) string {
		return b.text(`select jsonb_pretty((to_jsonb(r) - '{id,worker_id,created_at,finished_at,expires_at}'::text[]) || jsonb_build_object(
		    'kept', r.expires_at - r.finished_at = r.keep,
		    'attempts', (select jsonb_agg(to_jsonb(x) - '{job_id,lease_token,worker_id,session,request_id,term,granted_at,ended_at,work_id,late_at}'::text[] order by x.lease_gen)
		                   from attempts x where x.work_id = r.id)))
		  from runs r where r.id = $1`, id)
	}
	plain := func(l gavelapi.Lease) gavelapi.Lease {
		run := *l.Run
		run.RunID = 0
		l.JobID, l.LeaseToken, l.Run = 0, "", &run
		return l
	}
	shown := func(id int64) gavelapi.Run {
		r := *b.readRun(id)
		r.ID, r.Worker, r.CreatedAt, r.FinishedAt, r.ExpiresAt, r.Attempts = 0, "", time.Time{}, nil, nil, nil
		return r
	}
	for name, reports := range map[string][]gavelapi.Report{
		"done":                 {runReport()},
		"does not compile":     {{Run: &gavelapi.RunReport{Results: []gavelapi.RunResult{}}, Compile: gavelapi.CompileInfo{Log: "error"}}},
		"a fault, then done":   {faultReport("host"), runReport()},
		"contradicts itself":   {{Run: &gavelapi.RunReport{Compiled: true}}, runReport()},
		"a verdict, then done": {verdictReport("AC"), runReport()},
		"faults at the cap":    {faultReport("host"), faultReport("toolchain"), faultReport("host")},
	} {
		t.Run(name, func(t *testing.T) {
			one := b.run("1", "")
			var first, second gavelapi.Lease
			for _, r := range reports {
				got, err := h.Claim(t.Context(), gavelapi.ClaimRequest{
					RequestID: uuid.NewString(), Session: session, Slots: 1, TotalSlots: 1, WaitMS: 20_000,
					Capabilities: gavelapi.Capabilities{Languages: []gavelapi.LanguageOffer{{ID: "c", Version: "1"}}, Features: []string{gavelapi.FeatureRun}},
				})
				if err != nil || len(got.Leases) != 1 {
					t.Fatalf("%+v, %v", got, err)
				}
				first = got.Leases[0]
				if _, err := h.Heartbeat(t.Context(), gavelapi.HeartbeatRequest{LeaseToken: first.LeaseToken}); err != nil {
					t.Fatal(err)
				}
				if _, err := h.Result(t.Context(), gavelapi.ResultRequest{LeaseToken: first.LeaseToken, Report: r}); err != nil {
					t.Fatal(err)
				}
			}
			two := b.run("1", "")
			for _, r := range reports {
				// As if the other were away: what it failed the edge worker gets again only then.
				b.exec("update workers set last_seen_at = null where name = 'http'")
				second = a.claim()
				if err := a.beat(second.LeaseToken); err != nil {
					t.Fatal(err)
				}
				a.report(second.LeaseToken, r)
				b.exec("update edge_workers set aside_until = null, host_faults = 0")
			}
			if diff := cmp.Diff(rows(one), rows(two)); diff != "" {
				t.Errorf("rows (-arbiter +edge):\n%s", diff)
			}
			if diff := cmp.Diff(plain(first), plain(second)); diff != "" {
				t.Errorf("leases (-arbiter +edge):\n%s", diff)
			}
			if diff := cmp.Diff(shown(one), shown(two)); diff != "" {
				t.Errorf("what is shown (-arbiter +edge):\n%s", diff)
			}
		})
	}
}

func TestWhoWaitsForARunHearsWhenAnEdgeWorkerHasDoneIt(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("edge", made{})
	a.features = []string{gavelapi.FeatureRun}
	id := b.run("1", "2")
	l := a.claim()
	if got := b.readRun(id); got.State != gavelapi.StateRunning || got.Worker != "edge" {
		t.Errorf("the arbiter shows %+v", got)
	}
	waited := make(chan *gavelapi.Run, 1)
	go func() {
		got, err := b.api.RunGet(t.Context(), id, 60*time.Second)
		if err != nil {
			t.Error(err)
		}
		waited <- got
	}()
	a.report(l.LeaseToken, runReport())
	if got := <-waited; got == nil || got.State != gavelapi.StateDone || got.Results[0].Stdout != "é\n" || string(got.Results[1].StdoutBytes()) != "a\x00b" {
		t.Errorf("who waited got %+v", got)
	}
}

func TestARunIsLostCancelledAndLateAsAnyJob(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("edge", made{})
	if leases := a.poll(); len(leases) != 0 {
		t.Fatal("work before any was handed in")
	}
	cancelled := b.run("1")
	if leases := a.poll(); len(leases) != 0 {
		t.Fatalf("a worker that does no runs got %+v", leases)
	}
	a.features = []string{gavelapi.FeatureRun}
	l := a.claim()
	if _, err := b.api.RunCancel(t.Context(), cancelled); err != nil {
		t.Fatal(err)
	}
	wantStatus(t, a.beat(l.LeaseToken), http.StatusGone, gavelapi.LeaseCancelled)
	if got := a.report(l.LeaseToken, runReport()); got.Outcome != gavelapi.OutcomeDiscarded {
		t.Errorf("a cancelled run's report: %+v", got)
	}
	if got := b.text("select late_report::text from attempts where lease_token = $1", l.LeaseToken); !strings.Contains(got, `"ended"`) || strings.Contains(got, "stdout_base64") {
		t.Errorf("kept as evidence: %s", got)
	}
	b.down() // who takes leases back now is the edge worker
	b.exec("update leadership set expires_at = now() - interval '61 seconds'")
	b.exec("update runs set state = 'open', finished_at = null, expires_at = null") // judged anew below
	b.exec("insert into jobs (work_id, kind, lane, language, features) select id, 'run', 'run', 'c', '{run}' from runs")
	for range 3 {
		l := a.claim()
		if err := a.beat(l.LeaseToken); err != nil {
			t.Fatal(err)
		}
		b.expire(l.LeaseToken)
		if _, _, err := a.Reclaim(t.Context()); err != nil {
			t.Fatal(err)
		}
		if err := a.beat(l.LeaseToken); client.StatusOf(err) != http.StatusGone {
			t.Errorf("a lost lease: %v", err)
		}
	}
	if got := b.text("select state || ' ' || (fault ->> 'message') from runs"); !strings.HasPrefix(got, "system_error the worker was lost") {
		t.Errorf("lost three times, the run is %s", got)
	}
}

// What one answer carries is bounded, whatever waits; the rest comes next.
func TestOneAnswerIsBounded(t *testing.T) {
	b := newBoth(t, calm)
	a := b.agent("edge", made{slots: 40})
	a.features = []string{gavelapi.FeatureRun}
	b.run("1")
	// As much as the API takes for each.
	b.exec("update runs set inputs = array[convert_to(repeat('x', 2000000), 'UTF8')]")
	b.exec("insert into runs (language, source, inputs, limits, keep) select language, source, inputs, limits, keep from runs, generate_series(1, 19)")
	b.exec("insert into jobs (work_id, kind, lane, language, features) select r.id, 'run', 'run', 'c', '{run}' from runs r where not exists (select from jobs j where j.work_id = r.id)")
	first := a.poll()
	if n := len(first); n == 0 || n > 4 {
		t.Errorf("one answer has %d leases of 2.7 MB", n)
	}
	if again := a.poll(); len(again) == 0 {
		t.Error("the rest does not come")
	}
}
