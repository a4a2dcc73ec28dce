package httpapi_test

import (
	"context"
	"encoding/json"
	"os"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

const (
	goodClaim = `{"request_id":"6f0d7a1e-1111-4000-8000-000000000001","session":"6f0d7a1e-2222-4000-8000-000000000001","slots":1,"total_slots":2,"wait_ms":0,
		"capabilities":{"languages":[{"id":"cpp17","version":"g++"}],"memory_bytes":1,"cores":1,"arch":"amd64","build":"t","kernel":"k","memory_meter":"cgroup2","sandbox":"v2"}}`
	goodHeartbeat  = `{"lease_token":"` + apitest.LeaseToken + `","progress":{"phase":"running","tests_done":1,"tests_total":2}}`
	goodResult     = `{"lease_token":"` + apitest.LeaseToken + `","report":{"verdict":"AC"}}`
	goodRelease    = `{"lease_token":"` + apitest.LeaseToken + `","reason":"drain"}`
	goodEnrol      = `{"invitation":"` + apitest.InviteCode + `","name":"w-1"}`
	goodSubmission = `{"problem":"aplusb","language":"cpp17","source":"int main(){}"}`
)

// everyRoute is one good call per operation of the document, in an order in
// which they work. TestEveryRouteAnswers holds it complete.
var everyRoute = []struct {
	op     string
	call   call
	status int
	want   string
}{
	{"get-version", call{method: "GET", path: "/v1/version"}, 200, `"protocol":1`},
	{"enrol", call{method: "POST", path: "/v1/worker/enrol", body: goodEnrol}, 200, `"token":"gvl_w_`},
	{"claim", call{method: "POST", path: "/v1/worker/claim", token: apitest.WorkerToken, body: goodClaim}, 200, `"lease_gen":1`},
	{"heartbeat", call{method: "POST", path: "/v1/worker/heartbeat", token: apitest.WorkerToken, body: goodHeartbeat}, 200, `"ttl_ms":60000`},
	{"get-package", call{method: "GET", path: "/v1/worker/packages/" + apitest.Digest, token: apitest.WorkerToken}, 200, "package bytes"},
	{"result", call{method: "POST", path: "/v1/worker/result", token: apitest.WorkerToken, body: goodResult}, 200, `"outcome":"recorded"`},
	{"release", call{method: "POST", path: "/v1/worker/release", token: apitest.WorkerToken, body: goodRelease}, 200, `"released":true`},
	{"create-submission", call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken, body: goodSubmission}, 201, `"state":"pending"`},
	{"get-submission", call{method: "GET", path: "/v1/submissions/1?wait=25s", token: apitest.SiteToken}, 200, `"state":"judging"`},
	{"get-submission-source", call{method: "GET", path: "/v1/submissions/1/source", token: apitest.SiteToken}, 200, `"files":[{"name":"main"`},
	{"get-submission-outputs", call{method: "GET", path: "/v1/submissions/1/outputs", token: apitest.AdminToken}, 200, `"outputs":[`},
	{"list-submissions", call{method: "GET", path: "/v1/submissions?problem=aplusb&limit=200", token: apitest.AdminToken}, 200, `"submissions":[{"id":1`},
	{"explain-submission", call{method: "GET", path: "/v1/submissions/1/explain", token: apitest.SiteToken}, 200, `"reason":"all of its slots are busy"`},
	{"bump-submission", call{method: "POST", path: "/v1/submissions/1/bump", token: apitest.AdminToken, body: `{"reason":"finals"}`}, 200, `"id":1`},
	{"cancel-submission", call{method: "POST", path: "/v1/submissions/1/cancel", token: apitest.SiteToken}, 200, `"state":"cancelled"`},
	{"get-worker", call{method: "GET", path: "/v1/workers/home-pc", token: apitest.AdminToken}, 200, `"pool":"home"`},
	{"change-worker", call{method: "POST", path: "/v1/workers/home-pc/state", token: apitest.AdminToken, body: `{"action":"pause","note":"games"}`}, 200, `"state":"paused"`},
	{"label-worker", call{method: "PUT", path: "/v1/workers/home-pc/labels", token: apitest.AdminToken, body: `{"tags":["exam"]}`}, 200, `"tags":["exam"]`},
	{"set-pool", call{method: "PUT", path: "/v1/pools/home", token: apitest.AdminToken, body: `{"rank":1}`}, 200, `"rank":1`},
	{"list-pools", call{method: "GET", path: "/v1/pools", token: apitest.AdminToken}, 200, `"name":"home"`},
	{"set-brake", call{method: "POST", path: "/v1/queue/brakes", token: apitest.AdminToken, body: `{"kind":"lane","name":"rejudge","reason":"finals"}`}, 200, `"reason":"finals"`},
	{"get-queue", call{method: "GET", path: "/v1/queue", token: apitest.SiteToken}, 200, `"jobs":3`},
	{"release-brake", call{method: "DELETE", path: "/v1/queue/brakes/lane/rejudge", token: apitest.AdminToken}, 200, `"brakes":[]`},
	{"remove-worker", call{method: "DELETE", path: "/v1/workers/server-1?reason=sold", token: apitest.AdminToken}, 204, ``},
	{"list-alarms", call{method: "GET", path: "/v1/alarms?open=true&kind=no_capable_worker", token: apitest.AdminToken}, 200, `"subject":"java"`},
	{"get-alarm", call{method: "GET", path: "/v1/alarms/1", token: apitest.AdminToken}, 200, `"lasted_ms":720000`},
	{"add-webhook", call{method: "POST", path: "/v1/webhooks", token: apitest.AdminToken, body: `{"name":"ops","url":"https://example.org/hooks"}`}, 201, `"secret":"whsec_`},
	{"rotate-webhook", call{method: "POST", path: "/v1/webhooks/ops/rotate", token: apitest.AdminToken, body: `{"keep_seconds":3600}`}, 200, `"old_secret_until":"2026`},
	{"list-webhooks", call{method: "GET", path: "/v1/webhooks", token: apitest.AdminToken}, 200, `"name":"ops"`},
	{"test-webhook", call{method: "POST", path: "/v1/webhooks/ops/test", token: apitest.AdminToken}, 200, `"event":"test"`},
	{"list-deliveries", call{method: "GET", path: "/v1/webhooks/ops/deliveries?limit=1", token: apitest.AdminToken}, 200, `"error":"it answered 502"`},
	{"redeliver", call{method: "POST", path: "/v1/deliveries/6/redeliver", token: apitest.AdminToken}, 204, ``},
	{"remove-webhook", call{method: "DELETE", path: "/v1/webhooks/ops", token: apitest.AdminToken}, 204, ``},
	{"list-audit", call{method: "GET", path: "/v1/audit?limit=1", token: apitest.AdminToken}, 200, `"action":"worker.pause"`},
	{"create-run", call{method: "POST", path: "/v1/runs", token: apitest.SiteToken, body: `{"language":"python3","source":"print(1)","inputs":[{"content":"7\n"},{"content_base64":"AP8="}]}`}, 201, `"state":"pending"`},
	{"get-run", call{method: "GET", path: "/v1/runs/1?wait=25s", token: apitest.SiteToken}, 200, `"state":"running"`},
	{"get-run", call{method: "GET", path: "/v1/runs/1", token: apitest.SiteToken}, 200, `"stdout_base64":"AP8="`},
	{"create-run", call{method: "POST", path: "/v1/runs", token: apitest.AdminToken, body: `{"language":"python3","source":"print(1)"}`}, 201, `"inputs":1`},
	{"cancel-run", call{method: "POST", path: "/v1/runs/2/cancel", token: apitest.SiteToken}, 200, `"state":"cancelled"`},
	{"start-rejudge", call{method: "POST", path: "/v1/rejudges", token: apitest.AdminToken, body: `{"filter":{"problem":"aplusb"},"reason":"weak tests"}`}, 201, `"state":"running"`},
	{"rejudge-submission", call{method: "POST", path: "/v1/submissions/1/rejudge", token: apitest.AdminToken, body: `{"reason":"odd"}`}, 200, `"apply":"at_once"`},
	{"list-rejudges", call{method: "GET", path: "/v1/rejudges?limit=1", token: apitest.SiteToken}, 200, `"next":"at-1"`},
	{"cancel-rejudge", call{method: "POST", path: "/v1/rejudges/2/cancel", token: apitest.AdminToken}, 200, `"state":"cancelled"`},
	{"get-rejudge", call{method: "GET", path: "/v1/rejudges/1", token: apitest.SiteToken}, 200, `"done":1`},
	{"get-rejudge", call{method: "GET", path: "/v1/rejudges/1", token: apitest.SiteToken}, 200, `"state":"ready"`},
	{"list-rejudge-changes", call{method: "GET", path: "/v1/rejudges/1/changes?only_changed=true", token: apitest.SiteToken}, 200, `"old_verdict":"AC","new_verdict":"WA"`},
	{"apply-rejudge", call{method: "POST", path: "/v1/rejudges/1/apply", token: apitest.AdminToken, body: `{}`}, 200, `"state":"applied"`},
	{"discard-rejudge", call{method: "POST", path: "/v1/rejudges/1/discard", token: apitest.AdminToken}, 409, `is applied`},
	{"get-account", call{method: "GET", path: "/v1/accounts/ann", token: apitest.SiteToken}, 200, `"points":1`},
	{"import-problem", call{method: "POST", path: "/v1/problems?name=new", token: apitest.AdminToken, body: "PK\x03\x04zip", header: map[string]string{"Content-Type": "application/zip"}}, 200, `"name":"new"`},
	{"list-problems", call{method: "GET", path: "/v1/problems?limit=1", token: apitest.SiteToken}, 200, `"next":"at-1"`},
	{"get-problem-report", call{method: "GET", path: "/v1/problems/new/report?id=31", token: apitest.SiteToken}, 200, `"steps":2`},
	{"get-problem", call{method: "GET", path: "/v1/problems/aplusb", token: apitest.SiteToken}, 200, `"title":"A + B"`},
	{"list-languages", call{method: "GET", path: "/v1/languages", token: apitest.SiteToken}, 200, `"id":"cpp17"`},
	{"list-workers", call{method: "GET", path: "/v1/workers", token: apitest.AdminToken}, 200, `"name":"home-pc"`},
	{"get-worker-health", call{method: "GET", path: "/v1/workers/home-pc/health", token: apitest.AdminToken}, 200, `"set_aside":[{"language":"python3"`},
	{"set-worker-hours", call{method: "PUT", path: "/v1/workers/home-pc/hours", token: apitest.AdminToken, body: `{"hours":"daily 01:30-06:00"}`}, 200, `"zone":"UTC"`},
	{"set-pool-hours", call{method: "PUT", path: "/v1/pools/home/hours", token: apitest.AdminToken, body: `{"hours":""}`}, 200, `"pool":"home"`},
	{"reset-worker-health", call{method: "POST", path: "/v1/workers/home-pc/health/reset", token: apitest.AdminToken, body: `{"reason":"repaired"}`}, 200, `"set_aside":[]`},
	{"invite-worker", call{method: "POST", path: "/v1/workers/invitations", token: apitest.AdminToken, body: `{"pool":"home"}`}, 201, `"code":"gvl_i_`},
}

