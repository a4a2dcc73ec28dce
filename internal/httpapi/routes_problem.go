package httpapi

import (
	"context"
	"errors"
	"io"
	"mime"
	"net/http"
	"net/url"
	"os"
	"reflect"
	"syscall"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

type importInput struct {
	Name   string `query:"name" maxLength:"64" pattern:"^[a-z0-9][a-z0-9._-]*$" patternDescription:"lower-case letters, digits, dot, dash and underscore, starting with a letter or digit" doc:"publish under this name instead of the package's own"`
	Verify string `query:"verify" enum:"all,data,none" default:"all" doc:"how much workers verify before the package is published: everything; all but its declared submissions; nothing, which publishes it at once and is written to the audit trail"`
	Reason string `query:"reason" maxLength:"500" doc:"why it is published without being verified, for the audit trail"`

	r *http.Request
}

// Resolve keeps the request, whose body huma must not read into memory.
func (in *importInput) Resolve(hc huma.Context) []error {
	in.r, _ = humago.Unwrap(hc)
	return nil
}

type nameInput struct {
	Name string `path:"name" maxLength:"64"`
}

type reportInput struct {
	Name string `path:"name" maxLength:"64"`
	ID   int64  `query:"id" minimum:"0" doc:"of the preparation; without it the newest"`
	Wait string `query:"wait" maxLength:"16" example:"25s" doc:"hold the answer until the preparation has ended or gone on; at most 25s"`
}

func (s *server) problemRoutes() {
	tags := []string{"problems"}
	upload := policy{kinds: []auth.Kind{auth.Admin}, upload: true}
	register(s, upload, huma.Operation{
		OperationID: "import-problem", Method: http.MethodPost, Path: "/v1/problems", Tags: tags,
		Summary: "Import a problem package, to be published when it is verified",
		Description: "The body is the zip itself, not a form. Workers build the package's programs, look at its inputs and answers, and judge its " +
			"declared submissions; until that is done, and when it fails, the version before it stays live. The answer comes at once: " +
			"preparation says what is going on, and GET /v1/problems/{name}/report what was found. The newest import of a problem supersedes one that is " +
			"still being prepared. Importing what is live already changes nothing and says unchanged. " +
			"The limit of the body is a setting of the server, 1 GiB by default.",
		Errors: []int{http.StatusConflict, http.StatusUnsupportedMediaType, http.StatusUnprocessableEntity},
		RequestBody: &huma.RequestBody{Required: true, Content: map[string]*huma.MediaType{
			"application/zip": {Schema: &huma.Schema{Type: "string", Format: "binary"}},
		}},
	}, s.importProblem)
	register(s, sites, huma.Operation{
		OperationID: "list-problems", Method: http.MethodGet, Path: "/v1/problems", Tags: tags,
		Summary: "List problems by name",
	}, func(ctx context.Context, _ auth.Principal, in *PageInput) (*pageOutput[gavelapi.ProblemList], error) {
		list, err := s.Service.Problems(ctx, in.Cursor, in.Limit)
		if list.Problems == nil {
			list.Problems = []gavelapi.ProblemInfo{}
		}
		return &pageOutput[gavelapi.ProblemList]{Link: nextLink("/v1/problems", url.Values{}, list.Next, in.Limit), Body: list}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "get-problem", Method: http.MethodGet, Path: "/v1/problems/{name}", Tags: tags,
		Summary: "Read a problem", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ auth.Principal, in *nameInput) (*out[gavelapi.ProblemInfo], error) {
		info, err := s.Service.Problem(ctx, in.Name)
		return &out[gavelapi.ProblemInfo]{Body: info}, err
	})
	register(s, sites, huma.Operation{
		OperationID: "get-problem-report", Method: http.MethodGet, Path: "/v1/problems/{name}/report", Tags: tags,
		Summary: "Read what was found when a package was prepared", Errors: []int{http.StatusNotFound},
	}, func(ctx context.Context, _ auth.Principal, in *reportInput) (*out[gavelapi.PreparationReport], error) {
		wait, err := parseWait(in.Wait)
		if err != nil {
			return nil, err
		}
		rep, err := s.Service.PreparationReport(ctx, in.Name, in.ID, wait)
		return &out[gavelapi.PreparationReport]{Body: rep}, err
	})
}

// importProblem streams the body into a file that has no name any more, so
// that nothing stays behind however this ends.
func (s *server) importProblem(ctx context.Context, p auth.Principal, in *importInput) (*out[gavelapi.ProblemInfo], error) {
	ctype, _, _ := mime.ParseMediaType(in.r.Header.Get("Content-Type"))
	switch ctype {
	case "", "application/zip", "application/octet-stream", "application/x-zip-compressed":
	default:
		return nil, apperr.New(codeMediaType, "send the zip itself with Content-Type: application/zip (curl --data-binary @FILE.zip)",
			"a problem package is sent as a zip file")
	}
	file, err := os.CreateTemp(s.TempDir, "gavel-upload-*.zip")
	if err != nil {
		return nil, uploadError(err)
	}
	defer file.Close()
	if err := os.Remove(file.Name()); err != nil {
		return nil, uploadError(err)
	}
	infoOf(ctx).body.total = uploadTime
	size, err := io.Copy(file, io.LimitReader(in.r.Body, s.MaxUploadBytes+1))
	switch {
	case err != nil:
		return nil, uploadError(err)
	case size > s.MaxUploadBytes:
		return nil, tooLarge(s.MaxUploadBytes)
	case size == 0:
		return nil, apperr.New(apperr.Malformed, "send the zip file as the body", "the body is empty")
	}
	info, err := s.Service.ImportProblem(ctx, p, Import{Name: in.Name, Verify: in.Verify, Reason: in.Reason}, file, size)
	return &out[gavelapi.ProblemInfo]{Body: info}, err
}

// uploadError tells the client's failures from this machine's.
func uploadError(err error) error {
	switch {
	case errors.Is(err, errSlowBody):
		return apperr.Wrap(err, codeTimeout, "send it again", "the upload did not arrive in time")
	case errors.Is(err, syscall.ENOSPC), errors.Is(err, syscall.EDQUOT):
		return apperr.Wrap(err, apperr.Unavailable, "the operator must make room where uploads are kept", "the arbiter has no disk space left for uploads")
	}
	if pe, ok := errors.AsType[*os.PathError](err); ok {
		return apperr.Wrap(pe, apperr.Unavailable, "the operator finds the cause in the arbiter's log", "the arbiter cannot store the upload")
	}
	return apperr.Wrap(err, apperr.Malformed, "send it again", "the upload ended early")
}

func (s *server) schemaOf(v any) *huma.Schema {
	return s.api.OpenAPI().Components.Schemas.Schema(reflect.TypeOf(v), true, "")
}
