package httpapi

import (
	"context"
	"net/http"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

type namedInput[T any] struct {
	Name    string `path:"name" maxLength:"64"`
	RawBody []byte
	Body    T
}

func (s *server) healthRoutes() {
	register(s, admins, huma.Operation{
		OperationID: "get-worker-health", Method: http.MethodGet, Path: "/v1/workers/{name}/health", Tags: []string{"workers"},
		Summary: "Show what was seen of a worker's work", Errors: []int{http.StatusNotFound},
		Description: "Evidence, known-answer probes, the speed factor with its history, and planned hours.",
	}, func(ctx context.Context, _ auth.Principal, in *nameInput) (*out[gavelapi.WorkerHealth], error) {
		h, err := s.Service.WorkerHealth(ctx, in.Name)
		return &out[gavelapi.WorkerHealth]{Body: listed(h)}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "reset-worker-health", Method: http.MethodPost, Path: "/v1/workers/{name}/health/reset", Tags: []string{"workers"},
		Summary: "Forget what counts against a worker", Errors: []int{http.StatusNotFound},
		Description: "It gets work again at once, without a probe. Repeating it changes nothing.",
	}, func(ctx context.Context, p auth.Principal, in *namedInput[gavelapi.HealthReset]) (*out[gavelapi.WorkerHealth], error) {
		h, err := s.Service.ResetHealth(ctx, p, in.Name, in.Body)
		return &out[gavelapi.WorkerHealth]{Body: listed(h)}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "set-worker-hours", Method: http.MethodPut, Path: "/v1/workers/{name}/hours", Tags: []string{"workers"},
		Summary: "Set when a worker is meant to be asleep", Errors: []int{http.StatusNotFound},
		Description: "Before it nothing new is given to the worker; while it lasts, its absence is no alarm. Empty hours end it.",
	}, func(ctx context.Context, p auth.Principal, in *namedInput[gavelapi.NewHours]) (*out[gavelapi.PlannedHours], error) {
		h, err := s.Service.SetWorkerHours(ctx, p, in.Name, in.Body)
		return &out[gavelapi.PlannedHours]{Body: h}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "set-pool-hours", Method: http.MethodPut, Path: "/v1/pools/{name}/hours", Tags: []string{"workers"},
		Summary: "Set when the workers of a pool are meant to be asleep", Errors: []int{http.StatusNotFound},
		Description: "They hold for every worker of the pool that has no hours of its own.",
	}, func(ctx context.Context, p auth.Principal, in *namedInput[gavelapi.NewHours]) (*out[gavelapi.PlannedHours], error) {
		h, err := s.Service.SetPoolHours(ctx, p, in.Name, in.Body)
		return &out[gavelapi.PlannedHours]{Body: h}, err
	})
}

// listed has lists where there are none.
func listed(h gavelapi.WorkerHealth) gavelapi.WorkerHealth {
	if h.SetAside == nil {
		h.SetAside = []gavelapi.SetAside{}
	}
	if h.Faults == nil {
		h.Faults = []gavelapi.HealthEvidence{}
	}
	if h.Probes == nil {
		h.Probes = []gavelapi.ProbeResult{}
	}
	if h.Changes == nil {
		h.Changes = []gavelapi.HealthChange{}
	}
	if h.Speeds == nil {
		h.Speeds = []gavelapi.SpeedPoint{}
	}
	return h
}
