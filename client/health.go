package client

import (
	"context"
	"net/http"
	"net/url"

	"github.com/gavel-oj/gavel/gavelapi"
)

// WorkerHealth reads what the arbiter has seen of a worker's work.
func (c *Client) WorkerHealth(ctx context.Context, name string) (*gavelapi.WorkerHealth, error) {
	return get[gavelapi.WorkerHealth](ctx, c, request{op: "worker health", method: http.MethodGet, path: "/v1/workers/" + url.PathEscape(name) + "/health"})
}

// WorkerHealthReset forgets what counts against a worker. It may be repeated.
func (c *Client) WorkerHealthReset(ctx context.Context, name string, in gavelapi.HealthReset) (*gavelapi.WorkerHealth, error) {
	return get[gavelapi.WorkerHealth](ctx, c, request{op: "worker reset", method: http.MethodPost, path: "/v1/workers/" + url.PathEscape(name) + "/health/reset", in: in})
}

// WorkerHours sets when a worker is meant to be asleep. It may be repeated.
func (c *Client) WorkerHours(ctx context.Context, name string, in gavelapi.NewHours) (*gavelapi.PlannedHours, error) {
	return get[gavelapi.PlannedHours](ctx, c, request{op: "worker hours", method: http.MethodPut, path: "/v1/workers/" + url.PathEscape(name) + "/hours", in: in})
}

// PoolHours sets when the workers of a pool are meant to be asleep. It may be
// repeated.
func (c *Client) PoolHours(ctx context.Context, pool string, in gavelapi.NewHours) (*gavelapi.PlannedHours, error) {
	return get[gavelapi.PlannedHours](ctx, c, request{op: "pool hours", method: http.MethodPut, path: "/v1/pools/" + url.PathEscape(pool) + "/hours", in: in})
}
