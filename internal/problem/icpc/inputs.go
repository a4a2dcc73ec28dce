package icpc

import (
	"errors"
	"io"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/gavel-oj/gavel/internal/problem"
)

// noInputs reports whether no test of the package has an input: its programs
// read nothing. Where some have one, a missing one was forgotten.
func (im *importer) noInputs() bool {
	for _, part := range testParts {
		if slices.ContainsFunc(im.files.below("data/"+part), func(p string) bool { return strings.EqualFold(path.Ext(p), ".in") }) {
			return false
		}
	}
	return true
}

// addInputs gives each answer of a package without inputs an empty one, as the
// formats would have it.
func (im *importer) addInputs(f *found) {
	for _, base := range slices.Sorted(maps.Keys(f.byBase)) { // warnings are part of the package
		t := f.byBase[base]
		if t.ans == "" && im.conf.dialect != dialect2025 {
			t.ans, t.out = t.out, ""
			if t.ans != "" {
				f.outUsed.add(t.ans)
			}
		}
		if t.ans != "" {
			t.in = base + ".in"
			im.files.add(t.in)
			im.added.add(t.in)
		}
	}
}

// WithInputs is the package that m was read from, with the inputs that Import
// added to it.
func WithInputs(fsys fs.FS, m *problem.Manifest) fs.FS {
	added := map[string]bool{}
	for _, t := range m.Tests {
		if _, err := fs.Stat(fsys, t.Input); errors.Is(err, fs.ErrNotExist) {
			added[t.Input] = true
		}
	}
	if len(added) == 0 {
		return fsys
	}
	return withInputs{fsys, added}
}

type withInputs struct {
	fs.FS

	added map[string]bool
}

func (w withInputs) Open(name string) (fs.File, error) {
	if w.added[name] {
		return emptyFile(path.Base(name)), nil
	}
	return w.FS.Open(name)
}

// emptyFile is a file without content, by its name.
type emptyFile string

func (e emptyFile) Stat() (fs.FileInfo, error) { return e, nil }
func (emptyFile) Read([]byte) (int, error)     { return 0, io.EOF }
func (emptyFile) Close() error                 { return nil }
func (e emptyFile) Name() string               { return string(e) }
func (emptyFile) Size() int64                  { return 0 }
func (emptyFile) Mode() fs.FileMode            { return 0o444 }
func (emptyFile) ModTime() time.Time           { return time.Time{} }
func (emptyFile) IsDir() bool                  { return false }
func (emptyFile) Sys() any                     { return nil }
