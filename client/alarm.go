package client

import (
	"context"
	"fmt"
	"net/http"

	"github.com/gavel-oj/gavel/gavelapi"
)

// AlarmList lists alarms, newest first; only those that are open, or of one kind.
func (c *Client) AlarmList(ctx context.Context, open bool, kind, cursor string, limit int) (*gavelapi.AlarmList, error) {
	q := page(cursor, limit)
	if open {
		q.Set("open", "true")
	}
	if kind != "" {
		q.Set("kind", kind)
	}
	return get[gavelapi.AlarmList](ctx, c, request{op: "alarm list", method: http.MethodGet, path: "/v1/alarms", query: q})
}

// AlarmGet reads one alarm.
func (c *Client) AlarmGet(ctx context.Context, id int64) (*gavelapi.Alarm, error) {
	return get[gavelapi.Alarm](ctx, c, request{op: "alarm show", method: http.MethodGet, path: fmt.Sprintf("/v1/alarms/%d", id)})
}
