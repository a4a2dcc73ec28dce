package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gavel-oj/gavel/gavelapi"
)

// WorkerGet reads one worker.
func (c *Client) WorkerGet(ctx context.Context, name string) (*gavelapi.WorkerInfo, error) {
	return get[gavelapi.WorkerInfo](ctx, c, request{op: "worker show", method: http.MethodGet, path: "/v1/workers/" + url.PathEscape(name)})
}

// WorkerChange drains, pauses or resumes a worker.
func (c *Client) WorkerChange(ctx context.Context, name string, in gavelapi.WorkerChange) (*gavelapi.WorkerInfo, error) {
	return get[gavelapi.WorkerInfo](ctx, c, request{op: "worker " + in.Action, method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(name) + "/state", in: in})
}

// WorkerLabel sets a worker's pool, tags and lanes; what is absent stays.
func (c *Client) WorkerLabel(ctx context.Context, name string, in gavelapi.WorkerLabels) (*gavelapi.WorkerInfo, error) {
	return get[gavelapi.WorkerInfo](ctx, c, request{op: "worker label", method: http.MethodPut, path: "/v1/workers/" + url.PathEscape(name) + "/labels", in: in})
}

// WorkerRemove removes a worker; what it holds goes to others.
func (c *Client) WorkerRemove(ctx context.Context, name, reason string) error {
	return c.do(ctx, request{op: "worker remove", method: http.MethodDelete, path: "/v1/workers/" + url.PathEscape(name), query: because(reason)}, nil)
}

func because(reason string) url.Values {
	q := url.Values{}
	if reason != "" {
		q.Set("reason", reason)
	}
	return q
}

// PoolList lists pools, the most preferred first.
func (c *Client) PoolList(ctx context.Context) (*gavelapi.PoolList, error) {
	return get[gavelapi.PoolList](ctx, c, request{op: "pool list", method: http.MethodGet, path: "/v1/pools"})
}

// PoolSet ranks a pool.
func (c *Client) PoolSet(ctx context.Context, name string, in gavelapi.PoolSettings) (*gavelapi.Pool, error) {
	return get[gavelapi.Pool](ctx, c, request{op: "pool set", method: http.MethodPut, path: "/v1/pools/" + url.PathEscape(name), in: in})
}

// Queue counts what waits and lists what is held.
func (c *Client) Queue(ctx context.Context) (*gavelapi.Queue, error) {
	return get[gavelapi.Queue](ctx, c, request{op: "queue show", method: http.MethodGet, path: "/v1/queue"})
}

// QueuePause holds waiting work of a lane, a language or a problem.
func (c *Client) QueuePause(ctx context.Context, in gavelapi.Brake) (*gavelapi.Queue, error) {
	return get[gavelapi.Queue](ctx, c, request{op: "queue pause", method: http.MethodPost, path: "/v1/queue/brakes", in: in})
}

// QueueResume lets held work go.
func (c *Client) QueueResume(ctx context.Context, kind, name, reason string) (*gavelapi.Queue, error) {
	return get[gavelapi.Queue](ctx, c, request{
		op: "queue resume", method: http.MethodDelete, path: "/v1/queue/brakes/" + url.PathEscape(kind) + "/" + url.PathEscape(name), query: because(reason),
	})
}

// SubmissionBump puts a waiting submission in front.
func (c *Client) SubmissionBump(ctx context.Context, id int64, reason string) (*gavelapi.Submission, error) {
	return get[gavelapi.Submission](ctx, c, request{op: "queue bump", method: http.MethodPost, path: fmt.Sprintf("/v1/submissions/%d/bump", id), in: gavelapi.Reason{Reason: reason}})
}

// SubmissionExplain says why a submission waits, or how it went.
func (c *Client) SubmissionExplain(ctx context.Context, id int64) (*gavelapi.Explanation, error) {
	return get[gavelapi.Explanation](ctx, c, request{op: "submission explain", method: http.MethodGet, path: fmt.Sprintf("/v1/submissions/%d/explain", id)})
}

// AuditList lists what operators did, newest first.
func (c *Client) AuditList(ctx context.Context, subject, cursor string, limit int) (*gavelapi.AuditList, error) {
	q := page(cursor, limit)
	if subject != "" {
		q.Set("subject", subject)
	}
	return get[gavelapi.AuditList](ctx, c, request{op: "audit list", method: http.MethodGet, path: "/v1/audit", query: q})
}
