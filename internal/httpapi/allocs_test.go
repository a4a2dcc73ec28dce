package httpapi_test

import (
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/httpapi"
	"github.com/gavel-oj/gavel/internal/httpapi/apitest"
)

// What a call of a worker allocates from the request's head to the answer's
// last byte, the request of this test included. Time varies with the machine,
// this does not: a layer that copies a body or an encoder that is made anew
// for each call shows here. The bounds leave room for what the race detector
// adds, and are below half as much again.
func TestCallsOfWorkersAllocateSoMuch(t *testing.T) {
	rows := make([]string, 10)
	for i := range rows {
		rows[i] = fmt.Sprintf(`{"name":"secret/%02d","verdict":"AC","cpu_us":1000,"wall_us":1200,"memory_bytes":1048576,"output_bytes":12}`, i+1)
	}
	handler := httpapi.New(httpapi.Config{
		Service: apitest.New(), TempDir: t.TempDir(), Build: gavelapi.Version{Version: "test"}, Logger: slog.New(slog.DiscardHandler),
	})
	for _, c := range []struct {
		path, body string
		most       float64
	}{
		{"claim", goodClaim, 200},
		{"heartbeat", goodHeartbeat, 130},
		{"result", `{"lease_token":"` + apitest.LeaseToken + `","report":{"verdict":"AC","cpu_us":1000,"wall_us":1200,"memory_bytes":1048576,"tests":[` + strings.Join(rows, ",") + `]}}`, 140},
	} {
		got := testing.AllocsPerRun(200, func() {
			req := httptest.NewRequest(http.MethodPost, "/v1/worker/"+c.path, strings.NewReader(c.body))
			req.Header.Set("Content-Type", "application/json")
			req.Header.Set("Authorization", "Bearer "+apitest.WorkerToken)
			req.Header.Set("Gavel-Protocol", "1")
			answer := httptest.NewRecorder()
			handler.ServeHTTP(answer, req)
			if answer.Code > 204 {
				t.Fatalf("%s: %d %s", c.path, answer.Code, answer.Body)
			}
		})
		t.Logf("%s: %.0f allocations", c.path, got)
		if got > c.most {
			t.Errorf("a %s allocates %.0f times, at most %.0f are allowed", c.path, got, c.most)
		}
	}
}
