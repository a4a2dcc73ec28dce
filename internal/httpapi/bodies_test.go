package httpapi_test

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

func TestIdempotencyKey(t *testing.T) {
	r := newRig(t)
	c := call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken, body: goodSubmission, header: map[string]string{"Idempotency-Key": "k-1"}}
	first, second := r.do(c), r.do(c)
	if first.status != 201 || second.status != 200 || first.header.Get("Location") != "/v1/submissions/1" || second.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %d, second %d", first.status, second.status)
	}
	if diff := cmp.Diff(first.body, second.body); diff != "" {
		t.Error(diff)
	}
	c.body = strings.Replace(goodSubmission, "int main", "int  main", 1)
	r.problem(c, 422, apperr.Invalid)
	c.header["Idempotency-Key"] = strings.Repeat("k", 300)
	r.problem(c, 422, apperr.Invalid)
	c.header["Idempotency-Key"] = " " // empty on the wire: a variable that was not set, a command that is not there
	if p := r.problem(c, 400, apperr.Malformed); p.Hint == "" {
		t.Errorf("an empty key is refused without a hint: %+v", p)
	}
	c.header["Idempotency-Key"] = "k-2"
	r.fake.Before(func(_ context.Context, method string) error {
		if method == "CreateSubmission" {
			return apperr.New(apperr.Conflict, "repeat a little later", "the first request with this key is still running")
		}
		return nil
	})
	r.problem(c, 409, apperr.Conflict)
}

func TestIdempotencyKeyOfARun(t *testing.T) {
	r := newRig(t)
	c := call{method: "POST", path: "/v1/runs", token: apitest.SiteToken, body: `{"language":"cpp17","source":"x"}`, header: map[string]string{"Idempotency-Key": "k-1"}}
	first, second := r.do(c), r.do(c)
	if first.status != 201 || second.status != 200 || second.header.Get("Location") != "/v1/runs/1" || second.header.Get("Idempotency-Replayed") != "true" {
		t.Errorf("first %d, second %d", first.status, second.status)
	}
	if diff := cmp.Diff(first.body, second.body); diff != "" {
		t.Error(diff)
	}
	c.body = `{"language":"cpp17","source":"y"}`
	r.problem(c, 422, apperr.Invalid)
	c.header["Idempotency-Key"] = " "
	r.problem(c, 400, apperr.Malformed)
}

func TestSources(t *testing.T) {
	r := newRig(t)
	for name, tc := range map[string]struct {
		fields string
		status int
		field  string
	}{
		"text":                                {`"source":"print(1)"`, 201, ""},
		"base64 of any bytes":                 {`"source_base64":"/////w=="`, 201, ""},
		"a replacement character of its own":  {"\"source\":\"// \uFFFD\"", 201, ""},
		"an escaped replacement character":    {`"source":"// \uFFFD"`, 201, ""},
		"neither":                             {`"user":"u"`, 422, "body.source"},
		"empty":                               {`"source":""`, 422, "body.source"},
		"both":                                {`"source":"a","source_base64":"YQ=="`, 422, "body.source"},
		"NUL in text":                         {`"source":"a\u0000b"`, 422, "body.source"},
		"NUL in base64":                       {`"source_base64":"YQBi"`, 422, "body.source_base64"},
		"bytes that are not UTF-8":            {"\"source\":\"a\xff\"", 422, "body.source"},
		"half a surrogate pair":               {`"source":"a\ud800"`, 422, "body.source"},
		"NUL in another field":                {`"source":"a","user":"u\u0000"`, 422, "body.user"},
		"half a pair in the user's name":      {`"source":"a","user":"u\ud800"`, 422, "body.user"},
		"half a pair before another escape":   {`"source":"a","user":"\uFFFD\ud800\n"`, 422, "body.user"},
		"a user's name that is not UTF-8":     {"\"source\":\"a\",\"user\":\"u\xff\"", 422, "body.user"},
		"half a pair in the source's name":    {`"source_base64":"YQ==","source_name":"a\udc00.c"`, 422, "body.source_name"},
		"a source's name that is not UTF-8":   {"\"source_base64\":\"YQ==\",\"source_name\":\"a\xff.c\"", 422, "body.source_name"},
		"a user's name of whole pairs":        {`"source":"a","user":"\\ud800 \ud83d\ude00 \uFFFD"`, 201, ""},
		"base64 that is none":                 {`"source_base64":"***"`, 422, "body"},
		"a stop rule that does not exist":     {`"source":"a","stop_rule":"never"`, 422, "body.stop_rule"},
		"a field that this version lacks":     {`"source":"a","future":{"x":1}`, 201, ""},
		"a number where a text is wanted":     {`"source":1`, 422, "body.source"},
		"files as text, base64 and empty":     {`"source":"a","files":[{"name":"b.h","content":"b"},{"name":"c.h","content_base64":"/w=="},{"name":"d.h"}]`, 201, ""},
		"a file as text and base64":           {`"source":"a","files":[{"name":"b.h","content":"b","content_base64":"YQ=="}]`, 422, "body.files[0].content"},
		"a file without a name":               {`"source":"a","files":[{"content":"b"}]`, 422, "body.files[0]"},
		"files without a main one":            {`"files":[{"name":"b.h","content":"b"}]`, 422, "body.source"},
		"NUL in a file's text":                {`"source":"a","files":[{"name":"b.h"},{"name":"c.h","content":"a\u0000b"}]`, 422, "body.files[1].content"},
		"NUL in a file's base64":              {`"source":"a","files":[{"name":"b.h","content_base64":"YQBi"}]`, 422, "body.files[0].content_base64"},
		"NUL in a file's name":                {`"source":"a","files":[{"name":"b\u0000.h","content":"b"}]`, 422, "body.files[0].name"},
		"half a pair in one of several texts": {"\"source\":\"// \uFFFD\",\"files\":[{\"name\":\"b.h\",\"content\":\"a\\ud800\"}]", 422, "body.files[0].content"},
		"half a pair in the only text":        {`"source_base64":"YQ==","files":[{"name":"b.h","content":"a\ud800"}]`, 422, "body.files[0].content"},
		"bytes in a file that are not UTF-8":  {"\"source_base64\":\"YQ==\",\"files\":[{\"name\":\"b.h\",\"content\":\"a\xff\"}]", 422, "body.files[0].content"},
		"more files than a source has":        {`"source":"a","files":[{"name":"x"}` + strings.Repeat(`,{"name":"x"}`, 63) + `]`, 422, "body.files"},
		"a user name longer than the maximum": {`"source":"a","user":"` + strings.Repeat("u", 129) + `"`, 422, "body.user"},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			c := call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken, body: `{"problem":"aplusb","language":"cpp17",` + tc.fields + `}`}
			if tc.status == 201 {
				if got := r.do(c); got.status != 201 {
					t.Errorf("%d %s", got.status, got.body)
				}
				return
			}
			p := r.problem(c, tc.status, apperr.Invalid)
			if len(p.Errors) == 0 || p.Errors[0].Location != tc.field || p.Hint == "" {
				t.Errorf("errors %+v, hint %q; want location %s", p.Errors, p.Hint, tc.field)
			}
		})
	}
}

