package client

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/gavel-oj/gavel/gavelapi"
)

// SubmissionCreate hands in a source. key makes repeating safe: the same key
// with the same submission gives the same answer for a day. An empty key is
// replaced by a random one, and then the call must not be repeated.
func (c *Client) SubmissionCreate(ctx context.Context, in gavelapi.NewSubmission, key string) (*gavelapi.Submission, error) {
	return get[gavelapi.Submission](ctx, c, request{
		op: "submission create", method: http.MethodPost, path: "/v1/submissions", in: in, header: keyHeader(key), limit: 3 * c.timeout,
	})
}

func keyHeader(key string) http.Header {
	if key == "" {
		key = rand.Text()
	}
	return http.Header{gavelapi.IdempotencyKeyHeader: {key}}
}

// SubmissionGet reads a submission with its detail. With wait > 0 the arbiter
// holds the answer until the submission is final or the wait is over.
func (c *Client) SubmissionGet(ctx context.Context, id int64, wait time.Duration) (*gavelapi.Submission, error) {
	q := url.Values{}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	return get[gavelapi.Submission](ctx, c, request{
		op: "submission get", method: http.MethodGet, path: "/v1/submissions/" + strconv.FormatInt(id, 10),
		query: q, limit: wait + c.timeout,
	})
}

// SubmissionSource reads what was handed in: the main file first.
func (c *Client) SubmissionSource(ctx context.Context, id int64) (*gavelapi.SubmissionSource, error) {
	return get[gavelapi.SubmissionSource](ctx, c, request{
		op: "submission source", method: http.MethodGet, path: "/v1/submissions/" + strconv.FormatInt(id, 10) + "/source",
	})
}

// SubmissionOutputs reads what was written in the tests that were failed. It
// needs an admin's token.
func (c *Client) SubmissionOutputs(ctx context.Context, id int64) (*gavelapi.SubmissionOutputs, error) {
	return get[gavelapi.SubmissionOutputs](ctx, c, request{
		op: "submission output", method: http.MethodGet, path: "/v1/submissions/" + strconv.FormatInt(id, 10) + "/outputs",
	})
}

// SubmissionFilter narrows a list; empty fields do not.
type SubmissionFilter struct {
	Problem  string
	User     string
	Language string
	State    string
	Verdict  string
}

// SubmissionList reads a page, newest first. cursor is empty for the first
// page and SubmissionList.Next afterwards; limit 0 leaves it to the arbiter.
func (c *Client) SubmissionList(ctx context.Context, f SubmissionFilter, cursor string, limit int) (*gavelapi.SubmissionList, error) {
	q := page(cursor, limit)
	for k, v := range map[string]string{"problem": f.Problem, "user": f.User, "language": f.Language, "state": f.State, "verdict": f.Verdict} {
		if v != "" {
			q.Set(k, v)
		}
	}
	return get[gavelapi.SubmissionList](ctx, c, request{op: "submission list", method: http.MethodGet, path: "/v1/submissions", query: q})
}

// SubmissionCancel stops a submission that is not final. Safe to repeat.
func (c *Client) SubmissionCancel(ctx context.Context, id int64, reason string) (*gavelapi.Submission, error) {
	return get[gavelapi.Submission](ctx, c, request{
		op: "submission cancel", method: http.MethodPost, path: "/v1/submissions/" + strconv.FormatInt(id, 10) + "/cancel", query: because(reason),
	})
}

// RunCreate has a program run on inputs. Of key holds what SubmissionCreate
// says, for as long as the run is kept.
func (c *Client) RunCreate(ctx context.Context, in gavelapi.NewRun, key string) (*gavelapi.Run, error) {
	return get[gavelapi.Run](ctx, c, request{
		op: "run create", method: http.MethodPost, path: "/v1/runs", in: in, header: keyHeader(key), limit: 3 * c.timeout,
	})
}

// RunGet reads a run. With wait > 0 the arbiter holds the answer until the run
// is final, has changed, or the wait is over.
func (c *Client) RunGet(ctx context.Context, id int64, wait time.Duration) (*gavelapi.Run, error) {
	q := url.Values{}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	return get[gavelapi.Run](ctx, c, request{
		op: "run get", method: http.MethodGet, path: "/v1/runs/" + strconv.FormatInt(id, 10), query: q, limit: wait + 3*c.timeout,
	})
}

// RunCancel stops a run that is not final. Safe to repeat.
func (c *Client) RunCancel(ctx context.Context, id int64) (*gavelapi.Run, error) {
	return get[gavelapi.Run](ctx, c, request{
		op: "run cancel", method: http.MethodPost, path: "/v1/runs/" + strconv.FormatInt(id, 10) + "/cancel",
	})
}

// Import says how a package is imported; the zero value does by default.
type Import struct {
	Name   string // "" lets the package name itself
	Verify string // gavelapi.VerifyAll, the default, VerifyData or VerifyNone
	Reason string // of VerifyNone, for the audit trail
}

