package httpapi

import (
	"context"
	"net/http"
	"regexp"
	"strings"
	"time"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
	"github.com/gavel-oj/gavel/internal/problem"
)

// packageDigestHeader repeats the digest on a download, so that a client sees
// when a cache in between mixed packages up.
const packageDigestHeader = "Gavel-Package-Digest"

type in[T any] struct {
	Body T
}

type out[T any] struct {
	Body T
}

// answer is an output whose status varies. Only its makers fill it in: huma
// panics on a zero status (it has no default for it).
type answer[T any] struct {
	Status int
	Body   T
}

func (s *server) workerRoutes() {
	register(s, newWorkers, huma.Operation{
		OperationID: "enrol", Method: http.MethodPost, Path: "/v1/worker/enrol", Tags: []string{"worker"},
		Summary:     "Trade an invitation for a worker's token",
		Description: "The invitation is used up and the token is shown once. No other authorization is needed.",
		Errors:      []int{http.StatusForbidden, http.StatusConflict},
	}, func(ctx context.Context, _ auth.Principal, in *in[gavelapi.EnrolRequest]) (*out[gavelapi.EnrolResponse], error) {
		resp, err := s.Service.Enrol(ctx, in.Body)
		return &out[gavelapi.EnrolResponse]{Body: resp}, err
	})
	register(s, workers, huma.Operation{
		OperationID: "claim", Method: http.MethodPost, Path: "/v1/worker/claim", Tags: []string{"worker"},
		Summary:     "Ask for work",
		Description: "Held for up to wait_ms. Repeating a request_id returns the same leases and grants no more.",
		Errors:      []int{http.StatusConflict, http.StatusTooManyRequests},
		Responses:   map[string]*huma.Response{"204": {Description: "nothing came within the wait"}},
	}, s.claim)
	register(s, workers, huma.Operation{
		OperationID: "heartbeat", Method: http.MethodPost, Path: "/v1/worker/heartbeat", Tags: []string{"worker"},
		Summary: "Keep a lease alive", Errors: []int{http.StatusGone},
		Description: "410 says that the lease is dead, with the reason; the worker then kills the run and drops the work.",
	}, func(ctx context.Context, p auth.Principal, in *in[gavelapi.HeartbeatRequest]) (*out[gavelapi.HeartbeatResponse], error) {
		resp, err := s.Service.Heartbeat(ctx, p, in.Body)
		return &out[gavelapi.HeartbeatResponse]{Body: resp}, err
	})
	register(s, results, huma.Operation{
		OperationID: "result", Method: http.MethodPost, Path: "/v1/worker/result", Tags: []string{"worker"},
		Summary:     "Report how a job went",
		Description: "Idempotent by lease token. A dead lease is answered 200 with outcome discarded.",
		// A report that only its sender could have made better must not be
		// lost: its shape is documented, and only the token is insisted on.
		SkipValidateBody: true,
	}, s.result)
	register(s, workers, huma.Operation{
		OperationID: "release", Method: http.MethodPost, Path: "/v1/worker/release", Tags: []string{"worker"},
		Summary: "Hand a lease back without cost",
	}, func(ctx context.Context, p auth.Principal, in *in[gavelapi.ReleaseRequest]) (*out[gavelapi.ReleaseResponse], error) {
		resp, err := s.Service.Release(ctx, p, in.Body)
		return &out[gavelapi.ReleaseResponse]{Body: resp}, err
	})
	register(s, workers, huma.Operation{
		OperationID: "get-package", Method: http.MethodGet, Path: "/v1/worker/packages/{digest}", Tags: []string{"worker"},
		Summary:     "Download a package",
		Description: "Only packages of a held lease. Ranges and If-Range work; the ETag is the digest. With Accept: application/x-tar it comes unpacked by one layer, without ranges.",
		Errors:      []int{http.StatusNotFound},
		Responses: map[string]*huma.Response{
			"200": {Description: "the package, as tar.zst or as tar", Content: map[string]*huma.MediaType{
				"application/zstd":  {Schema: &huma.Schema{Type: "string", Format: "binary"}},
				"application/x-tar": {Schema: &huma.Schema{Type: "string", Format: "binary"}},
			}},
			"206": {Description: "the range that was asked for"},
			"304": {Description: "the client has it already (If-None-Match)"},
			"416": {Description: "the range lies outside of the package"},
		},
	}, s.getPackage)
}

func (s *server) claim(ctx context.Context, p auth.Principal, in *in[gavelapi.ClaimRequest]) (*answer[gavelapi.ClaimResponse], error) {
	resp, err := s.Service.Claim(ctx, p, in.Body)
	if err != nil {
		return nil, err
	}
	// Directives must arrive even without leases, and a 204 has no body.
	if len(resp.Leases) == 0 && !resp.Directives.Drain && len(resp.Directives.Cancel) == 0 {
		return &answer[gavelapi.ClaimResponse]{Status: http.StatusNoContent}, nil
	}
	if resp.Leases == nil {
		resp.Leases = []gavelapi.Lease{}
	}
	return &answer[gavelapi.ClaimResponse]{Status: http.StatusOK, Body: resp}, nil
}

var uuidForm = regexp.MustCompile(`^[0-9a-fA-F]{8}(-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}$`)

func (s *server) result(ctx context.Context, p auth.Principal, in *in[gavelapi.ResultRequest]) (*out[gavelapi.ResultResponse], error) {
	if !uuidForm.MatchString(in.Body.LeaseToken) {
		return nil, apperr.New(apperr.Invalid, "send the lease_token of the claim", "expected a UUID").At("body.lease_token")
	}
	if !in.Body.Report.One() {
		return nil, apperr.New(apperr.Invalid, "a report is a verdict, the outcome of a run, the findings of a step of preparing, or a fault", "exactly one of verdict, run, prepare and fault must be set").At("body.report")
	}
	resp, err := s.Service.Result(ctx, p, in.Body)
	return &out[gavelapi.ResultResponse]{Body: resp}, err
}

type packageInput struct {
	Digest string `path:"digest" maxLength:"80" doc:"sha256:… of the package"`
	Accept string `header:"Accept" doc:"application/x-tar for workers that cannot read zstd"`
}

const tarType = "application/x-tar"

type stream struct {
	Body func(huma.Context)
}

var digestForm = regexp.MustCompile(`^sha256:[0-9a-f]{64}$`)

func (s *server) getPackage(ctx context.Context, p auth.Principal, in *packageInput) (*stream, error) {
	if !digestForm.MatchString(in.Digest) {
		return nil, apperr.New(apperr.Invalid, "use the package_digest of the lease", "expected sha256: and 64 hex digits").At("path.digest")
	}
	blob, err := s.Service.OpenPackage(ctx, p, in.Digest)
	if err != nil {
		return nil, err
	}
	return &stream{Body: func(hc huma.Context) {
		defer blob.Close()
		r, w := humago.Unwrap(hc)
		h := w.Header()
		h.Set("Vary", "Accept")
		h.Set("Cache-Control", "private, immutable, max-age=31536000")
		h.Set(packageDigestHeader, in.Digest)
		if strings.TrimSpace(in.Accept) == tarType {
			h.Set("Content-Type", tarType)
			if err := problem.WriteTar(w, blob); err != nil {
				s.Logger.Warn("a package was not sent whole", "package", in.Digest, "error", err)
				panic(http.ErrAbortHandler) // the client must not take what it has for the whole
			}
			return
		}
		h.Set("Content-Type", "application/zstd")
		h.Set("ETag", `"`+in.Digest+`"`)
		http.ServeContent(w, r, "", time.Time{}, blob)
	}}, nil
}
