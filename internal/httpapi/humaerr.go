package httpapi

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"strings"
	"sync"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// Problem is gavelapi.Problem as huma wants an error: with a status, headers
// and its own content type.
type Problem struct {
	gavelapi.Problem
}

// GetStatus implements huma.StatusError.
func (p *Problem) GetStatus() int { return p.Status }

// GetHeaders implements huma.HeadersError.
func (p *Problem) GetHeaders() http.Header { return problemHeaders(&p.Problem) }

// ContentType implements huma.ContentTypeFilter.
func (p *Problem) ContentType(string) string { return problemType }

// installErrors replaces huma's makers of errors, which repeat rejected values
// and whole bodies in the answer. They are variables of the huma package, so
// this holds for the process; it is done once.
var installErrors = sync.OnceFunc(func() {
	huma.NewErrorWithContext = func(ctx huma.Context, status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(ctx.Context(), status, msg, errs)
	}
	// Without a context it only serves as the example for the document.
	huma.NewError = func(status int, msg string, errs ...error) huma.StatusError {
		return humaProblem(context.Background(), status, msg, errs) //nolint:forbidigo // huma's signature has no context
	}
})

// humaProblem translates what huma found wrong. Of huma's words it keeps only
// those that come from the schema, never those that come from the request.
func humaProblem(ctx context.Context, status int, msg string, errs []error) *Problem {
	var limit int64
	if info := infoOf(ctx); info != nil {
		limit = info.bodyLimit
	}
	var e *apperr.Error
	switch {
	case status == http.StatusRequestEntityTooLarge:
		e = tooLarge(limit)
	case status == http.StatusRequestTimeout || readTimedOut(errs):
		e = apperr.New(codeTimeout, "send the request again", "the body did not arrive in time")
	case msg == "cannot read request body":
		e = apperr.New(apperr.Malformed, "send the whole body", "the body ended early")
	case status == http.StatusBadRequest && len(errs) == 0:
		e = apperr.New(apperr.Malformed, "send a JSON object", "the body is empty")
	case status == http.StatusUnsupportedMediaType:
		e = apperr.New(codeMediaType, "send application/json", "the Content-Type is not understood")
	case status >= 500 || status == 0:
		e = apperr.Wrap(errors.Join(errs...), apperr.Internal, "", "%s", msg)
	default:
		e = apperr.New(codeOfStatus(status), "", "the request is not valid")
	}
	fields := make([]gavelapi.ProblemField, 0, len(errs))
	for _, err := range errs {
		detail, ok := err.(huma.ErrorDetailer)
		if !ok {
			continue
		}
		d := detail.ErrorDetail()
		fields = append(fields, gavelapi.ProblemField{Location: safeLocation(d.Location), Message: safeMessage(d.Message)})
	}
	if e.Code == apperr.Invalid || e.Code == apperr.Malformed {
		if d, ok := decodeProblem(fields); ok {
			e = d
		}
		if len(fields) > 0 && e.Hint == "" {
			e.Hint = "correct the places named in errors"
			e.Message = fmt.Sprintf("%s: %s", fields[0].Location, fields[0].Message)
			if n := len(fields) - 1; n > 0 {
				e.Message += fmt.Sprintf(" (and %d more)", n)
			}
		}
	} else {
		fields = nil
	}
	p := problemFor(ctx, e)
	if len(fields) > 0 {
		p.Errors = fields
	}
	return &Problem{Problem: *p}
}

func readTimedOut(errs []error) bool {
	for _, err := range errs {
		if errors.Is(err, errSlowBody) {
			return true
		}
	}
	return false
}

// decodeProblem recognises the errors of decodeJSON, which describe the whole
// body and not a field of a valid one.
func decodeProblem(fields []gavelapi.ProblemField) (*apperr.Error, bool) {
	for _, f := range fields {
		if f.Location == "body" && strings.HasPrefix(f.Message, notJSON) {
			return apperr.New(apperr.Malformed, "send one JSON object", "%s", f.Message), true
		}
	}
	return nil, false
}

func tooLarge(limit int64) *apperr.Error {
	return apperr.New(apperr.TooLarge, "send less, or ask the operator to raise the limit", "the body is larger than the limit of %s", bytesText(limit))
}

// bytesText writes a limit as people configure it.
func bytesText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%d GiB (%d bytes)", n>>30, n)
	case n >= 1<<20 && n%(1<<20) == 0:
		return fmt.Sprintf("%d MiB (%d bytes)", n>>20, n)
	case n >= 1<<10 && n%(1<<10) == 0:
		return fmt.Sprintf("%d KiB (%d bytes)", n>>10, n)
	}
	return fmt.Sprintf("%d bytes", n)
}

// safeWord is what a name in a location may look like: the names of our own
// fields, parameters and headers do, and array indices. Anything else came
// from the request (the key of a map) and is replaced.
var safeWord = regexp.MustCompile(`^[a-z][A-Za-z_-]{0,31}(\[[0-9]{1,6}\])*$|^[A-Z][A-Za-z-]{0,31}$`)

// safeLocation cuts a location before the first part that may come from the
// request: the members of free-form maps.
func safeLocation(loc string) string {
	parts := strings.Split(loc, ".")
	for i, part := range parts {
		if !safeWord.MatchString(part) || (i > 0 && freeForm[parts[i-1]]) {
			return strings.Join(parts[:i], ".")
		}
	}
	return loc
}

// freeForm names the fields whose keys are chosen by the client.
var freeForm = map[string]bool{"stages_us": true}

// safeMessage drops what huma's messages carry after a colon: the parser's
// words, which quote the value.
func safeMessage(msg string) string {
	if strings.HasPrefix(msg, notJSON) {
		return msg
	}
	head, _, _ := strings.Cut(msg, ":")
	if head == "expected string to be RFC 4122 uuid" {
		return "expected a UUID"
	}
	return head
}

const notJSON = "not valid JSON"

// jsonFormat is huma's JSON format with errors that do not quote the input.
var jsonFormat = huma.Format{Marshal: huma.DefaultJSONFormat.Marshal, Unmarshal: decodeJSON}

func decodeJSON(data []byte, v any) error {
	err := json.Unmarshal(data, v)
	if err == nil {
		return nil
	}
	if e, ok := errors.AsType[*json.SyntaxError](err); ok {
		return fmt.Errorf("%s: it breaks off or goes wrong at byte %d", notJSON, e.Offset)
	}
	if e, ok := errors.AsType[*json.UnmarshalTypeError](err); ok {
		return fmt.Errorf("field %s must be a %s", e.Field, jsonName(e))
	}
	if _, ok := errors.AsType[base64.CorruptInputError](err); ok {
		return errors.New("a base64 field is not valid base64")
	}
	return errors.New("a field has a value that does not fit")
}

func jsonName(e *json.UnmarshalTypeError) string {
	switch e.Type.Kind().String() {
	case "string":
		return "string"
	case "bool":
		return "boolean"
	case "slice":
		return "list"
	case "struct", "map":
		return "object"
	}
	return "number in range"
}