type document struct {
	Paths map[string]map[string]struct {
		OperationID string `json:"operationId"`
		Security    []map[string][]string
		Parameters  []struct{ Name, In string }
	}
}

func (r *rig) document() document {
	r.t.Helper()
	var doc document
	if err := json.Unmarshal([]byte(r.do(call{method: "GET", path: "/openapi.json"}).body), &doc); err != nil {
		r.t.Fatal(err)
	}
	return doc
}

func TestEveryRouteAnswers(t *testing.T) {
	r := newRig(t)
	missing := map[string]bool{}
	for _, methods := range r.document().Paths {
		for _, op := range methods {
			missing[op.OperationID] = true
		}
	}
	for _, c := range everyRoute {
		delete(missing, c.op)
		got := r.do(c.call)
		if got.status != c.status || !strings.Contains(got.body, c.want) {
			t.Errorf("%s: %d %.300s; want %d with %s", c.op, got.status, got.body, c.status, c.want)
		}
		if strings.Contains(got.body, "$schema") {
			t.Errorf("%s: the answer has a $schema link", c.op)
		}
	}
	if len(missing) > 0 {
		t.Errorf("operations that no call of this test covers: %v", missing)
	}
	for path, want := range map[string]string{"/healthz": `"status":"ok"`, "/readyz": `"leader":"ok"`, "/metrics": "gavel_http_request_duration_seconds_count{code=\"201\",method=\"POST\",route=\"/v1/submissions\"} 1", "/problems/": "unauthorized"} {
		if got := r.do(call{method: "GET", path: path}); got.status != 200 || !strings.Contains(got.body, want) {
			t.Errorf("%s: %d %.300s", path, got.status, got.body)
		}
	}
	if leftovers, err := os.ReadDir(r.temp); len(leftovers) > 0 || err != nil {
		t.Errorf("uploads left files behind: %v, %v", leftovers, err)
	}
}