func TestNamesOfRunsThatAreNoText(t *testing.T) {
	r := newRig(t)
	for field, body := range map[string]string{
		"body.user":        "{\"language\":\"c\",\"source_base64\":\"YQ==\",\"user\":\"u\xff\"}",
		"body.source_name": `{"language":"c","source_base64":"YQ==","source_name":"a\ud800.c"}`,
	} {
		p := r.problem(call{method: "POST", path: "/v1/runs", token: apitest.SiteToken, body: body}, 422, apperr.Invalid)
		if len(p.Errors) != 1 || p.Errors[0].Location != field || p.Hint == "" {
			t.Errorf("errors %+v, hint %q; want location %s", p.Errors, p.Hint, field)
		}
	}
}

// What people write for operators is kept as they wrote it, too.
func TestTextsOfOperatorsThatAreNoText(t *testing.T) {
	r := newRig(t)
	for _, c := range []struct{ method, path, body, field string }{
		{"POST", "/v1/rejudges", "{\"filter\":{\"user\":\"u\xff\"},\"reason\":\"r\"}", "body.filter.user"},
		{"POST", "/v1/rejudges", `{"filter":{"user":"u"},"reason":"\ud800"}`, "body.reason"},
		{"POST", "/v1/submissions/1/rejudge", "{\"reason\":\"\xff\"}", "body.reason"},
		{"POST", "/v1/workers/invitations", "{\"name\":\"\xff\"}", "body.name"},
	} {
		p := r.problem(call{method: c.method, path: c.path, token: apitest.AdminToken, body: c.body}, 422, apperr.Invalid)
		if len(p.Errors) != 1 || p.Errors[0].Location != c.field || p.Hint == "" {
			t.Errorf("%s: errors %+v, hint %q; want location %s", c.path, p.Errors, p.Hint, c.field)
		}
	}
}

func TestBodiesThatCannotBeRead(t *testing.T) {
	r := newRig(t)
	base := call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken}
	for name, body := range map[string]string{"cut": `{"problem":"a`, "not JSON": "problem=a", "two values": goodSubmission + "{}", "deep": strings.Repeat("[", 20000)} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			c := base
			c.body = body
			r.problem(c, 400, apperr.Malformed)
		})
	}
	r.t = t
	empty := base
	r.problem(empty, 400, apperr.Malformed)
	form := base
	form.body, form.header = "a=b", map[string]string{"Content-Type": "application/x-www-form-urlencoded"}
	r.problem(form, 415, "unsupported-media-type")
	list := base
	list.body = `[]`
	r.problem(list, 422, apperr.Invalid)
}

