package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

type rotateWebhookInput struct {
	SubjectName
	RawBody []byte
	Body    gavelapi.WebhookRotation
}

type deliveriesInput struct {
	SubjectName
	PageInput
}

func (s *server) webhookRoutes() {
	tags, missing := []string{"webhooks"}, []int{http.StatusNotFound}
	register(s, admins, huma.Operation{
		OperationID: "list-webhooks", Method: http.MethodGet, Path: "/v1/webhooks", Tags: tags,
		Summary: "List the endpoints that are told of alarms",
	}, func(ctx context.Context, _ auth.Principal, _ *struct{}) (*out[gavelapi.WebhookList], error) {
		list, err := s.Service.Webhooks(ctx)
		return &out[gavelapi.WebhookList]{Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "add-webhook", Method: http.MethodPost, Path: "/v1/webhooks", Tags: tags,
		Summary: "Add an endpoint", Errors: []int{http.StatusConflict, http.StatusUnprocessableEntity}, DefaultStatus: http.StatusCreated,
		Description: "It gets a POST for each start and end of an alarm, signed according to Standard Webhooks. The secret is in this answer only.",
	}, func(ctx context.Context, p auth.Principal, in *text[gavelapi.NewWebhook]) (*out[gavelapi.Webhook], error) {
		w, err := s.Service.AddWebhook(ctx, p, in.Body)
		return &out[gavelapi.Webhook]{Body: w}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "rotate-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/rotate", Tags: tags,
		Summary: "Give an endpoint a new secret", Errors: []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity},
		Description: "The secret is in this answer only. The one before signs beside it for a while: each message has a signature of either.",
	}, func(ctx context.Context, p auth.Principal, in *rotateWebhookInput) (*out[gavelapi.Webhook], error) {
		w, err := s.Service.RotateWebhook(ctx, p, in.Name, in.Body)
		return &out[gavelapi.Webhook]{Body: w}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "remove-webhook", Method: http.MethodDelete, Path: "/v1/webhooks/{name}", Tags: tags,
		Summary: "Remove an endpoint, and what was to be sent to it", Errors: missing, DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, p auth.Principal, in *removeInput) (*struct{}, error) {
		return nil, s.Service.RemoveWebhook(ctx, p, in.Name, in.Reason)
	})
	register(s, admins, huma.Operation{
		OperationID: "test-webhook", Method: http.MethodPost, Path: "/v1/webhooks/{name}/test", Tags: tags,
		Summary: "Send an endpoint a message that says nothing", Errors: missing,
		Description: "It goes the way of all messages; the list of deliveries says what became of it.",
	}, func(ctx context.Context, p auth.Principal, in *removeInput) (*out[gavelapi.Delivery], error) {
		d, err := s.Service.TestWebhook(ctx, p, in.Name, in.Reason)
		return &out[gavelapi.Delivery]{Body: d}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "list-deliveries", Method: http.MethodGet, Path: "/v1/webhooks/{name}/deliveries", Tags: tags,
		Summary: "List what was sent to an endpoint, newest first", Errors: missing,
	}, func(ctx context.Context, _ auth.Principal, in *deliveriesInput) (*pageOutput[gavelapi.DeliveryList], error) {
		list, err := s.Service.Deliveries(ctx, in.Name, in.Cursor, in.Limit)
		link := nextLink("/v1/webhooks/"+url.PathEscape(in.Name)+"/deliveries", url.Values{}, list.Next, in.Limit)
		return &pageOutput[gavelapi.DeliveryList]{Link: link, Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "redeliver", Method: http.MethodPost, Path: "/v1/deliveries/{id}/redeliver", Tags: tags,
		Summary: "Send a message again that was delivered or given up", Errors: []int{http.StatusNotFound}, DefaultStatus: http.StatusNoContent,
	}, func(ctx context.Context, p auth.Principal, in *becauseInput) (*struct{}, error) {
		return nil, s.Service.Redeliver(ctx, p, in.ID, in.Reason)
	})
}
