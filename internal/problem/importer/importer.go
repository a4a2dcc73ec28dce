// Package importer turns what a person hands over into a package: it finds
// out which format a view is in and calls the right importer.
package importer

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
	"github.com/gavel-oj/gavel/internal/problem/icpc"
	"github.com/gavel-oj/gavel/internal/problem/intake"
)

// Options are what is said besides the package.
type Options struct {
	// Name is the short name, whatever the package says; empty to let the
	// package, the directory in the zip, or FileName decide, in this order.
	Name string
	// FileName is the name of the upload, such as "sum.zip"; may be empty.
	FileName string
}

// Import reads the package in view, without running anything of it. The
// manifest and the files belong together: give both to problem.WriteArchive
// while the view is open.
func Import(ctx context.Context, view *intake.View, opts Options) (*problem.Manifest, fs.FS, error) {
	if !icpc.Recognize(view) {
		return nil, nil, unknown(view)
	}
	fallback := view.TopDir()
	if fallback == "" {
		fallback = path.Base(strings.ReplaceAll(opts.FileName, `\`, "/"))
	}
	m, err := icpc.Import(ctx, view, icpc.Options{Name: opts.Name, Fallback: fallback})
	if err != nil {
		return nil, nil, fmt.Errorf("import package: %w", err)
	}
	return m, icpc.WithInputs(view, m), nil
}

const known = "give a package in ICPC format: problem.yaml at the top, tests in data/sample and data/secret"

// marks are files by which other formats are told.
var marks = []struct{ file, format string }{
	{"problem.xml", "a Polygon package"},
	{"init.yml", "a DMOJ package"},
	{"testdata/config.yaml", "a Hydro package"},
	{"problem.conf", "a UOJ package"},
	{"task.yaml", "a CMS package (Italian format)"},
	{"problem.json", "a TPS or QDUOJ package"},
	{"1/problem.json", "a QDUOJ package"},
}

// unknown says as well as it can what the view holds instead of a package.
func unknown(view *intake.View) error {
	for _, m := range marks {
		if info, err := fs.Stat(view, m.file); err == nil && !info.IsDir() {
			return apperr.New(apperr.Unsupported, known, "this is %s, which this version does not import", m.format).At(m.file)
		}
	}
	var nested, test string
	err := fs.WalkDir(view, ".", func(p string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case nested == "" && path.Base(p) == "problem.yaml":
			nested = path.Dir(p)
		case test == "" && strings.EqualFold(path.Ext(p), ".in"):
			test = p
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("look at package: %w", err)
	}
	switch {
	case nested != "":
		return apperr.New(apperr.Invalid, "give "+nested+" alone; one problem at a time", "there is no problem.yaml at the top of the package, but one in %s/", nested)
	case test != "":
		return apperr.New(apperr.Unsupported, known, "this is a plain folder of tests without problem.yaml").At(test)
	}
	return apperr.New(apperr.Invalid, known, "this is not a problem package: there is no problem.yaml")
}
