package drill

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

var networkScenarios = []Scenario{
	{
		Name: "a4-claim-answer-lost", What: "the answer to a claim is lost after the commit", script: claimAnswerLost,
		Fires: "request_id stored with the grant; unconfirmed grants come back", Sabotage: "the retry has another request_id",
	},
	{
		Name: "a5-result-answer-lost", What: "the answer to a result is lost after the commit", script: resultAnswerLost,
		Fires: "the unique token: already_recorded", Sabotage: "a second write is made by hand",
	},
	{
		Name: "a21-nobody-tells-the-leader", What: "work is stored behind the leader's back (NOTIFY does not exist here by design)", script: untold,
		Fires: "the catch-up scan", Sabotage: "the scan sees nothing",
	},
	{
		Name: "a22-bad-lines-and-clients", What: "slow-loris, half-open lines, lost packets, 100 MB bodies, bad JSON, wrong tokens, a third of calls cut", script: badClients,
		Fires: "bounds on bodies, headers and time; idempotent calls", Sabotage: "bodies of a gigabyte are read",
	},
}

func claimAnswerLost(t *T) {
	s := newStand(t)
	a := s.serve(time.Minute, time.Second) // the default TTL, so the confirmation time is its default too
	s.watch(calm, "", nil)
	line := t.relay(a.listen)
	line.loseAnswers("claim", 1)
	one := s.worker("one", line.url(), 1)
	id := s.submit("*: AC after 20ms")
	s.awaitFinal(id, 30*time.Second)
	if line.lostSoFar() != 1 {
		t.Errorf("no answer was lost")
	}
	s.wantAttempts(id, "completed")
	t.did("the worker asked again with the same request_id and got the same lease")
	one.stop(20 * time.Second)

	// By hand: the same id, before and after the arbiter was killed.
	hand := s.caller("hand", line.url(), 1)
	direct := s.caller("hand", "", 1)
	direct.session = hand.session
	id = s.submit("by hand")
	request := uuid.NewString()
	line.loseAnswers("claim", 1)
	if _, err := hand.ask(request, 5*time.Second); err == nil {
		t.Errorf("the answer was not lost")
	}
	if t.Sabotage {
		request = uuid.NewString()
	}
	leases, err := direct.ask(request, time.Second)
	s.must(err, "repeat the claim")
	if len(leases) != 1 {
		t.Fatalf("the repeated claim got %d leases, want the one it had", len(leases))
	}
	a.kill()
	s.restart(a)
	t.did("killed and restarted the arbiter between a claim and its repetition")
	again, err := direct.ask(request, time.Second)
	s.must(err, "repeat the claim after the restart")
	if len(again) != 1 || again[0].LeaseToken != leases[0].LeaseToken {
		t.Fatalf("after a restart the repeated claim got %d leases, or another one", len(again))
	}
	direct.wantReport(again[0].LeaseToken, "AC", gavelapi.OutcomeRecorded)
	s.wantAttempts(id, "completed")

	// Without a retry it comes back by itself, for nothing.
	id = s.submit("by hand")
	line.loseAnswers("claim", 1)
	if _, err := hand.ask(uuid.NewString(), 5*time.Second); err == nil {
		t.Errorf("the answer was not lost")
	}
	other := s.caller("other", "", 1)
	l := other.claim(30 * time.Second)[0]
	sub := s.submission(id)
	if len(sub.Detail.Attempts) != 2 || sub.Detail.Attempts[0].Outcome != "undelivered" || l.Attempt != 1 {
		t.Errorf("an undelivered grant ended as %+v; the next one is attempt %d, want 1", sub.Detail.Attempts, l.Attempt)
	} else {
		back := sub.Detail.Attempts[1].GrantedAt.Sub(sub.Detail.Attempts[0].GrantedAt)
		t.took("undelivered grant to the next one", back, 12*time.Second)
	}
	other.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	t.did("nobody asked again: the grant came back without costing an attempt")
	s.settle(10 * time.Second)
}

