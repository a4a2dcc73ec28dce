package httpapi_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net/url"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

// canary is what must never come back. It has the form of a token so that it
// also passes where tokens are looked for.
const canary = "gvl_a_CANARYCANARYCANARYCANARYCA"

// mutations puts the canary at every place of a JSON value: instead of each
// value, as each key, and as a value of a wrong type.
func mutations(v any) []any {
	list := []any{canary, map[string]any{canary: canary}, []any{canary, 1.5}}
	switch v := v.(type) {
	case map[string]any:
		for key, old := range v {
			for _, m := range mutations(old) {
				copied := map[string]any{canary: canary}
				maps.Copy(copied, v)
				copied[key] = m
				list = append(list, copied)
			}
			without := map[string]any{key + canary: old}
			for k, o := range v {
				if k != key {
					without[k] = o
				}
			}
			list = append(list, without)
		}
	case []any:
		for _, m := range mutations(v[0]) {
			list = append(list, []any{m})
		}
	}
	return list
}

func (r *rig) checkCanary(what string, got reply) {
	r.t.Helper()
	all := got.body + fmt.Sprint(got.header) + r.log.String()
	for _, form := range []string{"CANARY", "canary"} {
		if strings.Contains(all, form) {
			r.t.Fatalf("%s: the canary shows\nanswer %d %s %v\nlog %s", what, got.status, got.body, got.header, r.log.String())
		}
	}
	if got.status >= 500 {
		r.t.Fatalf("%s: %d %s", what, got.status, got.body)
	}
}

func TestRejectedValuesNeverShowInAnswersOrLogs(t *testing.T) {
	r := newRig(t)
	// Accepted values may come back in answers of their own; here everything
	// is refused.
	r.fake.Before(func(_ context.Context, method string) error {
		if method == "Authenticate" {
			return nil
		}
		return apperr.New(apperr.Invalid, "refused for the test", "refused")
	})
	tried := 0
	for _, route := range everyRoute {
		if route.op == "get-version" {
			continue
		}
		try := func(what string, c call) {
			t.Helper()
			tried++
			r.checkCanary(route.op+": "+what, r.do(c))
		}
		c := route.call
		if strings.HasPrefix(c.body, "{") {
			var good any
			if err := json.Unmarshal([]byte(c.body), &good); err != nil {
				t.Fatal(err)
			}
			for _, m := range mutations(good) {
				body, err := json.Marshal(m)
				if err != nil {
					t.Fatal(err)
				}
				bad := c
				bad.body = string(body)
				try("body "+bad.body, bad)
			}
			for _, body := range []string{canary, `"` + canary, c.body + canary, "{" + canary + ":1}", `{"` + canary + `":1e999}`, strings.Replace(c.body, `":`, `":`+canary, 1)} {
				bad := c
				bad.body = body
				try("broken body", bad)
			}
		}
		for _, name := range []string{"Authorization", "X-Request-Id", "Idempotency-Key", "Content-Type", "Accept", "Range", "Gavel-Protocol", "If-None-Match", "Cookie"} {
			for _, value := range []string{canary, "Bearer " + canary, "Basic " + canary} {
				bad := c
				bad.header = map[string]string{"Content-Type": "application/json", name: value}
				try("header "+name, bad)
			}
		}
		bad := c
		bad.path = strings.Split(c.path, "?")[0] + "?" + url.Values{"wait": {canary}, "cursor": {canary + strings.Repeat("x", 600)}, "limit": {canary}, "state": {canary}, "verdict": {canary}, "name": {canary}, canary: {canary}}.Encode()
		try("query", bad)
		bad.path = c.path + "/" + canary
		try("path below", bad)
	}
	for _, path := range []string{"/" + canary, "/v1/submissions/" + canary, "/v1/submissions/" + canary + "/cancel", "/v1/problems/" + canary + strings.Repeat("x", 80), "/problems/" + canary, "/v1/worker/packages/" + canary, "/v1/worker/enrol/" + canary} {
		for _, method := range []string{"GET", "POST", "DELETE"} {
			for _, token := range []string{apitest.AdminToken, apitest.WorkerToken, ""} {
				tried++
				r.checkCanary(method+" "+path, r.do(call{method: method, path: path, token: token}))
			}
		}
	}
	if tried < 300 {
		t.Errorf("only %d tries: the mutations do not work", tried)
	}
}

