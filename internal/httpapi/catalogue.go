package httpapi

import (
	"net/http"

	"github.com/gavel-oj/gavel/internal/apperr"
)

// Codes that only HTTP itself can cause.
const (
	codeMethod    apperr.Code = "method-not-allowed"
	codeTimeout   apperr.Code = "request-timeout"
	codeMediaType apperr.Code = "unsupported-media-type"
)

// Kind is one kind of error as the API shows it. Code and status are a
// contract; title, cause and cure are prose that may be improved.
type Kind struct {
	Code   apperr.Code
	Status int
	Title  string
	Cause  string
	Cure   string
	// RetryAfterSeconds, when not 0, is sent as Retry-After.
	RetryAfterSeconds int
}

// Catalogue lists every kind of error that the API answers with. The problem
// pages, the statuses and docs/reference/errors.md all come from it.
var Catalogue = []Kind{
	{
		Code: apperr.Malformed, Status: http.StatusBadRequest, Title: "The request cannot be read",
		Cause: "The body is missing, is not valid JSON, or ended before it was complete.",
		Cure:  "Send one complete JSON object with Content-Type: application/json. The detail says where reading stopped.",
	},
	{
		Code: apperr.Unauthorized, Status: http.StatusUnauthorized, Title: "No valid token",
		Cause: "The request has no bearer token, or one that this arbiter does not know, or one that was revoked or has expired.",
		Cure:  "Send Authorization: Bearer TOKEN. On the command line set GAVEL_TOKEN or use --token-file; `gavel up` writes the administrator's token to admin-token in its data directory. A worker gets a token by enrolling.",
	},
	{
		Code: apperr.Forbidden, Status: http.StatusForbidden, Title: "Not allowed with this token",
		Cause: "The token is valid, but it is of a kind that may not do this, or the worker that it belongs to is disabled.",
		Cure:  "Use a token of the kind that the reference names for the route: admin (gvl_a_), site (gvl_u_) or worker (gvl_w_).",
	},
	{
		Code: apperr.NotFound, Status: http.StatusNotFound, Title: "Not found",
		Cause: "There is no such route, submission, problem or package.",
		Cure:  "Check the path against /openapi.json, and the id or name against the list that holds it.",
	},
	{
		Code: codeMethod, Status: http.StatusMethodNotAllowed, Title: "Method not allowed",
		Cause: "The route exists, but not with this method.",
		Cure:  "Use a method from the Allow header.",
	},
	{
		Code: codeTimeout, Status: http.StatusRequestTimeout, Title: "The request took too long to arrive",
		Cause: "The body arrived too slowly, or stopped arriving.",
		Cure:  "Send it again. If the network is that slow, send less at once.",
	},
	{
		Code: apperr.Conflict, Status: http.StatusConflict, Title: "Contradicts what is stored",
		Cause: "The request cannot be applied in the present state: for example a submission that is final already, another live session of the same worker, or a first request with the same Idempotency-Key that is still running.",
		Cure:  "Read the present state and decide again; for a running first request, repeat the same request a little later.",
	},
	{
		Code: apperr.Gone, Status: http.StatusGone, Title: "The lease is dead",
		Cause: "The lease expired, was superseded, cancelled, finished or released; `reason` says which.",
		Cure:  "Stop the run and drop the work. Nothing is lost: the arbiter has given the job to somebody else or does not need it any more.",
	},
	{
		Code: apperr.TooLarge, Status: http.StatusRequestEntityTooLarge, Title: "Too large",
		Cause: "The body is larger than the route accepts; the detail names the limit.",
		Cure:  "Send less, or ask the operator to raise the limit.",
	},
	{
		Code: codeMediaType, Status: http.StatusUnsupportedMediaType, Title: "Content type not understood",
		Cause: "The route does not read bodies of this Content-Type.",
		Cure:  "Send application/json; a problem package is sent as application/zip, the file itself and not a form.",
	},
	{
		Code: apperr.Invalid, Status: http.StatusUnprocessableEntity, Title: "The request says something impossible",
		Cause: "The request could be read, but a value in it is missing, out of range or contradicts another; `errors` names each place.",
		Cure:  "Correct the named places. Rejected values are not repeated in the answer.",
	},
	{
		Code: apperr.Unsupported, Status: http.StatusUnprocessableEntity, Title: "Not supported",
		Cause: "The language, package format or feature is not one that this arbiter knows.",
		Cure:  "GET /v1/languages lists the languages; docs/reference lists the package formats.",
	},
	{
		Code: apperr.Protocol, Status: http.StatusUpgradeRequired, Title: "Worker protocol not spoken here",
		Cause: "A worker call came without the header Gavel-Protocol or with a version that this arbiter does not speak.",
		Cure:  "Run a gavel-worker of the same release as the arbiter, or one release older; GET /v1/version names the protocol.",
	},
	{
		Code: apperr.TooMany, Status: http.StatusTooManyRequests, Title: "Too many requests",
		Cause: "This token or address asks for more than its share.",
		Cure:  "Wait as long as Retry-After says.", RetryAfterSeconds: 5,
	},
	{
		Code: apperr.Internal, Status: http.StatusInternalServerError, Title: "Internal error",
		Cause: "Something failed that should not. The cause is in the arbiter's log beside the request id.",
		Cure:  "Give the operator the request id (`instance`, also in X-Request-Id). Repeating an idempotent request is safe.",
	},
	{
		Code: apperr.Unavailable, Status: http.StatusServiceUnavailable, Title: "Not available at the moment",
		Cause: "The arbiter is starting, stopping or standing by, or its database is away.",
		Cure:  "Repeat the request after Retry-After; /readyz says which part is missing.", RetryAfterSeconds: 2,
	},
}

// kindOf finds the kind of a code; an unknown code is an internal error.
func kindOf(code apperr.Code) Kind {
	internal := Kind{}
	for _, k := range Catalogue {
		if k.Code == code {
			return k
		}
		if k.Code == apperr.Internal {
			internal = k
		}
	}
	return internal
}

// codeOfStatus is for errors that huma makes, which have a status only.
func codeOfStatus(status int) apperr.Code {
	for _, k := range Catalogue {
		if k.Status == status {
			return k.Code
		}
	}
	if status >= 400 && status < 500 {
		return apperr.Malformed
	}
	return apperr.Internal
}