func TestRoutesRefuseTokensOfOtherKinds(t *testing.T) {
	r := newRig(t)
	tokens := map[string]string{"admin": apitest.AdminToken, "site": apitest.SiteToken, "worker": apitest.WorkerToken}
	doc := r.document()
	for _, c := range everyRoute {
		path, _, _ := strings.Cut(c.call.path, "?")
		path = strings.NewReplacer(apitest.Digest, "{digest}", "/1", "/{id}", "/2/", "/{id}/", "/ann", "/{user}", "aplusb", "{name}", "problems/new/", "problems/{name}/",
			"home-pc", "{name}", "server-1", "{name}", "pools/home", "pools/{name}", "lane/rejudge", "{kind}/{name}",
			"webhooks/ops", "webhooks/{name}", "deliveries/6", "deliveries/{id}").Replace(path)
		op, ok := doc.Paths[path][strings.ToLower(c.call.method)]
		if !ok {
			t.Fatalf("no %s %s in the document", c.call.method, path)
		}
		if len(op.Security) == 0 {
			continue
		}
		allowed := map[string]bool{}
		for _, s := range op.Security {
			for kind := range s {
				allowed[kind] = true
			}
		}
		none := c.call
		none.token = ""
		r.problem(none, 401, apperr.Unauthorized)
		for kind, token := range tokens {
			if !allowed[kind] {
				other := c.call
				other.token = token
				r.problem(other, 403, apperr.Forbidden)
			}
		}
	}
	for name, token := range map[string]string{
		"an unknown token": "gvl_a_AAAAAAAAAAAAAAAAAAAAAAAAAA", "an invitation": apitest.InviteCode, "something else": "hunter2",
	} {
		t.Run(name, func(t *testing.T) {
			p := r.problem(call{method: "GET", path: "/v1/workers", token: token}, 401, apperr.Unauthorized)
			if p.Hint == "" {
				t.Error("no hint")
			}
		})
	}
	if got := r.do(call{method: "GET", path: "/v1/workers"}); !strings.HasPrefix(got.header.Get("WWW-Authenticate"), "Bearer") {
		t.Error("401 without WWW-Authenticate")
	}
}