func resultAnswerLost(t *T) {
	s := newStand(t)
	a := s.serve(20*time.Second, shortBeat)
	s.watch(calm, "", nil)
	line := t.relay(a.listen)
	line.loseAnswers("result", 3)
	s.worker("one", line.url(), 1)
	id := s.submit("*: WA after 20ms", "WA")
	s.awaitFinal(id, 20*time.Second)
	s.until(30*time.Second, "the worker has its answer", func() bool { return line.lostSoFar() == 3 && len(s.outbox("one")) == 0 })
	s.wantAttempts(id, "completed")
	t.did("the worker reported four times and was answered once")
	hand := s.caller("hand", "", 1, handLanguage) // which the worker does not take
	id = s.handIn(s.api)
	l := hand.take(10 * time.Second)
	hand.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	var wg sync.WaitGroup
	for range 20 {
		wg.Go(func() { hand.wantReport(l.LeaseToken, "AC", gavelapi.OutcomeAlreadyRecorded) })
	}
	wg.Wait()
	if t.Sabotage {
		s.exec("update judgings set verdict = 'WA' where submission_id = $1", id) // what a second write would do
	}
	if n := s.number("select jsonb_array_length(tests) from judgings where submission_id = $1", id); n != testCount {
		t.Errorf("%d rows of tests, want %d", n, testCount)
	}
	s.settle(10 * time.Second)
}

func untold(t *T) {
	s := newStand(t)
	s.serve(20*time.Second, shortBeat)
	standby := s.serve(20*time.Second, shortBeat)
	s.watch(calm, "", nil)
	s.worker("one", "", 4)
	s.awaitFinal(s.submit("*: AC after 1ms"), 10*time.Second)
	if t.Sabotage {
		s.withoutScan()
	}
	var ids []int64
	for range 20 {
		ids = append(ids, s.submitTo(standby.api, "*: AC after 1ms"))
		t.wait(time.Duration(t.rand.IntN(150)) * time.Millisecond)
	}
	t.did("handed %d submissions to the standby, which tells the leader nothing", len(ids))
	for _, id := range ids {
		s.awaitFinal(id, 15*time.Second)
	}
	worst := s.number(`select (max(extract(epoch from a.granted_at - s.created_at)) * 1000)::int
  from submissions s join attempts a on a.submission_id = s.id where s.submitter = ''`)
	t.took("stored to granted, longest", time.Duration(worst)*time.Millisecond, 3*time.Second)
	s.settle(10 * time.Second)
}

func badClients(t *T) {
	s := newStand(t)
	var flags []string
	if t.Sabotage {
		flags = []string{"--max-body-mib", "1024"}
	}
	a := s.serve(6*time.Second, shortBeat, flags...)
	before := a.peakMemory()
	s.watch(calm, "", nil)
	line := t.relay(a.listen)
	for _, n := range []string{"one", "two", "three"} {
		s.worker(n, line.url(), 2)
	}
	ctx, stop := context.WithCancel(t.ctx)
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()
	for range 150 { // connections that say a byte a second, or nothing
		wg.Go(func() { drip(ctx, t, a.listen) })
	}
	statuses := s.abuse(a)
	t.did("150 dripping connections; bad calls were answered %s", statuses)
	line.slow(30 * time.Millisecond)
	for _, id := range []int64{s.submit("*: AC after 1ms"), s.submit("*: WA after 1ms", "WA")} {
		s.awaitFinal(id, 60*time.Second)
	}
	line.heal()
	s.losePackets(line)
	s.halfOpen(line)
	line.flakyShare(0.33)
	var ids []int64
	for range t.rounds(120) {
		ids = append(ids, s.submit("*: AC after 10ms"))
	}
	for _, id := range ids {
		s.awaitFinal(id, 90*time.Second)
	}
	t.did("judged %d submissions over a line on which a third of the calls is cut; %d were", len(ids), line.lostSoFar())
	if line.lostSoFar() == 0 {
		t.Errorf("no call was cut")
	}
	line.heal()
	grown := a.peakMemory() - before
	t.figure("arbiter's peak memory, growth", float64(grown>>20), "MiB", 200)
	stop()
	s.settle(30 * time.Second)
}

// losePackets has a quarter of the packets sent again, some of them several
// times. Calls are late, and nothing else comes of it.
func (s *stand) losePackets(line *relay) {
	line.lossy(0.25)
	var ids []int64
	for range 12 {
		ids = append(ids, s.submit("*: AC after 10ms"))
	}
	for _, id := range ids {
		s.awaitFinal(id, 90*time.Second)
		s.wantAttempts(id, "completed")
	}
	line.heal()
	s.did("judged %d submissions over a line that loses a quarter of its packets; each was judged once", len(ids))
}

