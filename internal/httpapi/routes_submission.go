package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"time"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

type createInput struct {
	KeyInput
	text[gavelapi.NewSubmission]
}

type submissionInput struct {
	ID   int64  `path:"id" minimum:"1"`
	Wait string `query:"wait" maxLength:"16" example:"25s" doc:"hold the answer until the submission is final or has changed; at most 25s"`
}

type idInput struct {
	ID int64 `path:"id" minimum:"1"`
}

// becauseInput is something done to what has a number, and why.
type becauseInput struct {
	ID     int64  `path:"id" minimum:"1"`
	Reason string `query:"reason" maxLength:"500" doc:"why; kept in the audit trail"`
}

// PageInput is what every list takes. It is exported because huma does not look
// into unexported embedded fields.
type PageInput struct {
	Cursor string `query:"cursor" maxLength:"512" doc:"next of the page before; opaque"`
	Limit  int    `query:"limit" minimum:"1" maximum:"200" default:"50"`
}

type listInput struct {
	PageInput
	Problem  string `query:"problem" maxLength:"64"`
	User     string `query:"user" maxLength:"128"`
	Language string `query:"language" maxLength:"32"`
	State    string `query:"state" enum:"pending,judging,done,system_error,cancelled"`
	Verdict  string `query:"verdict" enum:"AC,WA,TLE,MLE,OLE,RE,CE,SE"`
}

// pageOutput links to the next page for clients that follow headers.
type pageOutput[T any] struct {
	Link string `header:"Link" doc:"rel=next, when there is a next page"`
	Body T
}

func (s *server) submissionRoutes() {
	tags := []string{"submissions"}
	register(s, sites, huma.Operation{
		OperationID: "create-submission", Method: http.MethodPost, Path: "/v1/submissions", Tags: tags,
		Summary: "Hand in a source", DefaultStatus: http.StatusCreated,
		Description: "With an Idempotency-Key the same request may be repeated; the same key with another body is 422, " +
			"and 409 while the first is still running.",
		Errors:    []int{http.StatusNotFound, http.StatusConflict, http.StatusUnprocessableEntity, http.StatusTooManyRequests},
		Responses: map[string]*huma.Response{"200": {Description: "made by an earlier request with the same key", Content: s.jsonOf(gavelapi.Submission{})}},
	}, s.createSubmission)
	register(s, sites, huma.Operation{
		OperationID: "get-submission", Method: http.MethodGet, Path: "/v1/submissions/{id}", Tags: tags,
		Summary: "Read a submission with its detail", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ auth.Principal, in *submissionInput) (*out[gavelapi.Submission], error) {
		wait, err := parseWait(in.Wait)
		if err != nil {
			return nil, err
		}
		sub, err := s.Service.Submission(ctx, in.ID, wait)
		return &out[gavelapi.Submission]{Body: sub}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "list-submissions", Method: http.MethodGet, Path: "/v1/submissions", Tags: tags,
		Summary: "List submissions, newest first",
	}, func(ctx context.Context, _ auth.Principal, in *listInput) (*pageOutput[gavelapi.SubmissionList], error) {
		list, err := s.Service.Submissions(ctx, SubmissionFilter{
			Problem: in.Problem, User: in.User, Language: in.Language, State: in.State, Verdict: in.Verdict,
			Cursor: in.Cursor, Limit: in.Limit,
		})
		if list.Submissions == nil {
			list.Submissions = []gavelapi.Submission{}
		}
		q := url.Values{"problem": {in.Problem}, "user": {in.User}, "language": {in.Language}, "state": {in.State}, "verdict": {in.Verdict}}
		return &pageOutput[gavelapi.SubmissionList]{Link: nextLink("/v1/submissions", q, list.Next, in.Limit), Body: list}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "get-submission-source", Method: http.MethodGet, Path: "/v1/submissions/{id}/source", Tags: tags,
		Summary: "Read the source of a submission, all its files", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ auth.Principal, in *idInput) (*out[gavelapi.SubmissionSource], error) {
		source, err := s.Service.SubmissionSource(ctx, in.ID)
		return &out[gavelapi.SubmissionSource]{Body: source}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "get-submission-outputs", Method: http.MethodGet, Path: "/v1/submissions/{id}/outputs", Tags: tags,
		Summary: "Read what a submission wrote in the tests that it failed", Errors: []int{http.StatusNotFound},
		Description: "It can show the tests' inputs, so it is for admins only. Kept for 30 days.",
	}, func(ctx context.Context, _ auth.Principal, in *idInput) (*out[gavelapi.SubmissionOutputs], error) {
		outputs, err := s.Service.SubmissionOutputs(ctx, in.ID)
		return &out[gavelapi.SubmissionOutputs]{Body: outputs}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "cancel-submission", Method: http.MethodPost, Path: "/v1/submissions/{id}/cancel", Tags: tags,
		Summary: "Cancel a submission that is not final", Errors: []int{http.StatusNotFound, http.StatusConflict},
	}, func(ctx context.Context, p auth.Principal, in *becauseInput) (*out[gavelapi.Submission], error) {
		sub, err := s.Service.CancelSubmission(ctx, p, in.ID, in.Reason)
		return &out[gavelapi.Submission]{Body: sub}, err
	})
}

func (s *server) createSubmission(ctx context.Context, p auth.Principal, in *createInput) (*created[gavelapi.Submission], error) {
	if err := in.checkKey(); err != nil {
		return nil, err
	}
	if err := checkSource(in.Body); err != nil {
		return nil, err
	}
	sub, replayed, err := s.Service.CreateSubmission(ctx, p, in.Key, hashOf(in.RawBody), in.Body)
	return createdAt(fmt.Sprintf("/v1/submissions/%d", sub.ID), sub, replayed), err
}

func parseWait(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := time.ParseDuration(text)
	if err != nil || d < 0 {
		return 0, apperr.New(apperr.Invalid, "use a duration such as 25s or 500ms", "expected a duration with its unit").At("query.wait")
	}
	return min(d, MaxWait), nil
}

// nextLink is the Link header of a page; empty on the last one.
func nextLink(path string, q url.Values, next string, limit int) string {
	if next == "" {
		return ""
	}
	for k, v := range q {
		if v[0] == "" {
			q.Del(k)
		}
	}
	q.Set("cursor", next)
	q.Set("limit", fmt.Sprint(limit))
	return "<" + path + "?" + q.Encode() + `>; rel="next"`
}

func (s *server) jsonOf(v any) map[string]*huma.MediaType {
	return map[string]*huma.MediaType{"application/json": {Schema: s.schemaOf(v)}}
}