// What a program wrote can show a test's input, and a site may show its users
// whatever it can read.
func TestOutputsAreForAdminsOnly(t *testing.T) {
	r := newRig(t)
	r.do(call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken, body: goodSubmission})
	path := "/v1/submissions/1/outputs"
	for _, token := range []string{apitest.SiteToken, apitest.WorkerToken} {
		r.problem(call{method: "GET", path: path, token: token}, 403, apperr.Forbidden)
	}
	if got := r.do(call{method: "GET", path: path, token: apitest.AdminToken}); got.status != 200 {
		t.Errorf("%d %s", got.status, got.body)
	}
}

func TestWorkerProtocolIsCheckedBeforeTheToken(t *testing.T) {
	r := newRig(t)
	for _, c := range everyRoute {
		if !strings.HasPrefix(c.call.path, "/v1/worker/") {
			continue
		}
		for _, version := range []string{"", "0", "2", "one"} {
			bad := c.call
			bad.token, bad.body = "nonsense", "{"
			bad.header = map[string]string{"Gavel-Protocol": version}
			r.problem(bad, 426, apperr.Protocol)
		}
	}
	if got := r.do(call{method: "POST", path: "/v1/worker/claim", header: map[string]string{"Gavel-Protocol": "2"}}); got.header.Get("Gavel-Protocol") != "1" {
		t.Error("426 does not say which protocol is spoken")
	}
}

