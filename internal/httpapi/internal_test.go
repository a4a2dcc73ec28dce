package httpapi

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/danielgtaylor/huma/v2"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/auth"
)

func TestDecodingErrorsDoNotQuoteTheInput(t *testing.T) {
	for _, body := range []string{
		`{"limits":{"processes":98765432109876543210}}`, `{"cpu_us":"CANARY"}`, `{"verdict":CANARY}`, `{"tests":{"CANARY":1}}`, `"CANARY"`, `{"stages":CANARY`,
	} {
		var r gavelapi.Report
		err := decodeJSON([]byte(body), &r)
		if err == nil || strings.Contains(err.Error(), "CANARY") || strings.Contains(err.Error(), "9876543") {
			t.Errorf("%s: %v", body, err)
		}
		if raw := json.Unmarshal([]byte(body), &r); raw == nil {
			t.Errorf("%s decodes", body)
		}
	}
	var sub gavelapi.NewSubmission
	if err := decodeJSON([]byte(`{"source_base64":"C%"}`), &sub); err == nil || strings.Contains(err.Error(), "C%") {
		t.Errorf("base64: %v", err)
	}
}

func TestLocationsStopBeforeNamesThatTheClientChose(t *testing.T) {
	for loc, want := range map[string]string{
		"body.report.tests[3].cpu_us":                 "body.report.tests[3].cpu_us",
		"body.report.provenance.stages_us.secret":     "body.report.provenance.stages_us",
		"header.Idempotency-Key":                      "header.Idempotency-Key",
		"body.gvl_a_CANARYCANARYCANARYCANARYCANARYCA": "body",
		"query.a b": "query",
		"":          "",
	} {
		if got := safeLocation(loc); got != want {
			t.Errorf("%q became %q, want %q", loc, got, want)
		}
	}
}

// An output whose status was forgotten makes huma write status 0, at which
// net/http panics: the client gets an answer all the same.
func TestAForgottenStatusIsAnswered500(t *testing.T) {
	s := newServer(Config{Service: struct{ Service }{}, Logger: slog.New(slog.DiscardHandler)})
	register(s, anybody, huma.Operation{OperationID: "zero", Method: http.MethodGet, Path: "/zero"},
		func(context.Context, auth.Principal, *struct{}) (*answer[gavelapi.Version], error) {
			return &answer[gavelapi.Version]{}, nil
		})
	rec := httptest.NewRecorder()
	s.outermost(http.HandlerFunc(s.dispatch)).ServeHTTP(rec, httptest.NewRequest(http.MethodGet, "/zero", nil))
	if rec.Code != http.StatusInternalServerError || rec.Header().Get("Content-Type") != problemType {
		t.Errorf("status %d, %s", rec.Code, rec.Body)
	}
}