func TestTheCanaryTestSeesALeak(t *testing.T) {
	r := newRig(t)
	r.fake.Before(func(context.Context, string) error {
		return apperr.New(apperr.NotFound, "", "no problem named %s", canary)
	})
	got := r.do(call{method: "GET", path: "/v1/problems/x", token: apitest.SiteToken})
	if !strings.Contains(got.body, canary) || !strings.Contains(r.log.String(), canary) {
		t.Error("a leak in a service error is not visible where the test looks")
	}
}

func TestInternalCausesStayInTheLog(t *testing.T) {
	r := newRig(t)
	r.fake.Before(func(_ context.Context, method string) error {
		if method == "Languages" {
			return fmt.Errorf("list languages: %w", errors.New("relation \"languages\" does not exist"))
		}
		return nil
	})
	p := r.problem(call{method: "GET", path: "/v1/languages", token: apitest.SiteToken}, 500, apperr.Internal)
	if strings.Contains(fmt.Sprint(p), "relation") {
		t.Errorf("the answer shows the cause: %+v", p)
	}
	if log := r.log.String(); !strings.Contains(log, "relation") || !strings.Contains(log, p.Instance) || !strings.Contains(log, `"level":"ERROR"`) {
		t.Errorf("the log lacks the cause or the request id: %s", log)
	}
}

func TestPanicsAreAnsweredAndLogged(t *testing.T) {
	r := newRig(t)
	r.fake.Before(func(_ context.Context, method string) error {
		switch method {
		case "Languages":
			panic("with " + canary)
		case "Workers":
			few := []int{1, 2, 3}
			_ = few[len(method)]
		}
		return nil
	})
	p := r.problem(call{method: "GET", path: "/v1/languages", token: apitest.SiteToken}, 500, apperr.Internal)
	r.problem(call{method: "GET", path: "/v1/workers", token: apitest.AdminToken}, 500, apperr.Internal)
	log := r.log.String()
	for _, want := range []string{"handler panicked", p.Instance, "index out of range", "secrecy_test.go"} {
		if !strings.Contains(log, want) {
			t.Errorf("the log lacks %q", want)
		}
	}
	if strings.Contains(log, "CANARY") {
		t.Error("the log shows the text of a panic, which may hold request data")
	}
	if got := r.do(call{method: "GET", path: "/metrics"}); !strings.Contains(got.body, `code="500",method="GET",route="/v1/languages"} 1`) {
		t.Error("the panic is not counted as 500")
	}
}

func TestAccessLogHasWhoWhatAndHowLongButNoQuery(t *testing.T) {
	r := newRig(t)
	r.do(call{method: "GET", path: "/v1/submissions?user=somebody", token: apitest.SiteToken, header: map[string]string{"X-Request-Id": "mine-1"}})
	log := r.log.String()
	for _, want := range []string{`"request_id":"mine-1"`, `"route":"/v1/submissions"`, `"status":200`, `"duration_ms":`, `"principal":{"kind":"site","token_id":2}`} {
		if !strings.Contains(log, want) {
			t.Errorf("log %s lacks %s", log, want)
		}
	}
	for _, never := range []string{"somebody", apitest.SiteToken, "SITESITE"} {
		if strings.Contains(log, never) {
			t.Errorf("log shows %s", never)
		}
	}
}

func TestRequestIDsAreKeptOnlyWhenHarmless(t *testing.T) {
	r := newRig(t)
	for id, keep := range map[string]bool{"abc-1.2_3": true, strings.Repeat("a", 65): false, "a b": false, "<script>": false, canary: false, "x-GVL_w_1": false} {
		got := r.do(call{method: "GET", path: "/healthz", header: map[string]string{"X-Request-Id": id}})
		if (got.header.Get("X-Request-Id") == id) != keep {
			t.Errorf("id %q: answered %q", id, got.header.Get("X-Request-Id"))
		}
	}
}

func TestEveryCodeOfTheApplicationHasAPage(t *testing.T) {
	have := map[apperr.Code]int{}
	for _, k := range httpapi.Catalogue {
		have[k.Code] = k.Status
		if k.Title == "" || k.Cause == "" || k.Cure == "" || k.Status < 400 {
			t.Errorf("%s is incomplete", k.Code)
		}
	}
	want := map[apperr.Code]int{
		apperr.Invalid: 422, apperr.Malformed: 400, apperr.Unauthorized: 401, apperr.Forbidden: 403, apperr.NotFound: 404,
		apperr.Conflict: 409, apperr.Gone: 410, apperr.TooLarge: 413, apperr.Unsupported: 422, apperr.TooMany: 429,
		apperr.Internal: 500, apperr.Unavailable: 503, apperr.Protocol: 426,
	}
	for code, status := range want {
		if have[code] != status {
			t.Errorf("%s has status %d, want %d", code, have[code], status)
		}
	}
}