func TestClaimWithoutWorkIs204WithoutBody(t *testing.T) {
	r := newRig(t)
	r.do(call{method: "POST", path: "/v1/worker/release", token: apitest.WorkerToken, body: goodRelease})
	got := r.do(call{method: "POST", path: "/v1/worker/claim", token: apitest.WorkerToken, body: goodClaim})
	if got.status != 204 || got.body != "" || got.header.Get("Content-Type") != "" {
		t.Errorf("%d %q %q", got.status, got.body, got.header.Get("Content-Type"))
	}
}

func TestDeadLeaseIs410WithItsReason(t *testing.T) {
	r := newRig(t)
	p := r.problem(call{method: "POST", path: "/v1/worker/heartbeat", token: apitest.WorkerToken, body: `{"lease_token":"6f0d7a1e-9999-4000-8000-000000000001"}`}, 410, apperr.Gone)
	if p.Reason != gavelapi.LeaseExpired {
		t.Errorf("reason %q", p.Reason)
	}
}

func TestReportsAreTakenWithOddShapesButNotWithoutToken(t *testing.T) {
	r := newRig(t)
	base := call{method: "POST", path: "/v1/worker/result", token: apitest.WorkerToken}
	odd := base
	odd.body = `{"lease_token":"` + apitest.LeaseToken + `","report":{"fault":{"blame":"weather","message":"rain\u0000"},"tests":null,"future":1}}`
	if got := r.do(odd); got.status != 200 {
		t.Errorf("odd report: %d %s", got.status, got.body)
	}
	for _, body := range []string{`{"report":{"verdict":"AC"}}`, `{"lease_token":"x","report":{"verdict":"AC"}}`, `{"lease_token":"` + apitest.LeaseToken + `","report":{}}`} {
		bad := base
		bad.body = body
		r.problem(bad, 422, apperr.Invalid)
	}
}

func TestPackageDownloadsResume(t *testing.T) {
	r := newRig(t)
	base := call{method: "GET", path: "/v1/worker/packages/" + apitest.Digest, token: apitest.WorkerToken}
	whole := r.do(base)
	if whole.status != 200 || whole.body != string(apitest.Package) {
		t.Fatalf("whole: %d, %d bytes", whole.status, len(whole.body))
	}
	etag := whole.header.Get("ETag")
	if etag != `"`+apitest.Digest+`"` || whole.header.Get("Gavel-Package-Digest") != apitest.Digest {
		t.Errorf("ETag %q", etag)
	}
	part := base
	part.header = map[string]string{"Range": "bytes=100-", "If-Range": etag}
	if got := r.do(part); got.status != 206 || got.body != string(apitest.Package[100:]) {
		t.Errorf("range: %d, %d bytes", got.status, len(got.body))
	}
	part.header["If-Range"] = `"sha256:other"`
	if got := r.do(part); got.status != 200 || len(got.body) != len(apitest.Package) {
		t.Errorf("range of another version: %d, %d bytes", got.status, len(got.body))
	}
	other := base
	other.path = "/v1/worker/packages/sha256:" + strings.Repeat("0", 64)
	r.problem(other, 404, apperr.NotFound)
	other.path = "/v1/worker/packages/..%2f..%2fetc"
	r.problem(other, 422, apperr.Invalid)
}

