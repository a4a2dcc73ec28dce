package drill

import (
	"bytes"
	"encoding/json"
	"fmt"
	"io"
	"net/http"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/gavelapi"
)

var rejudgeScenarios = []Scenario{
	{
		Name: "a14-rejudge-while-judging", What: "a rejudge is asked for while the first judging runs", script: rejudgeWhileJudging,
		Fires: "the superseded lease is dead: 410, its result discarded", Sabotage: lateReportsCount,
	},
}

// call makes a call of the site for which there is no method of the client.
func (s *stand) call(method, path string, in, out any) {
	var body io.Reader
	if in != nil {
		raw, err := json.Marshal(in)
		s.must(err, "encode")
		body = bytes.NewReader(raw)
	}
	req, err := http.NewRequestWithContext(s.ctx, method, s.api.URL()+path, body)
	s.must(err, "request")
	req.Header.Set("Authorization", "Bearer "+s.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set(gavelapi.IdempotencyKeyHeader, uuid.NewString())
	c := &http.Client{Timeout: 30 * time.Second, Transport: &http.Transport{}}
	defer c.CloseIdleConnections()
	resp, err := c.Do(req)
	s.must(err, path)
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	s.must(err, path)
	if resp.StatusCode > 299 {
		s.Fatalf("%s %s: %s: %s", method, path, resp.Status, raw)
	}
	s.must(json.Unmarshal(raw, out), "answer of "+path)
}

// rejudge asks for a rejudge, for the first time.
func (s *stand) rejudge(id int64) (r gavelapi.Rejudge) {
	err := s.operator().Cancel(s.jobOf(id), true, func() error { r = s.askRejudge(id); return nil })
	s.must(err, "rejudge")
	return r
}

func (s *stand) askRejudge(id int64) gavelapi.Rejudge {
	var r gavelapi.Rejudge
	s.call(http.MethodPost, fmt.Sprintf("/v1/submissions/%d/rejudge", id), gavelapi.RejudgeReason{Reason: "drill"}, &r)
	return r
}

func rejudgeWhileJudging(t *T) {
	s := newStand(t)
	s.serve(20*time.Second, shortBeat)
	if t.Sabotage {
		s.withoutFencing()
	}
	s.watch(calm, "", nil)
	one := s.worker("one", "", 1)
	id := s.submit("one: WA after 5s\n*: AC after 10ms")
	s.awaitJudging(id, "one")
	s.worker("two", "", 1)
	began := t.Clock.Now()
	s.rejudge(id)
	if sub := s.awaitFinal(id, 15*time.Second); sub.Worker != "two" || sub.Verdict != "AC" {
		t.Errorf("rejudged by %q: %s", sub.Worker, sub.Verdict)
	}
	t.took("rejudge asked for to its verdict", t.Clock.Now().Sub(began), 3*time.Second)
	s.until(10*time.Second, "the superseded run is killed", func() bool { return one.said("run killed") })
	t.did("the superseded run was killed, and the rejudge went to another worker at once")

	hand := s.caller("hand", "", 1, handLanguage)
	id = s.handIn(s.api)
	old := hand.take(10 * time.Second)
	first := s.rejudge(id)
	for range 4 { // asking again changes nothing
		if r := s.askRejudge(id); r.ID != first.ID {
			t.Errorf("asked again, another rejudge was made")
		}
	}
	hand.wantGone(old.LeaseToken, gavelapi.LeaseSuperseded)
	hand.wantReport(old.LeaseToken, "WA", gavelapi.OutcomeDiscarded)
	next := hand.take(10 * time.Second)
	if next.Kind != "rejudge" || next.SubmissionID != id {
		t.Errorf("the next lease is a %s of submission %d", next.Kind, next.SubmissionID)
	}
	hand.wantReport(old.LeaseToken, "WA", gavelapi.OutcomeDiscarded)
	hand.wantReport(next.LeaseToken, "AC", gavelapi.OutcomeRecorded)
	if n := s.number("select count(*) from judgings where submission_id = $1", id); n != 2 {
		t.Errorf("%d judgings, want 2", n)
	}
	s.settle(10 * time.Second)
}
