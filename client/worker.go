package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// PackageDigestHeader names the package that a download carries.
const PackageDigestHeader = "Gavel-Package-Digest"

// Enrol trades an invitation for a worker's token. It is not safe to repeat:
// an invitation works once.
func (c *Client) Enrol(ctx context.Context, in gavelapi.EnrolRequest) (*gavelapi.EnrolResponse, error) {
	return get[gavelapi.EnrolResponse](ctx, c, request{op: "enrol", method: http.MethodPost, path: "/v1/worker/enrol", in: in, worker: true})
}

// Claim asks for leases and waits up to in.WaitMS. An empty claim gives an
// empty response. Repeat a claim whose answer was lost with the same
// RequestID: the same leases come back and no more are granted.
func (c *Client) Claim(ctx context.Context, in gavelapi.ClaimRequest) (*gavelapi.ClaimResponse, error) {
	return get[gavelapi.ClaimResponse](ctx, c, request{
		op: "claim", method: http.MethodPost, path: "/v1/worker/claim", in: in, worker: true,
		limit: time.Duration(in.WaitMS)*time.Millisecond + c.timeout,
	})
}

// Heartbeat keeps one lease alive. A dead one is a Problem with status 410.
// Safe to repeat.
func (c *Client) Heartbeat(ctx context.Context, in gavelapi.HeartbeatRequest) (*gavelapi.HeartbeatResponse, error) {
	return get[gavelapi.HeartbeatResponse](ctx, c, request{op: "heartbeat", method: http.MethodPost, path: "/v1/worker/heartbeat", in: in, worker: true})
}

// Result reports how a job went. Safe to repeat.
func (c *Client) Result(ctx context.Context, in gavelapi.ResultRequest) (*gavelapi.ResultResponse, error) {
	return get[gavelapi.ResultResponse](ctx, c, request{
		op: "result", method: http.MethodPost, path: "/v1/worker/result", in: in, worker: true,
		limit: 3 * c.timeout, // a long compile log over a slow line
	})
}

// Release hands a lease back without cost. Safe to repeat.
func (c *Client) Release(ctx context.Context, in gavelapi.ReleaseRequest) (*gavelapi.ReleaseResponse, error) {
	return get[gavelapi.ReleaseResponse](ctx, c, request{op: "release", method: http.MethodPost, path: "/v1/worker/release", in: in, worker: true})
}

// PackageStream is a package on its way: the bytes of its tar.zst from Offset.
type PackageStream struct {
	// Offset is where Body starts. It is 0 when the arbiter sent the whole
	// package although less was asked for.
	Offset int64
	// TotalBytes is the length of the whole stream, -1 when unknown.
	TotalBytes int64
	Body       io.ReadCloser
}

// ErrStalled ends a download that brought nothing for the stall timeout.
var ErrStalled = errors.New("the download stalled")

// FetchPackage opens the package digest at a byte offset. Only packages of a
// held lease are served. Reading Body fails with ErrStalled when nothing comes
// for the stall timeout; the whole download has no other time limit, ctx ends
// it. The bytes are not verified here.
func (c *Client) FetchPackage(ctx context.Context, digest string, offset int64) (*PackageStream, error) {
	const op = "fetch package"
	dlCtx, cancel := context.WithCancelCause(ctx)
	w := &watchdog{limit: c.stall, cancel: func() { cancel(ErrStalled) }}
	w.timer = time.AfterFunc(c.stall, w.cancel)
	stop := func() { w.timer.Stop(); cancel(context.Canceled) }

	h := http.Header{"Accept-Encoding": {"identity"}}
	if offset > 0 {
		h.Set("Range", "bytes="+strconv.FormatInt(offset, 10)+"-")
	}
	req, err := c.build(dlCtx, request{op: op, method: http.MethodGet, path: "/v1/worker/packages/" + digest, header: h, worker: true})
	if err != nil {
		stop()
		return nil, err
	}
	req.Header.Set("Accept", "*/*")
	resp, err := c.packages.Do(req) //nolint:bodyclose // by the stream, or below
	if err != nil {
		stop()
		return nil, c.unreachable(ctx, op, timeoutCause(dlCtx, err))
	}
	w.timer.Stop()
	s := &PackageStream{TotalBytes: -1, Body: &watchedBody{c: c, parent: ctx, dl: dlCtx, r: resp.Body, w: w, stop: stop}}
	switch resp.StatusCode {
	case http.StatusOK:
		s.TotalBytes = resp.ContentLength
	case http.StatusPartialContent:
		if s.Offset, s.TotalBytes, err = contentRange(resp.Header.Get("Content-Range")); err != nil || s.Offset != offset {
			s.Body.Close()
			return nil, &Unreachable{Op: op, URL: c.base.String(), Status: resp.StatusCode, Err: errors.New("the answer carries another range than asked for")}
		}
	default:
		data, err := io.ReadAll(io.LimitReader(s.Body, 1<<20))
		s.Body.Close()
		if err != nil {
			return nil, err
		}
		return nil, c.refusal(op, resp, data)
	}
	if got := resp.Header.Get(PackageDigestHeader); got != "" && got != digest {
		s.Body.Close()
		return nil, &Unreachable{Op: op, URL: c.base.String(), Status: resp.StatusCode, Err: errors.New("the answer carries another package than asked for")}
	}
	return s, nil
}

// contentRange reads "bytes FIRST-LAST/TOTAL"; TOTAL may be "*".
func contentRange(v string) (first, total int64, err error) {
	spec, ok := strings.CutPrefix(v, "bytes ")
	span, size, ok2 := strings.Cut(spec, "/")
	from, _, ok3 := strings.Cut(span, "-")
	if !ok || !ok2 || !ok3 {
		return 0, -1, fmt.Errorf("content-range not understood")
	}
	if first, err = strconv.ParseInt(from, 10, 64); err != nil {
		return 0, -1, fmt.Errorf("content-range: %w", err)
	}
	if size == "*" {
		return first, -1, nil
	}
	if total, err = strconv.ParseInt(size, 10, 64); err != nil {
		return 0, -1, fmt.Errorf("content-range: %w", err)
	}
	return first, total, nil
}

// watchdog cancels when it is not touched for its limit.
type watchdog struct {
	limit  time.Duration
	timer  *time.Timer
	cancel func()
}

type watchedBody struct {
	c          *Client
	parent, dl context.Context
	r          io.ReadCloser
	w          *watchdog
	stop       func()
}

func (b *watchedBody) Read(p []byte) (int, error) {
	b.w.timer.Reset(b.w.limit) // only waiting for the network counts, not the reader's own time
	n, err := b.r.Read(p)
	b.w.timer.Stop()
	if err == nil {
		return n, nil
	}
	if !errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
		err = b.c.unreachable(b.parent, "fetch package", timeoutCause(b.dl, err))
	}
	return n, err
}

func (b *watchedBody) Close() error {
	b.stop()
	return b.r.Close()
}
