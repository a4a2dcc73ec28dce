package serve_test

import (
	"archive/zip"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"net/url"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/client"
	"github.com/gavel-oj/gavel/examples"
	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/serve"
)

// schema is what the test looks at of JSON Schema.
type schema struct {
	Ref        string `json:"$ref"`
	Type       any
	Format     string
	Enum       []any
	Properties map[string]*schema
	Required   []string
	Items      *schema
}

type parameter struct {
	Name, In string
	Required bool
	Schema   *schema
}

type operation struct {
	Parameters  []parameter
	RequestBody struct {
		Content map[string]struct{ Schema *schema }
	}
}

// described is the OpenAPI document as the arbiter serves it.
type described struct {
	Paths      map[string]map[string]operation
	Components struct{ Schemas map[string]*schema }
}

func (d *described) resolve(s *schema) *schema {
	for s.Ref != "" {
		s = d.Components.Schemas[strings.TrimPrefix(s.Ref, "#/components/schemas/")]
	}
	return s
}

// kind is the type of a schema without null.
func (s *schema) kind() string {
	switch t := s.Type.(type) {
	case string:
		return t
	case []any:
		for _, one := range t {
			if one != "null" {
				return one.(string)
			}
		}
	}
	return ""
}

// good is a value of a schema with what is required and nothing else.
func (d *described) good(s *schema) any {
	s = d.resolve(s)
	if len(s.Enum) > 0 {
		return s.Enum[0]
	}
	switch s.kind() {
	case "string":
		switch s.Format {
		case "date-time":
			return "2030-01-01T00:00:00Z"
		case "uuid":
			return "6f9619ff-8b86-4d01-b42d-00cf4fc964ff"
		}
		return "x"
	case "integer", "number":
		return 1
	case "boolean":
		return true
	case "array":
		return []any{}
	case "object":
		m := map[string]any{}
		for _, name := range s.Required {
			if m[name] = d.good(s.Properties[name]); name == "language" {
				m[name] = "cpp17" // anything else is unknown
			}
		}
		return m
	}
	return nil
}

const (
	hugeInt = json.Number("9223372036854775807")
	tooBig  = json.Number("9223372036854775808")
	far     = "9999-12-31T23:59:59Z"
)

// wrong are values of another type than a schema's.
func wrong(s *schema) []any {
	all := map[string]any{"string": "x", "integer": 1, "boolean": true, "array": []any{[]any{}}, "object": map[string]any{"x": 1}}
	delete(all, s.kind())
	if s.kind() == "number" {
		delete(all, "integer")
	}
	if s.kind() == "" {
		return nil // takes anything
	}
	list := slices.Collect(maps.Values(all))
	if s.kind() == "integer" {
		list = append(list, json.Number("1.5"), json.Number("1e400"), tooBig)
	}
	return list
}

// odd are values of a schema's type that are at the edge of what can be.
func odd(s *schema) []any {
	switch s.kind() {
	case "string":
		return []any{
			"", " ", "\x00", "a\x00b", "\x7f\u202e", strings.Repeat("x", 70_000), "../..", "%00", "'; --", "-1", far, "0000-01-01T00:00:00Z", "infinity",
			"2030-02-31T00:00:00Z", "2030-01-01",
		}
	case "integer", "number":
		return []any{0, -1, json.Number("-9223372036854775808"), hugeInt, 1 << 31, 1 << 32, 1e15}
	case "array":
		return []any{[]any{nil}, slices.Repeat([]any{1}, 20_000), slices.Repeat([]any{"x"}, 20_000)}
	}
	return []any{nil}
}

// places calls do for every field of a body, however deep, with a way to put a
// value there and its name as problems give it.
func (d *described) places(s *schema, body func(any) any, at string, do func(s *schema, at string, put func(any) any)) {
	s = d.resolve(s)
	for name, field := range s.Properties {
		field = d.resolve(field)
		put := func(v any) any {
			whole := d.good(s).(map[string]any)
			whole[name] = v
			return body(whole)
		}
		where := at + "." + name
		do(field, where, put)
		switch field.kind() {
		case "object":
			d.places(field, put, where, do)
		case "array":
			item := d.resolve(field.Items)
			one := func(v any) any { return put([]any{v}) }
			do(item, where+"[0]", one)
			if item.kind() == "object" {
				d.places(item, one, where+"[0]", do)
			}
		}
	}
}

