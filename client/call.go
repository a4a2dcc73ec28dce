package client

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"mime"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// request is one call before it is made.
type request struct {
	op     string // for messages
	method string
	path   string
	query  url.Values
	in     any       // JSON body, or
	body   io.Reader // any other body of contentType
	ctype  string
	header http.Header
	worker bool          // carries the protocol header
	limit  time.Duration // whole call; 0 means the client's timeout
}

var errCallTimeout = errors.New("no answer within the time limit of the call")

// do makes the call and decodes a JSON answer into out, which may be nil.
func (c *Client) do(ctx context.Context, r request, out any) error {
	limit := r.limit
	if limit == 0 {
		limit = c.timeout
	}
	callCtx, cancel := context.WithTimeoutCause(ctx, limit, errCallTimeout)
	defer cancel()
	req, err := c.build(callCtx, r)
	if err != nil {
		return err
	}
	resp, err := c.calls.Do(req)
	if err != nil {
		return c.unreachable(ctx, r.op, timeoutCause(callCtx, err))
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, MaxAnswerBytes+1))
	if err != nil {
		return c.unreachable(ctx, r.op, fmt.Errorf("the answer broke off: %w", timeoutCause(callCtx, err)))
	}
	if len(data) > MaxAnswerBytes {
		return &Unreachable{Op: r.op, URL: c.base.String(), Status: resp.StatusCode, Err: fmt.Errorf("the answer is longer than %d bytes", MaxAnswerBytes)}
	}
	if resp.StatusCode < 200 || resp.StatusCode > 299 {
		return c.refusal(r.op, resp, data)
	}
	if out == nil || resp.StatusCode == http.StatusNoContent {
		return nil
	}
	if err := json.Unmarshal(data, out); err != nil {
		// A page of some proxy, or a cut body: the arbiter did not say this.
		return &Unreachable{Op: r.op, URL: c.base.String(), Status: resp.StatusCode, Err: errors.New("the answer is not gavel's JSON; is this the arbiter's address?")}
	}
	return nil
}

// timeoutCause prefers "no answer within…" over "context deadline exceeded".
func timeoutCause(ctx context.Context, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		return cause
	}
	return err
}

func (c *Client) build(ctx context.Context, r request) (*http.Request, error) {
	u := c.base.JoinPath(r.path)
	u.RawQuery = r.query.Encode()
	body, ctype := r.body, r.ctype
	if r.in != nil {
		data, err := json.Marshal(r.in)
		if err != nil {
			return nil, fmt.Errorf("%s: encode request: %w", r.op, err)
		}
		body, ctype = bytes.NewReader(data), "application/json"
	}
	req, err := http.NewRequestWithContext(ctx, r.method, u.String(), body)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", r.op, err)
	}
	maps.Copy(req.Header, r.header)
	if ctype != "" {
		req.Header.Set("Content-Type", ctype)
	}
	req.Header.Set("Accept", "application/json, application/problem+json")
	req.Header.Set("User-Agent", c.userAgent)
	c.authorize(req.Header)
	if r.worker {
		req.Header.Set(gavelapi.ProtocolHeader, strconv.Itoa(gavelapi.ProtocolVersion))
	}
	return req, nil
}

// refusal turns an answer that is not a success into an error. Only
// application/problem+json is the arbiter's word; a bare 502, 503 or 504 comes
// from something in front of it.
func (c *Client) refusal(op string, resp *http.Response, data []byte) error {
	after := retryAfter(resp.Header)
	ctype, _, _ := mime.ParseMediaType(resp.Header.Get("Content-Type"))
	if ctype == "application/problem+json" {
		var p gavelapi.Problem
		if err := json.Unmarshal(data, &p); err == nil {
			p.Status = resp.StatusCode
			if p.Title == "" {
				p.Title = http.StatusText(resp.StatusCode)
			}
			if p.RetryAfterMS == 0 {
				p.RetryAfterMS = after.Milliseconds()
			}
			return &p
		}
	}
	switch s := resp.StatusCode; {
	case s == http.StatusBadGateway || s == http.StatusServiceUnavailable || s == http.StatusGatewayTimeout:
		u := &Unreachable{Op: op, URL: c.base.String(), Status: s, RetryAfter: after, Err: fmt.Errorf("something in front of it answered %s", resp.Status)}
		var h gavelapi.Health
		if json.Unmarshal(data, &h) == nil && h.Status != "" {
			u.health = &h
		}
		return u
	case s >= 300 && s < 400:
		return &gavelapi.Problem{
			Type: "about:blank", Title: "redirected", Status: s,
			Detail: "the address redirects to another one, and calls with a token do not follow redirects",
			Hint:   "use the final address, often the https:// one, as the arbiter's URL",
		}
	default:
		return &gavelapi.Problem{
			Type: "about:blank", Title: strings.ToLower(http.StatusText(s)), Status: s,
			Detail:       fmt.Sprintf("the answer was %s, and not in gavel's form", resp.Status),
			Hint:         "check that the URL is the arbiter's own address",
			RetryAfterMS: after.Milliseconds(),
		}
	}
}

// retryAfter reads Retry-After in seconds, or as a date relative to the
// answer's own Date header, so this machine's clock does not matter.
func retryAfter(h http.Header) time.Duration {
	v := h.Get("Retry-After")
	if v == "" {
		return 0
	}
	if s, err := strconv.ParseInt(v, 10, 32); err == nil {
		return max(0, time.Duration(s)*time.Second)
	}
	at, err1 := http.ParseTime(v)
	from, err2 := http.ParseTime(h.Get("Date"))
	if err1 != nil || err2 != nil {
		return 0
	}
	return max(0, at.Sub(from))
}

func get[T any](ctx context.Context, c *Client, r request) (*T, error) {
	var out T
	if err := c.do(ctx, r, &out); err != nil {
		return nil, err
	}
	return &out, nil
}
