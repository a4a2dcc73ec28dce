// Command gen writes the files that are made from the API's code. It runs in
// internal/httpapi, by go generate.
package main

import (
	"fmt"
	"os"

	"github.com/gavel-oj/gavel/internal/httpapi"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	doc, err := httpapi.Document()
	if err != nil {
		return err
	}
	if err := os.WriteFile("../../api/openapi.yaml", doc, 0o644); err != nil {
		return err
	}
	return os.WriteFile("../../docs/reference/errors.md", httpapi.ErrorsPage(), 0o644)
}
