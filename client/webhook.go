package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gavel-oj/gavel/gavelapi"
)

// WebhookList lists endpoints.
func (c *Client) WebhookList(ctx context.Context) (*gavelapi.WebhookList, error) {
	return get[gavelapi.WebhookList](ctx, c, request{op: "webhook list", method: http.MethodGet, path: "/v1/webhooks"})
}

// WebhookAdd adds an endpoint; its secret is in the answer only.
func (c *Client) WebhookAdd(ctx context.Context, in gavelapi.NewWebhook) (*gavelapi.Webhook, error) {
	return get[gavelapi.Webhook](ctx, c, request{op: "webhook add", method: http.MethodPost, path: "/v1/webhooks", in: in})
}

// WebhookRotate gives an endpoint a new secret, which is in the answer only. The
// one before signs beside it for a while.
func (c *Client) WebhookRotate(ctx context.Context, name string, in gavelapi.WebhookRotation) (*gavelapi.Webhook, error) {
	return get[gavelapi.Webhook](ctx, c, request{op: "webhook rotate", method: http.MethodPost, path: "/v1/webhooks/" + url.PathEscape(name) + "/rotate", in: in})
}

// WebhookRemove removes an endpoint, and what was to be sent to it.
func (c *Client) WebhookRemove(ctx context.Context, name, reason string) error {
	return c.do(ctx, request{op: "webhook remove", method: http.MethodDelete, path: "/v1/webhooks/" + url.PathEscape(name), query: because(reason)}, nil)
}

// WebhookTest sends a message that says nothing.
func (c *Client) WebhookTest(ctx context.Context, name, reason string) (*gavelapi.Delivery, error) {
	return get[gavelapi.Delivery](ctx, c, request{op: "webhook test", method: http.MethodPost, path: "/v1/webhooks/" + url.PathEscape(name) + "/test", query: because(reason)})
}

// WebhookDeliveries lists what was sent to an endpoint.
func (c *Client) WebhookDeliveries(ctx context.Context, name, cursor string, limit int) (*gavelapi.DeliveryList, error) {
	return get[gavelapi.DeliveryList](ctx, c, request{
		op: "webhook deliveries", method: http.MethodGet, path: "/v1/webhooks/" + url.PathEscape(name) + "/deliveries", query: page(cursor, limit),
	})
}

// WebhookRedeliver sends a message again.
func (c *Client) WebhookRedeliver(ctx context.Context, id int64, reason string) error {
	return c.do(ctx, request{op: "webhook redeliver", method: http.MethodPost, path: fmt.Sprintf("/v1/deliveries/%d/redeliver", id), query: because(reason)}, nil)
}
