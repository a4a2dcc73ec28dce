package httpapi

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

type startedOutput struct {
	Location string `header:"Location"`
	Body     gavelapi.Rejudge
}

type rejudgeOneInput struct {
	ID      int64 `path:"id" minimum:"1"`
	RawBody []byte
	Body    gavelapi.RejudgeReason
}

type applyInput struct {
	ID      int64 `path:"id" minimum:"1"`
	RawBody []byte
	Body    gavelapi.ApplyRejudge
}

type changesInput struct {
	PageInput
	ID   int64 `path:"id" minimum:"1"`
	Only bool  `query:"only_changed" doc:"leave out submissions whose verdict is the same"`
}

type userInput struct {
	User string `path:"user" maxLength:"128"`
}

func (s *server) rejudgeRoutes() {
	tags := []string{"rejudges"}
	missing := []int{http.StatusNotFound}
	changing := []int{http.StatusNotFound, http.StatusConflict}
	register(s, admins, huma.Operation{
		OperationID: "start-rejudge", Method: http.MethodPost, Path: "/v1/rejudges", Tags: tags,
		Summary: "Judge submissions again, beside their verdicts", DefaultStatus: http.StatusCreated,
		Description: "Answers at once; the work follows behind live submissions. Open first judgings are superseded. " +
			"The old verdicts stay readable until the rejudge is applied, or each until its new one is there with apply: at_once.",
		Errors: []int{http.StatusConflict, http.StatusUnprocessableEntity},
	}, func(ctx context.Context, p auth.Principal, in *text[gavelapi.NewRejudge]) (*startedOutput, error) {
		r, err := s.Service.StartRejudge(ctx, p, in.Body)
		return &startedOutput{Location: fmt.Sprintf("/v1/rejudges/%d", r.ID), Body: r}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "rejudge-submission", Method: http.MethodPost, Path: "/v1/submissions/{id}/rejudge", Tags: tags,
		Summary: "Judge one submission again and apply the new verdict at once", Errors: changing,
		Description: "Asking again with the same reason while it is being rejudged gives the same rejudge; another reason is 409.",
	}, func(ctx context.Context, p auth.Principal, in *rejudgeOneInput) (*out[gavelapi.Rejudge], error) {
		r, err := s.Service.RejudgeSubmission(ctx, p, in.ID, in.Body.Reason)
		return &out[gavelapi.Rejudge]{Body: r}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "list-rejudges", Method: http.MethodGet, Path: "/v1/rejudges", Tags: tags, Summary: "List rejudges, newest first",
	}, func(ctx context.Context, _ auth.Principal, in *PageInput) (*pageOutput[gavelapi.RejudgeList], error) {
		list, err := s.Service.Rejudges(ctx, in.Cursor, in.Limit)
		if list.Rejudges == nil {
			list.Rejudges = []gavelapi.Rejudge{}
		}
		return &pageOutput[gavelapi.RejudgeList]{Link: nextLink("/v1/rejudges", url.Values{}, list.Next, in.Limit), Body: list}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "get-rejudge", Method: http.MethodGet, Path: "/v1/rejudges/{id}", Tags: tags, Summary: "Read a rejudge and its progress", Errors: missing,
	}, func(ctx context.Context, _ auth.Principal, in *idInput) (*out[gavelapi.Rejudge], error) {
		r, err := s.Service.Rejudge(ctx, in.ID)
		return &out[gavelapi.Rejudge]{Body: r}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "list-rejudge-changes", Method: http.MethodGet, Path: "/v1/rejudges/{id}/changes", Tags: tags,
		Summary: "List old verdicts beside new ones", Errors: missing,
	}, func(ctx context.Context, _ auth.Principal, in *changesInput) (*pageOutput[gavelapi.RejudgeChangeList], error) {
		list, err := s.Service.RejudgeChanges(ctx, in.ID, in.Only, in.Cursor, in.Limit)
		if list.Changes == nil {
			list.Changes = []gavelapi.RejudgeChange{}
		}
		q := url.Values{}
		if in.Only {
			q.Set("only_changed", "true")
		}
		return &pageOutput[gavelapi.RejudgeChangeList]{Link: nextLink(fmt.Sprintf("/v1/rejudges/%d/changes", in.ID), q, list.Next, in.Limit), Body: list}, err
	})
	register(s, admins, huma.Operation{
		OperationID: "apply-rejudge", Method: http.MethodPost, Path: "/v1/rejudges/{id}/apply", Tags: tags,
		Summary: "Make the new verdicts current, all or some", Errors: changing,
	}, func(ctx context.Context, p auth.Principal, in *applyInput) (*out[gavelapi.Rejudge], error) {
		r, err := s.Service.ApplyRejudge(ctx, p, in.ID, in.Body.Submissions, in.Body.Reason)
		return &out[gavelapi.Rejudge]{Body: r}, err
	})
	for _, end := range []struct {
		id, path, summary string
		do                func(context.Context, auth.Principal, int64, string) (gavelapi.Rejudge, error)
	}{
		{"discard-rejudge", "discard", "Keep the old verdicts", s.Service.DiscardRejudge},
		{"cancel-rejudge", "cancel", "Stop a rejudge that runs", s.Service.CancelRejudge},
	} {
		register(s, admins, huma.Operation{
			OperationID: end.id, Method: http.MethodPost, Path: "/v1/rejudges/{id}/" + end.path, Tags: tags, Summary: end.summary, Errors: changing,
		}, func(ctx context.Context, p auth.Principal, in *becauseInput) (*out[gavelapi.Rejudge], error) {
			r, err := end.do(ctx, p, in.ID, in.Reason)
			return &out[gavelapi.Rejudge]{Body: r}, err
		})
	}
	register(s, sites, huma.Operation{
		OperationID: "get-account", Method: http.MethodGet, Path: "/v1/accounts/{user}", Tags: []string{"accounts"},
		Summary:     "Read what a user has solved",
		Description: "A pure function of the current verdicts; a user who never submitted has solved nothing. A site may ignore it.",
	}, func(ctx context.Context, _ auth.Principal, in *userInput) (*out[gavelapi.Account], error) {
		a, err := s.Service.Account(ctx, in.User)
		return &out[gavelapi.Account]{Body: a}, err
	})
}
