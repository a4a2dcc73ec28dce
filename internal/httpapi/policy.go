package httpapi

import (
	"context"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/danielgtaylor/huma/v2"
	"github.com/danielgtaylor/huma/v2/adapters/humago"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/auth"
)

// policy is what a route demands before its body is read.
type policy struct {
	protocol bool        // the worker protocol header, looked at first
	kinds    []auth.Kind // who may call; empty means anybody
	body     int64       // limit of the body in bytes, unless the operator set another
	upload   bool        // that limit is MaxUploadBytes
}

var (
	anybody    = policy{body: MaxJSONBytes}
	sites      = policy{kinds: []auth.Kind{auth.Admin, auth.Site}, body: MaxJSONBytes}
	runs       = policy{kinds: []auth.Kind{auth.Admin, auth.Site}, body: MaxResultBytes} // inputs are larger than sources
	admins     = policy{kinds: []auth.Kind{auth.Admin}, body: MaxJSONBytes}
	workers    = policy{protocol: true, kinds: []auth.Kind{auth.Worker}, body: MaxJSONBytes}
	results    = policy{protocol: true, kinds: []auth.Kind{auth.Worker}, body: MaxResultBytes}
	newWorkers = policy{protocol: true, body: MaxJSONBytes}
)

// bounded is the policy with the limits of this server.
func (s *server) bounded(pol policy) policy {
	switch {
	case pol.upload:
		pol.body = s.MaxUploadBytes
	case pol.body == MaxJSONBytes:
		pol.body = s.MaxBodyBytes
	case pol.body == MaxResultBytes:
		pol.body = resultShare * s.MaxBodyBytes
	}
	return pol
}

type principalKey struct{}

// register adds an operation with its policy. All routes of the API go
// through here, so none can forget it.
func register[I, O any](s *server, pol policy, op huma.Operation, handler func(context.Context, auth.Principal, *I) (*O, error)) {
	pol = s.bounded(pol)
	op.Middlewares = append(op.Middlewares, s.enforce(pol))
	op.MaxBodyBytes = pol.body + 1 // huma refuses a body of exactly its limit
	op.BodyReadTimeout = -1        // guardedBody sets deadlines, and takes them off again
	op.Security = []map[string][]string{}
	for _, kind := range pol.kinds {
		op.Security = append(op.Security, map[string][]string{string(kind): {}})
	}
	if pol.protocol {
		op.Parameters = append(op.Parameters, &huma.Param{
			Name: gavelapi.ProtocolHeader, In: "header", Required: true, Description: "worker protocol",
			Schema: &huma.Schema{Type: "integer", Enum: []any{gavelapi.ProtocolVersion}},
		})
	}
	op.Errors = append(op.Errors, errorsOf(pol, op.Method)...)
	hasBody, keepsRaw := inputFields[I]()
	if hasBody && !keepsRaw && !pol.protocol {
		panic(op.OperationID + ": a body that people write is taken with its RawBody, see checkText")
	}
	huma.Register(s.api, op, func(ctx context.Context, in *I) (*O, error) {
		p, _ := ctx.Value(principalKey{}).(auth.Principal)
		if hasBody && !op.SkipValidateBody {
			v := reflect.ValueOf(in).Elem()
			var raw []byte
			if keepsRaw {
				raw = v.FieldByName("RawBody").Bytes()
			}
			if err := checkText(raw, v.FieldByName("Body")); err != nil {
				return nil, &Problem{Problem: *problemFor(ctx, err)}
			}
		}
		out, err := handler(ctx, p, in)
		if err != nil {
			return nil, &Problem{Problem: *problemFor(ctx, err)}
		}
		return out, nil
	})
	if keepsRaw { // huma documents it as a second form of the request
		path := s.api.OpenAPI().Paths[op.Path]
		for _, o := range []*huma.Operation{path.Post, path.Put, path.Patch} {
			if o != nil {
				delete(o.RequestBody.Content, "application/octet-stream")
			}
		}
	}
}

// inputFields says what an input has of a decoded body and the body as it came.
func inputFields[I any]() (body, raw bool) {
	t := reflect.TypeFor[I]()
	if t.Kind() != reflect.Struct {
		return false, false
	}
	_, body = t.FieldByName("Body")
	_, raw = t.FieldByName("RawBody")
	return body, raw
}

// errorsOf lists the statuses that the policy itself can cause.
func errorsOf(pol policy, method string) []int {
	list := []int{http.StatusServiceUnavailable}
	if pol.protocol {
		list = append(list, http.StatusUpgradeRequired)
	}
	if len(pol.kinds) > 0 {
		list = append(list, http.StatusUnauthorized, http.StatusForbidden)
	}
	if method != http.MethodGet {
		list = append(list, http.StatusBadRequest, http.StatusRequestTimeout, http.StatusRequestEntityTooLarge)
	}
	slices.Sort(list)
	return list
}

// enforce checks, in this order: protocol, token, kind, announced size.
func (s *server) enforce(pol policy) func(huma.Context, func(huma.Context)) {
	return func(hc huma.Context, next func(huma.Context)) {
		r, w := humago.Unwrap(hc)
		info := infoOf(r.Context())
		info.bodyLimit = pol.body
		if pol.protocol && r.Header.Get(gavelapi.ProtocolHeader) != strconv.Itoa(gavelapi.ProtocolVersion) {
			writeError(w, r, apperr.New(apperr.Protocol, "run a gavel-worker of the same release as the arbiter",
				"the header %s is missing or names a version that is not spoken here; this arbiter speaks %d", gavelapi.ProtocolHeader, gavelapi.ProtocolVersion))
			return
		}
		if len(pol.kinds) > 0 {
			p, err := s.authenticate(r, pol)
			if err != nil {
				writeError(w, r, err)
				return
			}
			info.setPrincipal(p)
			hc = huma.WithValue(hc, principalKey{}, p)
		}
		if r.ContentLength > pol.body {
			writeError(w, r, tooLarge(pol.body))
			return
		}
		if err := checkURL(r); err != nil {
			writeError(w, r, err)
			return
		}
		next(hc)
	}
}

func (s *server) authenticate(r *http.Request, pol policy) (auth.Principal, error) {
	const hint = "send Authorization: Bearer TOKEN (on the command line: GAVEL_TOKEN or --token-file)"
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	token = strings.TrimSpace(token)
	if !strings.EqualFold(scheme, "Bearer") || token == "" {
		return auth.Principal{}, apperr.New(apperr.Unauthorized, hint, "no token was sent")
	}
	kind, ok := auth.KindOf(token)
	if !ok {
		return auth.Principal{}, apperr.New(apperr.Unauthorized, hint, "the token does not have the form of a gavel token")
	}
	if kind == auth.Invitation {
		return auth.Principal{}, apperr.New(apperr.Unauthorized, "enrol a worker with it: gavel-worker enrol", "an invitation is not a token for calls")
	}
	p, err := s.Service.Authenticate(r.Context(), token)
	if err != nil {
		return auth.Principal{}, err
	}
	if !slices.Contains(pol.kinds, p.Kind) {
		names := make([]string, len(pol.kinds))
		for i, k := range pol.kinds {
			names[i] = string(k)
		}
		return auth.Principal{}, apperr.New(apperr.Forbidden, "use a token of the kind that is named",
			"this needs a token of kind %s, and the one given is of kind %s", strings.Join(names, " or "), p.Kind)
	}
	return p, nil
}
