package edge

import (
	"context"
	"errors"
	"net/http"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/lease"
	"github.com/gavel-oj/gavel/internal/report"
)

type leaseRequest struct {
	me
	LeaseToken string `json:"lease_token"`
	Reason     string `json:"reason,omitempty"`
}

// leaseAnswer is what became of a lease: "unknown" or an outcome of an attempt.
type leaseAnswer struct {
	ended

	TTLMS   int64         `json:"ttl_ms"`
	Outcome lease.Outcome `json:"outcome"`
}

// ended is what the outcome of an attempt does not say.
type ended struct {
	Superseded bool `json:"superseded"` // cancelled, by a rejudge
}

// reason says to the worker why its lease is dead.
func (e ended) reason(o lease.Outcome) string {
	if e.Superseded {
		return gavelapi.LeaseSuperseded
	}
	return lease.EndReason(o)
}

// Heartbeat keeps a lease. A dead one is a 410 with the reason. Progress stays
// here: without an arbiter nobody is there to show it.
func (c *Client) Heartbeat(ctx context.Context, in gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error) {
	who, err := c.hello(ctx)
	if err != nil {
		return nil, err
	}
	var answer leaseAnswer
	if err := c.ask(ctx, "heartbeat", c.q.EdgeHeartbeat, leaseRequest{me: who, LeaseToken: in.LeaseToken}, &answer); err != nil {
		return nil, err
	}
	switch {
	case answer.TTLMS > 0:
		return &gavelapi.HeartbeatResponse{TTLMS: answer.TTLMS}, nil
	case answer.Outcome == lease.Running:
		return nil, again("heartbeat")
	}
	reason := answer.reason(answer.Outcome)
	return nil, &gavelapi.Problem{Status: http.StatusGone, Title: http.StatusText(http.StatusGone), Detail: "the lease is dead: " + reason, Reason: reason}
}

// Result records a report if its lease lives. Repeating it is safe.
func (c *Client) Result(ctx context.Context, in gavelapi.ResultRequest) (*gavelapi.ResultResponse, error) {
	who, err := c.hello(ctx)
	if err != nil {
		return nil, err
	}
	request := struct {
		me
		LeaseToken string          `json:"lease_token"`
		Report     gavelapi.Report `json:"report"`
	}{who, in.LeaseToken, tidy(in.Report)}
	var answer struct {
		ended

		Outcome string        `json:"outcome"`
		Reason  string        `json:"reason"` // why the report was not believed
		Lease   lease.Outcome `json:"lease"`
	}
	if err := c.ask(ctx, "result", c.q.EdgeResult, request, &answer); err != nil {
		return nil, err
	}
	switch answer.Outcome {
	case gavelapi.OutcomeRecorded, gavelapi.OutcomeAlreadyRecorded:
		return &gavelapi.ResultResponse{Outcome: answer.Outcome, Reason: answer.Reason}, nil
	case gavelapi.OutcomeDiscarded:
		return &gavelapi.ResultResponse{Outcome: answer.Outcome, Reason: answer.reason(answer.Lease)}, nil
	}
	return nil, again("result")
}

// tidy makes a report storable. What its lease is for the database knows, and
// compares; outputs of runs go as base64 all, because jsonb has no text that
// could carry every byte.
func tidy(r gavelapi.Report) gavelapi.Report {
	if r.Run == nil {
		return report.Tidy("judge", r)
	}
	r = report.Tidy(report.KindRun, r)
	if r.Run != nil { // Tidy has made the results anew
		for i := range r.Run.Results {
			t := &r.Run.Results[i]
			t.StdoutBase64, t.StderrBase64 = t.StdoutBytes(), t.StderrBytes()
			t.Stdout, t.Stderr = "", ""
		}
	}
	return r
}

// Release hands a lease back.
func (c *Client) Release(ctx context.Context, in gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error) {
	who, err := c.hello(ctx)
	if err != nil {
		return nil, err
	}
	var answer leaseAnswer
	if err := c.ask(ctx, "release", c.q.EdgeRelease, leaseRequest{me: who, LeaseToken: in.LeaseToken, Reason: in.Reason}, &answer); err != nil {
		return nil, err
	}
	switch answer.Outcome {
	case lease.Released:
		return &gavelapi.ReleaseResponse{Released: true}, nil
	case lease.Running:
		return nil, again("release")
	}
	return &gavelapi.ReleaseResponse{Reason: answer.reason(answer.Outcome)}, nil
}

// again is for a lease that changed hands between two looks.
func again(op string) error {
	return &client.Unreachable{Op: op, URL: "the database", Err: errors.New("the lease is changing state")}
}
