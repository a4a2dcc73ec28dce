package drill

import (
	"fmt"
	"time"

	"github.com/google/uuid"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/drill/transcript"
)

// caller is a worker whose calls the scenario makes one by one.
type caller struct {
	s                 *stand
	name              string
	api               transcript.Calls
	session, previous string
	slots             int
	languages         []string
}

// caller enrols a worker of that name that calls url ("" is the first arbiter).
func (s *stand) caller(name, url string, slots int, languages ...string) *caller {
	if url == "" {
		url = s.arbiters[0].url
	}
	if len(languages) == 0 {
		languages = []string{language}
	}
	api, err := client.New(url, s.enrol(name, slots), client.Options{UserAgent: "gavel-drill"})
	s.must(err, "client of "+name)
	s.cleanup(api.Close)
	return &caller{s: s, name: name, api: s.written(name, api), session: uuid.NewString(), slots: slots, languages: languages}
}

// reborn is the same worker after a restart of its process.
func (c *caller) reborn() *caller {
	next := *c
	next.previous, next.session = c.session, uuid.NewString()
	return &next
}

// ask makes one claim.
func (c *caller) ask(request string, wait time.Duration) ([]gavelapi.Lease, error) {
	req := gavelapi.ClaimRequest{
		RequestID: request, Session: c.session, PreviousSession: c.previous,
		Slots: c.slots, TotalSlots: c.slots, WaitMS: wait.Milliseconds(),
		Capabilities: gavelapi.Capabilities{Cores: 1, MemoryBytes: int64(c.slots) << 30, Arch: "drill", Build: "drill", Kernel: "drill"},
	}
	for _, id := range c.languages {
		req.Capabilities.Languages = append(req.Capabilities.Languages, gavelapi.LanguageOffer{ID: id, Version: "drill"})
	}
	resp, err := c.api.Claim(c.s.ctx, req)
	if err != nil {
		return nil, err
	}
	return resp.Leases, nil
}

// claim waits for work until some comes, across refusals.
func (c *caller) claim(limit time.Duration) []gavelapi.Lease {
	var leases []gavelapi.Lease
	request := uuid.NewString()
	var last error
	ok := c.s.within(limit, func() bool {
		leases, last = c.ask(request, 5*time.Second)
		if last == nil && len(leases) == 0 {
			request = uuid.NewString()
		}
		return last == nil && len(leases) > 0
	})
	if !ok {
		c.s.Fatalf("%s got no lease within %v (last error: %v)", c.name, limit, last)
	}
	return leases
}

// take claims and confirms one lease.
func (c *caller) take(limit time.Duration) gavelapi.Lease {
	l := c.claim(limit)[0]
	c.s.must(c.beat(l.LeaseToken), "first heartbeat of "+c.name)
	return l
}

func (c *caller) beat(token string) error {
	_, err := c.api.Heartbeat(c.s.ctx, gavelapi.HeartbeatRequest{LeaseToken: token})
	return err
}

// verdictReport is a report of the stand's problem.
func verdictReport(v string) gavelapi.Report {
	r := gavelapi.Report{Verdict: v, CPUUS: 1000, WallUS: 1000, MemoryBytes: 1 << 20}
	for i := range testCount {
		row := gavelapi.TestResult{Name: fmt.Sprintf("secret/%02d", i+1), Verdict: v}
		if i > 0 && v != "AC" {
			row.Verdict = gavelapi.SkippedTest
		}
		r.Tests = append(r.Tests, row)
	}
	return r
}

func (c *caller) report(token, v string) (*gavelapi.ResultResponse, error) {
	return c.api.Result(c.s.ctx, gavelapi.ResultRequest{LeaseToken: token, Report: verdictReport(v)})
}

// wantReport reports and checks what becomes of it.
func (c *caller) wantReport(token, v, outcome string) {
	resp, err := c.report(token, v)
	if err != nil {
		c.s.Errorf("%s reports %s: %v", c.name, v, err)
		return
	}
	if resp.Outcome != outcome {
		c.s.Errorf("a report of %s by %s was %s, want %s", v, c.name, resp.Outcome, outcome)
	}
}

// wantGone heartbeats a dead lease.
func (c *caller) wantGone(token string, reasons ...string) {
	err := c.beat(token)
	if client.StatusOf(err) != 410 {
		c.s.Errorf("a heartbeat of a dead lease of %s was answered with %v, want 410", c.name, err)
		return
	}
	if p, ok := asProblem(err); ok && len(reasons) > 0 && p.Reason != reasons[0] {
		c.s.Errorf("the lease of %s is dead because %s, want %s", c.name, p.Reason, reasons[0])
	}
}
