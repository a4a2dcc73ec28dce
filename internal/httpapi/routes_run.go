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
	RawBody []byte
	Body    gavelapi.NewRun
}

type runOutput struct {
	Location string `header:"Location"`
	Body     gavelapi.Run
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
			"429 when its user has too much waiting already.",
		Errors: []int{http.StatusUnprocessableEntity, http.StatusTooManyRequests},
	}, func(ctx context.Context, p auth.Principal, in *runInput) (*runOutput, error) {
		n := in.Body
		err := checkSource(gavelapi.NewSubmission{Source: n.Source, SourceBase64: n.SourceBase64, Files: n.Files}, n.Inputs...)
		if err != nil {
			return nil, err
		}
		run, err := s.Service.CreateRun(ctx, p, n)
		return &runOutput{Location: fmt.Sprintf("/v1/runs/%d", run.ID), Body: run}, err
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
