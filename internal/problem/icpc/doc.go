// Package icpc imports problem packages of the ICPC family: the format
// 2025-09, its drafts, the older one (no version, "legacy", "legacy-icpc"),
// and what DOMjudge adds to it. It reads a file system and returns a manifest;
// it runs nothing of the package.
//
// Two rules shape it. Nothing is guessed that would change a verdict: what
// gavel cannot honour exactly (an unknown flag of the validator, a scoring
// problem, a limit finer than a millisecond) is an error with its line.
// And nothing is dropped in silence: what is harmless to leave out becomes a
// warning in the manifest, which the setter sees after import.
//
// docs/reference/package-formats.md is the page for people.
package icpc

import (
	"context"
	"io/fs"
	"slices"
	"strings"

	"github.com/gavel-oj/gavel/internal/apperr"
	"github.com/gavel-oj/gavel/internal/problem"
)

// Options are what the importer is told besides the package.
type Options struct {
	// Name is the short name to use, whatever the package says.
	Name string
	// Fallback is used when neither Name nor the package gives a short name:
	// the name of the directory or zip. It is brought into shape.
	Fallback string
}

// The names of formats in a manifest.
const (
	Format2025   = "icpc-2025-09"
	FormatDraft  = "icpc-2023-07-draft"
	FormatLegacy = "icpc-legacy"
)

// Recognize reports whether fsys looks like a package of this family.
func Recognize(fsys fs.FS) bool {
	for _, name := range []string{configName, iniName} {
		if info, err := fs.Stat(fsys, name); err == nil && !info.IsDir() {
			return true
		}
	}
	return false
}

// importer carries one import.
type importer struct {
	ctx   context.Context //nolint:containedctx // lives for one Import
	fsys  fs.FS
	files *inventory
	warn  *warnings
	conf  *config
	m     *problem.Manifest
	// perValidator is where arguments for single input validators were given.
	perValidator string
	// added are empty inputs of a package that has none.
	added sample
	// validatorsLeftOut counts the input validators that are not run.
	validatorsLeftOut int
}

// Import reads the package. Errors about the package are *apperr.Error with
// file and line, what is wrong and what to do.
func Import(ctx context.Context, fsys fs.FS, opts Options) (*problem.Manifest, error) {
	im := &importer{ctx: ctx, fsys: fsys, warn: &warnings{}, m: &problem.Manifest{Schema: 1}}
	var err error
	if im.files, err = takeInventory(fsys, im.warn); err != nil {
		return nil, err
	}
	for _, step := range []func() error{
		im.readConfig,
		func() error { return im.setName(opts) },
		im.findChecker,
		im.findTests,
		im.findValidators,
		im.findSubmissions,
		im.hashFiles,
		im.checkUnsupported,
	} {
		if ctx.Err() != nil {
			return nil, context.Cause(ctx)
		}
		if err := step(); err != nil {
			return nil, err
		}
	}
	im.m.Warnings = im.warn.list
	if err := im.m.Validate(); err != nil {
		// Every cause a package can give has its own error above.
		return nil, apperr.Wrap(err, apperr.Internal, "report this with the package", "the importer made an impossible manifest")
	}
	return im.m, nil
}

// setName picks the short name.
func (im *importer) setName(opts Options) error {
	if opts.Name != "" {
		if !problem.ValidName(opts.Name) {
			return apperr.New(apperr.Invalid, "use lower-case letters, digits, '.', '_' and '-', starting with a letter or digit, at most 64", "%q cannot be the name of a problem", opts.Name)
		}
		im.m.Name = opts.Name
		return nil
	}
	for _, s := range []string{im.conf.shortName, opts.Fallback} {
		if name := shape(s); name != "" {
			im.m.Name = name
			return nil
		}
	}
	return apperr.New(apperr.Invalid, "give a name with the import, or put the package into a directory with the problem's name", "the problem has no short name")
}

// shape makes a short name of s, or "" when nothing of it can be used.
func shape(s string) string {
	s = strings.ToLower(s)
	for _, ext := range []string{".zip", ".kpp"} {
		s = strings.TrimSuffix(s, ext)
	}
	s = strings.Map(func(r rune) rune {
		if strings.ContainsRune("abcdefghijklmnopqrstuvwxyz0123456789._-", r) {
			return r
		}
		return '-'
	}, s)
	s = strings.Trim(s, "._-")
	return strings.TrimRight(s[:min(len(s), 64)], "._-")
}

// checkUnsupported refuses parts of a package that would change verdicts if
// they were left out.
func (im *importer) checkUnsupported() error {
	if f := im.files.first("include"); f != "" && im.conf.dialect != dialectLegacy {
		return apperr.New(apperr.Unsupported, "remove include/ if submissions compile without it", "files to be compiled with each submission are not supported yet").At(f)
	}
	if f := im.files.first("include"); f != "" {
		im.warn.add("include/ is kept, but not compiled with submissions: %s", f)
	}
	return im.checkConstants()
}

// checkConstants refuses packages whose programs hold placeholders that would
// have to be replaced before compiling.
func (im *importer) checkConstants() error {
	if len(im.conf.constants) == 0 {
		return nil
	}
	for _, p := range im.files.paths {
		top, _, _ := strings.Cut(p, "/")
		if !slices.Contains([]string{"output_validator", "submissions"}, top) {
			continue
		}
		text, err := readSmall(im.fsys, p, maxSourceBytes)
		if err != nil {
			continue // not a source: too large
		}
		for _, c := range im.conf.constants {
			if strings.Contains(string(text), "{{"+c+"}}") {
				return apperr.New(apperr.Unsupported, "write the value itself there", "uses {{%s}}; constants are replaced in statements only, not yet in programs", c).At(p)
			}
		}
	}
	return nil
}