// ProblemImport hands in a package as a zip file. Unless it is not to be
// verified, it is published later, when workers have verified it: Preparation of
// the answer says what is going on, ProblemReport waits for it. Importing the
// same content again changes nothing.
func (c *Client) ProblemImport(ctx context.Context, in Import, zip io.Reader) (*gavelapi.ProblemInfo, error) {
	q := url.Values{}
	for key, value := range map[string]string{"name": in.Name, "verify": in.Verify, "reason": in.Reason} {
		if value != "" {
			q.Set(key, value)
		}
	}
	return get[gavelapi.ProblemInfo](ctx, c, request{
		op: "problem import", method: http.MethodPost, path: "/v1/problems", query: q,
		body: zip, ctype: "application/zip", limit: defaultImportLimit,
	})
}

// ProblemReport reads what was found when a package was prepared: of a
// problem's newest import (id 0) or of another one. With a wait the answer is
// held until the preparation has ended or gone on.
func (c *Client) ProblemReport(ctx context.Context, name string, id int64, wait time.Duration) (*gavelapi.PreparationReport, error) {
	q := url.Values{}
	if id != 0 {
		q.Set("id", strconv.FormatInt(id, 10))
	}
	if wait > 0 {
		q.Set("wait", wait.String())
	}
	return get[gavelapi.PreparationReport](ctx, c, request{
		op: "problem report", method: http.MethodGet, path: "/v1/problems/" + url.PathEscape(name) + "/report", query: q, limit: wait + 3*c.timeout,
	})
}

// ProblemList reads a page of problems by name.
func (c *Client) ProblemList(ctx context.Context, cursor string, limit int) (*gavelapi.ProblemList, error) {
	return get[gavelapi.ProblemList](ctx, c, request{op: "problem list", method: http.MethodGet, path: "/v1/problems", query: page(cursor, limit)})
}

// ProblemGet reads one published problem.
func (c *Client) ProblemGet(ctx context.Context, name string) (*gavelapi.ProblemInfo, error) {
	return get[gavelapi.ProblemInfo](ctx, c, request{op: "problem get", method: http.MethodGet, path: "/v1/problems/" + url.PathEscape(name)})
}

// LanguageList reads every known language and who offers it now.
func (c *Client) LanguageList(ctx context.Context) (*gavelapi.LanguageList, error) {
	return get[gavelapi.LanguageList](ctx, c, request{op: "language list", method: http.MethodGet, path: "/v1/languages"})
}

// WorkerList reads every worker.
func (c *Client) WorkerList(ctx context.Context) (*gavelapi.WorkerList, error) {
	return get[gavelapi.WorkerList](ctx, c, request{op: "worker list", method: http.MethodGet, path: "/v1/workers"})
}

// WorkerInvite makes a one-time invitation for a new worker.
func (c *Client) WorkerInvite(ctx context.Context, in gavelapi.NewInvitation) (*gavelapi.Invitation, error) {
	return get[gavelapi.Invitation](ctx, c, request{
		op: "worker invite", method: http.MethodPost, path: "/v1/workers/invitations", in: in,
		header: http.Header{gavelapi.IdempotencyKeyHeader: {rand.Text()}},
	})
}

// Version asks the arbiter for its version.
func (c *Client) Version(ctx context.Context) (*gavelapi.Version, error) {
	return get[gavelapi.Version](ctx, c, request{op: "version", method: http.MethodGet, path: "/v1/version"})
}

// Alive asks whether the arbiter's process answers.
func (c *Client) Alive(ctx context.Context) (*gavelapi.Health, error) {
	return get[gavelapi.Health](ctx, c, request{op: "health", method: http.MethodGet, path: "/healthz"})
}

// Ready asks whether the arbiter can do its work now. One that cannot gives a
// Health with the failing checks and no error; an error means that it did not
// say.
func (c *Client) Ready(ctx context.Context) (*gavelapi.Health, error) {
	var h gavelapi.Health
	err := c.do(ctx, request{op: "ready", method: http.MethodGet, path: "/readyz"}, &h)
	if err == nil {
		return &h, nil
	}
	if u, ok := errors.AsType[*Unreachable](err); ok && u.Status == http.StatusServiceUnavailable && u.health != nil {
		return u.health, nil
	}
	if p, ok := errors.AsType[*gavelapi.Problem](err); ok && p.Status == http.StatusServiceUnavailable {
		return &gavelapi.Health{Status: "unavailable", Checks: map[string]string{"arbiter": p.Error()}}, nil
	}
	return nil, err
}

func page(cursor string, limit int) url.Values {
	q := url.Values{}
	if cursor != "" {
		q.Set("cursor", cursor)
	}
	if limit > 0 {
		q.Set("limit", strconv.Itoa(limit))
	}
	return q
}