func TestWaitIsCappedAndChecked(t *testing.T) {
	r := newRig(t)
	r.do(call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken, body: goodSubmission})
	for wait, status := range map[string]int{"25s": 200, "10h": 200, "0s": 200, "-1s": 422, "25": 422, "soon": 422} {
		if got := r.do(call{method: "GET", path: "/v1/submissions/1?wait=" + wait, token: apitest.SiteToken}); got.status != status {
			t.Errorf("wait=%s: %d %s", wait, got.status, got.body)
		}
	}
}

func TestListsPageByOpaqueCursor(t *testing.T) {
	r := newRig(t)
	for range 3 {
		r.do(call{method: "POST", path: "/v1/submissions", token: apitest.SiteToken, body: goodSubmission})
	}
	var ids []int64
	path := "/v1/submissions?limit=2&language=cpp17"
	for path != "" {
		got := r.do(call{method: "GET", path: path, token: apitest.SiteToken})
		var list gavelapi.SubmissionList
		if err := json.Unmarshal([]byte(got.body), &list); err != nil {
			t.Fatal(err)
		}
		for _, s := range list.Submissions {
			ids = append(ids, s.ID)
		}
		path = ""
		if link := got.header.Get("Link"); link != "" {
			path = strings.TrimSuffix(strings.TrimPrefix(link, "<"), `>; rel="next"`)
		}
	}
	if diff := cmp.Diff([]int64{3, 2, 1}, ids); diff != "" {
		t.Error(diff)
	}
	for _, q := range []string{"limit=201", "limit=0x", "limit=-1", "state=odd", "verdict=OK", "cursor=zzz", "cursor=" + strings.Repeat("x", 600), "problem=%00", "user=%ff"} {
		r.problem(call{method: "GET", path: "/v1/submissions?" + q, token: apitest.SiteToken}, 422, apperr.Invalid)
	}
	r.problem(call{method: "GET", path: "/v1/submissions?a=%zz", token: apitest.SiteToken}, 400, apperr.Malformed)
	empty := newRig(t)
	if got := empty.do(call{method: "GET", path: "/v1/submissions", token: apitest.SiteToken}); !strings.Contains(got.body, `"submissions":[]`) {
		t.Errorf("an empty list is not []: %s", got.body)
	}
}

func TestUnknownRoutesAndMethodsAreProblems(t *testing.T) {
	r := newRig(t)
	for _, path := range []string{"/", "/v1", "/v1/nope", "/docs", "/schemas/Problem.json", "/problems/nope", "/v1/submissions/1/nope"} {
		r.problem(call{method: "GET", path: path}, 404, apperr.NotFound)
	}
	for _, c := range []call{{method: "DELETE", path: "/v1/submissions"}, {method: "PUT", path: "/v1/problems/x"}, {method: "POST", path: "/healthz"}, {method: "GET", path: "/v1/worker/claim"}} {
		r.problem(c, 405, "method-not-allowed")
		if got := r.do(c); got.header.Get("Allow") == "" {
			t.Errorf("%s %s: no Allow", c.method, c.path)
		}
	}
}

func TestUnavailableSaysWhenToComeBack(t *testing.T) {
	r := newRig(t)
	r.fake.Before(func(context.Context, string) error {
		return apperr.New(apperr.Unavailable, "repeat it", "the database is away")
	})
	r.fake.NotReady(map[string]string{"database": "away"})
	for _, c := range everyRoute {
		if c.op == "get-version" {
			continue
		}
		p := r.problem(c.call, 503, apperr.Unavailable)
		if p.RetryAfterMS != 2000 || p.Detail != "the database is away" {
			t.Errorf("%s: %+v", c.op, p)
		}
		if got := r.do(c.call); got.header.Get("Retry-After") != "2" {
			t.Errorf("%s: Retry-After %q", c.op, got.header.Get("Retry-After"))
		}
	}
	got := r.do(call{method: "GET", path: "/readyz"})
	if got.status != 503 || !strings.Contains(got.body, `"status":"unavailable"`) {
		t.Errorf("readyz: %d %s", got.status, got.body)
	}
}