// halfOpen loses every answer for less than a lease lives: calls arrive and
// take effect, and nobody hears of it. Nothing may be judged twice.
func (s *stand) halfOpen(line *relay) {
	var ids []int64
	for range 6 {
		ids = append(ids, s.submit("*: AC after 400ms"))
	}
	s.awaitJudging(ids[0], "")
	line.block(answers)
	s.wait(2 * time.Second)
	line.heal()
	for _, id := range ids {
		s.awaitFinal(id, 60*time.Second)
		s.wantAttempts(id, "completed")
	}
	s.did("half-open lines for 2 s: calls take effect, answers come late; each job was judged once")
}

// drip is a client that never finishes its header.
func drip(ctx context.Context, t *T, address string) {
	var d net.Dialer
	for ctx.Err() == nil {
		c, err := d.DialContext(ctx, "tcp", address)
		if err != nil {
			return
		}
		for _, b := range []byte("POST /v1/worker/claim HTTP/1.1\r\nHost: x\r\n") {
			if _, err := c.Write([]byte{b}); err != nil {
				break // the arbiter had enough
			}
			select {
			case <-t.Clock.After(time.Second):
			case <-ctx.Done():
			}
			if ctx.Err() != nil {
				break
			}
		}
		_ = c.Close()
	}
}

// abuse makes calls that must be refused, and says how they were.
func (s *stand) abuse(a *arbiterProcess) string {
	worker := s.enrol("abuser", 1)
	huge := func() io.Reader { return io.LimitReader(zeros{}, 100<<20) }
	claim, err := json.Marshal(gavelapi.ClaimRequest{RequestID: uuid.NewString(), Session: uuid.NewString(), Slots: 1, TotalSlots: 1})
	s.must(err, "encode")
	httpClient := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	defer httpClient.CloseIdleConnections()
	seen := map[int]int{}
	for _, c := range []struct {
		what, path, token string
		body              io.Reader
	}{
		{"a body of 100 MB", "/v1/worker/claim", worker, huge()},
		{"a result of 100 MB", "/v1/worker/result", worker, huge()},
		{"a submission of 100 MB", "/v1/submissions", s.token, huge()},
		{"no JSON", "/v1/worker/claim", worker, bytes.NewReader([]byte("{\"request_id\": nonsense"))},
		{"JSON of another kind", "/v1/worker/heartbeat", worker, bytes.NewReader([]byte("[1,2,3]"))},
		{"NUL and bad UTF-8", "/v1/worker/release", worker, bytes.NewReader([]byte("{\"lease_token\":\"\x00\xff\",\"reason\":\"\xc3\x28\"}"))},
		{"no token", "/v1/worker/claim", "", bytes.NewReader(claim)},
		{"a wrong token", "/v1/worker/claim", "gvl_w_0000000000000000000000000000000000000000000", bytes.NewReader(claim)},
		{"a worker's token on the site's side", "/v1/submissions", worker, bytes.NewReader([]byte("{}"))},
		{"a lease of nobody", "/v1/worker/heartbeat", worker, bytes.NewReader([]byte(`{"lease_token":"` + uuid.NewString() + `"}`))},
		{"no such path", "/v1/worker/nothing", worker, bytes.NewReader(nil)},
	} {
		req, err := http.NewRequestWithContext(s.ctx, http.MethodPost, a.url+c.path, c.body)
		s.must(err, "request")
		req.Header.Set("Content-Type", "application/json")
		req.Header.Set(gavelapi.ProtocolHeader, fmt.Sprint(gavelapi.ProtocolVersion))
		req.Header.Set(gavelapi.IdempotencyKeyHeader, uuid.NewString())
		if c.token != "" {
			req.Header.Set("Authorization", "Bearer "+c.token)
		}
		resp, err := httpClient.Do(req)
		if err != nil {
			seen[0]++ // cut off in the middle of its body: dropped
			continue
		}
		_, _ = io.Copy(io.Discard, resp.Body)
		_ = resp.Body.Close()
		seen[resp.StatusCode]++
		if resp.StatusCode < 400 || resp.StatusCode > 499 {
			s.Errorf("%s was answered %d, want a refusal", c.what, resp.StatusCode)
		}
	}
	return fmt.Sprint(seen)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	for i := range p {
		p[i] = '0'
	}
	return len(p), nil
}
