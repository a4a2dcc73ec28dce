package httpapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// lockedBuffer is a log that many requests write.
type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

type rig struct {
	t    *testing.T
	fake *apitest.Fake
	log  *lockedBuffer
	srv  *httptest.Server
	temp string
}

func newRig(t *testing.T, edit ...func(*httpapi.Config)) *rig {
	t.Helper()
	r := &rig{t: t, fake: apitest.New(), log: &lockedBuffer{}, temp: t.TempDir()}
	cfg := httpapi.Config{
		Service: r.fake, TempDir: r.temp, Build: gavelapi.Version{Version: "test"},
		Logger: slog.New(slog.NewJSONHandler(r.log, &slog.HandlerOptions{Level: slog.LevelDebug})),
	}
	for _, e := range edit {
		e(&cfg)
	}
	r.srv = httptest.NewUnstartedServer(nil)
	r.srv.Config = httpapi.NewServer(httpapi.New(cfg), cfg.Logger)
	r.srv.Start()
	t.Cleanup(r.srv.Close)
	return r
}

type call struct {
	method, path, token, body string
	header                    map[string]string
}

type reply struct {
	status int
	header http.Header
	body   string
}

func (r *rig) do(c call) reply {
	r.t.Helper()
	var body io.Reader
	if c.body != "" {
		body = strings.NewReader(c.body)
	}
	req, err := http.NewRequestWithContext(r.t.Context(), c.method, r.srv.URL+c.path, body)
	if err != nil {
		r.t.Fatal(err)
	}
	if c.body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	if c.token != "" {
		req.Header.Set("Authorization", "Bearer "+c.token)
	}
	if strings.HasPrefix(c.path, "/v1/worker/") {
		req.Header.Set("Gavel-Protocol", "1")
	}
	for k, v := range c.header {
		req.Header.Set(k, v)
		if v == "" {
			req.Header.Del(k)
		}
	}
	resp, err := r.srv.Client().Do(req)
	if err != nil {
		r.t.Fatalf("%s %s: %v", c.method, c.path, err)
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(resp.Body)
	if err != nil {
		r.t.Fatalf("%s %s: read body: %v", c.method, c.path, err)
	}
	if resp.Header.Get("X-Request-Id") == "" {
		r.t.Errorf("%s %s: no X-Request-Id", c.method, c.path)
	}
	return reply{status: resp.StatusCode, header: resp.Header, body: string(data)}
}

// problem checks the form that every error has and returns it.
func (r *rig) problem(c call, status int, code apperr.Code) gavelapi.Problem {
	r.t.Helper()
	got := r.do(c)
	if got.status != status {
		r.t.Fatalf("%s %s: status %d, want %d: %s", c.method, c.path, got.status, status, got.body)
	}
	if ct := got.header.Get("Content-Type"); ct != "application/problem+json" {
		r.t.Errorf("%s %s: content type %q", c.method, c.path, ct)
	}
	var p gavelapi.Problem
	if err := json.Unmarshal([]byte(got.body), &p); err != nil {
		r.t.Fatalf("%s %s: %v in %s", c.method, c.path, err, got.body)
	}
	if p.Type != "/problems/"+string(code) || p.Status != status || p.Title == "" || p.Detail == "" {
		r.t.Errorf("%s %s: problem is %+v, want code %s", c.method, c.path, p, code)
	}
	if p.Instance != got.header.Get("X-Request-Id") {
		r.t.Errorf("%s %s: instance %q is not the request id %q", c.method, c.path, p.Instance, got.header.Get("X-Request-Id"))
	}
	if page := r.do(call{method: "GET", path: p.Type}); page.status != http.StatusOK || !strings.Contains(page.body, "What to do") {
		r.t.Errorf("%s is not a page: %d", p.Type, page.status)
	}
	return p
}
