package httpapi

import (
	"context"
	"fmt"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

type runInput struct {
	KeyInput
	text[gavelapi.NewRun]
}

type readRunInput struct {
	ID   int64  `path:"id" minimum:"1"`
	Wait string `query:"wait" maxLength:"16" example:"25s" doc:"hold the answer until the run is final or has changed; at most 25s"`
}

func (s *server) runRoutes() {
	tags := []string{"runs"}
	register(s, runs, huma.Operation{
		OperationID: "create-run", Method: http.MethodPost, Path: "/v1/runs", Tags: tags,
		Summary: "Run a program on inputs, without a problem", DefaultStatus: http.StatusCreated,
		Description: "It goes before judging, counts for nobody, and its result is deleted after a while. " +
			"429 when its user has too much waiting already. An Idempotency-Key does what it does for submissions, until the result is deleted.",
		Errors:    []int{http.StatusConflict, http.StatusUnprocessableEntity, http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: "made by an earlier request with the same key", Content: s.jsonOf(gavelapi.Run{})}},
	}, func(ctx context.Context, p auth.Principal, in *runInput) (*created[gavelapi.Run], error) {
		if err := in.checkKey(); err != nil {
			return nil, err
		}
		n := in.Body
		err := checkSource(gavelapi.NewSubmission{Source: n.Source, SourceBase64: n.SourceBase64, Files: n.Files}, n.Inputs...)
		if err != nil {
			return nil, err
		}
		run, replayed, err := s.Service.CreateRun(ctx, p, in.Key, hashOf(in.RawBody), n)
		return createdAt(fmt.Sprintf("/v1/runs/%d", run.ID), run, replayed), err
	})
	register(s, sites, huma.Operation{
		OperationID: "get-run", Method: http.MethodGet, Path: "/v1/runs/{id}", Tags: tags,
		Summary: "Read a run with its output", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ auth.Principal, in *readRunInput) (*out[gavelapi.Run], error) {
		wait, err := parseWait(in.Wait)
		if err != nil {
			return nil, err
		}
		run, err := s.Service.ReadRun(ctx, in.ID, wait)
		return &out[gavelapi.Run]{Body: run}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "cancel-run", Method: http.MethodPost, Path: "/v1/runs/{id}/cancel", Tags: tags,
		Summary: "Cancel a run that is not final", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p auth.Principal, in *idInput) (*out[gavelapi.Run], error) {
		run, err := s.Service.CancelRun(ctx, p, in.ID)
		return &out[gavelapi.Run]{Body: run}, err
	})
}
