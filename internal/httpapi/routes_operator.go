package httpapi

import (
	"context"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

// SubjectName is the name of a worker, a pool or what has a brake.
type SubjectName struct {
	Name string `path:"name" minLength:"1" maxLength:"64"`
}

type workerChangeInput struct {
	SubjectName
	RawBody []byte
	Body    gavelapi.WorkerChange
}

type workerLabelsInput struct {
	SubjectName
	RawBody []byte
	Body    gavelapi.WorkerLabels
}

type poolInput struct {
	SubjectName
	RawBody []byte
	Body    gavelapi.PoolSettings
}

type removeInput struct {
	SubjectName
	Reason string `query:"reason" maxLength:"500"`
}

type releaseBrakeInput struct {
	SubjectName
	Kind   string `path:"kind" enum:"lane,language,problem"`
	Reason string `query:"reason" maxLength:"500"`
}

type bumpInput struct {
	ID      int64 `path:"id" minimum:"1"`
	RawBody []byte
	Body    gavelapi.Reason
}

type auditInput struct {
	PageInput
	Subject string `query:"subject" maxLength:"128" doc:"only what was done to this, e.g. a worker's name"`
}

func (s *server) operatorRoutes() {
	s.workerRoutesOfOperators()
	s.queueRoutes()
	register(s, sites, huma.Operation{
		OperationID: "explain-submission", Method: http.MethodGet, Path: "/v1/submissions/{id}/explain", Tags: []string{"submissions"},
		Summary: "Say why a submission waits, or how it went", Errors: []int{http.StatusNotFound},
		Description: "For waiting work: its lane, place and estimate, and for each worker online the rule that keeps it from taking it. " +
			"The rules are those that decide. An arbiter that does not lead gives the rule that the leader wrote down last, with its age.",
	}, func(ctx context.Context, _ auth.Principal, in *idInput) (*out[gavelapi.Explanation], error) {
		e, err := s.Service.Explain(ctx, in.ID)
		return &out[gavelapi.Explanation]{Body: e}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "list-audit", Method: http.MethodGet, Path: "/v1/audit", Tags: []string{"operators"},
		Summary: "List what operators did, newest first",
	}, func(ctx context.Context, _ auth.Principal, in *auditInput) (*pageOutput[gavelapi.AuditList], error) {
		list, err := s.Service.Audit(ctx, in.Subject, in.Cursor, in.Limit)
		return &pageOutput[gavelapi.AuditList]{Link: nextLink("/v1/audit", url.Values{"subject": {in.Subject}}, list.Next, in.Limit), Body: list}, err
	})
}

func (s *server) workerRoutesOfOperators() {
	tags, missing := []string{"workers"}, []int{http.StatusNotFound}
	register(s, admins, huma.Operation{
		OperationID: "get-worker", Method: http.MethodGet, Path: "/v1/workers/{name}", Tags: tags,
		Summary: "Read one worker", Errors: missing,
	}, func(ctx context.Context, _ auth.Principal, in *SubjectName) (*out[gavelapi.WorkerInfo], error) {
		w, err := s.Service.Worker(ctx, in.Name)
		return &out[gavelapi.WorkerInfo]{Body: w}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "change-worker", Method: http.MethodPost, Path: "/v1/workers/{name}/state", Tags: tags,
		Summary: "Drain, pause or resume a worker", Errors: missing,
		Description: "Kept by the arbiter: a restart of either side changes nothing. What the worker has already goes on.",
	}, func(ctx context.Context, p auth.Principal, in *workerChangeInput) (*out[gavelapi.WorkerInfo], error) {
		w, err := s.Service.ChangeWorker(ctx, p, in.Name, in.Body)
		return &out[gavelapi.WorkerInfo]{Body: w}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "label-worker", Method: http.MethodPut, Path: "/v1/workers/{name}/labels", Tags: tags,
		Summary: "Set a worker's pool, tags and lanes", Errors: missing,
	}, func(ctx context.Context, p auth.Principal, in *workerLabelsInput) (*out[gavelapi.WorkerInfo], error) {
		w, err := s.Service.LabelWorker(ctx, p, in.Name, in.Body)
		return &out[gavelapi.WorkerInfo]{Body: w}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "remove-worker", Method: http.MethodDelete, Path: "/v1/workers/{name}", Tags: tags,
		Summary: "Remove a worker", Errors: missing, DefaultStatus: http.StatusNoContent,
		Description: "Its token is refused, and what it holds goes to others at once. What it judged stays on record.",
	}, func(ctx context.Context, p auth.Principal, in *removeInput) (*struct{}, error) {
		return nil, s.Service.RemoveWorker(ctx, p, in.Name, in.Reason)
	})
	register(s, admins, huma.Operation{
		OperationID: "list-pools", Method: http.MethodGet, Path: "/v1/pools", Tags: tags,
		Summary: "List pools, the most preferred first",
	}, func(ctx context.Context, _ auth.Principal, _ *struct{}) (*out[gavelapi.PoolList], error) {
		list, err := s.Service.Pools(ctx)
		return &out[gavelapi.PoolList]{Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "set-pool", Method: http.MethodPut, Path: "/v1/pools/{name}", Tags: tags,
		Summary: "Rank a pool",
	}, func(ctx context.Context, p auth.Principal, in *poolInput) (*out[gavelapi.Pool], error) {
		pool, err := s.Service.SetPool(ctx, p, in.Name, in.Body)
		return &out[gavelapi.Pool]{Body: pool}, err
	})
}

func (s *server) queueRoutes() {
	tags, missing := []string{"queue"}, []int{http.StatusNotFound}
	register(s, sites, huma.Operation{
		OperationID: "get-queue", Method: http.MethodGet, Path: "/v1/queue", Tags: tags,
		Summary:     "Count what waits and why, and list what is held",
		Description: "The leader answers from its memory. Any other arbiter counts in the database and gives the reasons that the leader wrote down last.",
	}, func(ctx context.Context, _ auth.Principal, _ *struct{}) (*out[gavelapi.Queue], error) {
		q, err := s.Service.Queue(ctx)
		return &out[gavelapi.Queue]{Body: q}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "set-brake", Method: http.MethodPost, Path: "/v1/queue/brakes", Tags: tags,
		Summary: "Hold waiting work of a lane, a language or a problem", Errors: missing,
		Description: "What is being judged goes on. Holding again replaces the reason.",
	}, func(ctx context.Context, p auth.Principal, in *text[gavelapi.Brake]) (*out[gavelapi.Queue], error) {
		if err := s.Service.SetBrake(ctx, p, in.Body); err != nil {
			return nil, err
		}
		q, err := s.Service.Queue(ctx)
		return &out[gavelapi.Queue]{Body: q}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "release-brake", Method: http.MethodDelete, Path: "/v1/queue/brakes/{kind}/{name}", Tags: tags,
		Summary: "Let held work go", Errors: missing,
	}, func(ctx context.Context, p auth.Principal, in *releaseBrakeInput) (*out[gavelapi.Queue], error) {
		if err := s.Service.ReleaseBrake(ctx, p, in.Kind, in.Name, in.Reason); err != nil {
			return nil, err
		}
		q, err := s.Service.Queue(ctx)
		return &out[gavelapi.Queue]{Body: q}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "bump-submission", Method: http.MethodPost, Path: "/v1/submissions/{id}/bump", Tags: tags,
		Summary: "Put a waiting submission in front", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p auth.Principal, in *bumpInput) (*out[gavelapi.Submission], error) {
		sub, err := s.Service.BumpSubmission(ctx, p, in.ID, in.Body.Reason)
		return &out[gavelapi.Submission]{Body: sub}, err
	})
}