type badInput struct {
	t     *testing.T
	url   string
	token func(path string) string
	calls int
}

// send makes a call and checks what holds for every answer: no failure of the
// arbiter, and every refusal a problem that says what is wrong.
func (b *badInput) send(method, path string, body []byte) (status int, p gavelapi.Problem) {
	b.t.Helper()
	b.calls++
	req, err := http.NewRequestWithContext(b.t.Context(), strings.ToUpper(method), b.url+path, bytes.NewReader(body))
	if err != nil {
		b.t.Fatal(err)
	}
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Gavel-Protocol", "1")
	req.Header.Set("Authorization", "Bearer "+b.token(path))
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		b.t.Fatalf("%s %s %.200s: %v", method, path, body, err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if resp.StatusCode < 400 {
		return resp.StatusCode, p
	}
	if resp.StatusCode >= 500 {
		b.t.Errorf("%s %s %.200s: %d %s", method, path, body, resp.StatusCode, text)
	}
	if err := json.Unmarshal(text, &p); err != nil || p.Detail == "" || p.Status != resp.StatusCode || resp.Header.Get("Content-Type") != "application/problem+json" {
		b.t.Errorf("%s %s %.200s: %d with %.200s, %v", method, path, body, resp.StatusCode, text, err)
	}
	return resp.StatusCode, p
}

// names says whether a problem names a field, or the one that it is in.
func names(p gavelapi.Problem, at string) bool {
	return slices.ContainsFunc(p.Errors, func(e gavelapi.ProblemField) bool {
		return strings.HasPrefix(at, e.Location) && strings.HasPrefix(e.Location, "body")
	})
}

// Whatever a body or a parameter holds, the arbiter with its database answers;
// what has the wrong type is refused, and the refusal names it. The calls come
// from the OpenAPI document, so that a new one is tried by itself.
func TestEveryEndpointRefusesBadInputByName(t *testing.T) {
	cfg := configFor(t)
	srv, err := serve.Start(t.Context(), cfg)
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(t.Context())
	admin, err := srv.AdminToken(t.Context(), filepath.Join(t.TempDir(), "token"))
	if err != nil {
		t.Fatal(err)
	}
	api, err := client.New(srv.URL(), admin, client.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	awaitLeader(t, api)
	workerToken := furnish(t, api)
	b := &badInput{t: t, url: srv.URL(), token: func(path string) string {
		if strings.HasPrefix(path, "/v1/worker/") {
			return workerToken
		}
		return admin
	}}
	resp, err := http.Get(srv.URL() + "/openapi.json")
	if err != nil {
		t.Fatal(err)
	}
	var d described
	err = json.NewDecoder(resp.Body).Decode(&d)
	_ = resp.Body.Close()
	if err != nil {
		t.Fatal(err)
	}
	bodies := 0
	for path, operations := range d.Paths {
		for method, op := range operations {
			content, json := op.RequestBody.Content["application/json"]
			b.parameters(&d, method, path, op)
			if json {
				bodies++
				b.bodies(&d, method, fill(&d, path, op, nil), content.Schema)
			}
		}
	}
	if bodies < 20 || b.calls < 1000 {
		t.Errorf("%d bodies and %d calls were tried: the document is not understood", bodies, b.calls)
	}
	t.Logf("%d calls, %d bodies", b.calls, bodies)
}

// furnish makes one of everything, called x or 1, so that the calls of the test
// find what they name. It returns the token of the worker.
func furnish(t *testing.T, api *client.Client) string {
	t.Helper()
	ctx := t.Context()
	all, err := examples.Problems()
	if err != nil {
		t.Fatal(err)
	}
	var packed bytes.Buffer
	zw := zip.NewWriter(&packed)
	if err := errors.Join(zw.AddFS(all[0].FS), zw.Close()); err != nil {
		t.Fatal(err)
	}
	_, err = api.ProblemImport(ctx, client.Import{Name: "x", Verify: gavelapi.VerifyNone}, &packed)
	var enrolled *gavelapi.EnrolResponse
	steps := []func() error{
		func() error { return err },
		func() error {
			invitation, err := api.WorkerInvite(ctx, gavelapi.NewInvitation{})
			if err == nil {
				enrolled, err = api.Enrol(ctx, gavelapi.EnrolRequest{Invitation: invitation.Code, Name: "x"})
			}
			return err
		},
		func() error {
			_, err := api.SubmissionCreate(ctx, gavelapi.NewSubmission{Problem: "x", Language: "cpp17", Source: "x", User: "x"}, "k")
			return err
		},
		func() error {
			_, err := api.RejudgeStart(ctx, gavelapi.NewRejudge{Filter: gavelapi.RejudgeFilter{All: true}, Reason: "x"})
			return err
		},
		func() error {
			_, err := api.RunCreate(ctx, gavelapi.NewRun{Language: "cpp17", Source: "x"}, "l")
			return err
		},
		func() error {
			_, err := api.WebhookAdd(ctx, gavelapi.NewWebhook{Name: "x", URL: "https://name.invalid/"})
			return err
		},
	}
	for i, step := range steps {
		if err := step(); err != nil {
			t.Fatalf("step %d: %v", i, err)
		}
	}
	return enrolled.Token
}

// fill is a path with good values for its parameters, but for those given.
func fill(d *described, path string, op operation, given map[string]string) string {
	q := url.Values{}
	for _, p := range op.Parameters {
		v, known := given[p.Name]
		switch {
		case p.In == "path":
			if !known {
				v = fmt.Sprint(d.good(p.Schema))
			}
			path = strings.ReplaceAll(path, "{"+p.Name+"}", url.PathEscape(v))
		case p.In == "query" && known:
			q.Set(p.Name, v)
		}
	}
	if len(q) == 0 {
		return path
	}
	return path + "?" + q.Encode()
}

// waits are parameters and fields that make a call last.
var waits = []string{"wait", "wait_ms", "wait_s"}

func (b *badInput) parameters(d *described, method, path string, op operation) {
	var body []byte
	if c, ok := op.RequestBody.Content["application/json"]; ok {
		body, _ = json.Marshal(d.good(c.Schema))
	}
	for _, p := range op.Parameters {
		if p.In == "header" || slices.Contains(waits, p.Name) {
			continue
		}
		for _, v := range []string{"", "-1", "0", "abc", "1.5", "9223372036854775807", "9223372036854775808", "a\x00b", "\xff", "../..", "a/b", strings.Repeat("x", 5000), "%", "null", "true"} {
			if p.In == "path" && v == "" {
				continue // another path
			}
			b.send(method, fill(d, path, op, map[string]string{p.Name: v}), body)
		}
	}
}

func (b *badInput) bodies(d *described, method, path string, s *schema) {
	for _, text := range []string{
		"", "{", "[]", "null", `"x"`, "1", "{}{}", `{"a":1,}`, "\xff", "{\"\xff\":1}", strings.Repeat("[", 20_000), strings.Repeat(`{"a":`, 20_000), "\xef\xbb\xbf{}",
	} {
		if status, _ := b.send(method, path, []byte(text)); status < 400 && text != "null" {
			b.t.Errorf("%s %s %.40q: %d", method, path, text, status)
		}
	}
	d.places(s, func(v any) any { return v }, "body", func(field *schema, at string, put func(any) any) {
		body := func(v any) []byte {
			text, err := json.Marshal(put(v))
			if err != nil {
				b.t.Fatal(err)
			}
			return text
		}
		for _, v := range wrong(field) {
			text := body(v)
			if status, p := b.send(method, path, text); status < 400 || status == http.StatusUnprocessableEntity && !names(p, at) {
				b.t.Errorf("%s %s %.200s: %d %+v, want a refusal of %s", method, path, text, status, p, at)
			}
		}
		if slices.ContainsFunc(waits, func(w string) bool { return strings.HasSuffix(at, "."+w) }) {
			return
		}
		for _, v := range odd(field) {
			b.send(method, path, body(v))
		}
	})
}
