package httpapi

import (
	"fmt"
	"log/slog"
	"strings"
)

//go:generate go run ./gen

// Document is the OpenAPI document as YAML, committed as api/openapi.yaml. It
// depends on nothing but the code.
func Document() ([]byte, error) {
	s := newServer(Config{Service: struct{ Service }{}, Logger: slog.New(slog.DiscardHandler)})
	doc, err := s.api.OpenAPI().YAML()
	if err != nil {
		return nil, fmt.Errorf("build the OpenAPI document: %w", err)
	}
	return append([]byte("# Generated from the handlers by `go generate ./internal/httpapi`; do not edit.\n"), doc...), nil
}

// ErrorsPage is docs/reference/errors.md, made from the Catalogue.
func ErrorsPage() []byte {
	var b strings.Builder
	b.WriteString(`# Errors of the API

<!-- Generated from the catalogue by ` + "`go generate ./internal/httpapi`" + `; do not edit. -->

Every error is ` + "`application/problem+json`" + ` (RFC 9457). Its ` + "`type`" + ` is ` + "`/problems/CODE`" + `, a page that the
arbiter serves itself; code and status never change their meaning. ` + "`detail`" + ` says what is wrong, ` + "`hint`" + ` what to do,
` + "`errors`" + ` names each faulty place, ` + "`instance`" + ` is the request id that the arbiter's log has too. Rejected values are
never repeated, but for a plain name that nothing has. ` + "`gavel`" + ` turns them into its exit codes (see [exit codes](exit-codes.md)).

| code | status | title |
|---|---|---|
`)
	for _, k := range Catalogue {
		fmt.Fprintf(&b, "| [%s](#%s) | %d | %s |\n", k.Code, k.Code, k.Status, k.Title)
	}
	for _, k := range Catalogue {
		fmt.Fprintf(&b, "\n## %s\n\n**%s** (%d)\n\nCause: %s\n\nWhat to do: %s\n", k.Code, k.Title, k.Status, k.Cause, k.Cure)
		if k.RetryAfterSeconds > 0 {
			fmt.Fprintf(&b, "\nThe answer carries `Retry-After: %d`.\n", k.RetryAfterSeconds)
		}
	}
	return []byte(b.String())
}
