package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

func (s *server) fleetRoutes() {
	register(s, sites, huma.Operation{
		OperationID: "list-languages", Method: http.MethodGet, Path: "/v1/languages", Tags: []string{"languages"},
		Summary:     "List languages and who offers them now",
		Description: "versions is empty for a language that no worker online offers: submissions in it wait.",
	}, func(ctx context.Context, _ auth.Principal, _ *struct{}) (*out[gavelapi.LanguageList], error) {
		list, err := s.Service.Languages(ctx)
		if list.Languages == nil {
			list.Languages = []gavelapi.LanguageInfo{}
		}
		return &out[gavelapi.LanguageList]{Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "list-workers", Method: http.MethodGet, Path: "/v1/workers", Tags: []string{"workers"},
		Summary: "List workers by name",
	}, func(ctx context.Context, _ auth.Principal, _ *struct{}) (*out[gavelapi.WorkerList], error) {
		list, err := s.Service.Workers(ctx)
		if list.Workers == nil {
			list.Workers = []gavelapi.WorkerInfo{}
		}
		return &out[gavelapi.WorkerList]{Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "invite-worker", Method: http.MethodPost, Path: "/v1/workers/invitations", Tags: []string{"workers"},
		Summary: "Make a one-time invitation for a worker", DefaultStatus: http.StatusCreated,
		Description: "The code is shown once.",
	}, func(ctx context.Context, p auth.Principal, in *text[gavelapi.NewInvitation]) (*out[gavelapi.Invitation], error) {
		inv, err := s.Service.Invite(ctx, p, in.Body)
		return &out[gavelapi.Invitation]{Body: inv}, err
	})
	register(s, anybody, huma.Operation{
		OperationID: "get-version", Method: http.MethodGet, Path: "/v1/version", Tags: []string{"server"},
		Summary: "Name the server's version",
	}, func(context.Context, auth.Principal, *struct{}) (*out[gavelapi.Version], error) {
		return &out[gavelapi.Version]{Body: s.Build}, nil
	})
}