func TestBodiesOverTheirLimit(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config) { c.MaxUploadBytes = 1 << 20 })
	submission := func(n int) string {
		head, tail := `{"problem":"aplusb","language":"cpp17","source":"`, `"}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	report := func(n int) string {
		head, tail := `{"lease_token":"`+apitest.LeaseToken+`","report":{"verdict":"AC","compile":{"log":"`, `"}}}`
		return head + strings.Repeat("x", n-len(head)-len(tail)) + tail
	}
	zip := func(n int) string { return "PK" + strings.Repeat("z", n-2) }
	for name, tc := range map[string]struct {
		c     call
		body  func(int) string
		limit int
		text  string
	}{
		"submission": {call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken}, submission, httpapi.MaxJSONBytes, "4 MiB"},
		"result":     {call{method: "POST", path: "/v1/worker/result", token: apitest.WorkerToken}, report, httpapi.MaxResultBytes, "16 MiB"},
		"upload":     {call{method: "POST", path: "/v1/problems?name=x", token: apitest.AdminToken, header: map[string]string{"Content-Type": "application/zip"}}, zip, 1 << 20, "1 MiB"},
	} {
		t.Run(name, func(t *testing.T) {
			r.t = t
			c := tc.c
			c.body = tc.body(tc.limit)
			if got := r.do(c); got.status >= 300 {
				t.Errorf("a body of the limit is refused: %d %s", got.status, got.body)
			}
			// Announced: refused before it is read. Chunked: while it is read.
			for _, chunked := range []bool{false, true} {
				got := r.tooLarge(c, tc.body(tc.limit+1), chunked)
				if got.status != 413 || !strings.Contains(got.body, tc.text) || !strings.Contains(got.body, "/problems/too-large") {
					t.Errorf("chunked=%v: %d %s", chunked, got.status, got.body)
				}
			}
		})
	}
}

// What the operator allows is what counts, for each kind of call its share.
func TestBodiesOverTheOperatorsLimit(t *testing.T) {
	r := newRig(t, func(c *httpapi.Config) { c.MaxBodyBytes, c.MaxUploadBytes = 1<<10, httpapi.MaxJSONBytes })
	long := func(n int) string { return `{"x":"` + strings.Repeat("x", n-len(`{"x":""}`)) + `"}` }
	for _, c := range []struct {
		path, token string
		bytes, want int
	}{
		{"/v1/submissions", apitest.SiteToken, 1 << 10, 422},
		{"/v1/submissions", apitest.SiteToken, 1<<10 + 1, 413},
		{"/v1/worker/result", apitest.WorkerToken, 4 << 10, 422},
		{"/v1/worker/result", apitest.WorkerToken, 4<<10 + 1, 413},
		{"/v1/problems?name=x", apitest.AdminToken, 2 << 10, 415},
	} {
		if got := r.tooLarge(call{method: "POST", path: c.path, token: c.token}, long(c.bytes), true); got.status != c.want {
			t.Errorf("%s with %d bytes: %d %s, want %d", c.path, c.bytes, got.status, got.body, c.want)
		}
	}
}

func (r *rig) tooLarge(c call, body string, chunked bool) reply {
	r.t.Helper()
	var reader io.Reader = strings.NewReader(body)
	if chunked {
		reader = struct{ io.Reader }{reader}
	}
	req, err := http.NewRequestWithContext(r.t.Context(), c.method, r.srv.URL+c.path, reader)
	if err != nil {
		r.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+c.token)
	req.Header.Set("Content-Type", "application/json")
	req.Header.Set("Gavel-Protocol", "1")
	for k, v := range c.header {
		req.Header.Set(k, v)
	}
	resp, err := r.srv.Client().Do(req)
	if err != nil {
		r.t.Fatal(err)
	}
	defer resp.Body.Close()
	data, _ := io.ReadAll(resp.Body)
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data)}
}

func TestUploads(t *testing.T) {
	r := newRig(t)
	base := call{method: "POST", path: "/v1/problems", token: apitest.AdminToken, header: map[string]string{"Content-Type": "application/zip"}}
	empty := base
	r.problem(empty, 400, apperr.Malformed)
	text := base
	text.body = "hello"
	r.problem(text, 422, apperr.Invalid)
	form := base
	form.body, form.header = "PK", map[string]string{"Content-Type": "multipart/form-data; boundary=x"}
	r.problem(form, 415, "unsupported-media-type")
	name := base
	name.path, name.body = "/v1/problems?name=../x", "PK"
	r.problem(name, 422, apperr.Invalid)
	gone := newRig(t, func(c *httpapi.Config) { c.TempDir = t.TempDir() + "/missing" })
	full := base
	full.body = "PK"
	p := gone.problem(full, 503, apperr.Unavailable)
	if strings.Contains(fmt.Sprint(p), "missing") {
		t.Errorf("the answer shows a path of the server: %+v", p)
	}
}
