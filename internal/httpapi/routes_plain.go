package httpapi

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"net/http"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/gavel-oj/gavel/gavelapi"
	"github.com/gavel-oj/gavel/internal/apperr"
)

// plainRoutes are those that are not part of the API proper. None needs a
// token; none says anything about submissions or users.
func (s *server) plainRoutes() {
	s.mux.HandleFunc("GET /healthz", func(w http.ResponseWriter, _ *http.Request) {
		writeJSON(w, http.StatusOK, gavelapi.Health{Status: "ok"})
	})
	s.mux.HandleFunc("GET /readyz", s.ready)
	s.mux.Handle("GET /metrics", promhttp.HandlerFor(s.Metrics, promhttp.HandlerOpts{DisableCompression: true}))
	s.mux.HandleFunc("GET /problems/{code}", s.problemPage)
	s.mux.HandleFunc("GET /problems/{$}", s.problemIndex)

	document, err := json.Marshal(s.api.OpenAPI())
	if err != nil {
		panic(fmt.Errorf("httpapi: build the OpenAPI document: %w", err))
	}
	s.mux.HandleFunc("GET /openapi.json", func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "application/openapi+json")
		_, _ = w.Write(document)
	})
}

func (s *server) ready(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), readyTimeout)
	defer cancel()
	checks, ok := s.Service.Ready(ctx)
	h, status := gavelapi.Health{Status: "ok", Checks: checks}, http.StatusOK
	if !ok {
		h.Status, status = "unavailable", http.StatusServiceUnavailable
		w.Header().Set("Retry-After", "2")
	}
	writeJSON(w, status, h)
}

var problemTemplate = template.Must(template.New("").Parse(`{{define "page"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>{{.Title}} · gavel</title></head>
<body><main><h1>{{.Title}}</h1>
<p>Code <code>{{.Code}}</code>, HTTP status {{.Status}}.</p>
<h2>Cause</h2><p>{{.Cause}}</p>
<h2>What to do</h2><p>{{.Cure}}</p>
<p><a href="/problems/">All kinds of errors</a></p></main></body></html>
{{end}}{{define "index"}}<!doctype html>
<html lang="en"><head><meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1"><title>Errors · gavel</title></head>
<body><main><h1>Errors</h1><ul>
{{range .}}<li><a href="/problems/{{.Code}}">{{.Code}}</a> ({{.Status}}): {{.Title}}</li>
{{end}}</ul></main></body></html>
{{end}}`))

func (s *server) problemPage(w http.ResponseWriter, r *http.Request) {
	for _, k := range Catalogue {
		if string(k.Code) == r.PathValue("code") {
			s.html(w, "page", k)
			return
		}
	}
	writeError(w, r, apperr.New(apperr.NotFound, "see /problems/ for the list", "there is no such kind of error"))
}

func (s *server) problemIndex(w http.ResponseWriter, _ *http.Request) { s.html(w, "index", Catalogue) }

func (s *server) html(w http.ResponseWriter, name string, data any) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	if err := problemTemplate.ExecuteTemplate(w, name, data); err != nil {
		s.Logger.Warn("problem page not sent", "error", err)
	}
}
