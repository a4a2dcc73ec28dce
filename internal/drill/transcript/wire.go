package transcript

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httputil"
	"net/url"
	"path"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/sim/history"
)

// What is written down of each call and of its answer; nil when the answer says
// nothing about the lease, such as a 503.

func askedClaim(in gavelapi.ClaimRequest) line {
	return line{Call: claim, Request: in.RequestID, Session: in.Session}
}

func toldClaim(out *gavelapi.ClaimResponse, err error) *answer {
	if err != nil {
		return nil
	}
	a := &answer{What: history.OK}
	for _, l := range out.Leases {
		a.Leases = append(a.Leases, grant{Job: l.JobID, Submission: l.SubmissionID, Token: l.LeaseToken, Gen: l.LeaseGen, Attempt: l.Attempt})
	}
	return a
}

func toldHeartbeat(_ *gavelapi.HeartbeatResponse, err error) *answer {
	if err == nil {
		return &answer{What: history.OK}
	}
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok && p.Status == http.StatusGone {
		return &answer{What: history.Dead, Reason: p.Reason}
	}
	return nil
}

func askedResult(in gavelapi.ResultRequest) line {
	l := line{Call: string(history.Result), Token: in.LeaseToken, Verdict: in.Report.Verdict}
	if in.Report.Fault != nil {
		l.Call = string(history.Fault)
	}
	return l
}

func toldResult(out *gavelapi.ResultResponse, err error) *answer {
	if err != nil {
		return nil
	}
	switch out.Outcome {
	case gavelapi.OutcomeRecorded:
		return &answer{What: history.OK, Fault: out.Reason != ""}
	case gavelapi.OutcomeAlreadyRecorded:
		return &answer{What: history.Already}
	}
	return &answer{What: history.Dead, Reason: out.Reason}
}

func toldRelease(out *gavelapi.ReleaseResponse, err error) *answer {
	if err != nil {
		return nil
	}
	if out.Released {
		return &answer{What: history.OK}
	}
	return &answer{What: history.Dead, Reason: out.Reason}
}

// Proxy passes everything on to an arbiter and writes down what a worker asks
// and is answered on the way. It is for workers whose own calls cannot be
// looked at: what the proxy was answered, the worker may have missed.
func (l *Log) Proxy(arbiter *url.URL) http.Handler {
	return &httputil.ReverseProxy{
		Rewrite:   func(r *httputil.ProxyRequest) { r.SetURL(arbiter) },
		Transport: onTheWay{l, &http.Transport{}},
		// The worker sees a connection that breaks, and not an answer of ours.
		ErrorHandler: func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) },
	}
}

type onTheWay struct {
	log  *Log
	next http.RoundTripper
}

// RoundTrip implements http.RoundTripper.
func (o onTheWay) RoundTrip(req *http.Request) (*http.Response, error) {
	call, known := wireCalls[path.Base(req.URL.Path)]
	if !known || path.Dir(req.URL.Path) != "/v1/worker" {
		return o.next.RoundTrip(req)
	}
	body, err := io.ReadAll(req.Body)
	if err != nil {
		return nil, fmt.Errorf("read the worker's call: %w", err)
	}
	req.Body, req.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
	req.Header.Set("Accept-Encoding", "identity") // the answer is read here
	asked, err := call.asked(body)
	if err != nil {
		return nil, fmt.Errorf("the worker's %s: %w", path.Base(req.URL.Path), err)
	}
	var raw []byte
	return do(o.log, asked, func() (*http.Response, error) {
		resp, err := o.next.RoundTrip(req)
		if err != nil {
			return nil, err
		}
		defer resp.Body.Close()
		if raw, err = io.ReadAll(resp.Body); err != nil {
			return nil, err
		}
		resp.Body = io.NopCloser(bytes.NewReader(raw))
		return resp, nil
	}, func(resp *http.Response, err error) *answer {
		if err != nil {
			return nil
		}
		return call.told(resp.StatusCode, raw)
	})
}

// wireCall reads one call from what goes over the line.
type wireCall struct {
	asked func(body []byte) (line, error)
	told  func(status int, body []byte) *answer
}

var wireCalls = map[string]wireCall{
	"claim":  wire(askedClaim, toldClaim),
	"result": wire(askedResult, toldResult),
	"heartbeat": wire(func(in gavelapi.HeartbeatRequest) line {
		return line{Call: string(history.Heartbeat), Token: in.LeaseToken}
	}, toldHeartbeat),
	"release": wire(func(in gavelapi.ReleaseRequest) line {
		return line{Call: string(history.Release), Token: in.LeaseToken}
	}, toldRelease),
}

func wire[In, Out any](asked func(In) line, told func(*Out, error) *answer) wireCall {
	return wireCall{
		asked: func(body []byte) (line, error) {
			var in In
			err := json.Unmarshal(body, &in)
			return asked(in), err
		},
		told: func(status int, body []byte) *answer {
			var out Out
			switch {
			case status == http.StatusNoContent:
				return told(&out, nil)
			case status == http.StatusOK:
				if err := json.Unmarshal(body, &out); err != nil {
					return nil // the worker cannot read it either
				}
				return told(&out, nil)
			}
			problem := gavelapi.Problem{Status: status}
			_ = json.Unmarshal(body, &problem) // what is no problem has no reason
			problem.Status = status
			return told(nil, &problem)
		},
	}
}
