package client

import (
	"context"
	"fmt"
	"net/http"
	"net/url"

	"github.com/gavel-oj/gavel/gavelapi"
)

// RejudgeStart plans a rejudge; it returns at once.
func (c *Client) RejudgeStart(ctx context.Context, in gavelapi.NewRejudge) (*gavelapi.Rejudge, error) {
	return get[gavelapi.Rejudge](ctx, c, request{op: "rejudge start", method: http.MethodPost, path: "/v1/rejudges", in: in})
}

// SubmissionRejudge rejudges one submission and applies the new verdict.
func (c *Client) SubmissionRejudge(ctx context.Context, id int64, reason string) (*gavelapi.Rejudge, error) {
	return get[gavelapi.Rejudge](ctx, c, request{op: "submission rejudge", method: http.MethodPost, path: fmt.Sprintf("/v1/submissions/%d/rejudge", id), in: gavelapi.RejudgeReason{Reason: reason}})
}

// RejudgeGet reads one with its progress.
func (c *Client) RejudgeGet(ctx context.Context, id int64) (*gavelapi.Rejudge, error) {
	return get[gavelapi.Rejudge](ctx, c, request{op: "rejudge show", method: http.MethodGet, path: fmt.Sprintf("/v1/rejudges/%d", id)})
}

// RejudgeList lists a page, newest first.
func (c *Client) RejudgeList(ctx context.Context, cursor string, limit int) (*gavelapi.RejudgeList, error) {
	return get[gavelapi.RejudgeList](ctx, c, request{op: "rejudge list", method: http.MethodGet, path: "/v1/rejudges", query: page(cursor, limit)})
}

// RejudgeChanges lists old verdicts beside new ones, by submission.
func (c *Client) RejudgeChanges(ctx context.Context, id int64, onlyChanged bool, cursor string, limit int) (*gavelapi.RejudgeChangeList, error) {
	q := page(cursor, limit)
	if onlyChanged {
		q.Set("only_changed", "true")
	}
	return get[gavelapi.RejudgeChangeList](ctx, c, request{op: "rejudge diff", method: http.MethodGet, path: fmt.Sprintf("/v1/rejudges/%d/changes", id), query: q})
}

// RejudgeApply makes new verdicts current: those of the submissions named, or all.
func (c *Client) RejudgeApply(ctx context.Context, id int64, submissions []int64, reason string) (*gavelapi.Rejudge, error) {
	return get[gavelapi.Rejudge](ctx, c, request{op: "rejudge apply", method: http.MethodPost, path: fmt.Sprintf("/v1/rejudges/%d/apply", id), in: gavelapi.ApplyRejudge{Submissions: submissions, Reason: reason}})
}

// RejudgeDiscard keeps the old verdicts.
func (c *Client) RejudgeDiscard(ctx context.Context, id int64, reason string) (*gavelapi.Rejudge, error) {
	return get[gavelapi.Rejudge](ctx, c, request{op: "rejudge discard", method: http.MethodPost, path: fmt.Sprintf("/v1/rejudges/%d/discard", id), query: because(reason)})
}

// RejudgeCancel stops one that runs.
func (c *Client) RejudgeCancel(ctx context.Context, id int64, reason string) (*gavelapi.Rejudge, error) {
	return get[gavelapi.Rejudge](ctx, c, request{op: "rejudge cancel", method: http.MethodPost, path: fmt.Sprintf("/v1/rejudges/%d/cancel", id), query: because(reason)})
}

// AccountGet says what a user has solved.
func (c *Client) AccountGet(ctx context.Context, user string) (*gavelapi.Account, error) {
	return get[gavelapi.Account](ctx, c, request{op: "account show", method: http.MethodGet, path: "/v1/accounts/" + url.PathEscape(user)})
}
