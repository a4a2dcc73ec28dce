package client

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// Time bounds of calls. Long-polls get their wait on top of DefaultTimeout.
const (
	DefaultTimeout      = 10 * time.Second
	DefaultStallTimeout = 30 * time.Second
	defaultImportLimit  = 15 * time.Minute
	connectTimeout      = 10 * time.Second
)

// MaxAnswerBytes bounds a JSON answer; what is longer is not gavel's.
const MaxAnswerBytes = 64 << 20

// Options are the parts of a Client that have defaults.
type Options struct {
	// HTTP makes the calls; nil makes a client with bounded connect times.
	// Package downloads use HTTP too when it is given, and a connection pool
	// of their own otherwise, so that a download on a slow line never sits in
	// front of a heartbeat.
	HTTP *http.Client
	// Timeout bounds each call, without the wait that the call asks for.
	Timeout time.Duration
	// StallTimeout ends a package download that brings no byte for so long.
	StallTimeout time.Duration
	UserAgent    string
}

// Client calls one arbiter.
type Client struct {
	base *url.URL
	// authorize adds the token. It is a function because no way of printing a
	// Client can then print the token.
	authorize func(http.Header)
	calls     *http.Client
	packages  *http.Client
	timeout   time.Duration
	stall     time.Duration
	userAgent string
}

// New makes a client for the arbiter at baseURL, e.g. "http://127.0.0.1:7272".
// token may be empty for the calls that need none (Enrol, Version, Ready).
func New(baseURL, token string, opts Options) (*Client, error) {
	base, err := ParseURL(baseURL)
	if err != nil {
		return nil, err
	}
	if strings.ContainsFunc(token, func(r rune) bool { return r <= ' ' || r >= 0x7f }) {
		return nil, errors.New("the token contains a character that no token has (white space or non-ASCII): was it cut or pasted wrongly?")
	}
	c := &Client{
		base: base, timeout: opts.Timeout, stall: opts.StallTimeout,
		userAgent: opts.UserAgent, calls: opts.HTTP, packages: opts.HTTP,
	}
	c.authorize = func(h http.Header) {
		if token != "" {
			h.Set("Authorization", "Bearer "+token)
		}
	}
	if c.timeout <= 0 {
		c.timeout = DefaultTimeout
	}
	if c.stall <= 0 {
		c.stall = DefaultStallTimeout
	}
	if c.userAgent == "" {
		c.userAgent = "gavel-client"
	}
	if opts.HTTP == nil {
		c.calls = &http.Client{Transport: newTransport()}
		c.packages = &http.Client{Transport: newTransport()}
	}
	c.calls, c.packages = noRedirects(c.calls), noRedirects(c.packages)
	return c, nil
}

// ParseURL checks an arbiter's address and says what is wrong with it.
func ParseURL(s string) (*url.URL, error) {
	u, err := url.Parse(strings.TrimRight(s, "/"))
	switch {
	case s == "":
		return nil, errors.New("no arbiter address is given (use --url or GAVEL_URL, e.g. http://127.0.0.1:7272)")
	case err != nil || u.Host == "" || (u.Scheme != "http" && u.Scheme != "https"):
		return nil, errors.New("the arbiter address is not an http or https URL such as http://127.0.0.1:7272")
	case u.User != nil:
		return nil, errors.New("the arbiter address contains a user or password; tokens go into GAVEL_TOKEN or a file, never into the URL")
	case u.RawQuery != "" || u.Fragment != "":
		return nil, errors.New("the arbiter address must not have a query or fragment")
	}
	return u, nil
}

// Close drops idle connections. Calls in flight go on.
func (c *Client) Close() {
	c.calls.CloseIdleConnections()
	c.packages.CloseIdleConnections()
}

// URL is the arbiter's address.
func (c *Client) URL() string { return c.base.String() }

// newTransport bounds how long a dead network can look alive: connecting,
// TLS, and HTTP/2 connections that answer no ping (a machine that slept comes
// back with connections the other side has forgotten).
func newTransport() *http.Transport {
	d := net.Dialer{Timeout: connectTimeout, KeepAlive: 15 * time.Second}
	return &http.Transport{
		Proxy:                 http.ProxyFromEnvironment,
		DialContext:           d.DialContext,
		ForceAttemptHTTP2:     true,
		TLSHandshakeTimeout:   connectTimeout,
		ExpectContinueTimeout: time.Second,
		MaxIdleConnsPerHost:   16,
		IdleConnTimeout:       90 * time.Second,
		HTTP2:                 &http.HTTP2Config{SendPingTimeout: 15 * time.Second, PingTimeout: 10 * time.Second},
	}
}

// noRedirects keeps the token from following a redirect elsewhere and a POST
// from silently becoming a GET; the 3xx turns into a Problem that says so.
func noRedirects(h *http.Client) *http.Client {
	own := *h
	own.CheckRedirect = func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }
	return &own
}

// Unreachable says that no usable answer came from the arbiter. Whether the
// request took effect is unknown.
type Unreachable struct {
	Op     string // "claim", "submission create", …
	URL    string
	From   string // who was asked; "" is the arbiter
	Status int    // when something other than gavel answered, e.g. a proxy's 502
	// RetryAfter is what that answer asked for, or 0.
	RetryAfter time.Duration
	Err        error

	health *gavelapi.Health // of a /readyz that says no
}

func (e *Unreachable) Error() string {
	at := ""
	if e.URL != "" {
		at = " at " + e.URL
	}
	return fmt.Sprintf("%s: no answer from %s%s: %v", e.Op, cmp.Or(e.From, "the arbiter"), at, e.Err)
}

func (e *Unreachable) Unwrap() error { return e.Err }

// unreachable classifies a failed exchange: the end of the caller's context is
// the caller's business and not the network's.
func (c *Client) unreachable(ctx context.Context, op string, err error) error {
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", op, context.Cause(ctx))
	}
	if ue, ok := errors.AsType[*url.Error](err); ok {
		err = ue.Err
	}
	return &Unreachable{Op: op, URL: c.base.String(), Err: err}
}
